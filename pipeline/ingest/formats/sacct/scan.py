"""A block of a text dump as a raw table: a row a record, a column of texts for each thing that the dump tells.

Lines with the right number of delimiters are split by Arrow, all at once. The others go to irregular_lines.py, and what
it puts together becomes rows as well, so that the rest of the reader sees one kind of record.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, arrow, nulls, one_piece, texts
from pipeline.ingest.formats.sacct.columns import Layout, header_layout, is_message
from pipeline.ingest.formats.sacct.irregular_lines import BLANK, HEADER, Cells, resolve
from pipeline.ingest.reader import columns_of, line_bounds, only_lines
from pipeline.ingest.values import decoded, truths

MOST_DIGITS = 10
"""Of a job's number, which has 32 bits in Slurm, a federation's too: longer ones are two that ran together."""

ID = (
    rf"(?s)^(?P<job>(?P<number>\d{{1,{MOST_DIGITS}}})(?P<task>_(?:\d+|\[[^\]]*\]?))?(?P<component>\+\d+)?)"
    r"(?:\.(?P<step>.+))?$"
)
LINE, BYTE, END, N_LINES = "line", "byte", "end", "n_lines"
RAW_ID = "raw_id"
"""Columns of a raw table beside those that the dump tells: where a record's first line is in the block, its first byte,
its end, and how many lines it takes; and the id as it stands again beside the first one."""

_MESSAGE_BYTES = 16
_NEAR_LINES = 64

RawTable: TypeAlias = pa.Table
"""Records as texts by what they tell (COLUMNS), in order of line, with LINE, BYTE, END and N_LINES."""


class Place(NamedTuple):
    """Lines of a block: the first one, its first byte, the end, and how many."""

    line: int
    start: int
    end: int
    n_lines: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """Records, unreadable lines and why, and how many headers, blanks, records put together and messages of sacct.

    cut: line and byte of a header that names other columns, if there is one: nothing from it on has been read.
    """

    rows: RawTable
    unreadable: list[tuple[Place, str]]
    n_headers: int = 0
    n_blank: int = 0
    n_put_together: int = 0
    n_messages: int = 0
    cut: tuple[int, int, Layout] | None = None


class _Lines(NamedTuple):
    """Where lines start and end in some bytes, their ends left out, and which are a record as they stand."""

    start: Ints
    end: Ints
    is_record: Bools


def scan_block(data: bytes, layout: Layout) -> Scanned:
    """The records of some lines, the last of which may lack its end."""
    rows, lines = _plain(data, layout)
    odd = np.flatnonzero(~lines.is_record)
    for line in odd.tolist():
        start, end = int(lines.start[line]), int(lines.end[line])
        text = data[start:end]
        if b"job" in text[:65536].lower() and layout.delimiter in text:
            other = header_layout(text)
            if other is not None and (other.names, other.delimiter) != (layout.names, layout.delimiter):
                return replace(scan_block(data[:start], layout), cut=(line, start, other))
    return _with_odd(data, layout, rows, lines, odd) if len(odd) else Scanned(rows, [])


def last_start(data: bytes, layout: Layout) -> int:
    """Where the last record surely starts: with a whole line after a whole line; 0: nowhere."""
    at = len(data)
    for _ in range(_NEAR_LINES):
        at = data.rfind(b"\n", 0, max(at - 1, 0)) + 1
    for begin in (at, 0):
        lines = _plain(data[begin:], layout)[1]
        sure = np.flatnonzero(lines.is_record[1:] & lines.is_record[:-1])
        if len(sure) or not begin:
            return begin + int(lines.start[sure[-1] + 1]) if len(sure) else 0
    return 0


def _plain(data: bytes, layout: Layout) -> tuple[RawTable, _Lines]:
    """The lines that are a record as they stand: with the right number of cells, each beginning as its column may."""
    start, stop = line_bounds(data)
    end = stop - ((stop > start) & (np.frombuffer(data + b"\n", np.uint8)[np.maximum(stop - 1, 0)] == ord("\r")))
    delimiter, text = layout.delimiter, data
    if len(delimiter) > 1:
        # Arrow takes one byte: one that stands nowhere in these lines.
        delimiter = next(
            (bytes([byte]) for byte in (*range(1, 9), *range(14, 32), 127) if bytes([byte]) not in data), b"\x1f"
        )
        text = data.replace(layout.delimiter, delimiter)
    starts, bounds = (start, stop) if text is data else line_bounds(text)
    places = np.flatnonzero(np.frombuffer(text, np.uint8) == delimiter[0])
    is_record = np.diff(np.searchsorted(places, bounds), prepend=0) == layout.n_delimiters
    for strange in (b"\r", *([b'"'] if layout.is_quoted else [])):
        if strange in text:
            at = np.flatnonzero(np.frombuffer(text, np.uint8) == strange[0])
            line = np.searchsorted(bounds, at)
            is_record[line[at + 1 < bounds[line]] if strange == b"\r" else line] = False
    columns = _split(only_lines(text, starts, is_record), layout, delimiter)
    line = np.flatnonzero(is_record)
    is_good = _are_records(columns)
    is_record[line[~is_good]] = False
    told = {name: column if is_good.all() else column.filter(arrow(is_good)) for name, column in columns.items()}
    line = line[is_good]
    rows = _raw_table(told, np.column_stack([line, start[line], end[line], np.ones_like(line)]))
    return rows, _Lines(start, end, is_record)


def _raw_table(columns: Mapping[str, pa.Array], places: Ints) -> RawTable:
    """A raw table; places: LINE, BYTE, END and N_LINES of each row."""
    return pa.table({**columns} | dict(zip((LINE, BYTE, END, N_LINES), map(arrow, places.T), strict=True)))


def _split(text: bytes, layout: Layout, delimiter: bytes) -> dict[str, pa.Array]:
    """The columns of lines that have as many cells as the layout, by what they tell; null where a cell is empty."""
    told = dict(layout.sources) | ({RAW_ID: layout.raw_id_column} if layout.raw_id_column >= 0 else {})
    told |= {"": len(layout.names)} if layout.is_trailing else {}
    if not text.strip():
        return {name: pa.nulls(0, pa.string()) for name in told}
    whole = text if text.isascii() else decoded(text).encode()
    kinds = dict.fromkeys(sorted(told.values()), pa.string())
    n_fields = len(layout.names) + layout.is_trailing
    found = columns_of(pa.py_buffer(whole), n_fields, kinds, delimiter.decode("latin-1"), has_nulls=True)
    return {name: one_piece(found[place]) for name, place in told.items()}


def _are_records(columns: dict[str, pa.Array]) -> Bools:
    """Whether each row has an id, no other id beside it, and a state, where the dump has one."""
    ids = columns["id"]
    is_good = truths(pc.match_substring_regex(ids, ID))
    if "state" in columns:
        is_good &= ~nulls(columns["state"])
    if (raw := columns.pop(RAW_ID, None)) is not None:
        is_other = truths(pc.and_(pc.not_equal(raw, ids), pc.utf8_is_digit(ids)))
        is_good &= ~is_other
    if (behind := columns.pop("", None)) is not None:
        is_good &= nulls(behind)
    return is_good


def _with_odd(data: bytes, layout: Layout, rows: RawTable, lines: _Lines, odd: Ints) -> Scanned:
    """The rows, with those that odd lines make, and without those that odd lines go on with."""
    says = np.array([is_message(data[start : start + _MESSAGE_BYTES]) for start in lines.start[odd].tolist()], np.bool_)
    odd, recorded = odd[~says], np.flatnonzero(lines.is_record)
    n_before = np.cumsum(lines.is_record)[odd]
    is_kept = np.ones(len(recorded), np.bool_)
    records, unreadable, counts = list[tuple[Place, Cells]](), list[tuple[Place, str]](), Counter[str]()
    for run in np.split(odd, np.flatnonzero(np.diff(n_before)) + 1) if len(odd) else ():
        n_rows = int(np.searchsorted(recorded, run[0]))
        # Lines behind a record may go on with the text of its last column, and end with what looks like a whole one.
        leads = n_rows > 0 and layout.kinds[-1].is_wide and bool(is_kept[n_rows - 1])
        numbers = recorded[n_rows - leads : n_rows].tolist() + run.tolist() + recorded[n_rows : n_rows + 1].tolist()
        texts_of = [data[lines.start[line] : lines.end[line]] for line in numbers]
        n_own = len(run) + leads
        for first, last, found in resolve(texts_of[:n_own], layout, texts_of[n_own] if texts_of[n_own:] else None):
            if leads and first == 0:
                if last == 0:
                    continue
                is_kept[n_rows - 1] = False
            if last == n_own:
                is_kept[n_rows] = False
            start, end = int(lines.start[numbers[first]]), int(lines.end[numbers[last]])
            place = Place(numbers[first], start, end, last - first + 1)
            if not isinstance(found, str):
                records.append((place, found))
            elif found in (HEADER, BLANK):
                counts[found] += 1
            else:
                unreadable.append((place, found))
    whole = _joined(layout, rows.filter(arrow(is_kept)), records)
    return Scanned(whole, unreadable, counts[HEADER], counts[BLANK], len(records), n_messages=int(says.sum()))


def _joined(layout: Layout, rows: RawTable, records: Sequence[tuple[Place, Cells]]) -> RawTable:
    """The rows and the records put together, in order of line."""
    if not records:
        return rows
    cells = {
        what: texts([decoded(cell) if (cell := own[column]) else None for _, own in records])
        for what, column in layout.sources.items()
    }
    places = np.array([place for place, _ in records], np.int64)
    both = pa.concat_tables([rows, _raw_table(cells, places)]).combine_chunks()
    return both.take(pc.sort_indices(both, [(LINE, "ascending")]))
