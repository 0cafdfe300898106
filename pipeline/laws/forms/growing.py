"""A runtime that grows with processors: T(n) = T(1) (1 - c + c n^p), p from 1.5 to 3. Only the model average has it.

No overhead of the other laws grows faster than the processors; where runtime itself does (all talk to all, work that is
repeated), this is the only shape that follows.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.law import Averaging, Law, Parameter, Parameters, parameter, powers


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, the share c of T(1) that grows, and the power p."""
    share = parameter(parameters, "growing_share")
    grown: Floats = (1.0 - share) + share * n ** parameter(parameters, "power")
    runtime: Floats = parameter(parameters, "t1_s") * grown
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """1: a second processor costs time."""
    return np.where(np.isnan(parameter(parameters, "growing_share")), np.nan, 1.0)


# Measured runtimes that rise level off, so that faster growth weighs little: three sizes that show it are enough to
# believe it.
GROWING = Law(
    "growing", "T(1) (1 - c + c n^p)", "Walltime", formula, largest_useful_procs,
    (
        Parameter("growing_share", 0.0, 1.0, powers(-8, 0)),
        Parameter("power", 1.5, 3.0, (1.5, 2.0, 2.5, 3.0)),
    ),
    solver=None, averaging=Averaging(0.02, place=7), place=11,
)  # fmt: skip
