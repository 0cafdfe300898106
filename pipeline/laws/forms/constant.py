"""No scaling at all: T(n) = T(1). The baseline every other law has to beat."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.law import Averaging, Law, Parameters, Solver, parameter


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) = T(1), from t1_s."""
    t1_s, sizes = np.broadcast_arrays(parameter(parameters, "t1_s"), n)
    return np.where(np.isnan(sizes), np.nan, t1_s)


def largest_useful_procs(parameters: Parameters) -> Floats:
    """1: a second processor gains nothing."""
    return np.where(np.isnan(parameter(parameters, "t1_s")), np.nan, 1.0)


CONSTANT = Law(
    "constant", "T(1)", "baseline", formula, largest_useful_procs,
    solver=Solver.CONSTANT, averaging=Averaging(place=0), place=0,
)  # fmt: skip
