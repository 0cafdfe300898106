"""A power law, T(n) = T(1) n^-b with 0 <= b <= 1: a straight line on logarithmic axes.

B. J. Barnes, B. Rountree, D. K. Lowenthal, J. Reeves, B. de Supinski and M. Schulz, "A regression-based approach to
scalability prediction", ICS 2008.
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws.law import Law, Parameters, checked_procs, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) from t1_s and exponent b in [0, 1]; b = 1 is linear speedup."""
    n = checked_procs(procs)
    runtime: Floats = parameter(parameters, "t1_s") * n ** -parameter(parameters, "exponent")
    # pow(1, NaN) is 1
    return np.where(np.isnan(parameter(parameters, "exponent")), np.nan, runtime)


def largest_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where b > 0, else 1."""
    b = parameter(parameters, "exponent")
    return np.where(np.isnan(b), np.nan, np.where(b > 0.0, np.inf, 1.0))


POWER = Law("power", "power", 2, "Barnes et al. 2008", runtime_s, largest_useful_procs)
