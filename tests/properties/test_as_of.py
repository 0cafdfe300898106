"""A rerun until an instant is the run of the log as it was then, row for row, in three formats.

The log as it was holds what its jobs said that had ended. The reader of this file knows each format in a few lines. It
blanks the other lines, so that the lines that stay keep their numbers.
"""

import gzip
import random
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.clean import clean
from pipeline.ingest import ingest
from pipeline.run import start_run
from pipeline.settings import CleanSettings, IngestSettings, RunSettings, SiteSettings
from tools.plain_run import run_plain

pytestmark = pytest.mark.slow


SAMPLES = Path(__file__).resolve().parents[2] / "data_samples"
SITE = SiteSettings(name="here", timezone="UTC")
_STARTED = re.compile(r"UnixStartTime: (\d+)")


def swf(lines: list[str], until_s: int) -> list[bool]:
    """Whether each line is of a job that was over; one without a submit stands behind the line of its job."""
    zero_s, kept, is_over = 0, [], True
    for line in lines:
        if found := _STARTED.search(line):
            zero_s = int(found[1])
        if line.strip() and not line.startswith(";"):
            submit, wait, runtime = (int(field) for field in line.split()[1:4])
            if submit >= 0:
                is_over = zero_s + submit + max(wait, 0) + max(runtime, 0) < until_s
            kept.append(is_over)
        else:
            kept.append(True)
    return kept


def pbs(lines: list[str], until_s: int) -> list[bool]:
    """Whether each record is of an attempt that was over; one without an end counts from its last record on."""
    kept, waiting = [True] * len(lines), defaultdict[str, list[int]](list)

    def close(places: list[int], last: str) -> None:
        written = datetime.strptime(last[:19], "%m/%d/%Y %H:%M:%S").replace(tzinfo=UTC)
        for place in places:
            kept[place] = written.timestamp() < until_s
        places.clear()

    for place, line in enumerate(lines):
        if line:
            _, kind, job, _ = line.split(";", 3)
            waiting[job].append(place)
            if kind in "RED":
                close(waiting[job], line)
    for places in filter(None, waiting.values()):
        close(places, lines[places[-1]])
    return kept


def sacct(lines: list[str], until_s: int) -> list[bool]:
    """Whether each line is of an attempt that was over; the steps of an attempt have its index in the database."""
    over = {}
    for line in lines[1:]:
        fields = line.split("|")
        if line and "." not in fields[0]:
            told = [datetime.fromisoformat(text + "Z").timestamp() for text in fields[7:11] if text[:1].isdigit()]
            over[fields[21]] = max(*told, max(told) + int(fields[11]) if "Unknown" in fields[10] else 0) < until_s
    return [True, *(not line or over[line.split("|")[21]] for line in lines[1:])]


LOGS = {"riverbend.swf.gz": swf, "millrace.swf": swf, "millrace.pbs": pbs, "millrace.sacct.txt": sacct}
Judge = Callable[[list[str], int], list[bool]]


def as_it_was(name: str, until_s: int, folder: Path) -> tuple[Path, Path]:
    """The whole log and the log as it was, both unpacked and under one name."""
    data = (SAMPLES / name).read_bytes()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).decode().split("\n")
    kept = LOGS[name](lines, until_s)
    paths = folder / "whole" / name.removesuffix(".gz"), folder / "then" / name.removesuffix(".gz")
    texts = lines, [line if is_kept else "" for line, is_kept in zip(lines, kept, strict=True)]
    for path, text in zip(paths, texts, strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(text), newline="")
    return paths


def instants(name: str, n: int, seed: int = 29) -> list[int]:
    """Instants between the first and the last submit of a log, half of them a job's own end."""
    (jobs, *_), rng = ingest([SAMPLES / name], SITE, IngestSettings()), random.Random(seed)
    ends = sorted(end for end in jobs["end_s"].to_pylist() if end is not None)
    return [rng.choice(ends) if k % 2 else rng.randint(ends[len(ends) // 8], ends[-1]) for k in range(n)]


@pytest.mark.parametrize("name", LOGS)
def test_a_rerun_until_an_instant_has_the_jobs_of_the_log_as_it_was(name: str, tmp_path: Path) -> None:
    for until_s in instants(name, 6):
        whole, then = as_it_was(name, until_s, tmp_path)
        again, lines, _ = ingest([whole], SITE, IngestSettings(), window_s=(None, until_s))
        jobs, lines_then, report = ingest([then], SITE, IngestSettings())
        assert isinstance(again, pa.Table) and isinstance(jobs, pa.Table)
        assert jobs.num_rows == report.kept.rows
        dated = with_submit(jobs)
        assert texts(again).equals(texts(dated)) and lines.equals(lines_then)
        for found, expected in zip(clean(again, CleanSettings(), SITE)[:3], clean(dated, CleanSettings(), SITE)[:3],
                                   strict=True):  # fmt: skip
            assert texts(found).equals(texts(expected))


@pytest.mark.parametrize("name", LOGS)
def test_a_rerun_until_after_the_log_is_the_run_of_the_log(name: str) -> None:
    jobs, *_ = ingest([SAMPLES / name], SITE, IngestSettings())
    again, *_ = ingest([SAMPLES / name], SITE, IngestSettings(), window_s=(None, 1 << 40))
    assert texts(again).equals(texts(with_submit(jobs)))


def with_submit(jobs: pa.Table) -> pa.Table:
    """The jobs that can be in a window: a record without a submit is in none."""
    return jobs.filter(pc.is_valid(jobs["submit_s"]))


def texts(table: pa.Table) -> pa.Table:
    """The table in one piece, with texts in place of codes: a filter keeps the names of what it leaves out."""
    fields = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields)).combine_chunks()


@pytest.mark.parametrize("name", ["millrace.swf", "millrace.pbs", "millrace.sacct.txt"])
def test_every_table_of_a_rerun_is_that_of_the_log_as_it_was(name: str, tmp_path: Path) -> None:
    until_s = instants(name, 1)[0]
    whole, then = as_it_was(name, until_s, tmp_path)
    assert tables(whole, until_s) == tables(then, None)


def tables(path: Path, until_s: int | None) -> dict[str, str]:
    """The rows of every table of a run, without the names of the run."""
    run = replace(start_run(RunSettings(site=SITE), [path]), window_s=(None, until_s))
    found = {name: table for _, written, _ in run_plain(run) for name, table in written.items()}
    return {
        name: repr(table.drop_columns([c for c in ("run_id",) if c in table.column_names]).to_pylist())
        for name, table in found.items()
        if isinstance(table, pa.Table)
    }
