"""A block of SWF lines as columns of numbers: the shape that both parsers fill, and the bounds both keep."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.arrays import Bools, Floats, Ints

N_FIELDS = 18
MIN_FIELDS = 5
"""A job line needs its number, submit, wait, runtime and processors; a dialect may leave the later ones out."""

MAX_DIGITS = 18
"""Numbers of 10^18 and more are refused, so that submit + wait + runtime always fits in 64 bits."""

REASONS = (
    "not_a_number", "number_too_large", "too_few_fields", "no_job_number", "line_too_long", "nul_bytes", "no_line_end",
)  # fmt: skip
NUL_BYTES, NO_LINE_END = REASONS.index("nul_bytes") + 1, REASONS.index("no_line_end") + 1


@dataclass(frozen=True, slots=True)
class Scanned:
    """What stands in one block.

    whole: 18 arrays of int64, each value floored, -1 in fields a short line lacks; real: 18 of float64, the value where
    it has a fraction, else 0, to be asked only where `fractional` is set; line: each row's place in the block, from 0.
    bad: int64 (n, 5), line, start byte, end byte, reason (1 + index into REASONS), field (from 1). comments: int64
    (n, 4), rows before it, line, start, end. width: fields a line of this file needs, 0 before its first job.
    """

    whole: Sequence[Ints]
    real: Sequence[Floats]
    fractional: Bools
    line: Ints
    bad: Ints
    comments: Ints
    width: int
    n_blank: int = 0
    n_long: int = 0
    n_short: int = 0
