"""PBS logs whatever their order, splitting, blocks and damage: the same jobs, no line lost, no error but InputError."""

import contextlib
import re
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from tests.unit.ingest.pbs_logs import T0, ended, queued, read, record, started

pytestmark = pytest.mark.slow


POSITION = ("source_file", "source_line")
few = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
many = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])

ids = st.integers(1, 4).map(lambda n: ("1.srv", "2.srv", "3[1].srv", "3[].srv")[n - 1])
seconds = st.integers(0, 59)
dates = seconds.map(lambda s: f"11/21/2026 08:00:{s:02d}")
records = st.one_of(
    st.builds(queued, ids, st.sampled_from(["", "Resource_List.ncpus=2", "jobname=a b"])),
    st.builds(lambda i, s: started(i, T0 + s), ids, seconds),
    st.builds(
        lambda i, s, r, code, kind: ended(job_id=i, start=T0 + s, end=T0 + s + r, status=code).replace(";E;", kind),
        ids, seconds, seconds, st.sampled_from([0, 1, 271, -29]), st.sampled_from([";E;", ";E;", ";R;"]),
    ),
    st.builds(lambda kind, i, date: record(kind, i, date=date), st.sampled_from("DARQSEzL"), ids, dates),
    st.builds(lambda i, date, q: record("Q", i, f"queue={q}", date), ids, dates, st.sampled_from(["a", "b"])),
    st.just("rubbish\n"), st.just("\n"),
)  # fmt: skip
logs = st.lists(records, min_size=1, max_size=14).map(lambda lines: [*lines, started("9.srv")])


def content(jobs: pa.Table) -> pa.Table:
    return jobs.drop_columns(POSITION)


@few
@given(logs, st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(lines: list[str], random) -> None:
    one, other = read("".join(lines)), read("".join(random.sample(lines, len(lines))))
    assert content(one.jobs).equals(content(other.jobs))
    assert (one.lines, one.unreadable.num_rows) == (other.lines, other.unreadable.num_rows)


@few
@given(logs, st.integers(0, 14), st.integers(0, 14))
def test_the_split_into_files_does_not_matter(lines: list[str], first: int, second: int) -> None:
    cuts = sorted({0, min(first, len(lines) - 1), min(second, len(lines) - 1), len(lines)})
    parts = ["".join(lines[low:high]) for low, high in pairwise(cuts)]
    whole = read("".join(lines))
    with contextlib.suppress(InputError):
        # A part of rubbish alone is no log of its own.
        split = read(*parts)
        assert content(split.jobs).equals(content(whole.jobs))
        assert split.lines == whole.lines


@few
@given(st.lists(st.sampled_from(["", " qtime=", " exec_vnode=", " group="]), min_size=3), st.integers(1, 400))
def test_the_blocks_tell_nothing_of_damage(lost: list[str], block_bytes: int) -> None:
    lines = [ended(job_id=f"{place}.srv") for place in range(len(lost))]
    log = "".join(re.sub(rf"{key}\S+" if key else "^$", "", line) for key, line in zip(lost, lines, strict=True))
    whole, cut = read(log), read(log, block_bytes=block_bytes)
    assert cut.jobs.equals(whole.jobs) and cut.unreadable.equals(whole.unreadable)


@few
@given(logs, st.integers(1, 400), st.booleans())
def test_the_blocks_do_not_matter(lines: list[str], block_bytes: int, is_wrapped: bool) -> None:
    log = "".join(lines)
    if is_wrapped:
        log = log.replace(" jobname=", "\njobname=").replace(" start=", "\n\tstart=")
    whole, cut = read(log), read(log, block_bytes=block_bytes)
    assert cut.jobs.equals(whole.jobs)
    assert (cut.lines, cut.n_lines) == (whole.lines, whole.n_lines)
    assert cut.unreadable.equals(whole.unreadable)


@few
@given(logs)
def test_a_log_read_twice_gives_its_jobs_once(lines: list[str]) -> None:
    log = "".join(lines)
    assert content(read(log, log).jobs).equals(content(read(log).jobs))


@many
@given(
    logs,
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255), st.sampled_from("rid")), min_size=1, max_size=12),
    st.integers(50, 5000),
)
def test_damage_loses_no_line_and_raises_nothing_else(
    lines: list[str], changes: list[tuple[int, int, str]], block_bytes: int
) -> None:
    """`read` itself checks that lines = jobs + folded + others + unreadable."""
    damaged = bytearray("".join(lines).encode())
    for at, byte, what in changes:
        place = at % max(len(damaged), 1)
        if what == "r" and damaged:
            damaged[place] = byte
        elif what == "i":
            damaged.insert(place, byte)
        else:
            del damaged[place : place + 1]
    with contextlib.suppress(InputError):
        whole = read(bytes(damaged))
        n_lines = damaged.count(b"\n") + (not damaged.endswith(b"\n"))
        assert whole.n_lines == n_lines + whole.remarks["joined"]
        again = read(bytes(damaged), block_bytes=block_bytes)
        assert again.jobs.equals(whole.jobs)
        assert again.unreadable.equals(whole.unreadable)


@many
@given(logs, st.integers(1, 3000))
def test_how_a_log_falls_into_blocks_changes_no_job(lines: list[str], block_bytes: int) -> None:
    log = "".join(lines)
    whole = read(log)
    cut = read(log, block_bytes=block_bytes)
    assert content(cut.jobs).equals(content(whole.jobs))
    assert cut.lines == whole.lines
