"""A block of a text dump as a raw table: a row a record, a column of texts for each thing that the dump tells.

Lines with the right number of delimiters are split by Arrow, all at once. The others go to irregular_lines.py, and what
it puts together becomes rows as well, so that the rest of the reader sees one kind of record.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, arrow, nulls, one_piece, texts
from pipeline.ingest.formats.sacct.columns import Layout, header_layout, is_message
from pipeline.ingest.formats.sacct.irregular_lines import Cells, Habits, is_shifted, resolve, solve
from pipeline.ingest.lines import columns_of, line_bounds, only_lines
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
MAX_LOOSE = 8
"""Unreadable lines before a whole one that are tried as the beginning of its record."""

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


def scan_block(data: bytes, layout: Layout, habits: Habits) -> Scanned:
    """The records of some lines, the last of which may lack its end."""
    rows, lines = _plain(data, layout)
    odd = np.flatnonzero(~lines.is_record)
    for line in odd.tolist():
        start, end = int(lines.start[line]), int(lines.end[line])
        text = data[start:end]
        if b"job" in text[:65536].lower() and layout.delimiter in text:
            other = header_layout(text)
            if other is not None and (other.names, other.delimiter) != (layout.names, layout.delimiter):
                return replace(scan_block(data[:start], layout, habits), cut=(line, start, other))
    return _with_odd(data, layout, rows, lines, odd, habits) if len(odd) else Scanned(rows, [])


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


def _with_odd(
    data: bytes, layout: Layout, rows: RawTable, lines: _Lines, odd: Ints, habits: Habits
) -> Scanned:  # fmt: skip
    """The rows, with those that odd lines make, and without those that odd lines go on with."""

    def span(first: int, last: int) -> tuple[int, int]:
        return int(lines.start[first]), int(lines.end[last])

    says = np.array([is_message(data[start : start + _MESSAGE_BYTES]) for start in lines.start[odd].tolist()], np.bool_)
    odd, recorded = odd[~says], np.flatnonzero(lines.is_record)
    n_before = np.cumsum(lines.is_record)[odd]
    is_kept = np.ones(len(recorded), np.bool_)
    records: list[tuple[Place, Cells]] = []
    unreadable: list[tuple[Place, str]] = []
    n_headers = n_blank = 0
    for run, after in zip(
        *(np.split(own, np.flatnonzero(np.diff(n_before)) + 1) for own in (odd, n_before)), strict=True
    ):
        if not len(run):
            continue
        numbers, n_rows = run.tolist(), int(after[0])
        leads = n_rows > 0 and layout.kinds[-1].is_wide and bool(is_kept[n_rows - 1])
        if leads:
            numbers.insert(0, int(recorded[n_rows - 1]))
        found = resolve([data[slice(*span(line, line))] for line in numbers], layout)
        made = list[tuple[int, int, Cells]]()
        for first, last, cells in found.records:
            if leads and first == last == 0:
                continue
            if is_shifted(data[slice(*span(numbers[first], numbers[last]))], cells, layout, habits):
                insort(found.unreadable, (first, last, "shifted_fields"))
            else:
                made.append((first, last, cells))
        if leads and any(first == 0 for first, *_ in (*made, *found.unreadable)):
            is_kept[n_rows - 1] = False
        n_headers, n_blank = n_headers + found.n_headers, n_blank + found.n_blank
        loose = [
            (Place(numbers[first], *span(numbers[first], numbers[last]), last - first + 1), reason)
            for first, last, reason in found.unreadable
        ]
        if loose and n_rows < len(recorded):
            next_line = int(recorded[n_rows])
            begun = _begun(found.unreadable, numbers, next_line, data, lines, layout)
            if begun < len(loose):
                # These lines and the next record may also be one record with a line's end in a text.
                is_kept[n_rows] = False
                first, n_taken = found.unreadable[begun][0], sum(place.n_lines for place, _ in loose[begun:])
                n_blank -= len(numbers) - first - n_taken
                where = span(numbers[first], next_line)
                loose[begun:] = [(Place(numbers[first], *where, len(numbers) - first + 1), "ambiguous_fields")]
        records += [
            (Place(numbers[first], *span(numbers[first], numbers[last]), last - first + 1), cells)
            for first, last, cells in made
        ]
        unreadable += loose
    whole = _joined(layout, rows.filter(arrow(is_kept)), records)
    return Scanned(whole, unreadable, n_headers, n_blank, len(records), n_messages=int(says.sum()))


def _begun(
    loose: Sequence[tuple[int, int, str]], numbers: Sequence[int], next_line: int, data: bytes, lines: _Lines,
    layout: Layout,
) -> int:  # fmt: skip
    """The first of a run's last unreadable lines that, with all up to the next whole line, could be a record.

    Blank lines between them belong to it: a text may hold them too.
    """
    first, at = len(loose), len(numbers) - 1
    while first and len(loose) - first < MAX_LOOSE:
        while at > loose[first - 1][1] and not data[lines.start[numbers[at]] : lines.end[numbers[at]]].strip():
            at -= 1
        if loose[first - 1][1] != at:
            break
        first -= 1
        at = loose[first][0] - 1
    for k in range(first, len(loose)):
        text = data[lines.start[numbers[loose[k][0]]] : lines.end[next_line]]
        if loose[k][2] == "too_few_fields" and solve(text, layout) is not None:
            return k
    return len(loose)


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
