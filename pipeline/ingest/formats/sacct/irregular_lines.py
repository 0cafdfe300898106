"""Lines that are no record as they stand: names that hold the delimiter or a line's end, headers, blanks, damage.

A record is put together only where its columns can lie in one way: ids, times, durations, counts and states must stand
where the layout says, and only free text (job name, comment, folder, submit line...) may take the surplus. Where the
surplus could belong to several texts, those are left unknown if no other column depends on it; else the record is
unreadable.
"""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from pipeline.ingest.formats.sacct.columns import REASONS, STAMP, STATES, Kind, Layout, column_name
from pipeline.ingest.sources import MAX_LINE_BYTES

MAX_SURPLUS = 100
NEAR_IDS, LEAST_DIGITS, RUN = 1_000, 2, 3
MAX_LINES = 200
OPTIONAL = ("work_dir", "comment", "admin_comment", "submit_line", "energy")
"""What may stay unknown in a record that is read."""

Cells = list[bytes | None]
_SUBMIT_LINE = re.compile(rb"|(?:\S*/)?(?:sbatch|srun|salloc|scrontab)(?:\s[\s\S]*)?")
_STATE = re.compile(rf"(?:{'|'.join(STATES)})(?: by \d+)?\+?".encode())
_STAMP = re.compile(STAMP.encode())
_PLAIN = re.compile(rb"-?\d{1,3}(?:\.\d+)?|[A-Za-z]\w*|")
"""Small numbers and words, as names of a parameter study hold them: they tell of no other record."""
_PARTS = b"\n"
_LEADING_ID, _LAST_ID = re.compile(rb"\d{1,18}"), re.compile(rb"(\d{1,18})(?:_\d+)?(?:\+\d+)?(?:\.\w+)?$")


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """More than one way to lay a text out, or a text in which a second record seems to stand."""

    reason: str = "ambiguous_fields"


@dataclass(slots=True)
class Resolved:
    """What a run of lines holds: records as (first line, last line, cells), places in the run; and the other lines."""

    records: list[tuple[int, int, Cells]] = field(default_factory=list)
    unreadable: list[tuple[int, int, str]] = field(default_factory=list)
    n_headers: int = 0
    n_blank: int = 0


def resolve(lines: Sequence[bytes], layout: Layout) -> Resolved:
    """The records of a run of lines (without their ends), the lines that are none, headers and blanks."""
    run, found, at = _Run(lines, layout), Resolved(), 0
    while at < len(lines):
        last = at
        if not lines[at].strip():
            found.n_blank += 1
        elif run.is_header(at):
            found.n_headers += 1
        else:
            last, outcome = run.record(at)
            if isinstance(outcome, str):
                found.unreadable.append((at, last, outcome))
            else:
                found.records.append((at, last, outcome))
        at = last + 1
    return found


class _Run:
    """A run of lines and what has been found out about each."""

    def __init__(self, lines: Sequence[bytes], layout: Layout) -> None:
        self._lines, self._layout = lines, layout
        self._counts = [line.count(layout.delimiter) for line in lines]
        self._known: dict[int, tuple[int, Cells | Ambiguous] | None] = {}

    def is_header(self, at: int) -> bool:
        """Whether a line names the layout's columns once more."""
        line, names = self._lines[at], self._layout.names
        if self._counts[at] != self._layout.n_delimiters or b"job" not in line.lower():
            return False
        return tuple(map(column_name, line.split(self._layout.delimiter)[: len(names)])) == names

    def record(self, at: int) -> tuple[int, Cells | str]:
        """The last line of the record that starts here, and its cells or why it is unreadable."""
        if len(self._lines[at]) > MAX_LINE_BYTES:
            return at, "line_too_long"
        found = self._match(at)
        if found is None:
            return at, why_not(self._lines[at], self._layout)
        last, cells = found
        if isinstance(cells, Ambiguous):
            return last, cells.reason
        end = self._tail(last)
        if end > last:
            longer = solve(b"\n".join(self._lines[at : end + 1]), self._layout)
            if isinstance(longer, list):
                return end, longer
        return last, cells

    def _tail(self, last: int) -> int:
        """The last of the lines after a whole record that go on with the text of its last column."""
        if not self._layout.kinds[-1].is_wide:
            return last
        end = last
        for at in range(last + 1, min(last + 1 + MAX_LINES, len(self._lines))):
            line = self._lines[at]
            if not line.strip():
                continue
            if self.is_header(at) or self._match(at) is not None or is_broken(line, self._layout):
                break
            end = at
        return end

    def _match(self, at: int) -> tuple[int, Cells | Ambiguous] | None:
        """The fewest lines from here on that make a record, and its cells; None where none do."""
        if at not in self._known:
            self._known[at] = self._find(at)
        return self._known[at]

    def _find(self, at: int) -> tuple[int, Cells | Ambiguous] | None:
        first = self._lines[at].split(self._layout.delimiter, 1)[0]
        if not self._layout.kinds[0].fits(first.strip(b'"') if self._layout.is_quoted else first):
            return None
        n, size = 0, 0
        for last in range(at, min(at + MAX_LINES, len(self._lines))):
            n, size = n + self._counts[last], size + len(self._lines[last])
            if n > self._layout.n_delimiters + MAX_SURPLUS or size > MAX_LINE_BYTES:
                return None
            if n >= self._layout.n_delimiters:
                cells = solve(b"\n".join(self._lines[at : last + 1]), self._layout)
                if cells is not None:
                    return last, cells
        return None


def solve(text: bytes, layout: Layout) -> Cells | Ambiguous | None:
    """The cells of one record's text, None for those of OPTIONAL that cannot be told; None where it is no record."""
    if b"\0" in text:
        # The one byte that Slurm takes in no text: a crash has left it.
        return None
    if layout.is_quoted and b'"' in text:
        quoted = _quoted(text, layout)
        if quoted is not None:
            return quoted
    tokens = text.split(layout.delimiter)
    if layout.is_trailing and tokens.pop():
        return None
    return _laid_out(tokens, layout) if 0 <= len(tokens) - len(layout.names) <= MAX_SURPLUS else None


def _laid_out(tokens: list[bytes], layout: Layout) -> Cells | Ambiguous | None:
    """The cells of a record, maybe with surplus delimiters in its texts, as `solve` gives them."""
    ways = _ways(tokens, layout, Kind.FREE.pattern)
    if ways is None:
        return None
    if any(len(way) > 1 for way in ways):
        ways = _ways(tokens, layout, _SUBMIT_LINE) or ways
    if _holds_another(tokens, ways, layout):
        return Ambiguous("joined_records")
    if _repeats(tokens, ways, layout) or _contradicts(tokens, ways, layout):
        return Ambiguous("shifted_fields")
    needed = {column for what, column in layout.sources.items() if what not in OPTIONAL}
    if any(len(ways[column]) > 1 for column in needed):
        return Ambiguous()
    joined = layout.delimiter.join
    return [joined(tokens[way[0][0] : way[0][1]]) if len(way) == 1 else None for way in ways]


def _holds_another(tokens: list[bytes], ways: list[list[tuple[int, int]]], layout: Layout) -> bool:
    """Whether a text has taken in what looks like a part of a record.

    That is two times, or a time and a state; RUN values that fit the columns behind the text or before it, one of which
    no user would put into a name; or another record's beginning. A crash joins neighbours, whose ids are as long and
    differ by at most NEAR_IDS; shorter ids than LEAST_DIGITS tell nothing.
    """
    wide = [tokens[low:high] for (low, high), *_ in ways if high > low + 1 or b"\n" in tokens[low]]
    if any(_n_telling(_PARTS.join(cell).split(_PARTS)) > 1 for cell in wide):
        return True
    kinds = layout.kinds
    for column, ((low, high), *_) in enumerate(ways):
        after, before = tokens[low + 1 : high], tokens[low : high - 1][::-1]
        if high - low > RUN and (_is_run(kinds[column + 1 :], after) or _is_run(kinds[:column][::-1], before)):
            return True
    surplus, place = len(tokens) - len(layout.names), layout.id_column
    own, other = _LEADING_ID.match(tokens[place]), _LAST_ID.search(tokens[surplus + place])
    if place + surplus == layout.raw_id_column and tokens[place] == tokens[place + surplus]:
        return False
    if not surplus or own is None or other is None or not LEAST_DIGITS <= len(own[0]) <= len(other[1]):
        return False
    if abs(int(own[0]) - int(other[1][-len(own[0]) :])) > NEAR_IDS:
        return False
    columns = [column for column in range(1, len(layout.names)) if column != place]
    return all(_fits(layout.kinds[column], tokens[surplus + column]) for column in columns)


def _n_telling(parts: list[bytes]) -> int:
    """The times among the parts of a text, and one for any states: two records that ran together leave one state."""
    n_states, n_stamps = (sum(one.fullmatch(part) is not None for part in parts) for one in (_STATE, _STAMP))
    return n_stamps + min(n_states, 1)


def _is_run(kinds: Sequence[Kind], cells: Sequence[bytes]) -> bool:
    """Whether parts of a text begin with values of columns in a row, one of them a state of Slurm's or not plain."""

    def fits(kind: Kind, cell: bytes) -> bool:
        return _fits(kind, cell) and (kind is not Kind.STATE or _STATE.fullmatch(cell) is not None)

    run = list(takewhile(lambda pair: fits(*pair), zip(kinds, cells, strict=False)))
    tells = any(kind is Kind.STATE or not (kind.is_text or _PLAIN.fullmatch(cell)) for kind, cell in run)
    return tells and len(run) >= RUN


def _repeats(tokens: list[bytes], ways: list[list[tuple[int, int]]], layout: Layout) -> bool:
    """Whether a field beside a text was doubled: the text holds the delimiter, and begins or ends with its neighbour.

    Numbers may stand twice, because a name can end with one, but for the job's own; and so may nothing, because a name
    can end with the delimiter.
    """
    for column, ((low, high), *others) in enumerate(ways):
        if high == low + 1 or others:
            continue
        is_own_id = layout.kinds[column - 1] is Kind.ID and len(tokens[low]) >= LEAST_DIGITS
        before = low > 0 and tokens[low - 1] == tokens[low] and (is_own_id or _is_word(tokens[low]))
        if before or (tokens[high - 1] in tokens[high : high + 1] and _is_word(tokens[high - 1])):
            return True
    return False


def _is_word(cell: bytes) -> bool:
    return bool(cell) and not cell.isdigit()


def _contradicts(tokens: list[bytes], ways: list[list[tuple[int, int]]], layout: Layout) -> bool:
    """Whether an id of digits alone differs from the id that stands beside it, as Slurm never writes it."""
    if layout.raw_id_column < 0:
        return False
    own, raw = (tokens[ways[column][0][0]] for column in (layout.id_column, layout.raw_id_column))
    return own.isdigit() and bool(raw) and raw != own


def _ways(tokens: list[bytes], layout: Layout, submit_line: re.Pattern[bytes]) -> list[list[tuple[int, int]]] | None:
    """For each column the tokens (from, to) it takes in any consistent layout; None where there is none."""
    surplus, n = len(tokens) - len(layout.names), len(layout.names)
    fits, is_wide = _fits_of(layout, submit_line), [kind.is_wide for kind in layout.kinds]
    steps: list[list[tuple[int, int]]] = []
    reached = {0}
    for column in range(n):
        pairs = [
            (low, high)
            for low in sorted(reached)
            for high in (range(low, surplus + 1) if is_wide[column] else (low,))
            if fits[column](tokens, column + low, column + high + 1)
        ]
        steps.append(pairs)
        reached = {high for _, high in pairs}
        if not reached:
            return None
    ends = {surplus} & reached
    for column in reversed(range(n)):
        steps[column] = [(low, high) for low, high in steps[column] if high in ends]
        ends = {low for low, _ in steps[column]}
        if not ends:
            return None
    return [[(column + low, column + high + 1) for low, high in steps[column]] for column in range(n)]


Fit = Callable[[list[bytes], int, int], bool]
"""Whether the tokens from one place to another together are a value of a column."""


@lru_cache(maxsize=64)
def _fits_of(layout: Layout, submit_line: re.Pattern[bytes]) -> tuple[Fit, ...]:
    """A test for each column."""
    return tuple(
        _fit_of(kind, submit_line if name in ("submitline", "submit_line") else None, column != layout.id_column)
        for column, (kind, name) in enumerate(zip(layout.kinds, layout.names, strict=True))
    )


def _fit_of(kind: Kind, first: re.Pattern[bytes] | None, may_be_empty: bool) -> Fit:
    if kind is Kind.FREE:
        return lambda tokens, low, _: first is None or first.fullmatch(tokens[low]) is not None
    if kind is Kind.FOLDER:
        return lambda tokens, low, high: tokens[low].startswith(b"/") or (high == low + 1 and not tokens[low])
    match, is_optional = kind.pattern.fullmatch, may_be_empty and kind is Kind.ID
    return lambda tokens, low, _: match(tokens[low]) is not None or (is_optional and not tokens[low])


def _fits(kind: Kind, cell: bytes) -> bool:
    """Whether the bytes may stand in a column of this kind; a second id may be missing."""
    return kind.fits(cell) or (kind is Kind.ID and not cell)


def is_broken(line: bytes, layout: Layout) -> bool:
    """Whether a line looks like a record's beginning or end: its whole cells fit there, and one tells something."""
    cells = line.split(layout.delimiter)
    if layout.is_trailing:
        cells.pop()
    return _tells(layout.kinds, cells[:-1]) or _tells(layout.kinds[::-1], cells[:0:-1])


def _tells(kinds: Sequence[Kind], cells: Sequence[bytes]) -> bool:
    pairs = list(zip(kinds, cells, strict=False))
    tells = any(cell and not kind.is_text for kind, cell in pairs)
    return tells and all(_fits(kind, cell) for kind, cell in pairs)


def why_not(line: bytes, layout: Layout) -> str:
    """Why a line by itself is no record."""
    n = line.count(layout.delimiter)
    if n != layout.n_delimiters:
        return "too_few_fields" if n < layout.n_delimiters else "too_many_fields"
    for kind, cell in zip(layout.kinds, line.split(layout.delimiter), strict=False):
        if not _fits(kind, cell):
            return REASONS.get(kind, "not_a_record")
    return "not_a_record" if line.split(layout.delimiter)[layout.id_column] else "no_job_id"


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
    fits = all(kind.is_text or _fits(kind, cell) for kind, cell in zip(layout.kinds, cells, strict=True))
    return [*cells] if fits and cells[layout.id_column] else None


# ---------------- what a dump's jobs hold
# What the whole jobs of a dump hold in each column, and whether a record put together has its fields shifted.

_DIGITS = re.compile(rb"\d+")
LEAST_SAMPLE = 20
"""Jobs that show which values their columns have; fewer do not."""


class Habits:
    """What the jobs in a source's first bytes hold in each column, gathered when first asked for."""

    def __init__(self, start: bytes) -> None:
        self._start = start
        self._layout: Layout | None = None
        self._seen: list[set[bytes]] = []

    def seen(self, layout: Layout) -> list[set[bytes]]:
        """The values by column, and but for free texts their shapes; none where the jobs are too few to tell."""
        if self._layout != layout:
            lines = [line.removesuffix(b"\r").split(layout.delimiter) for line in self._start.split(b"\n")[:-1]]
            jobs = [own for own in lines if len(own) == layout.n_delimiters + 1 and is_job(own[layout.id_column])]
            columns = zip(layout.kinds, zip(*jobs, strict=True), strict=False) if len(jobs) >= LEAST_SAMPLE else ()
            self._seen = [{*own, *(() if kind.is_wide else map(_shape, own))} for kind, own in columns]
            self._layout = layout
        return self._seen

    def holds(self, layout: Layout, column: int, value: bytes) -> bool:
        """Whether a value, or its shape, is known in a column that holds no free text."""
        seen = self.seen(layout)[column]
        return value in seen or _shape(value) in seen


def is_job(cell: bytes) -> bool:
    """Whether an id is a job's, and no step's."""
    return Kind.ID.fits(cell) and b"." not in cell


def _shape(value: bytes) -> bytes:
    return _DIGITS.sub(b"0", value)


def is_shifted(text: bytes, cells: Cells, layout: Layout, habits: Habits) -> bool:
    """Whether a job put together has a text that may have taken in the delimiter from a field put in elsewhere.

    The columns from the text to that field then hold their neighbours' values. So the values that other jobs have in
    the same column are counted for each place of that field, and for the record as it was put together.
    """
    tokens, delimiter = text.split(layout.delimiter), layout.delimiter
    surplus = len(tokens) - layout.n_delimiters - 1
    texts = [column for column, cell in enumerate(cells) if cell is None or delimiter in cell]
    is_odd = surplus > 0 and texts and is_job(cells[layout.id_column] or b"")
    if not is_odd or (layout.is_quoted and b'"' in text) or not habits.seen(layout):
        return False
    behind = [(c, c + surplus) for c in range(texts[-1] + 1, len(cells))]
    before = [(c + surplus, c) for c in range(texts[0] - 1, -1, -1)]
    return any(_fits_better(tokens, places, layout, habits) for places in (behind, before))


def _fits_better(tokens: Sequence[bytes], places: Sequence[tuple[int, int]], layout: Layout, habits: Habits) -> bool:
    """Whether, up to some column, more tokens in the first of two places than in the second are known in their columns.

    A name that is known in the column of its place, and not in the one that it was put in, counts as well.
    """
    total = 0
    for first, second in places:
        column = min(first, second)
        if layout.kinds[column].is_wide:
            continue
        is_known = habits.holds(layout, column, tokens[second])
        total += habits.holds(layout, column, tokens[first]) - is_known
        total += not is_known and layout.kinds[column] is Kind.NAME and _is_of(tokens[second], second, layout, habits)
        if total > 0:
            return True
    return False


def _is_of(name: bytes, column: int, layout: Layout, habits: Habits) -> bool:
    return column < len(layout.kinds) and layout.kinds[column] is Kind.NAME and name in habits.seen(layout)[column]
