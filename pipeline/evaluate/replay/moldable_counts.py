"""The counts that a job may start on, and the guess of its runtime there from Amdahl's law."""

import numpy as np

from pipeline.core.arrays import Floats, Ints

PARALLEL_FRACTIONS = (0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999)
"""Studies of malleable jobs give a job without a known curve one of a few such fractions."""
LEAST_EFFICIENCY = 0.75
"""A user is taken to prefer a count on which at least this part of the processors' time is used."""


def allowed_counts(preferred: Ints, reach: int, capacity: int) -> tuple[Ints, Ints]:
    """The counts from preferred/2^reach to preferred*2^reach in steps of 2, for each job.

    Fractions are rounded up, counts are from 1 to the capacity, and the preferred count is always among them. Returns
    offsets (jobs + 1,) and counts, in ascending order within a job.
    """
    sizes, place = np.unique(preferred, return_inverse=True)
    powers = 2.0 ** np.arange(-reach, reach + 1)
    counts = [np.unique(np.ceil(size * powers)).astype(np.int64) for size in sizes]
    counts = [own[(own >= 1) & (own <= capacity)] for own in counts]
    offsets = np.cumsum([0, *(len(counts[k]) for k in place)])
    return offsets, np.concatenate([counts[k] for k in place]) if len(place) else np.empty(0, np.int64)


def amdahl_fractions(preferred: Ints, least_efficiency: float = LEAST_EFFICIENCY) -> Floats:
    """The parallel fraction guessed for a job from its preferred count alone, for each job.

    It is the first of PARALLEL_FRACTIONS, in ascending order, whose efficiency on the preferred count is at least
    `least_efficiency`, and the last where none is. In descending order the first would be the largest for every job.
    """
    fractions = np.array(PARALLEL_FRACTIONS)
    efficiency = 1.0 / (preferred[:, None] * (1.0 - fractions) + fractions)
    passes = efficiency >= least_efficiency
    passes[:, -1] = True
    found: Floats = fractions[passes.argmax(axis=1)]
    return found


def amdahl_growth(procs: Ints, preferred: Ints, fraction: Floats) -> Floats:
    """Runtime on `procs` over that on `preferred` under Amdahl's law with a parallel fraction, elementwise."""
    growth: Floats = (1.0 - fraction + fraction / procs) / (1.0 - fraction + fraction / preferred)
    return growth
