"""A grid of curve shapes wide enough for any series: Downey's law in both modes, with and without overhead; power laws.

Screens and comparisons of sizes average over it instead of trusting one best fit: with a handful of sizes many curves
fit alike. Downey's law and its limits: CSD-97-933; the declining piece that it lacks: an overhead in n or in log n.
Sizes count in multiples of the series' smallest, so that 1, 2, 4 and 64, 128, 256 are the same question.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats
from pipeline.laws import downey

BEYOND = 16.0
"""The largest A, in multiples of the largest size: its curve is linear to within 6% there."""

MOST_OVERHEAD = 300.0
"""At the largest size, in multiples of what the law without it takes there."""

EXPONENTS = tuple(np.arange(0.025, 1.11, 0.025))
"""Of power laws x^-b."""

ROWS_PER_DOUBLING = 16
"""Between rows log T is interpolated, less than 0.0002 off where the law is smooth and 0.01 at its sharpest bend."""


class Shapes(NamedTuple):
    """g shapes: `log_runtime[row, g]`, log T(x)/T(1) at x = 2^(row/16), as float32; prior weights that sum to 1."""

    log_runtime: npt.NDArray[np.float32]
    prior: Floats

    def at(self, x: Floats) -> Floats:
        """log T(x)/T(1) of every shape at sizes x >= 1 in multiples of the smallest, float64[g, m]."""
        place = np.log2(x) * ROWS_PER_DOUBLING
        row = np.minimum(place.astype(np.int64), len(self.log_runtime) - 2)
        share = (place - row)[:, None]
        logs: Floats = (self.log_runtime[row] * (1 - share) + self.log_runtime[row + 1] * share).T
        return logs


@dataclass(frozen=True, slots=True)
class _Family:
    """Part of the grid: its shapes, their prior share, whether sigma is free (else Amdahl), what overhead grows as.

    `n_fine` is how many shapes the fine grid has.
    """

    n_shapes: int
    n_fine: int
    share: float
    is_downey: bool
    overhead: str | None = None


_FAMILIES = (
    _Family(150, 150, 0.25, False),
    _Family(1500, 6000, 0.35, True),
    _Family(800, 3200, 0.1, False, "linear"),
    _Family(800, 3200, 0.1, False, "log"),
    _Family(1500, 12000, 0.06, True, "linear"),
    _Family(1500, 12000, 0.06, True, "log"),
)


@cache
def shapes_up_to(doublings: int) -> Shapes:
    """The grid for series whose largest size is at most 2^doublings smallest ones."""
    return _grid(doublings, [family.n_shapes for family in _FAMILIES])


@lru_cache(maxsize=1)
def fine_shapes_up_to(doublings: int) -> Shapes:
    """The same with six times as many shapes, where three parameters ask for most: to judge small departures by."""
    return _grid(doublings, [family.n_fine for family in _FAMILIES])


def _grid(doublings: int, n_shapes: list[int]) -> Shapes:
    x = 2.0 ** (np.arange(ROWS_PER_DOUBLING * max(doublings, 1) + 1) / ROWS_PER_DOUBLING)[:, None]
    parts = [np.log(_runtime(family, n, x)).astype(np.float32) for family, n in zip(_FAMILIES, n_shapes, strict=True)]
    parts.append(-np.array(EXPONENTS) * np.log(x))
    shares = [family.share for family in _FAMILIES]
    shares.append(1.0 - sum(shares))
    prior = np.concatenate(
        [np.full(part.shape[1], share / part.shape[1]) for part, share in zip(parts, shares, strict=True)]
    )
    return Shapes(np.ascontiguousarray(np.hstack(parts), np.float32), prior)


def _runtime(family: _Family, n_shapes: int, x: Floats) -> Floats:
    """T(x)/T(1) of so many shapes of a family, overhead counted from the first size on."""
    u, v, w = _spread_evenly(n_shapes, 1 + family.is_downey + (family.overhead is not None))
    top = x[-1:]
    A = (BEYOND * top) ** u
    # Half of them low variance, half high; the last of these comes close to Amdahl's law.
    sigma = np.where(v < 0.5, 2.0 * v, 0.5 / (1.0 - v)) if family.is_downey else np.full(len(u), np.inf)
    law = downey.both({"t1_s": np.ones(1), "avg_parallelism": A, "sigma": sigma}, x)
    if family.overhead is None:
        return law
    grown = x - 1.0 if family.overhead == "linear" else np.log(x)
    extra = np.expm1((w if family.is_downey else v) * np.log1p(MOST_OVERHEAD))
    runtime: Floats = law + extra * law[-1:] * grown / grown[-1:]
    return runtime


def _spread_evenly(n_points: int, n_axes: int) -> Floats:
    """Points that fill the unit cube evenly, a row an axis and three rows always: additive recurrence.

    Better than crossed grids, where most shapes repeat one another's values. Its steps are powers of the root of
    x^(d+1) = x + 1.
    """
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n_axes + 1))
    place = np.arange(n_points) + 0.5
    axes = [np.mod(place * root**-axis, 1.0) for axis in range(1, n_axes)]
    # One axis is filled in order: it needs no recurrence.
    return np.array([place / n_points, *axes, *[np.zeros(n_points)] * (3 - n_axes)])
