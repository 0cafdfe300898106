"""Downey's law fitted to speedups, T(1) known: the way of Lan 2007 (docs/explanations/exact-downey-fit.md)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from pipeline.arrays import Floats
from pipeline.laws import LAWS
from pipeline.scaling.fit import fit_law
from pipeline.scaling.series import SeriesBatch

# So heavy that T(1) moves by a millionth of the fit's own error, light enough to leave ten digits for the rest.
T1_WEIGHT = 1e6

OBJECTIVES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "relative_speedup": lambda fitted, observed: (fitted - observed) / observed,
    "absolute_speedup": lambda fitted, observed: fitted - observed,
    "relative_runtime": lambda fitted, observed: observed / fitted - 1.0,
    "log_runtime": lambda fitted, observed: np.log(fitted / observed),
}


@dataclass(frozen=True, slots=True)
class SpeedupFit:
    """A and sigma of one law, and the sum of squares of the objective they minimise."""

    law: str
    avg_parallelism: float
    sigma: float
    sum_of_squares: float


def fit_speedup(procs: Floats, speedup: Floats, objective: str = "relative_speedup") -> SpeedupFit:
    """The better of both modes under one of OBJECTIVES, from sorted distinct procs > 1 and their speedups over T(1).

    The exact fit of relative runtime is the start, and a simplex search on the objective asked for the polish: the
    answer is a local optimum for every objective but relative_runtime. ValueError where the data cannot be fitted.
    """
    fits = [_polished(law, procs, speedup, OBJECTIVES[objective]) for law in ("downey_low", "downey_high")]
    return min(fits, key=lambda fit: fit.sum_of_squares)


def _polished(law: str, procs: Floats, speedup: Floats, errors: Callable[[Floats, Floats], Floats]) -> SpeedupFit:
    bounds = [(1.0, np.inf), (0.0, 1.0) if law == "downey_low" else (1.0, np.inf)]

    def sum_of_squares(shape: Floats) -> float:
        return float((errors(speedups(law, shape[0], shape[1], procs), speedup) ** 2).sum())

    start, options = _start(law, procs, speedup), {"xatol": 1e-10, "fatol": 1e-16}
    found = minimize(sum_of_squares, start, method="Nelder-Mead", bounds=bounds, options=options)
    return SpeedupFit(law, float(found.x[0]), float(found.x[1]), float(found.fun))


def speedups(law: str, avg_parallelism: float, sigma: float, procs: Floats) -> Floats:
    """S(n) = T(1)/T(n) of a law in LAWS, for one A and sigma."""
    shape = {"t1_s": 1.0, "avg_parallelism": avg_parallelism, "sigma": sigma}
    speedup: Floats = 1.0 / LAWS[law].runtime_s({name: np.asarray(value) for name, value in shape.items()}, procs)
    return speedup


def _start(law: str, procs: Floats, speedup: Floats) -> Floats:
    """A and sigma of the exact fit of relative runtime, with T(1) as a heavy observation."""
    n, t = np.concatenate([[1.0], procs]), np.concatenate([[1.0], 1.0 / speedup])
    w = np.ones(n.size)
    w[0] = T1_WEIGHT * procs.size
    fit = fit_law(law, SeriesBatch(np.array([0, n.size]), n, t, w))
    if not np.isfinite(fit.avg_parallelism[0] + fit.sigma[0]):
        raise ValueError(f"found {fit.status[0]}, expected a speedup curve that bends")
    return np.array([fit.avg_parallelism[0], fit.sigma[0]])
