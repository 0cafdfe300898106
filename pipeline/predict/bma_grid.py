"""The grid of curve shapes a model average runs over, tabulated once on log2 of processors over the smallest count."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.laws import AVERAGED
from pipeline.predict.bma_posterior import Shapes

STEPS_PER_OCTAVE = 16
"""Rows of the table per doubling; between rows log T is interpolated, less than 0.0001 off a smooth law."""

LEAST_LOG2, MOST_LOG2 = -20, 30
"""What the table spans; beyond it the last slope goes on."""


@dataclass(frozen=True, slots=True)
class ShapeGrid:
    """`log_shape[row, shape]` of T(x) up to its scale, x = procs over the smallest; `prior` per shape sums to 1.

    `family[shape]` is a place in `families`. Counting in smallest counts makes 4, 8, 16 and 1, 2, 4 the same question.
    """

    log_shape: Floats
    prior: Floats
    family: Ints
    families: tuple[str, ...]

    def shapes(self) -> Shapes:
        """As the kernels read it."""
        return Shapes(self.log_shape, self.prior, float(LEAST_LOG2), float(STEPS_PER_OCTAVE))


def shape_grid() -> ShapeGrid:
    """Every averaged law's shapes, by prior weight; within a law all points of its grid weigh the same."""
    return _tabulated(tuple(AVERAGED))


@cache
def _tabulated(laws: tuple[str, ...]) -> ShapeGrid:
    log2_x = np.arange(LEAST_LOG2 * STEPS_PER_OCTAVE, MOST_LOG2 * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE
    x = (2.0**log2_x)[:, None]
    parts = [np.log(AVERAGED[law].formula(AVERAGED[law].grid(), x)) for law in laws]
    counts = [part.shape[1] for part in parts]
    weights = law_weights()
    prior = np.repeat([weights[law] / count for law, count in zip(laws, counts, strict=True)], counts)
    family = np.repeat(np.arange(len(parts)), counts).astype(np.int64)
    return ShapeGrid(np.ascontiguousarray(np.hstack(parts)), prior / prior.sum(), family, laws)


def law_weights() -> dict[str, float]:
    """The prior weight of each averaged law, as its file declares it."""
    return {name: law.averaging.weight for name, law in AVERAGED.items() if law.averaging}
