"""Past windows: predictions made as of earlier times, and the runtimes of the jobs submitted after them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import stdtrit

from pipeline.arrays import Bools, Floats, Ints
from pipeline.scaling.later.cells import DAY_S, Cells, ranges
from pipeline.scaling.later.predictive import Predictive, TargetRows, predictive
from pipeline.scaling.scaling_rules import PredictRules

N_RESIDUALS = 41
SHARES = (np.arange(N_RESIDUALS) + 0.5) / N_RESIDUALS

DEFAULT_RESIDUALS: Floats = 0.9 * stdtrit(3.0, SHARES)
"""Log errors of a centre for a log without past windows (log s)."""

MOST_RESIDUALS = 4000
"""Number of latest errors used; DEFAULT_COUNT of the default errors are added to them."""
DEFAULT_COUNT = 50

MIN_RUNS = 50
"""Runs that must have ended before a window begins."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Errors of the centre (log s) and since when each is known (s)."""

    known_s: Floats
    error: Floats

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The parts in one."""
        empty = [np.empty(0)]
        columns = ([getattr(part, name) for part in parts] or empty for name in ("known_s", "error"))
        return cls(*(np.concatenate(column) for column in columns))

    def at(self, now_s: float) -> Floats:
        """Errors at evenly spaced shares: a mixture of the log's errors known by `now_s` and of the default errors."""
        pool = self.error[self.known_s <= now_s][-MOST_RESIDUALS:]
        if not pool.size:
            return DEFAULT_RESIDUALS
        share = pool.size / (pool.size + DEFAULT_COUNT)
        mixed: Floats = share * np.quantile(pool, SHARES) + (1 - share) * DEFAULT_RESIDUALS
        return mixed


@dataclass(frozen=True, slots=True)
class Window:
    """Predictions made at `cut_s` for the jobs submitted within the horizon after it, and their outcomes.

    Per row: the cell, half the interquartile range of its distribution (log s), whether it had run. Per job: its row,
    its run among those of the cells, the share of the distribution below its runtime, whether its runtime is within 25%
    of the median.
    """

    cut_s: float
    cell: Ints
    half_iqr: Floats
    is_seen: Bools
    row: Ints
    run: Ints
    below: Floats
    is_near: Bools
    residuals: Residuals


@dataclass(frozen=True, slots=True)
class PastWindows:
    """Windows as known at a time, the oldest first. Per job: its row, and the share of the distribution below it.

    Per row (a cell in a window): the cell, the window's age in days, jobs, the distribution's half interquartile range
    (log s), share of jobs within 25% of the median, whether the cell had run. `residuals`: errors of the centre.
    """

    row: Ints
    below: Floats
    cell: Ints
    age_days: Floats
    n_jobs: Ints
    half_iqr: Floats
    hit: Floats
    is_seen: Bools
    residuals: Floats
    n_windows: int

    @classmethod
    def of(cls, windows: Sequence[Window], cells: Cells, now_s: float, most: int) -> Self:
        """The latest `most` windows that began before `now_s`, with their jobs that had ended by then."""
        begun = [window for window in windows if window.cut_s < now_s]
        parts = [_known(window, cells, now_s) for window in begun[-most:]] if most else []
        residuals = Residuals.joined([window.residuals for window in begun]).at(now_s)
        return cls(**_end_to_end([part for part in parts if part["row"].size]), residuals=residuals)


def step_days(horizon_days: float) -> float:
    """Days between the beginnings of past windows; windows of more than a few days overlap."""
    return min(horizon_days, float(max(round(horizon_days / 4), 1)))


def past_cuts(cells: Cells, now_s: float, rules: PredictRules) -> list[float]:
    """Beginnings of the latest windows before `now_s` in which jobs were submitted, the oldest first."""
    step_s, length_s = step_days(rules.horizon_days) * DAY_S, rules.horizon_days * DAY_S
    submit_s, ends = np.sort(cells.submit_s), np.sort(cells.end_s)
    if ends.size <= MIN_RUNS:
        return []
    n_steps = np.floor((now_s - max(submit_s[0], ends[MIN_RUNS - 1])) / step_s)
    cuts = now_s - step_s * np.arange(max(n_steps, 0), 0, -1)
    n_jobs = np.searchsorted(submit_s, np.minimum(cuts + length_s, now_s), "right")
    n_jobs -= np.searchsorted(submit_s, cuts, "right")
    found = cuts[n_jobs > 0]
    return [float(cut_s) for cut_s in found[max(found.size - rules.past_windows, 0) :]]


def windows_at(cells: Cells, level: Floats, rules: PredictRules, cuts_s: Sequence[float]) -> list[Window]:
    """A window for each cut with jobs of known groups, predicted from the runs that had ended when it began."""
    of_run, order = cells.of_run, np.argsort(cells.submit_s, kind="stable")
    submit_s, found = cells.submit_s[order], list[Window]()
    for cut_s in cuts_s:
        first, last = np.searchsorted(submit_s, [cut_s, cut_s + rules.horizon_days * DAY_S], "right")
        runs = np.sort(order[first:last])
        residuals = Residuals.joined([window.residuals for window in found]).at(cut_s)
        window = _window(cells, level, runs, of_run[runs], cut_s, residuals, rules.jump_mass)
        found += [] if window is None else [window]
    return found


def _window(
    cells: Cells, level: Floats, runs: Ints, of_run: Ints, cut_s: float, residuals: Floats, jump_mass: float
) -> Window | None:
    wanted, place = np.unique(of_run, return_inverse=True)
    if not wanted.size:
        return None
    known = predictive(cells, level, target_cells(cells, level, wanted, cut_s), cut_s, residuals, jump_mass)
    kept = np.flatnonzero(known.is_known[place])
    return _scored(known, wanted, place[kept], runs[kept], cells, cut_s) if kept.size else None


def target_cells(cells: Cells, level: Floats, wanted: Ints, cut_s: float) -> TargetRows:
    """Cells as targets at a time; cells without a run by then count as counts that never ran."""
    ran = cells.ended(wanted, cut_s) > 0
    return TargetRows(cells.group[wanted], cells.procs[wanted], np.where(ran, wanted, -1), level[wanted])


def _scored(known: Predictive, cell: Ints, row: Ints, run: Ints, cells: Cells, cut_s: float) -> Window:
    log_s = cells.log_s[run]
    is_near = np.abs(np.expm1(known.medians()[row] - log_s)) <= 0.25
    below = known.mixtures.below(row, log_s)
    residuals = _residuals(row, log_s - known.centre[row], cells.end_s[run])
    return Window(cut_s, cell, half_iqr(known), known.is_seen, row, run, below, is_near, residuals)


def half_iqr(known: Predictive) -> Floats:
    """Half the interquartile range of each row's distribution (log s)."""
    every = np.arange(known.centre.size)
    low, high = (known.mixtures.at(every, np.full(every.size, share)) for share in (0.25, 0.75))
    found: Floats = (high - low) / 2
    return found


def _residuals(row: Ints, error: Floats, end_s: Floats) -> Residuals:
    """Errors of a window. A cell with n jobs gives sqrt(n) errors, evenly spaced by size, known when all have ended."""
    order = np.lexsort((error, row))
    n_jobs = np.bincount(row)
    first = np.cumsum(n_jobs) - n_jobs
    n_taken = np.round(np.sqrt(n_jobs)).astype(np.int64)
    place, owner = ranges(np.zeros(n_jobs.size, np.int64), n_taken)
    taken = first[owner] + ((place + 0.5) / n_taken[owner] * n_jobs[owner]).astype(np.int64)
    known_s = np.full(n_jobs.size, -np.inf)
    np.maximum.at(known_s, row, end_s)
    return Residuals(known_s[owner], error[order][taken])


def _known(window: Window, cells: Cells, now_s: float) -> dict[str, Any]:
    """A window's jobs that had ended by `now_s`, and its rows."""
    ended = cells.end_s[window.run] <= now_s
    row = window.row[ended]
    n_jobs = np.bincount(row, minlength=window.cell.size)
    kept = n_jobs > 0
    hits = np.bincount(row, window.is_near[ended], window.cell.size)
    return {
        "row": (np.cumsum(kept) - 1)[row], "below": window.below[ended], "cell": window.cell[kept],
        "age_days": np.full(int(kept.sum()), (now_s - window.cut_s) / DAY_S), "n_jobs": n_jobs[kept],
        "half_iqr": window.half_iqr[kept], "hit": hits[kept] / n_jobs[kept], "is_seen": window.is_seen[kept],
    }  # fmt: skip


def _end_to_end(parts: list[dict[str, Any]]) -> dict[str, Any]:
    none, no_row = np.empty(0), np.empty(0, np.int64)
    empty = {"row": no_row, "below": none, "cell": no_row, "age_days": none, "n_jobs": no_row, "half_iqr": none,
             "hit": none, "is_seen": np.empty(0, bool)}  # fmt: skip
    shift = np.cumsum([0, *(part["cell"].size for part in parts)])
    shifted = [part | {"row": part["row"] + begin} for part, begin in zip(parts, shift, strict=False)]
    columns = {name: np.concatenate([none_yet, *(part[name] for part in shifted)]) for name, none_yet in empty.items()}
    return columns | {"n_windows": len(parts)}


CLASS_ENDS = np.array([0.15, 0.4, 0.8, 1.3])
"""Half interquartile ranges (log s) that separate classes of spread."""

NAMED = np.array([0.025, 0.1, 0.9, 0.975])

DEFAULTS = {1.0: (0.023, 0.10, 0.924, 0.982), 7.0: (0.021, 0.094, 0.926, 0.983), 30.0: (0.025, 0.098, 0.929, 0.985)}
"""Shares for a log without past windows, by days ahead; chosen on other logs' middle thirds."""

MIN_WINDOWS = 4
"""Past windows needed to measure how often a log's intervals held."""

BLOCKS = 8
"""Blocks of the newer half of the past windows; each has its own calibration."""

HALF_LIFE_DAYS = 90.0
CLASS_PRIOR, POOL_PRIOR = 50.0, 30.0
"""Weight in jobs of the pool beside a class, and of the defaults beside the pool."""


N_CLASSES = CLASS_ENDS.size + 2


def spread_class(half_iqr: Floats, is_seen: Bools) -> Ints:
    """The class of a predictive's spread, 0 the narrowest; the last class holds the cells that never ran."""
    return np.where(is_seen, np.searchsorted(CLASS_ENDS, half_iqr), N_CLASSES - 1).astype(np.int64)


def calibrated_shares(past: PastWindows, horizon_days: float) -> Floats:
    """Shares [class, end] to use instead of 2.5%, 10%, 90%, 97.5%: quantiles of where past jobs of the class lay."""
    nearest = min(DEFAULTS, key=lambda days: abs(np.log(days / horizon_days)))
    pool = np.array(DEFAULTS[nearest])
    weight = np.exp2(-past.age_days / HALF_LIFE_DAYS)[past.row]
    pool = _shrunk(past.below, weight, pool, POOL_PRIOR)
    of = spread_class(past.half_iqr, past.is_seen)[past.row]
    rows = [_shrunk(past.below[of == k], weight[of == k], pool, CLASS_PRIOR) for k in range(N_CLASSES)]
    return np.array(rows)


def later_coverage(windows: Sequence[Window], cells: Cells, now_s: float, rules: PredictRules) -> tuple[float, float]:
    """Shares of the jobs of the newer half of the windows inside 80% and 95%; NaN for fewer than MIN_WINDOWS.

    That half is split into BLOCKS parts. Each is calibrated with what was known when its first window began.
    """
    known = [window for window in windows[-rules.past_windows :] if (cells.end_s[window.run] <= now_s).any()]
    if len(known) < MIN_WINDOWS or not rules.past_windows:
        return float("nan"), float("nan")
    newer = np.array_split(np.arange(len(known) // 2, len(known)), BLOCKS)
    blocks = [[known[place] for place in part] for part in newer if part.size]
    inside = np.concatenate([_inside(windows, block, cells, now_s, rules) for block in blocks], axis=1)
    return float(inside[0].mean()), float(inside[1].mean())


def _inside(
    windows: Sequence[Window], block: Sequence[Window], cells: Cells, now_s: float, rules: PredictRules
) -> Bools:
    """Whether each job [80% and 95%, job] of a block of windows lies inside, as calibrated when the block began."""
    then = PastWindows.of(windows, cells, block[0].cut_s, rules.past_windows)
    every = calibrated_shares(then, rules.horizon_days)
    found = []
    for window in block:
        ended = cells.end_s[window.run] <= now_s
        shares = every[spread_class(window.half_iqr, window.is_seen)][window.row[ended]]
        below = window.below[ended]
        found.append([(shares[:, k] <= below) & (below <= shares[:, -1 - k]) for k in (1, 0)])
    return np.concatenate(found, axis=1)


def _shrunk(below: Floats, weight: Floats, prior: Floats, prior_jobs: float) -> Floats:
    if not below.size:
        return prior
    order = np.argsort(below, kind="stable")
    total = np.cumsum(weight[order])
    middle = (total - weight[order] / 2) / total[-1]
    own = np.interp(NAMED, middle, below[order])
    n_jobs = weight.sum() ** 2 / np.square(weight).sum() if weight.size else 0.0
    mixed: Floats = (n_jobs * own + prior_jobs * prior) / (n_jobs + prior_jobs)
    return mixed
