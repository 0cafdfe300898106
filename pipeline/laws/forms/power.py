"""A power law, T(n) = T(1) n^-b with 0 <= b <= 1: a straight line on logarithmic axes.

B. J. Barnes, B. Rountree, D. K. Lowenthal, J. Reeves, B. de Supinski and M. Schulz, "A regression-based approach to
scalability prediction", ICS 2008.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.law import Averaging, Law, Parameter, Parameters, Solver, never_or_one, parameter


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s and exponent b in [0, 1]; b = 1 is linear speedup."""
    runtime: Floats = parameter(parameters, "t1_s") * n ** -parameter(parameters, "exponent")
    # pow(1, NaN) is 1
    return np.where(np.isnan(parameter(parameters, "exponent")), np.nan, runtime)


def largest_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where b > 0, else 1."""
    return never_or_one(parameters, "exponent", lambda b: b > 0.0)


# Measured speedups exceed the processors a little, so that the grid of the average goes beyond the bound of a fit.
POWER = Law(
    "power", "T(1) n^-b", "Barnes et al. 2008", formula, largest_useful_procs,
    (Parameter("exponent", 0.0, 1.0, tuple(np.arange(0.05, 1.16, 0.05).tolist())),),
    solver=Solver.POWER, averaging=Averaging(place=1), place=10,
)  # fmt: skip
