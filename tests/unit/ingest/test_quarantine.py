"""What cannot be read is kept beside the jobs, listed by reason, and counted so that every line is accounted for."""

import json
import multiprocessing
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from flows.cli.typer_app import application
from flows.services.files.table_files import write_any_batches
from flows.services.logs import write_jobs
from pipeline.errors import InputError
from pipeline.schema import TableKind
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import read_table
from pipeline.tables import UNREADABLE
from tests.unit.ingest.logs import row


def show(file: Path, *words: object) -> None:
    """What `walltime show` prints of the unreadable records of a file."""
    application()(["show", "unreadable", "--from", str(file), *map(str, words)], standalone_mode=False)


BAD = ("x " * 18, "1 2 3", "9 \x1b[31mred\x07 3 4 5", "é" * 5_000)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    log = tmp_path / "a.swf"
    log.write_text("; Version: 2.2\n" + row() + "\n\n" + "\n".join(BAD) + "\n")
    out = tmp_path / "jobs.parquet"
    report, written = write_jobs([log], SiteSettings(), IngestSettings(), out)
    assert set(written) == {"jobs", "unreadable"}
    assert report.seen.rows == 7 == report.kept.rows + sum(tally.rows for tally in report.set_aside.values())
    return out


def test_each_line_is_kept_with_its_place_and_a_bounded_text(jobs: Path) -> None:
    lines = read_table(jobs.with_name("jobs.unreadable.parquet"), UNREADABLE).to_pylist()
    assert [line["source_line"] for line in lines] == [4, 5, 6, 7]
    assert all(len(line["raw"]) <= 500 for line in lines)
    assert not [path for path in jobs.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["jobs.parquet", "jobs.unreadable.parquet"])
def test_they_are_listed_by_reason(jobs: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(jobs.with_name(name), "--limit", 2, "--json")
    found = json.loads(capsys.readouterr().out)
    assert sum(found["reasons"].values()) == 4 == found["matching"] and len(found["shown"]) == 2
    reason = next(iter(found["reasons"]))
    show(jobs.with_name(name), "--where", f"reason = '{reason}'", "--json")
    assert {row["reason"] for row in json.loads(capsys.readouterr().out)["shown"]} == {reason}
    with pytest.raises(InputError, match="--where"):
        show(jobs, "--where", "boredom")


def test_their_text_is_shown_escaped(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(jobs)
    shown = capsys.readouterr().out
    assert "\\x1b[31mred\\x07" in shown and "\x1b" not in shown and "\x07" not in shown


def test_a_log_without_a_fault_leaves_no_quarantine(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = jobs.with_name("good.swf")
    log.write_text(row() + "\n")
    _, written = write_jobs([log], SiteSettings(), IngestSettings(), jobs)
    assert set(written) == {"jobs"} and not jobs.with_name("jobs.unreadable.parquet").exists()
    show(jobs)
    assert "Every record could be read." in capsys.readouterr().out


def test_a_failure_leaves_what_was_there(jobs: Path) -> None:
    before = {path.name: path.read_bytes() for path in jobs.parent.iterdir()}
    bad = jobs.parent / "sub"
    bad.mkdir()
    (bad / "b.swf").write_text("; nothing\n")
    with pytest.raises(InputError):
        write_jobs([bad / "b.swf"], SiteSettings(), IngestSettings(), jobs)
    with pytest.raises(InputError):
        write_jobs([bad / "b.swf"], SiteSettings(), IngestSettings(), bad / "new" / "deep" / "jobs.parquet")
    assert not (bad / "new").exists()
    assert {path.name: path.read_bytes() for path in jobs.parent.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("table", ["unreadable", "jobs"])
def test_a_writer_that_is_killed_leaves_both_tables_as_they_were(jobs: Path, table: str) -> None:
    """Killed when a table is whole, or half written: jobs and lines of two readings never stand side by side."""
    before = {path.name: path.read_bytes() for path in jobs.parent.iterdir()}
    log = jobs.with_name("b.swf")
    log.write_text(row() + "\n1 2 3\n")

    def dying(path: Path, batches: Iterable[pa.Table], kind: TableKind, facts: Mapping[str, str] | None) -> Path:
        if kind.name == table:
            path.with_name(f".{path.name}.{os.getpid()}.draft").write_bytes(b"half")
            os._exit(9)
        return write_any_batches(path, batches, kind, facts)

    def write() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("flows.services.logs.write_any_batches", dying)
            write_jobs([log], SiteSettings(), IngestSettings(), jobs)

    writer = multiprocessing.get_context("fork").Process(target=write)
    writer.start()
    writer.join()
    assert writer.exitcode == 9
    log.unlink()
    assert {path.name: path.read_bytes() for path in jobs.parent.iterdir() if path.is_file()} == before
    log.write_text(row() + "\n")
    write_jobs([log], SiteSettings(), IngestSettings(), jobs)
    assert not [path for path in jobs.parent.iterdir() if path.name.startswith(".")]
