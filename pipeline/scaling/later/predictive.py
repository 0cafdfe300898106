"""The predictive distribution of a new run's log runtime, from runs of its cell and its group, and residuals."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.scaling.curves import Curves
from pipeline.scaling.later.cells import MOST_RUNS, Atoms, Cells, Mixtures, kernel_averages, ranges

OWN_RUNS, SUMMARY_RUNS, OTHER_RUNS = 400, 60, 9
"""Latest runs that are used: of the cell itself, for a cell's median, and of each other cell of the group."""

LEAST_SUPPORT = 0.25
"""Least weight of a cell's own runs."""

OTHERS_MASS, RESIDUAL_MASS = 2.0, 2.0
"""Weight of the group's other cells, and of the log's residuals about the centre."""


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Rows to predict: group code, procs, the cell itself (-1: never ran), log runtime of the group's law there."""

    group: Ints
    procs: Floats
    cell: Ints
    level: Floats


@dataclass(frozen=True, slots=True)
class Predictive:
    """A distribution of log runtime per target; its centre, whether the cell had run, and the weight of its runs.

    `is_known` is false for rows whose group had not run; their distribution is that of the residuals about 0.
    """

    mixtures: Mixtures
    centre: Floats
    is_seen: Bools
    is_known: Bools
    support: Floats

    def medians(self) -> Floats:
        """Log runtime to publish per row: the distribution's median; for a cell that never ran, the centre."""
        every = np.arange(self.centre.size)
        middle = self.mixtures.at(every, np.full(every.size, 0.5))
        return np.where(self.is_seen, middle, self.centre)


def predictive(
    cells: Cells, level: Floats, targets: TargetRows, cut_s: float, residuals: Floats, jump_mass: float
) -> Predictive:
    """The distributions as known at `cut_s`.

    `level` is the law's log runtime of every cell; `residuals` are equally likely log errors.
    """
    near, near_of, n_ended, support, median = _summaries(cells, targets, cut_s)
    place, pair_row, pair_cell = _pairs(cells, targets, near, near_of)
    is_own = near[pair_cell] == targets.cell[pair_row]
    shifted = median[pair_cell] - level[near[pair_cell]] + targets.level[pair_row]
    kernel = np.exp(-np.abs(np.log2(cells.procs[near[pair_cell]] / targets.procs[pair_row])))
    kernel *= np.minimum(n_ended[pair_cell], MOST_RUNS) * ~is_own
    n_rows = targets.group.size
    total = np.bincount(pair_row, kernel, n_rows).astype(np.float64)
    others = np.bincount(pair_row, kernel * shifted, n_rows) / np.where(total > 0, total, 1.0)
    own_place = np.where(targets.cell >= 0, place[targets.cell], -1)
    is_seen = own_place >= 0
    own = np.where(is_seen, np.maximum(support[own_place], LEAST_SUPPORT), 0.0) if near.size else np.zeros(n_rows)
    own_median = median[own_place] if near.size else np.zeros(n_rows)
    centre = np.where(total > 0, (own * own_median * is_seen + others) / (own + 1.0), own_median * is_seen)
    new = np.flatnonzero(~is_seen & (total > 0))
    centre[new] = kernel_averages(cells, level, targets.group[new], targets.procs[new], targets.level[new], cut_s)
    atoms = _joined(
        _own_atoms(cells, targets, is_seen, own, cut_s),
        _other_atoms(cells, level, targets, near, n_ended, pair_row, pair_cell, kernel, total, cut_s),
        _residual_atoms(centre, RESIDUAL_MASS + jump_mass * own, residuals),
    )
    return Predictive(Mixtures.of(atoms, n_rows), centre, is_seen, is_seen | (total > 0), own)


def _summaries(cells: Cells, targets: TargetRows, cut_s: float) -> tuple[Ints, Ints, Ints, Floats, Floats]:
    """Cells of the targets' groups that had run by `cut_s`: place, group, number of runs, weight, weighted median."""
    groups = np.unique(targets.group)
    first, last = (np.searchsorted(cells.group, groups, side) for side in ("left", "right"))
    near, _ = ranges(first, last)
    n_ended = cells.ended(near, cut_s)
    near, n_ended = near[n_ended > 0], n_ended[n_ended > 0]
    atoms = cells.atoms(near, n_ended, cut_s, SUMMARY_RUNS)
    support = np.bincount(atoms.owner, atoms.weight, near.size).astype(np.float64)
    median = Mixtures.of(atoms, near.size).at(np.arange(near.size), np.full(near.size, 0.5))
    return near, cells.group[near], n_ended, support, median


def _pairs(cells: Cells, targets: TargetRows, near: Ints, near_of: Ints) -> tuple[Ints, Ints, Ints]:
    """Place among `near` of every cell (-1: none); all pairs of a target and a cell of its group, as places."""
    place = np.full(len(cells) + 1, -1, np.int64)
    place[near] = np.arange(near.size)
    first, last = (np.searchsorted(near_of, targets.group, side) for side in ("left", "right"))
    pair_cell, pair_row = ranges(first, last)
    return place, pair_row, pair_cell


def _own_atoms(cells: Cells, targets: TargetRows, is_seen: Bools, own: Floats, cut_s: float) -> Atoms:
    rows = np.flatnonzero(is_seen)
    found = cells.atoms(targets.cell[rows], cells.ended(targets.cell[rows], cut_s), cut_s, OWN_RUNS)
    whole = np.bincount(found.owner, found.weight, rows.size)
    factor = np.maximum(own[rows], LEAST_SUPPORT) / np.where(whole > 0, whole, 1.0)
    return Atoms(rows[found.owner], found.log_s, found.weight * factor[found.owner])


def _other_atoms(
    cells: Cells, level: Floats, targets: TargetRows, near: Ints, n_ended: Ints, pair_row: Ints, pair_cell: Ints,
    kernel: Floats, total: Floats, cut_s: float,
) -> Atoms:  # fmt: skip
    counts = np.flatnonzero(kernel > 0)
    row, cell = pair_row[counts], pair_cell[counts]
    latest = cells.atoms(near, n_ended, cut_s, OTHER_RUNS)
    first = np.searchsorted(latest.owner, np.arange(near.size + 1)).astype(np.int64)
    rows, owner = ranges(first[cell], first[cell + 1])
    whole = np.bincount(latest.owner, latest.weight, near.size)
    weight = OTHERS_MASS * kernel[counts] / total[row]
    shift = targets.level[row] - level[near[cell]]
    part = latest.weight[rows] / whole[cell][owner]
    return Atoms(row[owner], latest.log_s[rows] + shift[owner], weight[owner] * part)


def _residual_atoms(centre: Floats, mass: Floats, residuals: Floats) -> Atoms:
    owner = np.repeat(np.arange(centre.size), residuals.size)
    spread = np.tile(residuals, centre.size)
    return Atoms(owner, centre[owner] + spread, np.repeat(mass / residuals.size, residuals.size))


def _joined(*parts: Atoms) -> Atoms:
    columns = ([getattr(part, name) for part in parts] for name in ("owner", "log_s", "weight"))
    return Atoms(*(np.concatenate(column) for column in columns))


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
