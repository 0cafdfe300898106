"""A block of a text dump as spans: one for each value asked for of each record, whole lines at once.

Lines with the right number of delimiters are taken by one compiled pass. The others go to irregular_lines.py, and what
it puts together is appended to the buffer, so that the rest of the reader sees one kind of record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.arrays import Bools, Ints
from pipeline.ingest.formats.sacct.irregular_lines import Cells, resolve, solve
from pipeline.ingest.formats.sacct.layout import Kind, Layout, header_layout
from pipeline.ingest.formats.sacct.scan_kernels import EMPTY, Matrix, scan
from pipeline.ingest.spans import as_bytes
from pipeline.ingest.spans.kernels import Bytes

_FIRST = {
    Kind.ID: b"0123456789", Kind.TIME: b"0123456789UNun:", Kind.DURATION: b"0123456789-:.UPIupi",
    Kind.COUNT: b"0123456789-UNun", Kind.MEMORY: b"0123456789.?UNun", Kind.EXIT: b"0123456789-",
}  # fmt: skip
MAX_LOOSE = 8
"""Unreadable lines before a whole one that are tried as the beginning of its record."""

_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123)) + b"_"


@dataclass(slots=True)
class Rows:
    """Records of a block in order of line.

    data: the block's bytes and those of records put together; start, end: a row for each of the layout's sources, a
    column for each line taken as it stands and each record put together; place: the columns of the records, in order;
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
        """Where the records' values of one source start and end."""
        slot = self.slot[what]
        return self.start[slot][self.place], self.end[slot][self.place]


@dataclass(frozen=True, slots=True)
class Scanned:
    """Records; unreadable lines as (line, first byte, end, lines, reason); how many headers, blanks, odd records.

    cut: line and byte of a header that names other columns, if there is one: nothing from it on has been read.
    """

    rows: Rows
    unreadable: list[tuple[int, int, int, int, str]]
    n_headers: int
    n_blank: int
    n_put_together: int = 0
    cut: tuple[int, int, Layout] | None = None


@dataclass(frozen=True, slots=True)
class _Plain:
    """What the compiled pass found; start and end have room for all records that can be put together of odd lines."""

    start: Matrix
    end: Matrix
    line: Ints
    at: Ints
    odd: Matrix


def last_start(data: bytes, layout: Layout) -> int:
    """Where the last record surely starts: with a whole line after a whole line; 0: nowhere."""
    at, follows = len(data), 0
    for _ in range(64):
        before = data.rfind(b"\n", 0, max(at - 1, 0)) + 1
        line = data[before:at]
        is_whole = line.count(layout.delimiter) == layout.n_delimiters and len(_plain(line, layout).line) == 1
        if is_whole and follows:
            return follows
        follows = before if is_whole else 0
        at = before
        if not at:
            return 0
    plain = _plain(data, layout)
    after = np.flatnonzero(np.diff(plain.line) == 1)
    return int(plain.at[after[-1] + 1]) if len(after) else 0


def scan_block(data: bytes, layout: Layout, n_lines: int | None = None) -> Scanned:
    """The records of some lines (so many, where it is known), the last of which may lack its end."""
    plain = _plain(data, layout, n_lines)
    slot = {what: row for row, what in enumerate(layout.sources)}
    n = len(plain.line)
    ones = np.ones(n, np.int64)
    rows = Rows(as_bytes(data), slot, plain.start, plain.end, np.arange(n), plain.line, plain.at, ones)
    if not len(plain.odd):
        return Scanned(rows, [], 0, 0)
    cut = _other_header(data, plain.odd, layout)
    if cut is not None:
        line, at, other = cut
        done = scan_block(data[:at], layout)
        return replace(done, cut=(line, at, other))
    return _with_odd(data, layout, rows, plain.odd)


def _plain(data: bytes, layout: Layout, n_lines: int | None = None) -> _Plain:
    n_cells = len(layout.names) + layout.is_trailing
    # A record put together takes an odd line at least, so it finds room too. More room than lines would cost: large
    # arrays come in huge pages, which are cleared whole where only a row's beginning is written.
    most = (data.count(b"\n") if n_lines is None else n_lines) + 1
    n_slots = len(layout.sources)
    start, end = np.empty((n_slots, most), np.int64), np.empty((n_slots, most), np.int64)
    line, at = np.empty(most, np.int64), np.empty(most, np.int64)
    odd = np.empty((most, 4), np.int64)
    slots = np.full(len(layout.names) + 1, -1, np.int64)
    for row, column in enumerate(layout.sources.values()):
        slots[column] = row
    quote = ord('"') if layout.is_quoted else -1
    delimiter = as_bytes(layout.delimiter)
    n_rows, n_odd = scan(
        as_bytes(data), delimiter, n_cells, layout.is_trailing, layout.id_column, quote, slots, _starts_well(layout),
        start, end, line, at, odd,
    )  # fmt: skip
    return _Plain(start, end, line[:n_rows], at[:n_rows], odd[:n_odd])


def _starts_well(layout: Layout) -> Bytes:
    """Which first bytes a value of each column may have; row EMPTY: whether it may have none."""
    table = np.ones((EMPTY + 1, len(layout.names)), np.uint8)
    for column, kind in enumerate(layout.kinds):
        allowed = _LETTERS if kind is Kind.STATE else _FIRST.get(kind)
        if allowed is not None:
            table[:EMPTY, column] = 0
            table[np.frombuffer(allowed, np.uint8), column] = 1
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


def _with_odd(data: bytes, layout: Layout, rows: Rows, odd: Matrix) -> Scanned:
    """The rows, with those that odd lines make, and without those that odd lines go on with."""
    is_kept = np.ones(len(rows), np.bool_)
    records: list[tuple[int, int, int, Cells]] = []
    unreadable: list[tuple[int, int, int, int, str]] = []
    n_headers = n_blank = 0
    splits = np.flatnonzero(np.diff(odd[:, 3])) + 1
    for run in np.split(odd, splits):
        before = int(run[0, 3]) - 1
        spans = [(int(line), int(start), int(end)) for line, start, end, _ in run]
        leads = before >= 0 and layout.kinds[-1].is_wide and bool(is_kept[before])
        if leads:
            first = int(rows.at[before])
            spans.insert(0, (int(rows.line[before]), first, _line_end(data, first)))
        found = resolve([data[start:end] for _, start, end in spans], layout)
        n_headers, n_blank = n_headers + found.n_headers, n_blank + found.n_blank
        for first, last, cells in found.records:
            if leads and first == last == 0:
                continue
            if leads and first == 0:
                is_kept[before] = False
            records.append((spans[first][0], spans[first][1], last - first + 1, cells))
        for first, last, reason in found.unreadable:
            if leads and first == 0:
                is_kept[before] = False
            unreadable.append((*spans[first][:2], spans[last][2], last - first + 1, reason))
        if found.unreadable and before + 1 < len(rows):
            at = int(rows.at[before + 1])
            begun = _begun(found.unreadable, spans, data, at, layout)
            if begun < len(found.unreadable):
                # These lines and the next record may also be one record with a line's end in a text.
                is_kept[before + 1] = False
                begins = found.unreadable[begun:]
                del unreadable[len(unreadable) - len(begins) :]
                n_blank -= len(spans) - begins[0][0] - sum(last - first + 1 for first, last, _ in begins)
                line, start, _ = spans[begins[0][0]]
                n_lines = int(rows.line[before + 1]) - line + 1
                unreadable.append((line, start, _line_end(data, at), n_lines, "ambiguous_fields"))
    joined = _joined(data, layout, rows, is_kept, records)
    return Scanned(joined, unreadable, n_headers, n_blank, len(records))


def _begun(
    loose: Sequence[tuple[int, int, str]], spans: Sequence[tuple[int, int, int]], data: bytes, at: int, layout: Layout
) -> int:
    """The first of a run's last unreadable lines that, with all up to the whole line at a byte, could be a record.

    Blank lines between them belong to it: a text may hold them too.
    """
    first, at_line = len(loose), len(spans) - 1
    while first and len(loose) - first < MAX_LOOSE:
        while at_line > loose[first - 1][1] and not data[spans[at_line][1] : spans[at_line][2]].strip():
            at_line -= 1
        if loose[first - 1][1] != at_line:
            break
        first -= 1
        at_line = loose[first][0] - 1
    stop = _line_end(data, at)
    for k in range(first, len(loose)):
        if loose[k][2] == "too_few_fields" and solve(data[spans[loose[k][0]][1] : stop], layout) is not None:
            return k
    return len(loose)


def _joined(
    data: bytes, layout: Layout, rows: Rows, is_kept: Bools, records: Sequence[tuple[int, int, int, Cells]]
) -> Rows:
    """The kept rows and the records put together, in order of line."""
    if not records and is_kept.all():
        return rows
    n, columns = len(rows), list(layout.sources.values())
    cells = [[record[3][column] or b"" for record in records] for column in columns]
    size = np.array([[len(cell) for cell in column] for column in cells], np.int64).reshape(len(columns), len(records))
    added = b"".join(b"".join(column) for column in cells)
    stop = np.cumsum(size.ravel()).reshape(size.shape) + len(data)
    rows.start[:, n : n + len(records)], rows.end[:, n : n + len(records)] = stop - size, stop
    facts = np.array([record[:3] for record in records], np.int64).reshape(len(records), 3)
    line = np.concatenate([rows.line, facts[:, 0]])
    place = np.flatnonzero(np.concatenate([is_kept, np.ones(len(records), np.bool_)]))
    place = place[np.argsort(line[place], kind="stable")]
    return Rows(
        as_bytes(data + added),
        rows.slot,
        rows.start,
        rows.end,
        place,
        line[place],
        np.concatenate([rows.at, facts[:, 1]])[place],
        np.concatenate([rows.n_lines, facts[:, 2]])[place],
    )


def _line_end(data: bytes, at: int) -> int:
    stop = data.find(b"\n", at)
    stop = len(data) if stop < 0 else stop
    return stop - 1 if stop > at and data[stop - 1] == 13 else stop
