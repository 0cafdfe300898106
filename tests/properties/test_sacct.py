"""A sacct dump whatever its order, splitting, blocks and damage: the same jobs, no line lost, no other exception."""

import contextlib
import random
import tempfile
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.ingest.formats import sacct
from pipeline.ingest.reader import STEPS, chunks_of
from pipeline.ingest.sources import Source, line_blocks
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

pytestmark = pytest.mark.slow


NAMES = "JobID|JobName|User|Submit|Start|End|Elapsed|AllocCPUS|ReqMem|State|ExitCode|MaxRSS|DBIndex"
POSITION = ("source_file", "source_line")
FIRST = "2026-01-01T"
few = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

names = st.one_of(
    st.sampled_from(["run", "a|b", "x\ny", "|", "a b", "", "ü", "1|2", "7", "3|run"]),
    st.text(st.sampled_from("ab|\n 7:.-"), max_size=8),
)


def _clock(hour: int) -> str:
    return f"{FIRST}{hour:02d}:00:00"


@st.composite
def attempts(draw: st.DrawFn, number: int) -> list[str]:
    """The rows of one job: one or two attempts, each with some steps."""
    user, has_key, n_attempts = draw(st.sampled_from("ab")), draw(st.booleans()), draw(st.integers(1, 2))
    rows, hour = [], draw(st.integers(0, 3))
    for attempt in range(n_attempts):
        start, end = hour + 1, hour + 1 + draw(st.integers(0, 4))
        key = str(number * 10 + attempt) if has_key else ""
        late = ["RUNNING"] if attempt == n_attempts - 1 else []
        state = draw(st.sampled_from(["COMPLETED", "CANCELLED by 7", "FOO", *late]))
        stop = "Unknown" if state == "RUNNING" else _clock(end)
        rows.append(
            f"{number}|{draw(names)}|{user}|{_clock(hour)}|{_clock(start)}|{stop}|1:00:00|4|4G|{state}|1:0||{key}"
        )
        for step in draw(st.lists(st.sampled_from(["batch", "extern", "0", "1"]), max_size=3, unique=True)):
            begin = draw(st.integers(start, end))
            size, code = draw(st.integers(1, 9)), draw(st.sampled_from(["0:0", "2:0", "0:9"]))
            rows.append(
                f"{number}.{step}|{step}||{_clock(begin)}|{_clock(begin)}|{stop}|1:00:00|4||COMPLETED|{code}|{size}K|{key}"
            )
        hour = end + 1
    return rows


PLAIN = f"9|run|c|{_clock(0)}|{_clock(1)}|{_clock(2)}|1:00:00|4|4G|COMPLETED|0:0||"
"""A dump of which no record can be read is refused, and a job name may make every other one ambiguous."""


def dump(rows: list[str]) -> bytes:
    return "\n".join([NAMES, *rows, ""]).encode()


def read(*logs: bytes, block_bytes: int = 1 << 22) -> tuple[pa.Table, pa.Table, Report]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.txt" for number in range(len(logs))]
        for path, log in zip(paths, logs, strict=True):
            path.write_bytes(log)
        with patch.object(sacct, "line_blocks", lambda source, _, end: line_blocks(source, block_bytes, end)):
            return ingest(paths, SiteSettings(), IngestSettings(format="sacct"))


def same_jobs(one: pa.Table, other: pa.Table) -> bool:
    return one.drop_columns(POSITION).equals(other.drop_columns(POSITION))


@st.composite
def jobs_of_a_dump(draw: st.DrawFn) -> list[str]:
    """The rows of some jobs; some jobs a second time, as where dumps overlap."""
    jobs = [draw(attempts(number)) for number in range(1, draw(st.integers(2, 6)))]
    twice = draw(st.lists(st.sampled_from(jobs), max_size=2))
    return [PLAIN, *(row for job in [*jobs, *twice] for row in job)]


@few
@given(jobs_of_a_dump(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[str], rng: random.Random) -> None:
    jobs, unreadable, report = read(dump(rows))
    again, unreadable_again, report_again = read(dump(rng.sample(rows, len(rows))))
    assert same_jobs(jobs, again)
    assert sorted(unreadable["raw"].to_pylist()) == sorted(unreadable_again["raw"].to_pylist())
    assert (report.kept, report.set_aside) == (report_again.kept, report_again.set_aside)


@few
@given(jobs_of_a_dump(), st.integers(1, 600))
def test_the_size_of_blocks_does_not_matter(rows: list[str], block_bytes: int) -> None:
    log = dump([*rows[:3], "a line of text", *rows[3:]])
    jobs, unreadable, report = read(log)
    again, unreadable_again, report_again = read(log, block_bytes=block_bytes)
    assert jobs.equals(again)
    # Chunks of one reason each have dictionaries of their own, which Arrow takes for a difference.
    assert unreadable.combine_chunks().equals(unreadable_again.combine_chunks())
    assert (report.set_aside, report.facts, report.notes) == (
        report_again.set_aside,
        report_again.facts,
        report_again.notes,
    )


@few
@given(jobs_of_a_dump(), st.data())
def test_the_split_into_files_does_not_matter(rows: list[str], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    files = [[row for row, place in zip(rows, places, strict=True) if place == number] for number in range(3)]
    jobs, _, report = read(dump(rows))
    again, _, report_again = read(*(dump([PLAIN, *file]) for file in files if file))
    assert same_jobs(jobs, again)
    assert report.kept == report_again.kept


@few
@given(jobs_of_a_dump())
def test_names_come_back_whole(rows: list[str]) -> None:
    """Whatever stands in a job name, it is read as it was written, or its record is set aside and the reason said."""
    jobs, unreadable, _ = read(dump(rows))
    written = {row.split("|", 1)[1].rsplit("|", 11)[0] or None for row in rows if "." not in row.split("|", 1)[0]}
    # With a state that Slurm does not know (FOO), no place of a name's delimiters and line ends fits the columns.
    unfit = {"too_many_fields", "too_few_fields"} if any("|FOO|" in row for row in rows) else set()
    assert set(unreadable["reason"].to_pylist()) <= {"ambiguous_fields", "shifted_fields"} | unfit
    assert set(jobs["job_name"].to_pylist()) <= written


def unread(log: bytes) -> None:
    """Reads and folds a log: the only exception allowed is InputError, and every line must be accounted for."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(InputError):
        path = Path(folder) / "log.txt"
        path.write_bytes(log)
        site, asked = SiteSettings(), IngestSettings(keep_submit_line=True)
        for chunk in chunks_of(sacct.SACCT, Source(path, "log.txt"), site, asked):
            parts = chunk.parts if chunk.parts is not None else STEPS.empty_table()
            rows = chunk.jobs.num_rows + parts.num_rows + chunk.unreadable.num_rows
            assert chunk.n_lines == rows + sum(chunk.lines.values())
            chunk.jobs.validate(full=True)
            chunk.unreadable.validate(full=True)
            sacct.fold(chunk.jobs, parts, site, asked)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(jobs_of_a_dump(), st.data())
def test_damaged_bytes_lose_no_line(rows: list[str], data: st.DataObject) -> None:
    log = bytearray(dump(rows))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(log) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                log[at] = data.draw(st.integers(0, 255))
            case 1:
                del log[at : at + data.draw(st.integers(1, 30))]
            case 2:
                log[at:at] = data.draw(
                    st.sampled_from([b"|", b"\n", b"\r\n", b'"', b"\0", b"\xff", b"JobID|State\n", b"9" * 30])
                )
            case _:
                log[at:at] = log[at : at + data.draw(st.integers(1, 90))]
        if not log:
            return
    unread(bytes(log))


@few
@given(st.binary(max_size=300))
def test_any_bytes_behind_a_header(noise: bytes) -> None:
    unread(dump([]) + noise)
