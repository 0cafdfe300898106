"""Ascending values in slices of one array: insertion, removal, quantiles."""

from pipeline.core.arrays import Floats
from pipeline.core.compiled import kernel


@kernel
def insert(ordered: Floats, start: int, n: int, y: float) -> None:
    """Insert y into the n ascending values from `start` on; there has to be room for one more."""
    place = start + n
    while place > start and ordered[place - 1] > y:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = y


@kernel
def remove(ordered: Floats, start: int, n: int, y: float) -> None:
    """Remove one value equal to y, which is among the n ascending values from `start` on."""
    place = start
    while ordered[place] != y:
        place += 1
    for k in range(place, start + n - 1):
        ordered[k] = ordered[k + 1]


@kernel
def quantile(ordered: Floats, start: int, n: int, share: float) -> float:
    """The value at rank share * (n + 1) of the n ascending values from `start` on, interpolated linearly.

    The next value of an exchangeable series is below it with that probability.
    """
    rank = min(max(share * (n + 1) - 1, 0.0), n - 1.0)
    below = int(rank)
    above = min(below + 1, n - 1)
    return float(ordered[start + below] + (rank - below) * (ordered[start + above] - ordered[start + below]))
