"""Lines that are no record as they stand: names that hold the delimiter or a line's end, headers, blanks, damage.

A record is put together only where its columns fit in one way, and where no text of it holds a time: ids, times,
durations, counts and states must stand where the layout says, and only free text (job name, comment, folder, submit
line...) may take the surplus. Else it is set aside: where the columns beside a name are texts too, a name with a
delimiter and a line with a field too many look alike.
"""

import csv
import io
import re
from collections.abc import Sequence
from itertools import takewhile

from pipeline.ingest.formats.sacct.columns import REASONS, STAMP, Layout, column_name
from pipeline.ingest.sources import MAX_LINE_BYTES

MAX_SURPLUS = 100
MAX_LINES = 200
MAX_LOOSE = 8
"""Lines before a whole one that are tried as the beginning of its record."""

HEADER, BLANK = "header", "blank"
Cells = list[bytes | None]
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
