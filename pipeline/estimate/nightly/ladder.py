"""A ladder of runtimes from a weighted sample, on which a job's runtime has a position and a quantile is a rung."""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import kernel

SHARES = np.array([0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99])
"""Of the sample, at the ladder's middle rungs."""

BELOW = np.array([0.02, 0.1, 0.3, 0.65])
"""Rungs below, in parts of the sample's 1% quantile."""

BEYOND = np.array([1.15, 1.4, 2.0, 3.0, 4.5, 7.0, 12.0])
"""Rungs above where no request is known, in times its 99% quantile."""

AT_REQUEST = ((1.0, 0.0), (1.01, 60.0), (1.05, 300.0), (1.3, 600.0))
"""Rungs from the request on, as (factor, s more): schedulers stop jobs late."""

N_TO_REQUEST = len(BEYOND) - len(AT_REQUEST)
MEDIAN = len(BELOW) + 8
TOP = len(BELOW) + len(SHARES) - 1
N_RUNGS = TOP + 1 + len(BEYOND) + 2

ASSUMED_ABOVE = (0.993, 0.995, 0.997, 0.998, 0.9985, 0.999, 0.9995, 0.9997, 0.9999)
ASSUMED_BELOW = (0.001, 0.002, 0.004, 0.006)
"""Prior shares of jobs below the outer rungs."""


def assumed_counts(n_jobs: float, spread: float) -> Floats:
    """(rungs + 1) jobs between rungs before any has been counted: by share, a part of them spread evenly."""
    reached = np.concatenate([[0.0], ASSUMED_BELOW, SHARES, ASSUMED_ABOVE, [1.0]])
    counts: Floats = n_jobs * ((1 - spread) * np.diff(reached) + spread / (N_RUNGS + 1))
    return counts


@kernel
def sort_sample(n: int, value: Floats, code: Ints) -> Ints:
    """Codes in order of value; their last nine bits are the place in the sample."""
    # The bits of positive floats are ordered as they are, and sorting integers takes a third of an argsort's time.
    bits = value.view(np.int64)
    for place in range(n):
        code[place] = (bits[place] & ~511) | place
    codes: Ints = code[:n]
    codes.sort()
    return codes


@kernel
def sample_quantiles(n: int, value: Floats, weight: Floats, code: Ints, ladder: Floats) -> None:
    """The ladder's middle rungs: linear interpolation between values, each at the middle of its weight."""
    total, reached, before, last, k = 0.0, 0.0, 0.0, -1.0, 0
    for place in range(n):
        total += weight[place]
    for one in sort_sample(n, value, code):
        place = one & 511
        middle = (reached + 0.5 * weight[place]) / total
        while k < len(SHARES) and SHARES[k] <= middle:
            part = (SHARES[k] - before) / (middle - before) if last >= 0 else 1.0
            ladder[len(BELOW) + k] = value[place] - (1 - part) * (value[place] - max(last, 0.0))
            k += 1
        reached += weight[place]
        before, last = middle, value[place]
    while k < len(SHARES):
        ladder[len(BELOW) + k] = last
        k += 1


@kernel
def outer_rungs(requested: float, unit_s: float, ladder: Floats) -> None:
    """The rungs below and above; `requested` is in the ladder's unit, which is `unit_s` seconds."""
    for k in range(len(BELOW)):
        ladder[k] = ladder[len(BELOW)] * BELOW[k]
    q99 = ladder[TOP]
    for k in range(len(BEYOND)):
        if requested <= 0:
            ladder[TOP + 1 + k] = q99 * BEYOND[k]
        elif k < N_TO_REQUEST:
            ladder[TOP + 1 + k] = q99 * max(requested / q99, 1.0) ** ((k + 1) / (N_TO_REQUEST + 1))
        else:
            factor, more_s = AT_REQUEST[k - N_TO_REQUEST]
            ladder[TOP + 1 + k] = factor * requested + more_s / unit_s
    for k in range(1, N_RUNGS - 2):
        ladder[k] = max(ladder[k], ladder[k - 1])
    ladder[N_RUNGS - 2] = 2 * ladder[N_RUNGS - 3]
    ladder[N_RUNGS - 1] = 3 * ladder[N_RUNGS - 2]
