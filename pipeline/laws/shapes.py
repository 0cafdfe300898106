"""A grid of shapes that spans the laws: Downey's two modes, Amdahl's limit, and an overhead that grows with processors.

Screens and comparisons of sizes average over it instead of trusting one best fit: with a handful of sizes many curves
fit alike. Downey's law and its limits: CSD-97-933; the declining piece that it lacks: an overhead in n or in log n.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.laws.downey_high import DOWNEY_HIGH
from pipeline.laws.downey_low import DOWNEY_LOW

N_PARALLELISM, N_PARALLELISM_WITH_OVERHEAD = 60, 30
"""Values of A: adjacent ones differ by 15% where the largest size is 256, so that no bend falls far from one."""

BEYOND = 16.0
"""The largest A, in multiples of the largest size: its curve is linear to within 6% there."""

SIGMAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 3.0, 8.0, np.inf)
SIGMAS_WITH_OVERHEAD = (0.5, 2.0, np.inf)
OVERHEADS = tuple(np.geomspace(0.05, 20.0, 12))
"""Overhead at the largest size, in shares of what the law takes there; each once growing as n and once as log n."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """g shapes for each of k series: A, sigma and overheads as float64[k, g], log prior as float64[g] (sums to 1).

    `linear` and `logarithmic` are overheads in units of T(1) of the law: `linear` n + `logarithmic` log n is added.
    """

    avg_parallelism: Floats
    sigma: Floats
    linear: Floats
    logarithmic: Floats
    log_prior: Floats

    def log_runtime(self, procs: Floats) -> Floats:
        """log T(n)/T_law(1) as float64[k, g, m], from procs as float64[k, m]."""
        n = np.maximum(procs[:, None, :], 1.0)
        law = _relative_runtime(self.avg_parallelism[:, :, None], self.sigma[:, :, None], n)
        logs: Floats = np.log(law + self.linear[:, :, None] * n + self.logarithmic[:, :, None] * np.log(n))
        return logs

    def rows(self, chosen: Bools) -> "Shapes":
        """Those of some of the series."""
        columns = (self.avg_parallelism, self.sigma, self.linear, self.logarithmic)
        return Shapes(*(values[chosen] for values in columns), self.log_prior)


def shapes_for(procs_max: Floats) -> Shapes:
    """The grid for series observed up to these sizes, float64[k]; half its prior is on shapes without overhead."""
    plain = _product(np.linspace(0.0, 1.0, N_PARALLELISM), np.array(SIGMAS), np.zeros(1), np.zeros(1))
    steps, sigmas = np.linspace(0.0, 1.0, N_PARALLELISM_WITH_OVERHEAD), np.array(SIGMAS_WITH_OVERHEAD)
    rising = _product(steps, sigmas, np.array(OVERHEADS), np.arange(2.0))
    step, sigma, share, is_logarithmic = np.concatenate([plain, rising]).T
    top = np.maximum(np.asarray(procs_max, np.float64), 2.0)[:, None]
    A = (BEYOND * top) ** step
    sigma = np.broadcast_to(sigma, A.shape)
    overhead = share * _relative_runtime(A, sigma, top)
    prior = np.concatenate([np.full(len(part), 0.5 / len(part)) for part in (plain, rising)])
    linear, logarithmic = overhead * (1 - is_logarithmic) / top, overhead * is_logarithmic / np.log(top)
    return Shapes(A, sigma, linear, logarithmic, np.log(prior))


def _product(*axes: Floats) -> Floats:
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


def _relative_runtime(A: Floats, sigma: Floats, n: Floats) -> Floats:
    """T(n)/T(1) of Downey's law in the mode that sigma names."""
    low = DOWNEY_LOW.runtime_s({"t1_s": np.float64(1), "avg_parallelism": A, "sigma": np.minimum(sigma, 1.0)}, n)
    high = DOWNEY_HIGH.runtime_s({"t1_s": np.float64(1), "avg_parallelism": A, "sigma": np.maximum(sigma, 1.0)}, n)
    return np.where(sigma < 1.0, low, high)
