"""The files of a release agree: versions, dates, the list of packages."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pipeline import RELEASE
from tools.sbom import sbom
from tools.wheel_hook import rewritten

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()


def test_the_citation_and_the_changelog_name_the_release_and_its_date() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    version, date = (re.search(rf"(?m)^{key}: (\S+)$", citation)[1] for key in ("version", "date-released"))
    assert version == RELEASE
    assert f"## {version} ({date})" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / f"walltime-{RELEASE}-py3-none-any.whl"
    path.write_bytes(b"the bytes of a wheel")
    return path


def test_the_list_describes_the_wheel_by_its_version_and_hash(wheel: Path) -> None:
    described = sbom(LOCK, PROJECT, wheel)["metadata"]["component"]
    assert (described["name"], described["version"]) == ("walltime", RELEASE)
    assert described["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    other = wheel.with_name("walltime-0.0.1-py3-none-any.whl")
    with pytest.raises(ValueError, match="expected one of walltime"):
        sbom(LOCK, PROJECT, other)


def test_the_list_of_packages_has_every_pin_of_the_lock_and_is_the_same_every_time(wheel: Path) -> None:
    words = [sys.executable, "-m", "tools.sbom", "requirements.lock", "pyproject.toml", str(wheel)]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    document = json.loads(shown)
    assert document == sbom(LOCK, PROJECT, wheel)
    pins = re.findall(r"(?m)^([\w.-]+)(?:\[.*?\])?==([^\s;]+)", LOCK)
    assert len(pins) > 50
    assert sorted((one["name"], one["version"]) for one in document["components"]) == sorted(pins)
    refs = [one["bom-ref"] for one in document["components"]]
    assert len(refs) == len(set(refs))
    hashes = [p for one in document["components"] for p in one["properties"] if p["name"] == "walltime:lock:hash"]
    assert len(hashes) == LOCK.count("--hash=")


def test_a_package_without_a_hash_is_refused(wheel: Path) -> None:
    with pytest.raises(ValueError, match="expected name==version with hashes"):
        sbom("left-pad==1.0\n", PROJECT, wheel)


def test_the_container_is_built_from_the_lock() -> None:
    text = (ROOT / "Containerfile").read_text()
    assert "--no-deps --require-hashes -r requirements.lock" in text
    assert text.count("pip install") == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from pipeline.errors import InputError", "from walltime.pipeline.errors import InputError"),
        ("if x:\n    from flows.cli import app", "if x:\n    from walltime.flows.cli import app"),
        ('"""\n>>> from pipeline.run import STEPS\n"""', '"""\n>>> from walltime.pipeline.run import STEPS\n"""'),
        ('x = "pipeline.ingest.formats.swf:SWF"', 'x = "walltime.pipeline.ingest.formats.swf:SWF"'),
        ('x = files("pipeline.clean")', 'x = files("walltime.pipeline.clean")'),
        ('x = "pipeline"\nfrom walltime.frames import plain', None),
        ('x = "the pipeline. It flows."', None),
        ("pipeline.run = flows.here", None),
        ("import pipelines", None),
    ],
)
def test_names_of_modules_move_below_walltime(before: str, after: str | None) -> None:
    assert rewritten(before, "any.py") == (after if after is not None else before)


@pytest.mark.parametrize("text", ["import pipeline.run", "import os, pipeline", "import flows"])
def test_an_import_that_binds_the_old_name_stops_the_build(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected imports as in"):
        rewritten(text, "any.py")
