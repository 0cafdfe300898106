"""Amdahl's law. G. M. Amdahl, "Validity of the single processor approach", AFIPS Spring Joint Computer Conference 1967.

The paper states it in words; with serial fraction f, T(n) = T(1) (f + (1 - f)/n).
"""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats
from pipeline.laws.law import Law, Parameters, checked_procs, parameter


def runtime_s(parameters: Parameters, procs: npt.ArrayLike) -> Floats:
    """T(n) = T(1) (f + (1 - f)/n), from t1_s and serial_fraction in [0, 1]; f = 0 is linear speedup."""
    n = checked_procs(procs)
    serial = parameter(parameters, "serial_fraction")
    runtime: Floats = parameter(parameters, "t1_s") * (serial + (1.0 - serial) / n)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where anything runs in parallel, 1 where nothing does."""
    serial = parameter(parameters, "serial_fraction")
    return np.where(np.isnan(serial), np.nan, np.where(serial < 1.0, np.inf, 1.0))


AMDAHL = Law("amdahl", "amdahl", 2, "Amdahl 1967", runtime_s, largest_useful_procs)
