"""Weak scaling: problem sizes that grow as the processors do, and Gustafson's law of the scaled speed-up.

Gustafson, J. L. (1988), Reevaluating Amdahl's law, CACM 31(5). The scaled speed-up on x times the processors is
x T(1)/T(x); his law is x - a (x - 1), a being the serial fraction of the time of the scaled run.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats

MIN_POINTS = 3
SAME_SHARE = 0.02
"""Log difference up to which two values of work per processor are equal."""


@dataclass(frozen=True, slots=True)
class WeakScaling:
    """A weak series by rising procs: runtimes (s), weak efficiency T(1)/T(x) and scaled speed-up, both relative to the
    smallest count; Gustafson's serial fraction (0 to 1), and the largest relative miss of his law."""

    procs: Floats
    runtime_s: Floats
    efficiency: Floats
    scaled_speedup: Floats
    serial_fraction: float
    worst_miss: float

    def runtime_at(self, procs: Floats) -> Floats:
        """Runtimes (s) by Gustafson's law for a problem that grows with the processors; NaN below the smallest count.

        Beyond the largest count the law is scaled to the runtime measured there, because growing overhead makes the law
        too low.
        """
        counts = np.asarray(procs, np.float64)
        missed = self.runtime_s[-1] / self._law_s(self.procs[-1:])[0]
        runtime_s = self._law_s(counts) * np.where(counts > self.procs[-1], missed, 1.0)
        return np.where(counts >= self.procs[0], runtime_s, np.nan)

    def _law_s(self, procs: Floats) -> Floats:
        x = procs / self.procs[0]
        law_s: Floats = self.runtime_s[0] * x / (x - self.serial_fraction * (x - 1))
        return law_s


def weak_scaling(problem_size: Floats, procs: Floats, runtime_s: Floats) -> WeakScaling | None:
    """The longest series whose problem size is proportional to its processors; None where none has three counts.

    Of equally long ones, that of least work per processor. Sizes that are not positive numbers are left out.

    Parameters
    ----------
    problem_size : Floats
        float64[n], problem sizes in any unit.
    procs : Floats
        float64[n], processors.
    runtime_s : Floats
        float64[n], runtimes, s.

    Returns
    -------
    WeakScaling or None
        The series by ascending processors, and Gustafson's serial fraction.

    References
    ----------
    Gustafson (1988), Reevaluating Amdahl's law.

    Examples
    --------
    >>> n = np.array([1.0, 2.0, 4.0])
    >>> series = weak_scaling(1000 * n, n, n / (n - 0.1 * (n - 1)))
    >>> round(series.serial_fraction, 3)
    0.1
    """
    usable = np.flatnonzero((problem_size > 0) & (runtime_s > 0))
    if len(usable) < MIN_POINTS:
        return None
    share = np.log(problem_size[usable] / procs[usable])
    order = np.argsort(share, kind="stable")
    starts = np.flatnonzero(np.diff(share[order], prepend=-np.inf) > SAME_SHARE)
    chosen = max(np.split(order, starts[1:]), key=lambda rows: len(np.unique(procs[usable[rows]])))
    rows = usable[chosen]
    counts, first = np.unique(procs[rows], return_index=True)
    if len(counts) < MIN_POINTS:
        return None
    return _series(counts, runtime_s[rows][first])


def _series(procs: Floats, runtime_s: Floats) -> WeakScaling:
    x, efficiency = procs / procs[0], runtime_s[0] / runtime_s
    lost = x - x * efficiency
    serial = float(np.clip(lost @ (x - 1) / ((x - 1) @ (x - 1)), 0.0, 1.0))
    law_s = runtime_s[0] * x / (x - serial * (x - 1))
    return WeakScaling(procs, runtime_s, efficiency, x * efficiency, serial, float(np.abs(law_s / runtime_s - 1).max()))
