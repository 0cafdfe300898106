"""The kernel average of a group's observed medians, which predicts counts that never ran."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.cells import Atoms, Cells, ranges
from pipeline.predict.mixtures import Mixtures

MOST_RUNS = 20
"""Runs beyond this number add no weight to a cell among its group's cells."""


def kernel_averages(cells: Cells, level: Floats, group: Ints, procs: Floats, own_level: Floats, now_s: float) -> Floats:
    """Per row the mean over its group's other counts of the log median of all runs that ended by `now_s` (log s).

    A count weighs exp(-|log2 of the ratio|) times its runs, 20 at most. `level` (per cell) and `own_level` (per row)
    are log runtimes by the group's law, which bring medians together; 0 where none answers. NaN: no other count ran.
    """
    near = np.flatnonzero(np.isin(cells.group, group))
    n_ended = cells.ended(near, now_s)
    near, n_ended = near[n_ended > 0], n_ended[n_ended > 0]
    rows, owner = ranges(cells.offsets[near], cells.offsets[near] + n_ended)
    every = Mixtures.of(Atoms(owner, cells.log_s[rows], np.ones(rows.size)), near.size)
    median = every.at(np.arange(near.size), np.full(near.size, 0.5)) - level[near]
    first, last = (np.searchsorted(cells.group[near], group, side) for side in ("left", "right"))
    pair, row = ranges(first, last)
    apart = np.abs(np.log2(cells.procs[near[pair]] / procs[row]))
    kernel = np.exp(-apart) * np.minimum(n_ended[pair], MOST_RUNS) * (apart > 0)
    total = np.bincount(row, kernel, group.size)
    mean = np.bincount(row, kernel * median[pair], group.size) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean + own_level, np.nan)
