"""Past windows: what would have been predicted at earlier times, and what the jobs submitted after them took."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.settings import PredictSettings
from pipeline.predict.cells import DAY_S, Cells
from pipeline.predict.predictive import Asked, Predictive, predictive

N_RESIDUALS = 41
SHARES = (np.arange(N_RESIDUALS) + 0.5) / N_RESIDUALS

DEFAULT_RESIDUALS: Floats = 0.9 * stdtrit(3.0, SHARES)
"""Log errors of a centre before a log has shown its own (log s)."""

MOST_RESIDUALS = 4000
"""Latest errors that count; and so many of the default's stand beside them."""
DEFAULT_COUNT = 50

MIN_RUNS = 50
"""Runs before a window, for it to be one."""


@dataclass(frozen=True, slots=True)
class Past:
    """Past windows, the oldest first. Per job: the row it is of, and the share of its distribution below its runtime.

    Per row (a cell in a window): the cell, the window's age in windows, jobs, the distribution's half interquartile
    range (log s), share of jobs within 25% of the median, whether the cell had run. `residuals`: errors of the centre.
    """

    row: Ints
    below: Floats
    cell: Ints
    age: Ints
    n_jobs: Ints
    half_iqr: Floats
    hit: Floats
    is_seen: Bools
    residuals: Floats
    n_windows: int


def past_windows(cells: Cells, level: Floats, settings: PredictSettings) -> Past:
    """Each predicted from what had ended when it began, and scored on jobs submitted in it that have ended."""
    length_s = settings.horizon_days * DAY_S
    of_run, order = cells.of_run, np.argsort(cells.submit_s, kind="stable")
    submit_s, ends = cells.submit_s[order], np.sort(cells.end_s)
    span = (cells.now_s - submit_s[0]) / length_s if submit_s.size else 0.0
    rows, pool = [], np.empty(0)
    for age in range(min(int(span), settings.past_windows), 0, -1):
        cut_s = cells.now_s - age * length_s
        if np.searchsorted(ends, cut_s, "right") < MIN_RUNS:
            continue
        first, last = np.searchsorted(submit_s, [cut_s, cut_s + length_s], "right")
        runs = order[first:last]
        found = _window(cells, level, runs, of_run[runs], age, cut_s, residuals_of(pool), settings.jump_mass)
        if found is not None:
            rows.append(found)
            pool = np.append(pool, found.residuals)[-MOST_RESIDUALS:]
    return _end_to_end(rows, residuals_of(pool))


def residuals_of(pool: Floats) -> Floats:
    """Errors at evenly spaced shares, of those a log has shown and of some that any log may have."""
    share = pool.size / (pool.size + DEFAULT_COUNT)
    if not pool.size:
        return DEFAULT_RESIDUALS
    mixed: Floats = share * np.quantile(pool, SHARES) + (1 - share) * DEFAULT_RESIDUALS
    return mixed


def _window(
    cells: Cells, level: Floats, runs: Ints, of_run: Ints, age: int, cut_s: float, residuals: Floats, jump_mass: float
) -> Past | None:
    wanted, place = np.unique(of_run, return_inverse=True)
    if not wanted.size:
        return None
    ran = cells.ended(wanted, cut_s) > 0
    asked = Asked(cells.group[wanted], cells.procs[wanted], np.where(ran, wanted, -1), level[wanted])
    known = predictive(cells, level, asked, cut_s, residuals, jump_mass)
    kept = np.flatnonzero(known.is_known[place])
    if not kept.size:
        return None
    return _scored(known, wanted, place[kept], cells.log_s[runs[kept]], age)


def _scored(known: Predictive, cell: Ints, row: Ints, log_s: Floats, age: int) -> Past:
    every = np.arange(cell.size)
    low, high = (known.mixtures.at(every, np.full(cell.size, share)) for share in (0.25, 0.75))
    middle = known.medians()
    n_jobs = np.bincount(row, minlength=cell.size)
    is_near = np.abs(np.expm1(middle[row] - log_s)) <= 0.25
    hit = np.bincount(row, is_near, cell.size) / np.maximum(n_jobs, 1)
    below = known.mixtures.below(row, log_s)
    errors = (log_s - known.centre[row])[np.argsort(row, kind="stable")]
    # A cell's burst is one experience: its errors at few quantiles.
    residuals = [np.quantile(part, (np.arange(k) + 0.5) / k)
                 for part in np.split(errors, np.cumsum(n_jobs)[:-1]) if part.size
                 for k in [max(1, round(np.sqrt(part.size)))]]  # fmt: skip
    ages = np.full(cell.size, age)
    return Past(row, below, cell, ages, n_jobs, (high - low) / 2, hit, known.is_seen, np.concatenate(residuals), 1)


def _end_to_end(parts: list[Past], residuals: Floats) -> Past:
    if not parts:
        none, no_row = np.empty(0), np.empty(0, np.int64)
        return Past(no_row, none, no_row, no_row, no_row, none, none, np.empty(0, bool), residuals, 0)
    shift = np.cumsum([0, *(part.cell.size for part in parts)])
    row = np.concatenate([part.row + begin for part, begin in zip(parts, shift, strict=False)])
    names = ("below", "cell", "age", "n_jobs", "half_iqr", "hit", "is_seen")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Past(row=row, **columns, residuals=residuals, n_windows=len(parts))
