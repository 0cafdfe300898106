"""Which groups a law predicts: those whose law predicts held-out sizes clearly better than their other sizes do."""

from itertools import pairwise

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.predict.cells import Cells
from pipeline.predict.curves import Curves
from pipeline.predict.kernel_average import MOST_RUNS
from pipeline.predict.mixtures import Mixtures
from pipeline.predict.predictive import OWN_RUNS

MIN_SIZES = 3

EARNED = 0.7
"""A law's leave-one-out error is at most this share of the kernel average's."""


def scaling_groups(cells: Cells, chosen: Curves) -> Bools:
    """Per group of `cells`, whether its chosen law beats a kernel average of its sizes' medians on held-out sizes."""
    place = {group: row for row, group in enumerate(chosen.group_id)}
    row = np.array([place.get(group, -1) for group in cells.group_id], np.int64)
    scales = np.zeros(row.size, bool)
    known = np.flatnonzero(row >= 0)
    error = _kernel_errors(cells)
    law, points = chosen.law[row[known]], chosen["n_points"][row[known]]
    loo = chosen["loo_log_rmse"][row[known]]
    with np.errstate(invalid="ignore"):
        scales[known] = (law != "constant") & (points >= MIN_SIZES) & (loo <= EARNED * error[known])
    return scales


def _kernel_errors(cells: Cells) -> Floats:
    """Per group, root mean square log error of each size's median predicted by the others'; NaN for a single size."""
    median = _medians(cells)
    n_runs = np.minimum(np.diff(cells.offsets), MOST_RUNS).astype(np.float64)
    errors = np.full(len(cells.group_id), np.nan)
    bounds = np.searchsorted(cells.group, np.arange(errors.size + 1))
    for group, (first, last) in enumerate(pairwise(bounds)):
        if last - first > 1:
            log2 = np.log2(cells.procs[first:last])
            kernel = np.exp(-np.abs(log2[:, None] - log2)) * n_runs[first:last]
            np.fill_diagonal(kernel, 0.0)
            predicted = kernel @ median[first:last] / kernel.sum(axis=1)
            errors[group] = np.sqrt(np.mean((predicted - median[first:last]) ** 2))
    return errors


def _medians(cells: Cells) -> Floats:
    every = np.arange(len(cells))
    atoms = cells.atoms(every, np.diff(cells.offsets), cells.now_s, OWN_RUNS)
    return Mixtures.of(atoms, len(cells)).at(every, np.full(len(cells), 0.5))
