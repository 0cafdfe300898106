"""A group's curve of log runtime over log processors: its power law, bent towards what its sizes show.

Where runs of one size hardly differ the curve goes through the means of the sizes, straight between two of them and
beyond the outer ones; where they differ much it is the power law.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.submits import Jobs
from pipeline.kernels import kernel

USUAL_BEND = 0.15
"""How far (log) the means of sizes are from a power law before anything is known of a group."""


class Curve(NamedTuple):
    """Per size, in ascending order, log processors, mean log runtime above the power law, and number of runs.

    `shape`: how many sizes there are, the power, and the share of the way from the power law to the means.
    """

    log_size: Floats
    above: Floats
    n_runs: Floats
    shape: Floats


def no_curve(n_jobs: int) -> Curve:
    """Room for the curve of so many jobs."""
    return Curve(np.empty(n_jobs), np.empty(n_jobs), np.empty(n_jobs), np.zeros(3))


@kernel
def trace(newest: int, before: Ints, past: Jobs, power: float, found: Curve) -> None:
    """Set the curve of the jobs from `newest` on, each followed by `before`."""
    n_sizes, other = 0, newest
    while other >= 0:
        place = 0
        while place < n_sizes and found.log_size[place] < past.log_size[other]:
            place += 1
        if place == n_sizes or found.log_size[place] != past.log_size[other]:
            for moved in range(n_sizes, place, -1):
                found.log_size[moved], found.above[moved] = found.log_size[moved - 1], found.above[moved - 1]
                found.n_runs[moved] = found.n_runs[moved - 1]
            found.log_size[place], found.above[place], found.n_runs[place] = past.log_size[other], 0.0, 0.0
            n_sizes += 1
        found.n_runs[place] += 1
        above = math.log(past.runtime_s[other]) - power * past.log_size[other]
        found.above[place] += (above - found.above[place]) / found.n_runs[place]
        other = before[other]
    found.shape[0], found.shape[1], found.shape[2] = n_sizes, power, _trust(newest, before, past, power, n_sizes, found)


@kernel
def _trust(newest: int, before: Ints, past: Jobs, power: float, n_sizes: int, found: Curve) -> float:
    """The share of the way: 1 where runs of a size are the same, 0 where no size has two."""
    squares, n_free, n_runs, other = 0.0, 0.0, 0.0, newest
    while other >= 0:
        for place in range(n_sizes):
            if found.log_size[place] == past.log_size[other] and found.n_runs[place] > 1:
                off = math.log(past.runtime_s[other]) - power * past.log_size[other] - found.above[place]
                squares += off * off
                n_free += 1 - 1 / found.n_runs[place]
        n_runs, other = n_runs + 1, before[other]
    if n_free == 0 or n_sizes < 2:
        return 0.0
    noise = squares / n_free * n_sizes / n_runs
    return float(USUAL_BEND * USUAL_BEND / (USUAL_BEND * USUAL_BEND + noise))


@kernel
def height(log_size: float, curve: Curve) -> float:
    """The curve's log runtime at a size, up to a constant."""
    n_sizes, straight = int(curve.shape[0]), float(curve.shape[1] * log_size)
    if n_sizes < 2 or curve.shape[2] == 0:
        return straight
    place = 1
    while place < n_sizes - 1 and curve.log_size[place] < log_size:
        place += 1
    step = curve.log_size[place] - curve.log_size[place - 1]
    share = (log_size - curve.log_size[place - 1]) / step
    above = curve.above[place - 1] + share * (curve.above[place] - curve.above[place - 1])
    return straight + float(curve.shape[2] * above)
