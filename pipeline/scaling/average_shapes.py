"""The shapes of curves that the model average runs over: every averaged law on a grid of its parameters."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import kernel
from pipeline.laws import AVERAGED

STEPS_PER_OCTAVE = 16
"""Rows of the table per doubling; between rows log T is interpolated, less than 0.0001 off a smooth law."""

LEAST_LOG2, MOST_LOG2 = -20, 30
"""What the table spans; beyond it the last slope goes on."""


class Shapes(NamedTuple):
    """log_shape[row, shape], STEPS_PER_OCTAVE rows to a doubling from LEAST_LOG2 on; prior weight per shape."""

    log_shape: Floats
    prior: Floats


@dataclass(frozen=True, slots=True)
class ShapeGrid:
    """Shapes of T(x) up to its scale, x = procs over the smallest; the prior sums to 1.

    `family[shape]` is a place in `families`. Counting in smallest counts makes 4, 8, 16 and 1, 2, 4 the same question.
    """

    shapes: Shapes
    family: Ints
    families: tuple[str, ...]


def shape_grid() -> ShapeGrid:
    """Every averaged law's shapes, by prior weight; within a law all points of its grid weigh the same."""
    return _tabulated(tuple(AVERAGED))


def table_places() -> Floats:
    """The x of the rows of a table of shapes."""
    x: Floats = 2.0 ** (np.arange(LEAST_LOG2 * STEPS_PER_OCTAVE, MOST_LOG2 * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE)
    return x


@cache
def _tabulated(laws: tuple[str, ...]) -> ShapeGrid:
    x = table_places()[:, None]
    parts = [np.log(AVERAGED[law].formula(AVERAGED[law].grid(), x)) for law in laws]
    counts = [part.shape[1] for part in parts]
    weights = [one.averaging.weight for one in AVERAGED.values() if one.averaging]
    prior = np.repeat(np.array(weights) / counts, counts)
    shapes = Shapes(np.ascontiguousarray(np.hstack(parts)), prior / prior.sum())
    return ShapeGrid(shapes, np.repeat(np.arange(len(parts)), counts).astype(np.int64), laws)


@kernel
def fill_log_shape(log2_x: float, shapes: Shapes, out: Floats) -> None:
    """Fills out with log T of every shape at one place."""
    table = shapes.log_shape
    at = (log2_x - LEAST_LOG2) * STEPS_PER_OCTAVE
    row = min(max(int(np.floor(at)), 0), table.shape[0] - 2)
    share = at - row
    below, above = table[row], table[row + 1]
    for g in range(out.size):
        out[g] = below[g] + share * (above[g] - below[g])
