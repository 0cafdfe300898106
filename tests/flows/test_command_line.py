"""The manners of the command line: help with examples, a DIR to leave out, times, --quiet and --verbose, completion."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer

from flows.cli.examples import EXAMPLES
from flows.cli.register import ACTING_COMMANDS, FOLDER_COMMANDS, LASTING_COMMANDS
from flows.cli.typer_app import app
from flows.services.published.published_folder import DEFAULT_FOLDER, published_folder
from pipeline.core.settings import RunSettings
from pipeline.core.store import read_table, write_table
from pipeline.core.tables import JOBS
from pipeline.publish import Retention, RunFacts, publish
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The jobs of the small sample."""
    from pipeline.core.settings import IngestSettings, SiteSettings
    from pipeline.ingest import ingest

    return ingest([SAMPLES / "traps.swf"], SiteSettings(name="oxbow"), IngestSettings())[0]


def published(jobs: pa.Table, folder: Path) -> Path:
    """A folder of published tables that holds JOBS alone."""
    staged = {"jobs": write_table(folder / "staged" / "jobs.parquet", jobs, JOBS)}
    facts = RunFacts("0a1b2c3d4e5f", "oxbow", RunSettings().model_dump(mode="json"), [], "code")
    publish(staged, [], facts, output_dir=folder, created_s=0, retention=Retention(newest=2))
    return folder


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_each_command_ends_with_examples_that_can_be_parsed(
    name: str, walltime: Walltime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = walltime(name, "-h")
    assert shown.code == 0 and shown.out == walltime(name, "--help").out
    assert name in EXAMPLES, "flows/cli/examples.py has no example of this command"
    assert [line.strip() for line in shown.out.split("Examples:\n")[1].splitlines()] == list(EXAMPLES[name])
    for example in EXAMPLES[name]:
        program, command, *words = shlex.split(example)
        assert (program, command) == ("walltime", name)
        COMMANDS[name].make_context(name, words)


def test_an_example_that_cannot_be_parsed_would_be_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        COMMANDS["show"].make_context("show", ["--rows", "3"])


def test_the_lists_of_commands_name_commands() -> None:
    assert (FOLDER_COMMANDS | ACTING_COMMANDS | LASTING_COMMANDS | EXAMPLES.keys()) - COMMANDS.keys() == set()


def test_without_a_folder_the_default_one_is_read(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(DEFAULT_FOLDER) == RunSettings().output_dir
    assert "out/manifest.json: found no such file" in walltime("show").err
    published(jobs, tmp_path / "out" / "sample")
    assert published_folder(None) == Path("out/sample")  # the only one
    assert "95 rows" in walltime("show", "jobs").out
    published(jobs.slice(0, 3), tmp_path / "out" / "other")
    assert "published tables in out/other, out/sample, expected one of these" in walltime("show", "jobs").err
    published(jobs.slice(0, 7), tmp_path / "out")
    assert published_folder(None) == Path("out")
    for words in (["jobs"], ["out", "jobs"], ["jobs", "--limit", "3"], ["--limit", "3", "jobs"]):
        assert "of 7 rows" in walltime("show", *words).out, words
    assert "of 95 rows" in walltime("show", "out/sample", "jobs").out
    assert json.loads(walltime("versions", "--json").out)["versions"][0]["run_id"] == "0a1b2c3d4e5f"
    assert walltime("hold", "0a1b2c3d4e5f").code == 0
    assert walltime("hold").code == 2


def test_a_config_stands_for_the_folder_that_it_publishes_to(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime
) -> None:
    published(jobs, tmp_path / "tables")
    (tmp_path / "site.toml").write_text(f"logs = ['x']\noutput_dir = '{tmp_path / 'tables'}'\n")
    assert "95 rows" in walltime("show", tmp_path / "site.toml", "jobs").out
    (tmp_path / "bad.toml").write_text("output_dri = 'x'\n")
    for words in (("show", tmp_path / "bad.toml"), ("query", "--from", tmp_path / "bad.toml", "--user", "u")):
        assert "did you mean output_dir?" in walltime(*words).err


def test_mistyped_names_are_answered_with_the_nearest_one(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(published(jobs, tmp_path / "out").parent)
    for words, nearest in (
        (("shw",), "Did you mean 'show'? walltime --help explains."),
        (("show", "jobz"), "did you mean jobs?"),
        (("show", "out", "jbos"), "did you mean jobs?"),
        (("columns", "predictionz"), "did you mean predictions?"),
        (("show", "--limt", "3"), "--limit"),
        (("show", "jobs", "--where", "proc > 1"), "did you mean procs?"),
    ):
        refused = walltime(*words)
        assert refused.code == 2 and nearest in refused.err and refused.err.count("\n") == 1, refused


def test_times_are_readable_unless_they_are_asked_for_as_they_are(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime
) -> None:
    out = published(jobs, tmp_path / "out")
    submits = jobs.column("submit_s").to_pylist()
    shown = walltime("show", out, "jobs", "--limit", "95").out
    assert "2024-01-08T00:00:59Z" in shown and str(submits[0]) not in shown
    raw = walltime("show", out, "jobs", "--limit", "95", "--epoch").out
    assert str(submits[0]) in raw and "2024-01-08T" not in raw
    rows = json.loads(walltime("show", out, "jobs", "--limit", "95", "--json").out)["shown"]
    assert [row["submit_s"] for row in rows] == submits


def test_quiet_prints_no_more_than_errors_and_answers(tmp_path: Path, walltime: Walltime) -> None:
    log, out = SAMPLES / "traps.swf", tmp_path / "jobs.parquet"
    done = walltime("ingest", log, "--out", out, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "") and read_table(out, JOBS).num_rows == 95
    assert json.loads(walltime("ingest", log, "--out", out, "--quiet", "--json").out)["report"]["kept"]["rows"] == 95
    refused = walltime("ingest", tmp_path / "none", "--out", out, "--quiet")
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert walltime("columns", "jobs", "--quiet").out == walltime("columns", "jobs").out
    assert "one of the two" in walltime("columns", "--quiet", "--verbose").err


def test_verbose_says_how_long_it_took_and_where_a_failure_arose(tmp_path: Path, walltime: Walltime) -> None:
    done = walltime("columns", "jobs", "--verbose")
    assert done.code == 0 and "walltime columns: " in done.err and " MiB at most\n" in done.err
    refused = walltime("show", tmp_path, "--verbose")
    assert refused.code == 2 and "Traceback" in refused.err and refused.err.splitlines()[-1].startswith("walltime: ")
    assert "Traceback" not in walltime("show", tmp_path).err


def completed(line: str, **variables: str) -> str:
    """What the shell is offered for the last word of a line."""
    environment = os.environ | {
        "_WALLTIME_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1),
    } | variables  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "flows.cli"], capture_output=True, text=True, env=environment, check=False
    ).stdout


def test_the_shell_completes_commands_options_and_tables() -> None:
    assert completed("walltime fit").split() == ["fit-series"]
    assert completed("walltime show --ep").split() == ["--epoch"]
    assert completed("walltime columns pre").split() == ["predictions"]


@pytest.mark.parametrize("words", [("show", "jobs", "--json", "--limit", "95"), ("--help",)])
def test_a_pipe_that_is_closed_early_is_no_failure_worth_a_word(
    jobs: pa.Table, tmp_path: Path, words: tuple[str, ...]
) -> None:
    published(jobs, tmp_path / "out")
    command = [sys.executable, "-m", "flows.cli", *words]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as shown:  # type: ignore[call-overload]
        shown.stdout.close()
        assert shown.stderr.read() == b""
