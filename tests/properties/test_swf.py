"""SWF whatever its order, splitting, blocks and damage: the same jobs, no line lost, no exception but InputError."""

import contextlib
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.ingest.formats import swf
from pipeline.ingest.formats.swf.scan import Scanned, looks_right, scan, scan_lines
from pipeline.ingest.sources import Source, line_blocks
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

pytestmark = pytest.mark.slow


HEADER = b"; UnixStartTime: 1000\n; Queue: 1 day\n; Queue: 2 night (long)\n"
REALS = (4, 6, 7, 9, 10, 18)
POSITION = ("source_file", "source_line")

numbers = st.one_of(
    st.integers(-1, 6).map(str),
    st.integers(-100, 10**6).map(str),
    st.sampled_from(["-1", "-1.0", "0", "-0", "00", "0.5", "-0.5", "12.00", "1e3", "+4", "123456789.987654321"]),
    st.integers(-(10**18) + 1, 10**18 - 1).map(str),
    st.decimals(-1000, 10**6, places=3).map(str),
)
lines = st.tuples(
    st.integers(0, 9).map(str), st.integers(-1, 30).map(str), st.lists(numbers, min_size=16, max_size=16)
).map(lambda parts: " ".join([parts[0], parts[1], *parts[2]]).encode())
few = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def read(*logs: bytes, block_bytes: int = 1 << 25, swf_status: str = "auto") -> tuple[pa.Table, pa.Table, Report]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.swf" for number in range(len(logs))]
        for path, log in zip(paths, logs, strict=True):
            path.write_bytes(log)
        with patch.object(swf, "line_blocks", lambda source: line_blocks(source, block_bytes)):
            settings = IngestSettings.model_validate({"format": "swf", "swf_status": swf_status})
            return ingest(paths, SiteSettings(), settings)


def whole(rows: list[bytes]) -> bytes:
    """A log of these lines, each with its end."""
    return HEADER + b"".join(row + b"\n" for row in rows)


def same_jobs(one: pa.Table, other: pa.Table) -> bool:
    return one.drop_columns(POSITION).equals(other.drop_columns(POSITION))


@few
@given(st.lists(lines, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[bytes], random) -> None:
    shuffled = random.sample(rows, len(rows))
    jobs, _, report = read(whole(rows))
    again, _, report_again = read(whole(shuffled))
    assert same_jobs(jobs, again)
    assert (report.kept, report.set_aside) == (report_again.kept, report_again.set_aside)


@few
@given(st.lists(lines, min_size=1, max_size=12), st.integers(1, 400))
def test_the_size_of_blocks_does_not_matter(rows: list[bytes], block_bytes: int) -> None:
    log = HEADER + b"\r\n".join([*rows[:3], b"; a pause", b"", b"a line of text", *rows[3:]])
    jobs, unreadable, report = read(log)
    again, unreadable_again, report_again = read(log, block_bytes=block_bytes)
    assert jobs.equals(again)
    assert unreadable.equals(unreadable_again)
    assert (report.set_aside, report.facts, report.notes) == (
        report_again.set_aside,
        report_again.facts,
        report_again.notes,
    )


@few
@given(st.lists(lines, min_size=1, max_size=12), st.data())
def test_the_split_into_files_does_not_matter(rows: list[bytes], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    files = [[row for row, place in zip(rows, places, strict=True) if place == k] for k in range(3)]
    jobs, _, _ = read(whole(rows), swf_status="standard")
    again, _, _ = read(*(whole(part) for part in files if part), swf_status="standard")
    assert same_jobs(jobs, again)


@few
@given(st.lists(lines, min_size=1, max_size=12), st.integers(1, 12))
def test_lines_read_twice_change_nothing(rows: list[bytes], n_again: int) -> None:
    jobs, _, report = read(whole(rows), swf_status="standard")
    again, _, report_again = read(whole(rows), whole(rows[:n_again]), swf_status="standard")
    assert same_jobs(jobs, again)
    twice = report_again.set_aside["superseded"].rows - report.set_aside["superseded"].rows
    assert twice == min(n_again, len(rows))


mutations = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(min_size=1, max_size=4)), max_size=12)


@few
@given(st.lists(lines, min_size=1, max_size=12), mutations)
def test_damage_loses_no_line_and_raises_nothing_unexpected(rows: list[bytes], mutations) -> None:
    log = bytearray(HEADER + b"\n".join(rows) + b"\n")
    for place, n_cut, put in mutations:
        at = place % (len(log) + 1)
        log[at : at + n_cut] = put
    with contextlib.suppress(InputError):
        jobs, unreadable, report = read(bytes(log))
        n_lines = log.count(b"\n") + (not log.endswith(b"\n"))
        others = sum(report.set_aside[reason].rows for reason in ("comment", "blank", "superseded"))
        assert report.check().seen.rows == n_lines == jobs.num_rows + unreadable.num_rows + others


@few
@given(st.binary(max_size=3000))
def test_any_bytes_end_in_tables_or_an_input_error(junk: bytes) -> None:
    with contextlib.suppress(InputError):
        read(junk)
    with contextlib.suppress(InputError):
        jobs, _, report = read(HEADER + b"1 2 3 4 5\n" + junk)
        assert report.check().kept.rows == jobs.num_rows >= 1


def agree(quick: Scanned, careful: Scanned) -> None:
    assert np.array_equal(quick.line, careful.line)
    assert np.array_equal(quick.comments, careful.comments)
    assert np.array_equal(quick.bad, careful.bad)
    assert (quick.width, quick.n_blank) == (careful.width, careful.n_blank)
    for one, other in zip(quick.columns, careful.columns, strict=True):
        assert np.array_equal(one, other)
        assert np.array_equal(np.floor(one).astype(np.int64), np.floor(other).astype(np.int64))


regular = st.tuples(
    st.integers(0, 10**18 - 1).map(str),
    st.lists(
        st.one_of(
            st.integers(-(10**18), 10**18).map(str),
            st.decimals(-(10**6), 10**9, places=2).map(str),
            st.text("0123456789-.", min_size=1, max_size=20),
            st.integers(-1, 9).map(str),
        ),
        min_size=6,
        max_size=6,
    ),
    st.lists(st.integers(-2, 10**6).map(str), min_size=11, max_size=11),
    st.sampled_from([" ", "  ", "\t", "    "]),
    st.sampled_from(["", " ", "   "]),
    st.sampled_from(["", " ", "\r", " \r"]),
)


def regular_line(parts: tuple[str, list[str], list[str], str, str, str]) -> str:
    first, reals, rest, blank, before, after = parts
    fields = [first, *rest]
    for place, real in zip(REALS, reals, strict=True):
        fields.insert(place - 1, real)
    return before + blank.join(fields) + after


@few
@given(st.lists(regular, min_size=1, max_size=8), st.sampled_from([b"", b";\n", b"\n; a: b\n \n"]), st.integers(1, 64))
def test_the_quick_parser_says_what_the_careful_one_says(parts, comments: bytes, slice_bytes: int) -> None:
    data = comments + "\n".join(map(regular_line, parts)).encode() + b"\n"
    with patch("pipeline.ingest.formats.swf.scan._CACHE_BYTES", slice_bytes):
        agree(scan(data, 0, REALS), scan_lines(data, 0))


any_line = st.one_of(
    st.builds(lambda parts: regular_line(parts).encode(), regular),
    lines,
    lines.map(lambda line: line + b" 19 20"),
    lines.map(lambda line: b" ".join(line.split()[:7])),
    st.sampled_from([b"", b" ", b"; a", b"a b c d e", b"1 2 3 4", b"-1 2 3 4 5", b"1 2 3 4 1e400", b"1 2 3 4 5\0"]),
)


@few
@given(st.lists(any_line, min_size=1, max_size=24), st.sampled_from([b"", b"\n"]), st.sampled_from([0, 5, 18]))
def test_a_block_with_odd_lines_is_what_it_is_line_by_line(found: list[bytes], end: bytes, width: int) -> None:
    data = b"\n".join(found) + end
    agree(scan(data or b"\n", width, REALS), scan_lines(data or b"\n", width))


@few
@given(
    st.lists(
        st.one_of(lines, st.lists(st.one_of(numbers, st.text("1;-+.eE \t\r\v\f")), max_size=20).map(" ".join)),
        max_size=3,
    )
)
def test_what_is_taken_for_swf_has_a_line_that_the_careful_parser_finds_a_row_in(found) -> None:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in found)
    careful = [scan_lines(line, 0) for line in data.split(b"\n")]
    assert looks_right(data + b"\n") == (
        any(len(one.line) for one in careful) or not any(len(one.bad) for one in careful)
    )


def test_the_quick_parser_does_read_a_regular_log() -> None:
    data = (
        b"; a\n" + b"   1  2 -1 4.25 5 6 7 8 9 10 1 12 13 14 15 16 -1 -1 \n 2 2 3 4 5 6 7 8 9 10 1 12 13 14 15 16 -1 -1"
    )
    with patch("pipeline.ingest.formats.swf.scan._row", None):
        quick = scan(data, 0, REALS)
    agree(quick, scan_lines(data, 0))
    assert quick.columns[3].tolist() == [4.25, 4.0]


def test_a_source_is_read_in_bounded_memory(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"1 2 3 4 5\n" * 5000)
    with patch.object(swf, "line_blocks", lambda source: line_blocks(source, 1000)):
        chunks = list(swf.read(Source(tmp_path / "log", "log"), SiteSettings(), IngestSettings()))
    assert len(chunks) == 50
    assert max(chunk.jobs.num_rows for chunk in chunks) == 100


@pytest.mark.parametrize("slice_bytes", [1, 7, 1 << 18])
def test_the_quick_parser_takes_no_odd_byte_for_another(slice_bytes: int) -> None:
    for byte in range(256):
        for place in (0, 3, 4, 9):
            line = b"  12 34 -1 4.25 5 6 7 8 9 10 1 12 13 14 15 16 -1 -1\n"
            data = line + line[:place] + bytes([byte]) + line[place:]
            with patch("pipeline.ingest.formats.swf.scan._CACHE_BYTES", slice_bytes):
                agree(scan(data, 0, REALS), scan_lines(data, 0))
