"""What a command loads: reading logs must not wait for libraries that fit, predict or orchestrate."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from flows.cli import app
from flows.cli.query_options import OPTIONS, plain_question
from flows.services.published.published_folder import published_folder
from pipeline.core.settings import RunSettings, SiteSettings
from pipeline.core.version import code_version
from pipeline.estimate.stage import learn_state
from tests.flows.support import put_out
from tests.unit.estimate.states import SETTINGS, busy_log

ROOT = Path(__file__).parents[2]
SPARED = (
    "pandas", "scipy", "prefect", "duckdb", "numba", "lightgbm", "rich", "typer", "pydantic", "pyarrow.compute",
    "numpy.ma", "pipeline.run", "pipeline.ingest", "pipeline.core.settings", "pipeline.estimate.stage",
)  # fmt: skip
HEAVY = ("pandas", "scipy", "prefect", "duckdb", "pipeline.run")


def test_ingest_loads_nothing_that_fits_predicts_or_orchestrates(tmp_path: Path) -> None:
    log = ROOT / "data_samples" / "riverbend.swf.gz"
    script = f"""
import sys
from flows.cli import app
try:
    app(["ingest", {str(log)!r}, "--out", {str(tmp_path / "jobs.parquet")!r}], standalone_mode=False)
finally:
    print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
    assert (tmp_path / "jobs.parquet").exists()


def test_a_query_loads_nothing_that_one_question_can_do_without(tmp_path: Path) -> None:
    """It is asked at every submit, and what it loads takes longer than the answer."""
    published = put_out(learn_state(busy_log(), SiteSettings(), SETTINGS)[0], tmp_path, RunSettings())
    # The test's own publication names no code.
    manifest = json.loads((published / "manifest.json").read_text())
    (published / "manifest.json").write_text(json.dumps(manifest | {"code": code_version()}))
    given = ["query", "--from", str(published), "--user", "u1", "--application", "a_16.sh", "--procs", "4", "--json"]
    script = f"""
import sys
sys.argv[1:] = {given!r}
from flows.cli import main
try:
    main()
finally:
    print("loaded:", *(name for name in {SPARED!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert '"method": "walltime"' in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_plain_options_of_a_query_are_read_as_typer_reads_them() -> None:
    command = typer.main.get_command(app).commands["query"]
    options = {option: one.name for one in command.params for option in one.opts} | {"--json": "json"}
    assert {option: name for option, (name, _) in OPTIONS.items()} | {"--json": "json"} == {
        option: name for option, name in options.items() if option not in ("--help", "--quiet", "--verbose")
    }
    values = {"--procs": ["8", "08", "999999999999999"]}
    for option in OPTIONS:
        for value in values.get(option, ["u1", "a b", "0", "é'", "1-04:00:00", "a=b", ".."]):
            for words in ([option, value, "--json"], [f"{option}={value}"]):
                with command.make_context("query", list(words)) as context:
                    told = {name: one for name, one in context.params.items() if one not in (None, False)}
                assert {"published": published_folder(None)} | plain_question(words) == told, words


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--user"], ["--user", "--json"], ["--colour", "red"], ["u1"], ["--procs", "0"], ["--procs", "-1"],
     ["--procs", "many"], ["--procs", "9" * 16], ["--user", ""], ["--user="], ["--json=1"], ["--use", "u1"],
     ["--user", "a", "--user", "b"], ["--json", "--json"], ["--user", "a\x1b"], ["--"]],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert plain_question(words) is None
