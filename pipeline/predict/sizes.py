"""The sizes of many series, as input of the model average."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.bma_kernel import Columns

FREEDOM = 2
"""Degrees of freedom of the noise before any size is seen: few, because measured runs have heavy tails. Of 1, 2, 3, 5
the value with the best interval score on real applications, each scored with what the others chose."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """k series end to end: series i is the slice offsets[i]:offsets[i + 1], by rising procs.

    Per size the runtime (s) and how far it may lie off the curve, as a variance of log s: noise. Per series the
    drift: the variance of log s per doubling by which the truth walks away from any law's curve.
    """

    offsets: Ints
    procs: Floats
    runtime_s: Floats
    variance: Floats
    drift: Floats

    @property
    def n_series(self) -> int:
        """Number of series."""
        return self.offsets.size - 1

    def columns(self) -> Columns:
        """As the kernels read them: offsets, doublings from the least size, log runtimes, variances, drifts."""
        of = np.repeat(np.arange(self.n_series), np.diff(self.offsets))
        log2_x = self.log2_from_least(of, self.procs)
        return Columns(self.offsets, log2_x, np.log(self.runtime_s), self.variance, self.drift)

    def log2_from_least(self, series: Ints, procs: Floats) -> Floats:
        """Doublings of procs over the smallest size of their series; NaN where it has none."""
        least = np.append(self.procs, np.nan)[np.where(np.diff(self.offsets) > 0, self.offsets[:-1], -1)]
        logs: Floats = np.log2(procs / least[series])
        return logs

    def drifting(self, log_sd: float) -> "Sizes":
        """The same, every series with this drift (log s per root of a doubling)."""
        return Sizes(self.offsets, self.procs, self.runtime_s, self.variance, np.full(self.n_series, log_sd**2))

    def part(self, first: int, last: int) -> "Sizes":
        """Series first to last - 1."""
        rows = slice(self.offsets[first], self.offsets[last])
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return Sizes(offsets, self.procs[rows], self.runtime_s[rows], self.variance[rows], self.drift[first:last])
