"""A geometric speedup. E. Smirni, E. Rosti, L. W. Dowdy and G. Serazzi, "A methodology for the evaluation of
multiprocessor non-preemptive allocation policies", Journal of Systems Architecture 44, 1998.

Each processor adds alpha times what the one before it added: S(n) = (1 - alpha^n)/(1 - alpha), 0 <= alpha < 1. Here in
A = S(infinity) = 1/(1 - alpha), and T(n) = T(1)/S(n).
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.law import Law, Parameter, Parameters, Solver, parameter

_NOTHING_LEFT = 2.0**-53


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s and avg_parallelism >= 1; infinite A is linear speedup."""
    A = parameter(parameters, "avg_parallelism")
    with np.errstate(divide="ignore", invalid="ignore"):
        speedup = -A * np.expm1(n * np.log1p(-1.0 / A))
    speedup = np.where(np.isinf(A), n, speedup)
    runtime: Floats = parameter(parameters, "t1_s") / speedup
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """Where what one more processor adds is lost in the rounding of A; infinite where A is."""
    A = parameter(parameters, "avg_parallelism")
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = np.maximum(np.log(_NOTHING_LEFT) / np.log1p(-1.0 / A), 1.0)
    return np.where(np.isinf(A), np.inf, reached)


SMIRNI = Law(
    "smirni", "T(1)/(A (1 - (1 - 1/A)^n))", "Smirni, Rosti, Dowdy and Serazzi 1998", formula, largest_useful_procs,
    (Parameter("avg_parallelism", 1.0, np.inf),), solver=Solver.GEOMETRIC, place=9,
)  # fmt: skip
