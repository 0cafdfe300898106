"""What the whole jobs of a dump hold in each column, and whether a record put together has its fields shifted."""

import re
from collections.abc import Sequence

import numpy as np

from pipeline.arrays import Ints
from pipeline.ingest.formats.sacct.columns import Kind
from pipeline.ingest.formats.sacct.irregular_lines import Cells
from pipeline.ingest.formats.sacct.layout import Layout

_DIGITS = re.compile(rb"\d+")
SAMPLE, LEAST_SAMPLE = 200, 20
"""Lines of a block that show which values its jobs have in each column, and how few show nothing."""


class Habits:
    """What the jobs of a source's last long block hold in each column, gathered when first asked for."""

    def __init__(self) -> None:
        self._data, self._at = b"", np.zeros(0, np.int64)
        self._layout: Layout | None = None
        self._seen: list[set[bytes]] | None = None

    def watch(self, data: bytes, layout: Layout, at: Ints) -> None:
        """Take the lines of a block that begin at some bytes and are whole records; a short block goes by the last."""
        if len(at) >= LEAST_SAMPLE or layout != self._layout:
            self._data, self._at, self._layout, self._seen = data, at, layout, None

    @property
    def seen(self) -> list[set[bytes]]:
        """The values by column, and of numbers and times their shapes; none where the lines are too few to tell."""
        if self._seen is None:
            self._seen = self._gathered()
        return self._seen

    def _gathered(self) -> list[set[bytes]]:
        data, at, layout = self._data, self._at, self._layout
        if layout is None:
            return []
        starts = at[:: len(at) // SAMPLE + 1].tolist()
        cells = [_line(data, start).split(layout.delimiter) for start in starts]
        jobs = [own for own in cells if b"." not in own[layout.id_column]]
        if len(jobs) < LEAST_SAMPLE:
            return []
        columns = zip(layout.kinds, zip(*jobs, strict=False), strict=False)
        return [{*values, *(() if kind.is_text else map(_shape, values))} for kind, values in columns]

    def holds(self, column: int, kind: Kind, value: bytes) -> bool:
        """Whether a value, or its shape where it is a number or a time, is known in a column."""
        return value in self.seen[column] or (not kind.is_text and _shape(value) in self.seen[column])


def _line(data: bytes, start: int) -> bytes:
    stop = data.find(b"\n", start)
    return data[start : stop if stop >= 0 else len(data)].removesuffix(b"\r")


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
    is_job = b"." not in (cells[layout.id_column] or b".")
    if surplus < 1 or not texts or not is_job or not habits.seen or (layout.is_quoted and b'"' in text):
        return False
    behind = [(c, tokens[c], tokens[c + surplus]) for c in range(texts[-1] + 1, len(cells))]
    before = [(c, tokens[c + surplus], tokens[c]) for c in range(texts[0] - 1, -1, -1)]
    return any(_fits_better(columns, layout, habits) for columns in (behind, before))


def _fits_better(columns: Sequence[tuple[int, bytes, bytes]], layout: Layout, habits: Habits) -> bool:
    """Whether, up to some column, more of the first values than of the second are known in their columns."""
    total = 0
    for column, first, second in columns:
        kind = layout.kinds[column]
        if not kind.is_wide:
            total += habits.holds(column, kind, first) - habits.holds(column, kind, second)
        if total > 0:
            return True
    return False
