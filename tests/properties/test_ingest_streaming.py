"""The bytes of JOBS depend on the records alone: not on memory, partitions, chunks, files or the order of rows."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.ingest import OnDisk, ingest, records
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS
from tests.unit.ingest.logs import row

pytestmark = pytest.mark.slow


HEADER = "JobID|User|JobName|State|Submit|Start|End|Elapsed|AllocCPUS|MaxRSS"
IDS = ("7", "7_1", "7_2", "12+0", "12+1", "300", "45")
swf_rows = st.builds(
    lambda n, s, w, r, p, st_, u: row(
        job_id=n, submit_s=s, wait_s=w, runtime_s=r, procs=p, status=st_, user=u, requested_procs=p
    ),
    st.integers(1, 9), st.sampled_from([-1, 5, 6, 700]), st.sampled_from([-1, 0, 3]), st.sampled_from([-1, 10, 20.5]),
    st.sampled_from([1, 64]), st.sampled_from([1, 0, 2, 3, 5]), st.sampled_from([1, 2]),
)  # fmt: skip
junk = st.sampled_from(["; a comment", "", "not a job", "1 2 3"])
swf_lines = st.lists(swf_rows | junk, max_size=40)
# Attempts of one job follow each other: a step that two of them could have run would be anybody's.
sacct_rows = st.builds(
    lambda job, step, attempt, state, hours, rss: (
        f"{job}{step}|ada|relax_{attempt}|{state}|2026-01-01T0{3 * attempt}:00:00|2026-01-01T0{3 * attempt}:30:00|"
        f"2026-01-01T0{3 * attempt + hours}:30:00|0{hours}:00:00|4|{rss if step else ''}"
    ),
    st.sampled_from(IDS), st.sampled_from(["", "", ".batch", ".0"]), st.integers(0, 2),
    st.sampled_from(["COMPLETED", "FAILED"]), st.integers(1, 2), st.sampled_from(["1M", "5M", ""]),
)  # fmt: skip
sacct_lines = st.lists(sacct_rows, max_size=30)


def to_files(folder: Path, texts: list[str], limits: dict[str, int]) -> tuple[bytes, Report]:
    """What the streaming door writes under these limits."""
    logs = folder / "logs"
    logs.mkdir()
    for number, text in enumerate(texts):
        (logs / f"{number}.log").write_text(text)
    paths = [logs / f"{number}.log" for number in range(len(texts))]
    with patch.object(records, "BATCH_ROWS", limits["batch"]):
        to = OnDisk(folder / "o", folder / "u", hold_bytes=limits["hold"])
        *_, report = ingest(paths, SiteSettings(), IngestSettings(), to=to)
    return (folder / "o").read_bytes(), report


limits = st.fixed_dictionaries(
    {"hold": st.sampled_from([0, 500, 1 << 26]), "batch": st.sampled_from([1, 2, 10, 10_000])}
)


@settings(max_examples=60, deadline=None)
@given(swf_lines, limits)
def test_the_bytes_do_not_tell_how_much_was_spilled(lines: list[str], limits: dict[str, int]) -> None:
    text = "; Version: 2.2\n" + row(job_id=99) + "\n" + "\n".join(lines) + "\n"
    with TemporaryDirectory() as name:
        folder = Path(name)
        written, report = to_files(folder, [text], limits)
        jobs, unreadable, told = ingest([folder / "logs" / "0.log"], SiteSettings(), IngestSettings())
        assert write_table(folder / "ref", jobs, JOBS).read_bytes() == written
        assert (folder / "u").exists() == bool(unreadable.num_rows)
        assert report == told
        assert report.seen.rows == text.count("\n")


@settings(max_examples=40, deadline=None)
@given(sacct_lines, st.integers(1, 3), st.randoms(use_true_random=False), limits)
def test_jobs_and_their_steps_may_come_in_any_order_and_any_file(
    lines: list[str], n_files: int, random: Any, limits: dict[str, int]
) -> None:
    lines = ["99|ada|x|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T02:00:00|01:00:00|4|", *lines]
    shuffled = list(lines)
    random.shuffle(shuffled)
    parts = [shuffled[start::n_files] for start in range(n_files)]
    texts = ["\n".join([HEADER, *part]) + "\n" for part in parts if part]
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        to_files(Path(one), ["\n".join([HEADER, *lines]) + "\n"], limits | {"hold": 1 << 26})
        _, report = to_files(Path(two), texts, limits)
        first, second = (
            read_table(Path(name) / "o", JOBS).drop_columns(["source_file", "source_line"]) for name in (one, two)
        )
        assert first.to_pylist() == second.to_pylist()
        report.check()


@settings(max_examples=80, deadline=None)
@given(sacct_lines, sacct_lines, st.sampled_from(["", "other"]), limits)
def test_an_update_in_memory_and_one_in_files_give_the_same_bytes(
    before: list[str], after: list[str], site: str, limits: dict[str, int]
) -> None:
    first = "99|ada|x|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T02:00:00|01:00:00|4|"
    with TemporaryDirectory() as name:
        folder = Path(name)
        to_files(folder, ["\n".join([HEADER, first, *before]) + "\n"], limits)
        (folder / "new.log").write_text("\n".join([HEADER, first.replace("99", "98", 1), *after]) + "\n")
        told = []
        for hold in (limits["hold"], 1 << 26):
            out = folder / f"updated-{hold}"
            known = SiteSettings(name=site) if site else SiteSettings()
            with patch.object(records, "BATCH_ROWS", limits["batch"]):
                to = OnDisk(out, folder / "bad", hold_bytes=hold)
                *_, report = ingest([folder / "new.log"], known, IngestSettings(), folder / "o", to=to)
            told.append((out.read_bytes(), report))
        assert told[0] == told[1]


@settings(max_examples=30, deadline=None)
@given(swf_lines)
def test_a_table_that_is_not_in_order_of_submits_is_put_in_order(lines: list[str]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        log, new = folder / "log", folder / "new"
        log.write_text("; Version: 2.2\n" + row(job_id=99) + "\n" + "\n".join(lines) + "\n")
        new.write_text("; Version: 2.2\n" + row(job_id=98, submit_s=6) + "\n")
        jobs, *_ = ingest([log], SiteSettings(), IngestSettings())
        turned = jobs.take(list(range(jobs.num_rows))[::-1])
        tables = [write_table(folder / f"jobs{place}", table, JOBS) for place, table in enumerate((jobs, turned))]
        one, other = (ingest([new], SiteSettings(), IngestSettings(), table)[0].to_pylist() for table in tables)
        assert one == other
