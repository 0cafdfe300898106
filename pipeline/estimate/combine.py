"""The full estimator: several methods blended by their recent errors, with quantiles whose coverage is kept."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.alike import alike_at, alikeness
from pipeline.estimate.blend import Pace, beliefs, blended
from pipeline.estimate.boosted import INNER_SHARES, boosted_at, inputs
from pipeline.estimate.calibrate import calibrated
from pipeline.estimate.history import History
from pipeline.estimate.last_two import last_two_chain
from pipeline.estimate.past import Past, capped, past_of
from pipeline.estimate.recent import recent_10, recent_50
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.sessions import sessions

DAY_S = 86_400.0
RUNGS = (0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.995)
"""Shares at which `alike` answers; calibration stands a quantile on or between these, or beyond them."""

FIRST_RUNGS = (3.0, 5.0, 9.0, 10.0, 12.0)
"""Where QUANTILES stand before any error is known: a rung lower, the shortest there is, comes first."""

NEARLY = 0.98
"""A quantile this near the request is the request: what is stopped there ends some time after."""

VARIANTS = {
    "long": {"rank_power": 0.5, "age_days": 800.0, "burst_jobs": 2, "others": 1.5, "in_session": 1.5},
    "habit": {"rank_power": 0.0, "age_days": 1e4, "burst_jobs": 1, "in_session": 1.0, "place_power": 0.5},
    "absolute": {"scaling": 0.3, "other_request": 0.3, "other_procs": 0.11, "other_application": 0.4},
}
"""`alike` with another memory: longer, all of it a burst one job, and blind to how requests scale."""

N_WEIGHED = 4
"""Methods with a weight of their own, `alike` first; all, these too, have their median as the last one."""

FIRST_LOG = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
"""Log weights before any error is known: `alike` is the best single method on the first thirds."""


def walltime(history: History, settings: ForecastSettings) -> Floats:
    """(jobs, 5) quantiles, s; the median is at most the request."""
    past = past_of(history)
    shares = np.unique(np.concatenate([INNER_SHARES, RUNGS]))
    told = alike_at(history, settings, shares)
    center_s = _center(history, settings, told, shares, past)
    ladder = _ladder(told[:, np.searchsorted(shares, RUNGS)], center_s, past, 60.0 * settings.grace_min)
    found = calibrated(past, ladder, np.array(FIRST_RUNGS), np.array(QUANTILES), settings.coverage_step)
    return _around(center_s, found)


def _center(history: History, settings: ForecastSettings, told: Floats, shares: Floats, past: Past) -> Floats:
    """(jobs,) the estimate, s."""
    alike_s = told[:, np.searchsorted(shares, 0.5)]
    picked = np.append(np.searchsorted(shares, INNER_SHARES), len(shares))
    told_s = _methods(history, settings, alike_s, told[:, picked], past)
    typical_s = np.where(past.requested_s > 0, past.requested_s, told_s[:, 0])
    return blended(
        past, alikeness(history, settings).burst, told_s, 0.3 * typical_s + 300.0, FIRST_LOG,
        beliefs(int(past.user.max(initial=-1)) + 1, FIRST_LOG),
        Pace(settings.step_all, settings.step_user, DAY_S * settings.half_life_all_days,
             DAY_S * settings.half_life_user_days),
    )  # fmt: skip


def _methods(history: History, settings: ForecastSettings, alike_s: Floats, told: Floats, past: Past) -> Floats:
    """(jobs, methods) medians, s, gaps filled by `alike`, else by the request, else by an hour."""
    half = np.array([0.5])
    variants = [alike_at(history, settings.model_copy(update=changes), half)[:, 0] for changes in VARIANTS.values()]
    seen = inputs(history, settings, np.column_stack([told, *variants]))
    columns = [alike_s, boosted_at(history, settings, told, seen, 0.5), *variants]
    columns += [method(history, settings)[:, 1] for method in (last_two_chain, recent_10, recent_50, sessions)]
    instead_s = np.where(past.requested_s > 0, past.requested_s, 3600.0)
    instead_s = np.where(np.isnan(alike_s), instead_s, alike_s)
    told_s = np.stack(columns, axis=1)
    told_s = np.where(np.isnan(told_s), instead_s[:, None], told_s)
    return capped(np.column_stack([told_s[:, :N_WEIGHED], np.median(told_s, axis=1)]), past.requested_s)


def _ladder(rungs_s: Floats, center_s: Floats, past: Past, grace_s: float) -> Floats:
    """Ascending runtimes, s: below the estimate and above it, and as far beyond the request as jobs are let run."""
    middle = RUNGS.index(0.5)
    rungs_s = np.where(np.isnan(rungs_s), center_s[:, None], rungs_s)
    below = np.minimum(rungs_s[:, :middle], center_s[:, None])
    above = np.maximum(rungs_s[:, middle + 1 :], center_s[:, None])
    limit_s = np.where(past.requested_s > 0, past.requested_s, 1.5 * above[:, -1])[:, None]
    above = np.where(above >= NEARLY * limit_s, limit_s + grace_s, above)
    shortest = np.minimum(below[:, :1] / 4, 1.0)
    ladder = np.column_stack([shortest, below, center_s, above, limit_s + grace_s, 2 * limit_s + grace_s])
    return np.maximum.accumulate(ladder, axis=1)


def _around(center_s: Floats, found: Floats) -> Floats:
    """The quantiles in order, with the estimate as the middle one."""
    found[:, 1] = center_s
    found[:, 0] = np.minimum(found[:, 0], center_s)
    found[:, 2:] = np.maximum.accumulate(np.maximum(found[:, 2:], center_s[:, None]), axis=1)
    return found
