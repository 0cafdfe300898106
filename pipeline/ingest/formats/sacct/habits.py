"""What the whole jobs of a dump hold in each column, and whether a record put together has its fields shifted."""

import re
from collections.abc import Sequence

from pipeline.ingest.formats.sacct.columns import Kind
from pipeline.ingest.formats.sacct.irregular_lines import Cells
from pipeline.ingest.formats.sacct.layout import Layout

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
