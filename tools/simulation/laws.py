"""Runtime laws, stated as speedups S(n) so that they share no formula with the library's own runtimes.

Downey 1997, "A model for speedup of parallel programs", UCB/CSD-97-933: equations for low and high variance.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Law:
    """A runtime law: `t1_s` seconds on one processor, and the parameters its name calls for."""

    name: str
    t1_s: float
    serial_fraction: float | None = None
    avg_parallelism: float | None = None
    sigma: float | None = None

    def speedup(self, procs: float) -> float:
        """T(1)/T(procs)."""
        if self.name == "constant":
            return 1.0
        if self.name == "amdahl":
            return 1.0 / (self.serial_fraction + (1.0 - self.serial_fraction) / procs)
        curve = _low_speedup if self.name == "downey_low" else _high_speedup
        return curve(procs, self.avg_parallelism, self.sigma)

    def runtime_s(self, procs: float) -> float:
        """Median runtime on `procs` processors, seconds."""
        return self.t1_s / self.speedup(procs)

    @property
    def bend_procs(self) -> float:
        """Processors from which the runtime is flat; infinite for Amdahl, 1 for constant."""
        if self.name == "constant":
            return 1.0
        if self.name == "amdahl":
            return math.inf
        a, sigma = self.avg_parallelism, self.sigma
        return 2 * a - 1 if self.name == "downey_low" else a + a * sigma - sigma

    def params(self) -> dict[str, float]:
        """The parameters the law has, by their column names."""
        named = {
            "t1_s": self.t1_s, "serial_fraction": self.serial_fraction,
            "avg_parallelism": self.avg_parallelism, "sigma": self.sigma,
        }  # fmt: skip
        return {name: value for name, value in named.items() if value is not None}


def _low_speedup(n: float, a: float, sigma: float) -> float:
    if n <= a:
        return a * n / (a + sigma / 2 * (n - 1))
    if n <= 2 * a - 1:
        return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2))
    return a


def _high_speedup(n: float, a: float, sigma: float) -> float:
    if n <= a + a * sigma - sigma:
        return n * a * (sigma + 1) / (sigma * (n + a - 1) + a)
    return a


def constant(t1_s: float) -> Law:
    """The same runtime on any number of processors."""
    return Law("constant", t1_s)


def amdahl(t1_s: float, serial_fraction: float) -> Law:
    """Amdahl's law."""
    return Law("amdahl", t1_s, serial_fraction=serial_fraction)


def downey_low(t1_s: float, avg_parallelism: float, sigma: float) -> Law:
    """Downey's law, low variance: sigma from 0 to 1."""
    return Law("downey_low", t1_s, avg_parallelism=avg_parallelism, sigma=sigma)


def downey_high(t1_s: float, avg_parallelism: float, sigma: float) -> Law:
    """Downey's law, high variance: sigma of 1 and more."""
    return Law("downey_high", t1_s, avg_parallelism=avg_parallelism, sigma=sigma)


def series(
    law: str, params: Mapping[str, float], procs: Sequence[float], noise: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Runtimes (s) of one run at each of `procs`, lognormal about the law; `noise` is the log standard deviation."""
    curve = Law(law, **params)
    return np.array([noisy(curve.runtime_s(n), noise, rng) for n in procs])


def noisy(runtime_s: float, log_sd: float, rng: np.random.Generator) -> float:
    """A runtime whose median is `runtime_s`; scalar, because vector exponentials differ between processors."""
    return runtime_s * math.exp(log_sd * float(rng.standard_normal()))
