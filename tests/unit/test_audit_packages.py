"""`make check`'s audit of the locked packages: what is known, what is not, and a database that does not answer."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.audit_packages import audit, unreachable, verdict

SOUND = {"name": "numpy", "version": "2.4.0", "vulns": []}
SKIPPED = {"name": "duckdb", "skip_reason": "Dependency not found on PyPI and could not be audited"}
BAD = {"name": "jinja2", "version": "2.0", "vulns": [{"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"]}]}


def program(folder: Path, code: str) -> str:
    """The path of a program that runs this code. An interpreter whose path has a space cannot stand after `#!`."""
    path = folder / "pip-audit"
    path.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)}\n")
    path.chmod(0o755)
    return str(path)


def test_sound_packages_pass() -> None:
    assert verdict({"dependencies": [SOUND, SOUND]}) == (
        0, "pip-audit: 2 packages, none with a known vulnerability.",
    )  # fmt: skip


def test_a_vulnerability_is_named_with_its_mended_release() -> None:
    assert verdict({"dependencies": [SOUND, BAD, SKIPPED]}) == (1, "jinja2 2.0: PYSEC-2019-217, mended in 2.10.1")


@pytest.mark.parametrize(("packages", "counted"), [([SKIPPED], "1 of 1"), ([SOUND, SKIPPED], "1 of 2"), ([], "0 of 0")])
def test_a_package_that_was_not_audited_is_named_and_no_failure(packages: list[object], counted: str) -> None:
    code, sentence = verdict({"dependencies": packages})
    assert (
        code == 0
        and sentence.startswith("NOT AUDITED")
        and f"no advisories on {counted} packages" in sentence
        and "\n" not in sentence
    )


def test_a_database_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    silent = program(tmp_path, "import sys; sys.exit('Traceback\\nConnectionError: no route.\\n')")
    code, sentence = audit(silent, "requirements.lock")
    assert code == 0 and sentence == unreachable("ConnectionError: no route")
    assert "NOT AUDITED" in sentence and "(ConnectionError: no route)" in sentence and "\n" not in sentence


def test_the_answer_is_read_whatever_the_exit_code(tmp_path: Path) -> None:
    answer = json.dumps({"dependencies": [BAD]})
    assert audit(program(tmp_path, f"print({answer!r}); raise SystemExit(1)"), "requirements.lock")[0] == 1
