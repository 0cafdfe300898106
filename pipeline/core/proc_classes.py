"""Classes of processor counts that parallel codes require."""

import numpy as np

from pipeline.core.arrays import Bools, Floats


def powers_of_two(procs: Floats) -> Bools:
    """Whether each count is a power of two."""
    return np.asarray(np.log2(procs) % 1 == 0)


def squares(procs: Floats) -> Bools:
    """Whether each count is the square of a whole number."""
    return np.asarray(np.rint(np.sqrt(procs)) ** 2 == procs)
