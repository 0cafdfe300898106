"""A block of a text dump as spans: one for each value asked for of each record, whole lines at once.

Lines with the right number of delimiters are taken by one compiled pass. The others go to irregular_lines.py, and what
it puts together is appended to the buffer, so that the rest of the reader sees one kind of record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Ints
from pipeline.ingest.formats.sacct.columns import Kind, Layout, header_layout, is_message
from pipeline.ingest.formats.sacct.irregular_lines import Cells, Habits, is_shifted, resolve, solve
from pipeline.ingest.values import Bytes, as_bytes
from pipeline.kernels import uncounted

EMPTY = 256
"""Row of the table of first bytes that says whether a column may be empty."""

INVALID_ID, JOB, STEP, BATCH_STEP = 0, 1, 2, 3
MOST_DIGITS = 10
"""Of a job's number, which has 32 bits in Slurm, a federation's too: longer ones are two that ran together."""

Matrix = npt.NDArray[np.int64]

_FIRST = {
    Kind.ID: b"0123456789", Kind.TIME: b"0123456789UNun:", Kind.DURATION: b"0123456789-:.UPIupi",
    Kind.COUNT: b"0123456789-UNPunp", Kind.MEMORY: b"0123456789.?UNun", Kind.EXIT: b"0123456789-",
    Kind.STATE: bytes(range(65, 91)) + bytes(range(97, 123)) + b"_",
}  # fmt: skip
"""What a value may begin with."""

_MESSAGE_BYTES = 16
MAX_LOOSE = 8
"""Unreadable lines before a whole one that are tried as the beginning of its record."""


@dataclass(slots=True)
class RawTable:
    """Records as texts by what they tell (COLUMNS), in order of line, whether they come from a text dump or from JSON.

    data: the block's bytes and those of records put together; start, end: a row for each of `slot`, what columns tell,
    a column for each line taken as it stands and each record put together; place: the columns of the records, in order;
    line: where the record's first line is in the block; at, n_lines: its first byte, and how many lines it takes.
    """

    data: Bytes
    slot: dict[str, int]
    start: Matrix
    end: Matrix
    place: Ints
    line: Ints
    at: Ints
    n_lines: Ints

    def __len__(self) -> int:
        return len(self.line)

    def span(self, what: str) -> tuple[Ints, Ints]:
        """Where the records' values of one column start and end; empty ones where no column tells it."""
        if what not in self.slot:
            nothing = np.zeros(len(self), np.int64)
            return nothing, nothing
        slot = self.slot[what]
        return self.start[slot][self.place], self.end[slot][self.place]

    def take(self, rows: Ints) -> "RawTable":
        """Some of the records."""
        chosen = (self.place[rows], self.line[rows], self.at[rows], self.n_lines[rows])
        return RawTable(self.data, self.slot, self.start, self.end, *chosen)


class Unreadable(NamedTuple):
    """Lines that are no record: the first one, its first byte, the end, how many, and why."""

    line: int
    start: int
    end: int
    n_lines: int
    reason: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """Records, unreadable lines, and how many headers, blanks, records put together and messages of sacct.

    cut: line and byte of a header that names other columns, if there is one: nothing from it on has been read.
    """

    rows: RawTable
    unreadable: list[Unreadable]
    n_headers: int = 0
    n_blank: int = 0
    n_put_together: int = 0
    n_messages: int = 0
    cut: tuple[int, int, Layout] | None = None


def last_start(data: bytes, layout: Layout) -> int:
    """Where the last record surely starts: with a whole line after a whole line; 0: nowhere."""
    at, follows = len(data), 0
    for _ in range(64):
        before = data.rfind(b"\n", 0, max(at - 1, 0)) + 1
        line = data[before:at]
        is_whole = line.count(layout.delimiter) == layout.n_delimiters and len(_plain(line, layout)[0]) == 1
        if is_whole and follows:
            return follows
        follows = before if is_whole else 0
        at = before
        if not at:
            return 0
    rows, _ = _plain(data, layout)
    after = np.flatnonzero(np.diff(rows.line) == 1)
    return int(rows.at[after[-1] + 1]) if len(after) else 0


def scan_block(data: bytes, layout: Layout, n_lines: int, habits: Habits) -> Scanned:
    """The records of so many lines, the last of which may lack its end."""
    rows, odd = _plain(data, layout, n_lines)
    cut = _other_header(data, odd, layout)
    if cut is not None:
        return replace(scan_block(data[: cut[1]], layout, cut[0], habits), cut=cut)
    return _with_odd(data, layout, rows, odd, habits) if len(odd) else Scanned(rows, [])


def _plain(data: bytes, layout: Layout, n_lines: int | None = None) -> tuple[RawTable, Matrix]:
    """The lines that are a record as they stand, with room for all that can be put together of the others; those."""
    # A record put together takes an odd line at least, so it finds room too. More room than lines would cost: large
    # arrays come in huge pages, which are cleared whole where only a row's beginning is written.
    most = (data.count(b"\n") if n_lines is None else n_lines) + 1
    slot = {what: row for row, what in enumerate(layout.sources)}
    start, end = np.empty((len(slot), most), np.int64), np.empty((len(slot), most), np.int64)
    line, at, odd = np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, 4), np.int64)
    slots = np.full(len(layout.names) + 1, -1, np.int64)
    slots[list(layout.sources.values())] = np.arange(len(slot))
    n, n_odd = _scan_lines(
        as_bytes(data), as_bytes(layout.delimiter), len(layout.names) + layout.is_trailing, layout.is_trailing,
        layout.id_column, layout.raw_id_column, ord('"') if layout.is_quoted else -1, slots, _starts_well(layout),
        start, end, line, at, odd,
    )  # fmt: skip
    return RawTable(as_bytes(data), slot, start, end, np.arange(n), line[:n], at[:n], np.ones(n, np.int64)), odd[:n_odd]


def _starts_well(layout: Layout) -> Bytes:
    """Which first bytes a value of each column may have; row EMPTY: whether it may have none."""
    table = np.ones((EMPTY + 1, len(layout.names)), np.uint8)
    for column, kind in enumerate(layout.kinds):
        if kind in _FIRST:
            table[:EMPTY, column] = 0
            table[np.frombuffer(_FIRST[kind], np.uint8), column] = 1
            table[EMPTY, column] = kind is not Kind.STATE and column != layout.id_column
    return table


def _other_header(data: bytes, odd: Matrix, layout: Layout) -> tuple[int, int, Layout] | None:
    """The first line that names columns other than the layout's."""
    for line, start, end, _ in odd.tolist():
        text = data[start:end]
        if b"job" in text[:65536].lower() and layout.delimiter in text:
            other = header_layout(text)
            if other is not None and (other.names, other.delimiter) != (layout.names, layout.delimiter):
                return line, start, other
    return None


def _with_odd(data: bytes, layout: Layout, rows: RawTable, odd: Matrix, habits: Habits) -> Scanned:
    """The rows, with those that odd lines make, and without those that odd lines go on with."""
    says = np.array([is_message(data[start : start + _MESSAGE_BYTES]) for start in odd[:, 1].tolist()], np.bool_)
    odd, is_kept = odd[~says], np.ones(len(rows), np.bool_)
    records: list[tuple[int, int, int, Cells]] = []
    unreadable: list[Unreadable] = []
    n_headers = n_blank = 0
    for run in np.split(odd, np.flatnonzero(np.diff(odd[:, 3])) + 1) if len(odd) else ():
        after = int(run[0, 3])
        lines = [(line, start, end) for line, start, end, _ in run.tolist()]
        leads = after > 0 and layout.kinds[-1].is_wide and bool(is_kept[after - 1])
        if leads:
            first_byte = int(rows.at[after - 1])
            lines.insert(0, (int(rows.line[after - 1]), first_byte, _line_end(data, first_byte)))
        found = resolve([data[start:end] for _, start, end in lines], layout)
        made = [(first, last, cells) for first, last, cells in found.records if not (leads and first == last == 0)]
        spans = [data[lines[first][1] : lines[last][2]] for first, last, _ in made]
        shifted = [is_shifted(text, own[2], layout, habits) for text, own in zip(spans, made, strict=True)]
        found.unreadable += [(*own[:2], "shifted_fields") for own, bad in zip(made, shifted, strict=True) if bad]
        found.unreadable.sort()
        made = [own for own, bad in zip(made, shifted, strict=True) if not bad]
        if leads and any(first == 0 for first, *_ in (*made, *found.unreadable)):
            is_kept[after - 1] = False
        loose = [
            Unreadable(*lines[first][:2], lines[last][2], last - first + 1, reason)
            for first, last, reason in found.unreadable
        ]
        n_headers, n_blank = n_headers + found.n_headers, n_blank + found.n_blank
        if loose and after < len(rows):
            at = int(rows.at[after])
            begun = _begun(found.unreadable, lines, data, at, layout)
            if begun < len(loose):
                # These lines and the next record may also be one record with a line's end in a text.
                is_kept[after] = False
                first, n_taken = found.unreadable[begun][0], sum(own.n_lines for own in loose[begun:])
                n_blank -= len(lines) - first - n_taken
                line, start, _ = lines[first]
                n_lines = len(lines) - first + 1
                loose[begun:] = [Unreadable(line, start, _line_end(data, at), n_lines, "ambiguous_fields")]
        records += [(*lines[first][:2], last - first + 1, cells) for first, last, cells in made]
        unreadable += loose
    return Scanned(
        _joined(data, layout, rows, is_kept, records),
        unreadable,
        n_headers,
        n_blank,
        len(records),
        n_messages=int(says.sum()),
    )


def _begun(
    loose: Sequence[tuple[int, int, str]], lines: Sequence[tuple[int, int, int]], data: bytes, at: int, layout: Layout
) -> int:
    """The first of a run's last unreadable lines that, with all up to the whole line at a byte, could be a record.

    Blank lines between them belong to it: a text may hold them too.
    """
    first, at_line = len(loose), len(lines) - 1
    while first and len(loose) - first < MAX_LOOSE:
        while at_line > loose[first - 1][1] and not data[lines[at_line][1] : lines[at_line][2]].strip():
            at_line -= 1
        if loose[first - 1][1] != at_line:
            break
        first -= 1
        at_line = loose[first][0] - 1
    stop = _line_end(data, at)
    for k in range(first, len(loose)):
        if loose[k][2] == "too_few_fields" and solve(data[lines[loose[k][0]][1] : stop], layout) is not None:
            return k
    return len(loose)


def _joined(
    data: bytes, layout: Layout, rows: RawTable, is_kept: Bools, records: Sequence[tuple[int, int, int, Cells]]
) -> RawTable:
    """The kept rows and the records put together, in order of line."""
    if not records and is_kept.all():
        return rows
    cells = [[record[3][column] or b"" for record in records] for column in layout.sources.values()]
    added, start, end = end_to_end(cells, len(data))
    own = slice(len(rows), len(rows) + len(records))
    rows.start[:, own], rows.end[:, own] = start, end
    facts = np.array([record[:3] for record in records], np.int64).reshape(len(records), 3)
    line = np.concatenate([rows.line, facts[:, 0]])
    place = np.flatnonzero(np.concatenate([is_kept, np.ones(len(records), np.bool_)]))
    place = place[np.argsort(line[place], kind="stable")]
    at, n_lines = np.concatenate([rows.at, facts[:, 1]]), np.concatenate([rows.n_lines, facts[:, 2]])
    whole = as_bytes(data + added)
    return RawTable(whole, rows.slot, rows.start, rows.end, place, line[place], at[place], n_lines[place])


def end_to_end(cells: Sequence[Sequence[bytes]], at: int) -> tuple[bytes, Matrix, Matrix]:
    """The bytes of rows of cells, one after the other, and where each starts and ends if the first is at a byte."""
    size = np.array([[len(cell) for cell in row] for row in cells], np.int64).reshape(len(cells), -1)
    end = np.cumsum(size.ravel()).reshape(size.shape) + at
    return b"".join(map(b"".join, cells)), end - size, end


def _line_end(data: bytes, at: int) -> int:
    stop = data.find(b"\n", at)
    stop = len(data) if stop < 0 else stop
    return stop - 1 if stop > at and data[stop - 1] == 13 else stop


@uncounted
def _scan_lines(
    data: Bytes,
    delimiter: Bytes,
    n_cells: int,
    is_trailing: bool,
    id_column: int,
    raw_id_column: int,
    quote: int,
    slots: Ints,
    starts_well: Bytes,
    start: Matrix,
    end: Matrix,
    row_line: Ints,
    row_at: Ints,
    odd: Matrix,
) -> tuple[int, int]:
    """Spans of the lines that have just the right number of cells, each beginning as its column may; the other lines.

    raw_id_column: where the id stands again, or -1. slots: the row of start and end a column's spans go to, or -1.
    odd: line, start, end, rows before it. Returns how many rows and odd lines.
    """
    size, at, line, rows, n_odd = data.size, 0, 0, 0, 0
    d0, d_size = delimiter[0], delimiter.size
    n_columns = n_cells - 1 if is_trailing else n_cells
    while at < size:
        begin, stop, cell, cell_at, good, is_end = at, at, 0, at, True, False
        own_at, own_end, raw_at, raw_end = 0, 0, 0, 0
        while not is_end:
            byte = data[at] if at < size else np.uint8(10)
            if byte != 10 and (byte != d0 or (d_size > 1 and not _is_delimiter(data, at, delimiter))):
                if byte == quote:
                    good = False
                at += 1
                continue
            is_end = byte == 10
            stop = at - 1 if is_end and at > begin and data[at - 1] == 13 else at
            if cell < n_columns:
                slot = slots[cell]
                if slot >= 0:
                    start[slot, rows], end[slot, rows] = cell_at, stop
                good &= starts_well[data[cell_at] if stop > cell_at else EMPTY, cell] != 0
                if cell == id_column and good:
                    good = _id(data, cell_at, stop)[0] != INVALID_ID
                    own_at, own_end = cell_at, stop
                if cell == raw_id_column:
                    raw_at, raw_end = cell_at, stop
            else:
                good &= stop <= cell_at
            cell += 1
            at += 1 if is_end else d_size
            cell_at = at
        if good and raw_end > raw_at:
            good = not _contradicts(data, own_at, own_end, raw_at, raw_end)
        if good and cell == n_cells:
            row_line[rows], row_at[rows] = line, begin
            rows += 1
        else:
            odd[n_odd, 0], odd[n_odd, 1], odd[n_odd, 2], odd[n_odd, 3] = line, begin, stop, rows
            n_odd += 1
        line += 1
    return rows, n_odd


@uncounted
def _contradicts(data: Bytes, start: int, end: int, raw: int, raw_end: int) -> bool:
    """Whether an id of digits alone differs from the id beside it, which Slurm writes the same."""
    k, size = 0, end - start
    while k < size and raw + k < raw_end and data[start + k] == data[raw + k]:
        k += 1
    is_same = k == size and raw + k == raw_end
    return not is_same and _digits(data, start, end) == end


@uncounted
def _is_delimiter(data: Bytes, at: int, delimiter: Bytes) -> bool:
    if at + delimiter.size > data.size:
        return False
    for k in range(delimiter.size):  # noqa: SIM110
        if data[at + k] != delimiter[k]:
            return False
    return True


@uncounted
def identify(data: Bytes, start: Ints, end: Ints, kinds: Bytes, ends: Matrix, owner: Ints) -> None:
    """What each id names, and where its job's part, its array's and its heterogeneous job's end (-1: none).

    owner: for each step the row of the job right before it and its other steps, if it bears the step's id; else -1.
    """
    job = -1
    for row in range(start.size):
        low = start[row]
        kinds[row], ends[0, row], ends[1, row], ends[2, row] = _id(data, low, end[row])
        owner[row] = -1
        if kinds[row] == JOB:
            job = row
        elif kinds[row] != INVALID_ID and job >= 0:
            size, k = ends[0, row] - low, 0
            if size == ends[0, job] - start[job]:
                while k < size and data[low + k] == data[start[job] + k]:
                    k += 1
                if k == size:
                    owner[row] = job


@uncounted
def _id(data: Bytes, start: int, stop: int) -> tuple[int, int, int, int]:
    array_end, het_end = -1, -1
    at = _digits(data, start, stop)
    if at == start or at - start > MOST_DIGITS:
        return INVALID_ID, stop, -1, -1
    if at < stop and data[at] == 95:
        array_end = at
        at = _task(data, at + 1, stop)
        if at == array_end + 1:
            return INVALID_ID, stop, -1, -1
    if at < stop and data[at] == 43:
        het_end = at
        at = _digits(data, at + 1, stop)
        if at == het_end + 1:
            return INVALID_ID, stop, -1, -1
    if at == stop:
        return JOB, stop, array_end, het_end
    if data[at] != 46 or at + 1 >= stop:
        return INVALID_ID, stop, -1, -1
    return (STEP if 48 <= data[at + 1] <= 57 or data[at + 1] == 105 else BATCH_STEP), at, array_end, het_end


@uncounted
def _digits(data: Bytes, at: int, stop: int) -> int:
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@uncounted
def _task(data: Bytes, at: int, stop: int) -> int:
    """The place after an array task's number, or after the bracketed rest of an array that pends."""
    if at < stop and data[at] == 91:
        while at < stop and data[at] != 93:
            at += 1
        return min(at + 1, stop)
    return _digits(data, at, stop)
