"""The manners of the command line: help with examples, a DIR to leave out, times, --quiet and --verbose, completion."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from flows.cli.typer_app import ACTING_COMMANDS, LASTING_COMMANDS, PANELS, STEPPING_COMMANDS, application
from flows.services.published.published_folder import DEFAULT_FOLDER, published_folder
from pipeline.publish import Retention
from pipeline.settings import RunSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS
from tests.flows.support import SAMPLES, Outcome
from tests.publishing import facts_of, publish

Walltime = Callable[..., Outcome]
ROOT: Any = typer.main.get_command(application())
GROUPS: dict[str, Any] = {name: one for name, one in ROOT.commands.items() if hasattr(one, "commands")}
COMMANDS: dict[str, Any] = {name: one for name, one in ROOT.commands.items() if name not in GROUPS} | {
    f"{group} {name}": one for group, added in GROUPS.items() for name, one in added.commands.items()
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The jobs of the small sample."""
    from pipeline.ingest import ingest
    from pipeline.settings import IngestSettings, SiteSettings

    return ingest([SAMPLES / "traps.swf"], SiteSettings(name="oxbow"), IngestSettings())[0]


def published(jobs: pa.Table, folder: Path) -> Path:
    """A folder of published tables that holds JOBS alone."""
    staged = {"jobs": write_table(folder / "staged" / "jobs.parquet", jobs, JOBS)}
    facts = facts_of("0a1b2c3d4e5f", "oxbow", RunSettings().model_dump(mode="json"), [], "code")
    publish(staged, [], facts, output_dir=folder, created_s=0, retention=Retention(newest=2))
    return folder


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_each_command_ends_with_examples_that_can_be_parsed(
    name: str, walltime: Walltime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = walltime(*name.split(), "-h")
    assert shown.code == 0 and shown.out == walltime(*name.split(), "--help").out
    examples = [line.strip() for line in shown.out.split("Examples:\n")[1].split("\n\n")[0].splitlines()]
    assert examples, "the docstring has no example"
    for example in examples:
        words = shlex.split(example)
        place = 1 + len(name.split())
        assert words[:place] == ["walltime", *name.split()]
        COMMANDS[name].make_context(name, words[place:])


def test_the_list_of_commands_has_the_whole_first_sentence_of_each(walltime: Walltime) -> None:
    listed = " ".join(walltime("--help").out.split())
    for commands in PANELS.values():
        for command in commands:
            first = " ".join((command.__doc__ or "").partition("\n\n")[0].split())
            assert f" {command.__name__} {first}" in listed


def test_help_lists_sixteen_commands_and_four_groups_by_what_a_person_wants(walltime: Walltime) -> None:
    assert (len(ROOT.commands) - len(GROUPS), len(GROUPS)) == (16, 4)
    shown = walltime("--help").out
    panels = [line for line in shown.splitlines() if re.fullmatch(r"\w.*:", line)]
    assert panels == ["Options:", *(f"{panel}:" for panel in PANELS), "Groups of commands:"]
    for group, added in GROUPS.items():
        listed = walltime(group, "--help").out
        assert all(f"  {name} " in listed for name in added.commands)
        assert walltime(group).code == 2


def test_an_option_is_spelled_and_explained_the_same_everywhere() -> None:
    """An option of several commands has one type; those with own words are listed."""
    own = {
        "--out",
        "--from",
        "--for",
        "--log",
        "--by",
        "--config",
        "--key-file",
        "--quiet",
        "--verbose",
        "--report",
        "--site",
        "--application",
        "--platform",
        "--procs",
        "--at",
        "--batch",
        "--dry-run",
        "--share",
        "--since",
        "--until",
        "--all",
        "--budget",
        "--memory",
        "--users",
    }
    said: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for one in command.params:
            for option in one.opts if one.param_type_name == "option" else ():
                said.setdefault(option, set()).add(str(one.help))
    assert {option for option, texts in said.items() if len(texts) > 1} <= own, said


def test_an_example_that_cannot_be_parsed_would_be_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        COMMANDS["show"].make_context("show", ["--rows", "3"])


def test_the_lists_of_commands_name_commands() -> None:
    assert (ACTING_COMMANDS | LASTING_COMMANDS | STEPPING_COMMANDS) - COMMANDS.keys() == set()


def test_without_a_folder_the_default_one_is_read(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(DEFAULT_FOLDER) == RunSettings().output_dir
    assert "out/manifest.json: found no such file" in walltime("show").err
    published(jobs, tmp_path / "out" / "sample")
    assert published_folder(None) == Path("out/sample")  # the only one
    assert "94 rows" in walltime("show", "jobs").out
    published(jobs.slice(0, 3), tmp_path / "out" / "other")
    assert "published tables in out/other, out/sample, expected one of these" in walltime("show", "jobs").err
    published(jobs.slice(0, 7), tmp_path / "out")
    assert published_folder(None) == Path("out")
    for words in (["jobs"], ["--from", "out", "jobs"], ["jobs", "--limit", "3"], ["--limit", "3", "jobs"]):
        assert "of 7 rows" in walltime("show", *words).out, words
    assert "of 94 rows" in walltime("show", "--from", "out/sample", "jobs").out
    assert json.loads(walltime("versions", "list", "--json").out)["versions"][0]["run_id"] == "0a1b2c3d4e5f"
    assert walltime("versions", "pin", "0a1b2c3d4e5f").code == 0
    assert walltime("versions", "pin").code == 2


def test_a_config_stands_for_the_folder_that_it_publishes_to(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime
) -> None:
    published(jobs, tmp_path / "tables")
    (tmp_path / "site.toml").write_text(f"logs = ['x']\noutput_dir = '{tmp_path / 'tables'}'\n")
    assert "94 rows" in walltime("show", "--from", tmp_path / "site.toml", "jobs").out
    (tmp_path / "bad.toml").write_text("output_dri = 'x'\n")
    for words in (("show", "--from", tmp_path / "bad.toml"), ("query", "--from", tmp_path / "bad.toml", "--user", "u")):
        assert "did you mean output_dir?" in walltime(*words).err


def test_mistyped_names_are_answered_with_the_nearest_one(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(published(jobs, tmp_path / "out").parent)
    for words, nearest in (
        (("shw",), "Did you mean 'show'? walltime --help explains."),
        (("show", "jobz"), "did you mean jobs?"),
        (("show", "--from", "out", "jbos"), "did you mean jobs?"),
        (("show", "--columns", "predictionz"), "did you mean predictions?"),
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
    shown = walltime("show", "--from", out, "jobs", "--limit", "95").out
    assert "2024-01-08T00:00:59Z" in shown and str(submits[0]) not in shown
    rows = json.loads(walltime("show", "--from", out, "jobs", "--limit", "95", "--json").out)["shown"]
    assert [row["submit_s"] for row in rows] == submits


def test_quiet_prints_no_more_than_errors_and_answers(tmp_path: Path, walltime: Walltime) -> None:
    log, out = SAMPLES / "traps.swf", tmp_path / "jobs.parquet"
    done = walltime("ingest", log, "--out", out, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "") and read_table(out, JOBS).num_rows == 94
    assert json.loads(walltime("ingest", log, "--out", out, "--quiet", "--json").out)["report"]["kept"]["rows"] == 94
    refused = walltime("ingest", tmp_path / "none", "--out", out, "--quiet")
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert walltime("show", "--columns", "jobs", "--quiet").out == walltime("show", "--columns", "jobs").out
    assert "one of the two" in walltime("show", "--columns", "--quiet", "--verbose").err


def test_verbose_says_how_long_it_took_and_where_a_failure_arose(tmp_path: Path, walltime: Walltime) -> None:
    done = walltime("show", "--columns", "jobs", "--verbose")
    assert done.code == 0 and "walltime show: " in done.err and " MiB at most\n" in done.err
    refused = walltime("show", "--from", tmp_path, "--verbose")
    assert refused.code == 2 and "Traceback" in refused.err and refused.err.splitlines()[-1].startswith("walltime: ")
    assert "Traceback" not in walltime("show", "--from", tmp_path).err


def completed(line: str, **variables: str) -> str:
    """What the shell is offered for the last word of a line."""
    environment = os.environ | {
        "_WALLTIME_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1),
    } | variables  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "flows.cli"], capture_output=True, text=True, env=environment, check=False
    ).stdout


def test_the_shell_completes_commands_options_and_tables() -> None:
    assert completed("walltime sca").split() == ["scaling"]
    assert completed("walltime scaling f").split() == ["fit"]
    assert completed("walltime show --se").split() == ["--select"]
    assert completed("walltime show pre").split() == ["predictions"]


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


def test_rows_are_chosen_and_written_as_csv(jobs: pa.Table, tmp_path: Path, walltime: Walltime) -> None:
    out = published(jobs, tmp_path / "out")
    shown = walltime("show", "jobs", "--from", out, "--select", "job_id,procs", "--where", "procs > 4", "--csv")
    kept = [row for row in jobs.select(["job_id", "procs"]).to_pylist() if (row["procs"] or 0) > 4]
    assert list(csv.DictReader(shown.out.splitlines())) == [{k: str(v) for k, v in row.items()} for row in kept]
    assert walltime("show", "jobs", "--from", out, "--csv", "--limit", "3").out.count("\n") == 4
    rows = json.loads(walltime("show", "jobs", "--from", out, "--select", "procs", "--json").out)
    assert rows["matching"] == 94 and len(rows["shown"]) == 20 and set(rows["shown"][0]) == {"procs"}
    assert "did you mean procs?" in walltime("show", "jobs", "--from", out, "--select", "proc").err
    assert "one of them" in walltime("show", "jobs", "--from", out, "--csv", "--json").err
    assert "no table beside it" in walltime("show", "--from", out, "--csv").err


def test_rows_are_written_as_a_workbook_whose_texts_are_texts(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime
) -> None:
    pytest.importorskip("xlsxwriter")
    place = jobs.column_names.index("user")
    hostile = jobs.set_column(place, "user", pa.array(["=1+1"] * jobs.num_rows).cast(jobs.schema.field("user").type))
    out, book = published(hostile, tmp_path / "out"), tmp_path / "rows.xlsx"
    done = walltime("show", "jobs", "--from", out, "--select", "user,procs", "--limit", "3", "--out", book)
    assert done.code == 0 and "rows.xlsx" in done.out
    with zipfile.ZipFile(book) as parts:
        sheet = parts.read("xl/worksheets/sheet1.xml").decode()
    assert sheet.count("<row ") == 4 and "<f>" not in sheet and sheet.count("<t>'=1+1</t>") == 3


def test_the_suffix_chooses_the_format_of_the_rows(jobs: pa.Table, tmp_path: Path, walltime: Walltime) -> None:
    out = published(jobs, tmp_path / "out")
    asked = ("show", "jobs", "--from", out, "--select", "job_id,procs", "--where", "procs > 4", "--out")
    for name in ("rows.csv", "rows.json", "rows.parquet"):
        assert walltime(*asked, tmp_path / name).code == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert 0 < len(rows) < 94 and rows == pq.read_table(tmp_path / "rows.parquet").to_pylist()
    with (tmp_path / "rows.csv").open() as text:
        assert [row["job_id"] for row in csv.DictReader(text)] == [row["job_id"] for row in rows]
    assert ".csv or .parquet or .json or .xlsx" in walltime(*asked, tmp_path / "rows.txt").err
    assert walltime(*asked[:-2], "false", "--out", tmp_path / "none.json").code == 0
    assert json.loads((tmp_path / "none.json").read_text()) == []


@pytest.mark.parametrize(
    "condition",
    [
        "1 = (SELECT count(*) FROM read_text('{secret}'))", "1 = (SELECT count(*) FROM '{secret}')",
        "1 = (SELECT count(*) FROM glob('{folder}/*'))", "true) UNION ALL SELECT * FROM read_csv('{secret}') --",
        "true; COPY t TO '{folder}/copy.csv'", "getenv('HOME') = 'x'",
    ],
)  # fmt: skip
def test_a_condition_reads_and_writes_no_other_file(
    jobs: pa.Table, tmp_path: Path, walltime: Walltime, condition: str
) -> None:
    out, secret = published(jobs, tmp_path / "out"), tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    asked = condition.format(secret=secret, folder=tmp_path)
    refused = walltime("show", "jobs", "--from", out, "--where", asked)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1), refused
    assert not (tmp_path / "copy.csv").exists()
