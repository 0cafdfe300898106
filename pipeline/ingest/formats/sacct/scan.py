"""A block of a text dump as a raw table: a row a record, a column of texts for each thing that the dump tells.

Lines with the right number of delimiters are split by Arrow, all at once. The others are solved one at a time, and what
it puts together becomes rows as well, so that the rest of the reader sees one kind of record.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, arrow, nulls, one_piece, texts
from pipeline.ingest.formats.sacct.columns import REASONS, STAMP, Layout, column_name, header_layout, is_message
from pipeline.ingest.reader import columns_of, line_bounds, only_lines
from pipeline.ingest.sources import MAX_LINE_BYTES
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


Cells = list[bytes | None]


class Place(NamedTuple):
    """Lines of a block: the first one, its first byte, the end, and how many."""

    line: int
    start: int
    end: int
    n_lines: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """Records, unreadable lines and why, how many other lines by what they are, and how many records put together.

    cut: line and byte of a header that names other columns, if there is one: nothing from it on has been read.
    """

    rows: RawTable
    unreadable: list[tuple[Place, str]]
    lines: Counter[str] = field(default_factory=Counter)
    n_put_together: int = 0
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
    records, unreadable = list[tuple[Place, Cells]](), list[tuple[Place, str]]()
    others = Counter({MESSAGE: int(says.sum())})
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
                others[found] += 1
            else:
                unreadable.append((place, found))
    whole = _with_records(layout, rows.filter(arrow(is_kept)), records)
    return Scanned(whole, unreadable, others, len(records))


def _with_records(layout: Layout, rows: RawTable, records: Sequence[tuple[Place, Cells]]) -> RawTable:
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


# ---------------- lines that are no record as they stand
# Lines that are no record as they stand: names that hold the delimiter or a line's end, headers, blanks, damage.
#
# A record is put together only where its columns fit in one way, and where no text of it holds a time: ids, times,
# durations, counts and states must stand where the layout says, and only free text (job name, comment, folder, submit
# line...) may take the surplus. Else it is set aside: where the columns beside a name are texts too, a name with a
# delimiter and a line with a field too many look alike.

MAX_SURPLUS = 100
MAX_LINES = 200
MAX_LOOSE = 8
"""Lines before a whole one that are tried as the beginning of its record."""

HEADER, BLANK, MESSAGE = "header", "blank", "comment"
Found = tuple[int, int, Cells | str]
"""First and last line, and the cells of the record that they hold; or why they hold none, HEADER and BLANK too."""

_STAMP = re.compile(STAMP.encode())


def resolve(lines: Sequence[bytes], layout: Layout, whole: bytes | None) -> list[Found]:
    """What lines without their ends hold; whole: the record behind them, which may be the end of theirs.

    Where it may be, it and they are set aside together, and the last of their lines is that record's.
    """
    found, at = list[Found](), 0
    while at < len(lines):
        if not lines[at].strip():
            found.append((at, at, BLANK))
        elif _is_header(lines[at], layout):
            found.append((at, at, HEADER))
        else:
            found.append((at, *_record(lines, at, layout)))
        at = found[-1][1] + 1
    if whole is not None:
        loose = list(takewhile(lambda one: one[2] in (BLANK, "too_few_fields"), found[: -MAX_LOOSE - 1 : -1]))
        for place in range(len(found) - len(loose), len(found)):
            first, _, outcome = found[place]
            if outcome != BLANK and solve(b"\n".join([*lines[first:], whole]), layout) not in (None, "joined_records"):
                return [*found[:place], (first, len(lines), "ambiguous_fields")]
    return found


def _is_header(line: bytes, layout: Layout) -> bool:
    """Whether a line names the layout's columns once more."""
    cells = line.split(layout.delimiter)
    is_like = len(cells) == layout.n_delimiters + 1 and b"job" in line.lower()
    return is_like and tuple(map(column_name, cells[: len(layout.names)])) == layout.names


def _record(lines: Sequence[bytes], at: int, layout: Layout) -> tuple[int, Cells | str]:
    """The last line of the record that starts here, and its cells or why it is unreadable.

    It takes the fewest lines that make one, and those behind them that go on with the text of its last column.
    """
    if len(lines[at]) > MAX_LINE_BYTES:
        return at, "line_too_long"
    found, last, n_delimiters, n_bytes = None, at, 0, 0
    is_begun = layout.fits[0](lines[at].split(layout.delimiter, 1)[0].strip(b'"' if layout.is_quoted else b"\n"))
    for last in range(at, min(at + MAX_LINES, len(lines)) if is_begun else at):
        n_delimiters, n_bytes = n_delimiters + lines[last].count(layout.delimiter), n_bytes + len(lines[last])
        if n_delimiters > layout.n_delimiters + MAX_SURPLUS or n_bytes > MAX_LINE_BYTES:
            break
        if n_delimiters >= layout.n_delimiters and (found := _joined(lines[at : last + 1], layout)):
            break
    if found is None:
        return at, _why_not(lines[at], layout)
    end = last
    if layout.kinds[-1].is_wide and not isinstance(found, str):
        behind = enumerate(lines[last + 1 : last + 1 + MAX_LINES], last + 1)
        for place, line in takewhile(lambda one: not _is_of_another(one[1], layout), behind):
            end = place if line.strip() else end
    longer = solve(b"\n".join(lines[at : end + 1]), layout) if end > last else found
    return (last, found) if longer is None or isinstance(longer, str) else (end, longer)


def _joined(lines: Sequence[bytes], layout: Layout) -> Cells | str | None:
    """What lines hold as one record; None too where several are records that begin in lines of their own."""
    found = solve(b"\n".join(lines), layout)
    is_more = found == "joined_records" and any(_is_begun(line, layout) for line in lines[1:])
    return None if is_more else found


def _is_begun(line: bytes, layout: Layout) -> bool:
    """Whether a line begins like a record."""
    first, delimiter, _ = line.partition(layout.delimiter)
    return bool(first and delimiter and layout.fits[0](first))


def _is_of_another(line: bytes, layout: Layout) -> bool:
    """Whether a line begins like a record, or holds a time as records do."""
    return _is_begun(line, layout) or _STAMP.search(line) is not None or _is_header(line, layout)


def solve(text: bytes, layout: Layout) -> Cells | str | None:
    """The cells of one record's text, None for those of OPTIONAL that cannot be told; or a reason; None: no record."""
    # The one byte that Slurm takes in no text: a crash has left it.
    is_sound = b"\0" not in text
    quoted = _quoted(text, layout) if is_sound and layout.is_quoted and b'"' in text else None
    tokens = text.split(layout.delimiter) if is_sound else []
    is_cut = layout.is_trailing and bool(tokens) and tokens.pop() != b""
    ways = _ways(tokens, layout) if 0 <= len(tokens) - len(layout.names) <= MAX_SURPLUS and not is_cut else None
    if quoted is not None or ways is None:
        return quoted
    joined = layout.delimiter.join
    cells: Cells = [joined(tokens[way[0][0] : way[0][1]]) if len(way) == 1 else None for way in ways]
    texts = [cell for cell, ((low, high), *_) in zip(cells, ways, strict=True) if cell and high > low + 1]
    if any(_STAMP.search(cell) for cell in (*texts, *(cell for cell in cells if cell and b"\n" in cell))):
        return "joined_records"
    for column in _in_doubt(tokens, layout):
        cells[column] = None
    if any(cells[column] is None for column in layout.needed):
        return "ambiguous_fields"
    own, raw = cells[layout.id_column], cells[layout.raw_id_column] if layout.raw_id_column >= 0 else b""
    return "shifted_fields" if raw and own and own.isdigit() and own != raw else cells


def _ways(tokens: list[bytes], layout: Layout) -> list[list[tuple[int, int]]] | None:
    """For each column the tokens (from, to) it takes in any reading that fits; None where there is none."""
    surplus, n, join = len(tokens) - len(layout.names), len(layout.names), layout.delimiter.join
    steps: list[list[tuple[int, int]]] = []
    reached = {0}
    for column, (kind, fits) in enumerate(zip(layout.kinds, layout.fits, strict=True)):
        pairs = [
            (low, high)
            for low in sorted(reached)
            for high in (range(low, surplus + 1) if kind.is_wide else (low,))
            if fits(join(tokens[column + low : column + high + 1]))
        ]
        steps.append(pairs)
        reached = {high for _, high in pairs}
    ends = {surplus} & reached
    for column in reversed(range(n)):
        steps[column] = [(low, high) for low, high in steps[column] if high in ends]
        ends = {low for low, _ in steps[column]}
    return [[(column + low, column + high + 1) for low, high in steps[column]] for column in range(n)] if ends else None


def _in_doubt(tokens: list[bytes], layout: Layout) -> set[int]:
    """The columns, but for free texts, that hold a neighbour's value where the surplus is damage beside a text.

    Columns before `end` fit as they stand, and those from `begin` on where the surplus comes before them: it may have
    come in anywhere between the two.
    """
    n, surplus = len(layout.names), len(tokens) - len(layout.names)
    end = next((column for column in range(n) if not layout.fits[column](tokens[column])), n)
    begin = next((column + 1 for column in range(n)[::-1] if not layout.fits[column](tokens[column + surplus])), 0)
    differing = (column for column in range(begin, end) if tokens[column] != tokens[column + surplus])
    return {column for column in differing if not layout.kinds[column].is_wide}


def _why_not(line: bytes, layout: Layout) -> str:
    """Why a line by itself is no record."""
    cells = line.split(layout.delimiter)
    if len(cells) != layout.n_delimiters + 1:
        return "too_few_fields" if len(cells) <= layout.n_delimiters else "too_many_fields"
    odd = (kind for kind, fits, cell in zip(layout.kinds, layout.fits, cells, strict=False) if not fits(cell))
    kind = next(odd, None)
    if kind is None:
        return "not_a_record" if cells[layout.id_column] else "no_job_id"
    return REASONS.get(kind, "not_a_record")


def _quoted(text: bytes, layout: Layout) -> Cells | None:
    """The cells of a record in the way of spreadsheets, `"a, b"` and `""` for a quote."""
    if len(layout.delimiter) > 1:
        return None
    delimiter = layout.delimiter.decode("latin-1")
    try:
        rows = list(csv.reader(io.StringIO(text.decode("latin-1"), newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    if len(rows) != 1 or len(rows[0]) != len(layout.names) + layout.is_trailing:
        return None
    cells = [cell.encode("latin-1") for cell in rows[0]][: len(layout.names)]
    judged = zip(layout.kinds, layout.fits, cells, strict=True)
    is_sound = all(kind.is_text or fits(cell) for kind, fits, cell in judged)
    return [*cells] if is_sound and cells[layout.id_column] else None
