"""Laws of one shape: a power law, a geometric speedup, and a runtime that grows.

power: T(n) = T(1) n^-b with 0 <= b <= 1, a straight line on logarithmic axes. B. J. Barnes, B. Rountree,
D. K. Lowenthal, J. Reeves, B. de Supinski and M. Schulz, "A regression-based approach to scalability prediction",
ICS 2008.

smirni: E. Smirni, E. Rosti, L. W. Dowdy and G. Serazzi, "A methodology for the evaluation of multiprocessor
non-preemptive allocation policies", Journal of Systems Architecture 44, 1998. Each processor adds alpha times what the
one before it added: S(n) = (1 - alpha^n)/(1 - alpha), 0 <= alpha < 1. Here in A = S(infinity) = 1/(1 - alpha), and
T(n) = T(1)/S(n).

growing: T(n) = T(1) (1 - c + c n^p), p from 1.5 to 3. Only the model average has it. No overhead of the other laws
grows faster than the processors; where runtime itself does (all talk to all, work that is repeated), this is the only
shape that follows.
"""

import numpy as np

from pipeline.arrays import Floats
from pipeline.laws.law import Averaging, Law, Parameter, Parameters, never_or_one, parameter, powers


def power_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s and exponent b in [0, 1]; b = 1 is linear speedup."""
    runtime: Floats = parameter(parameters, "t1_s") * n ** -parameter(parameters, "exponent")
    # pow(1, NaN) is 1
    return np.where(np.isnan(parameter(parameters, "exponent")), np.nan, runtime)


def power_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where b > 0, else 1."""
    return never_or_one(parameters, "exponent", lambda b: b > 0.0)


# Measured speedups exceed the processors a little, so that the grid of the average goes beyond the bound of a fit.
POWER = Law(
    "power", "T(1) n^-b", "Barnes et al. 2008", power_s, power_useful_procs,
    (Parameter("exponent", 0.0, 1.0, tuple(np.arange(0.05, 1.36, 0.05).tolist())),),
    averaging=Averaging(4.0, place=1), place=10,
)  # fmt: skip


_NOTHING_LEFT = 2.0**-53


def smirni_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s and avg_parallelism >= 1; infinite A is linear speedup."""
    A = parameter(parameters, "avg_parallelism")
    with np.errstate(divide="ignore", invalid="ignore"):
        speedup = -A * np.expm1(n * np.log1p(-1.0 / A))
    speedup = np.where(np.isinf(A), n, speedup)
    return parameter(parameters, "t1_s") / speedup


def smirni_useful_procs(parameters: Parameters) -> Floats:
    """Where what one more processor adds is lost in the rounding of A; infinite where A is."""
    A = parameter(parameters, "avg_parallelism")
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = np.maximum(np.log(_NOTHING_LEFT) / np.log1p(-1.0 / A), 1.0)
    return np.where(np.isinf(A), np.inf, reached)


SMIRNI = Law(
    "smirni", "T(1)/(A (1 - (1 - 1/A)^n))", "Smirni, Rosti, Dowdy and Serazzi 1998", smirni_s, smirni_useful_procs,
    (Parameter("avg_parallelism", 1.0, np.inf),), place=9,
)  # fmt: skip


def growing_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, the share c of T(1) that grows, and the power p."""
    share = parameter(parameters, "growing_share")
    grown: Floats = (1.0 - share) + share * n ** parameter(parameters, "power")
    return parameter(parameters, "t1_s") * grown


def growing_useful_procs(parameters: Parameters) -> Floats:
    """1: a second processor costs time."""
    return np.where(np.isnan(parameter(parameters, "growing_share")), np.nan, 1.0)


# Measured runtimes that rise level off, so that faster growth weighs little: three sizes that show it are enough to
# believe it.
GROWING = Law(
    "growing", "T(1) (1 - c + c n^p)", "Walltime", growing_s, growing_useful_procs,
    (
        Parameter("growing_share", 0.0, 1.0, powers(-8, 0)),
        Parameter("power", 1.5, 3.0, (1.5, 2.0, 2.5, 3.0)),
    ),
    solver=None, averaging=Averaging(0.02, place=7), place=11,
)  # fmt: skip
