"""Scalability series in a batch, what every fitter reads, and fits of a law to them, with a status each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Floats, Ints
from pipeline.laws import COLUMNS


class FitStatus(StrEnum):
    """How a fit ended: a failed or unreliable one is a row with a status."""

    # Every parameter is determined by the sizes observed.
    OK = "ok"
    # Fewer distinct sizes than the law has parameters: nothing was fitted.
    TOO_FEW_POINTS = "too_few_points"
    # Runtime still falls at the largest size: any A in the range given fits equally well.
    TAIL_UNIDENTIFIED = "tail_unidentified"
    # Too few sizes on the slope: any A in the range given fits equally well.
    HEAD_UNIDENTIFIED = "head_unidentified"
    # The optimum lies on the edge of the law's domain: another law may fit better.
    AT_BOUND = "at_bound"
    # A size below 1 or not rising, or a runtime or weight that is not finite and positive.
    BAD_VALUES = "bad_values"
    # A second curve fits equally well: the two have the A at the ends of the range given.
    RUNNER_UP = "runner_up"


STATUSES = tuple(FitStatus)
STATUS_CODE = {status: code for code, status in enumerate(STATUSES)}

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class SeriesBatch:
    """k series end to end: series i is the slice offsets[i]:offsets[i + 1] of the three columns.

    procs rise strictly within a series and are at least 1; runtime_s (seconds) and weights are positive. A series
    that breaks this is fitted to status bad_values; ValueError where the arrays themselves do not fit together.
    """

    offsets: Ints
    procs: Floats
    runtime_s: Floats
    weights: Floats

    def __post_init__(self) -> None:
        """Refuse arrays that do not describe k slices of equally long float64 columns."""
        columns = (self.procs, self.runtime_s, self.weights)
        if any(c.dtype != np.float64 or c.shape != self.procs.shape or c.ndim != 1 for c in columns):
            raise ValueError("found columns of other types or lengths, expected three float64 arrays of one length")
        o, size = self.offsets, self.procs.size
        if o.dtype != np.int64 or o.ndim != 1 or o.size == 0 or o[0] != 0 or o[-1] != size or (np.diff(o) < 0).any():
            raise ValueError(f"found offsets {o!r}, expected int64 rising from 0 to {size}")

    @property
    def n_series(self) -> int:
        """How many series the batch holds."""
        return self.offsets.size - 1

    @property
    def n_points(self) -> Ints:
        """Distinct sizes per series, int64[k]."""
        return np.diff(self.offsets)

    def total(self, values: Floats) -> Floats:
        """The sum of a value per size over each series; NaN for none."""
        sums: Floats = np.add.reduceat(np.append(values, 0.0), self.offsets[:-1])
        return np.where(self.n_points > 0, sums, np.nan)

    def refusals(self, n_parameters: int) -> Codes:
        """The status that keeps each series from being fitted; ok where nothing does.

        Sizes rise strictly from at least 1, runtimes and weights are finite and positive.
        """
        n, t, w = self.procs, self.runtime_s, self.weights
        is_usable = (n >= 1.0) & (n < np.inf) & (t > 0.0) & (t < np.inf) & (w > 0.0) & (w < np.inf)
        is_rising = np.append(True, n[1:] > n[:-1])[: n.size]
        is_rising[self.offsets[:-1][self.n_points > 0]] = True
        few, bad = STATUS_CODE[FitStatus.TOO_FEW_POINTS], STATUS_CODE[FitStatus.BAD_VALUES]
        codes = np.where(self.n_points < n_parameters, few, STATUS_CODE[FitStatus.OK]).astype(np.int8)
        at_fault = np.flatnonzero(~(is_usable & is_rising))
        codes[np.searchsorted(self.offsets, at_fault, "right") - 1] = bad
        return codes


def ranges(first: Ints, after: Ints) -> tuple[Ints, Ints]:
    """Rows first[i] to after[i] - 1 of every i, end to end; and the i of each."""
    counts = np.maximum(after - first, 0)
    owner = np.repeat(np.arange(first.size), counts)
    begins = np.cumsum(counts) - counts
    return (np.arange(owner.size) - begins[owner] + first[owner]).astype(np.int64), owner.astype(np.int64)


PARAMETERS = ("t1_s", "tinf_s", *COLUMNS)
"""Columns of FITS that laws read."""


@dataclass(frozen=True, slots=True)
class BatchFit:
    """One law fitted to k series: float64[k] per column, NaN where the law has no such parameter or nothing was fitted.

    wssre is sum w (1 - T/t)^2 at the optimum, in the weights of the batch. avg_parallelism_lo and _hi are set only
    where the status is tail_unidentified or head_unidentified (every A between them fits equally well) or runner_up (a
    second curve, with the A of _hi, does): the parameters given are those of the lowest A, the most cautious promise.
    status holds codes: STATUSES[code] is the FitStatus.
    """

    t1_s: Floats
    tinf_s: Floats
    avg_parallelism: Floats
    avg_parallelism_lo: Floats
    avg_parallelism_hi: Floats
    sigma: Floats
    serial_fraction: Floats
    wssre: Floats
    overhead_s: Floats
    exponent: Floats
    status: Codes

    @classmethod
    def of(cls, chosen: Ints, columns: Mapping[str, Floats | Codes], refused: Codes) -> "BatchFit":
        """From columns, status among them, of the chosen series; the others were refused."""
        whole = {name: np.full(refused.size, np.nan) for name in OUT_COLUMNS} | {"status": refused.copy()}
        for name, values in columns.items():
            whole[name][chosen] = values
        return cls(**whole)

    def or_else(self, other: "BatchFit", is_other: Bools) -> "BatchFit":
        """This fit, and where said the other."""
        return BatchFit(*[np.where(is_other, getattr(other, c), getattr(self, c)) for c in self.__slots__])

    @property
    def statuses(self) -> list[FitStatus]:
        """The status of every series, in words."""
        return [STATUSES[code] for code in self.status]

    @property
    def parameters(self) -> dict[str, Floats]:
        """The columns a law reads, by name."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def parameters_of(self, series: Ints) -> dict[str, Floats]:
        """The same for each of the series named, repeated as asked."""
        return {name: values[series] for name, values in self.parameters.items()}


OUT_COLUMNS = BatchFit.__slots__[:-1]
