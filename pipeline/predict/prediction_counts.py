"""On which processor counts a group is predicted."""

from collections.abc import Sequence

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.curves import Curves


def prediction_grid(
    chosen: Curves, sizes_by_group: dict[str, Ints], reach: float, max_procs: int, at: Sequence[int] | None
) -> tuple[Ints, Floats]:
    """Row of `chosen` and processor count for every prediction, in order of both.

    The sizes observed, and the powers of two from smallest/reach to largest*reach on the machine; or exactly `at`. A
    group seen at one size is predicted there alone: one size says nothing about another.
    """
    grids = [_grid(sizes_by_group[group], reach, max_procs, at) for group in chosen.group_id]
    rows = np.repeat(np.arange(len(chosen)), [len(grid) for grid in grids])
    return rows, np.concatenate(grids).astype(np.float64) if grids else np.empty(0)


def _grid(observed: Ints, reach: float, max_procs: int, at: Sequence[int] | None) -> Ints:
    if at is not None:
        asked = np.unique(np.asarray(at, np.int64))
        return np.intersect1d(asked, observed) if len(observed) == 1 else asked
    if len(observed) == 1:
        return observed
    top = min(observed[-1] * reach, max(max_procs, observed[-1]))
    powers = 2 ** np.arange(0, int(np.log2(top)) + 1)
    return np.union1d(observed, powers[powers >= observed[0] / reach])
