"""Intervals for one new run: what repeats scatter, what the law misses, and what an open tail leaves undecided."""

import numpy as np
from scipy import stats

from pipeline.core.arrays import Floats
from pipeline.core.settings import PredictSettings
from pipeline.laws import LAWS
from pipeline.predict.curves import Curves

CORE_SHARE = 0.8
PRIOR_FREEDOM = 3
"""Degrees of freedom granted before any repeat was seen (the prototype's nu0)."""


def interval(
    curves: Curves, runtime_s: Floats, bend_s: Floats, procs: Floats, share: float, settings: PredictSettings
) -> tuple[Floats, Floats]:
    """Lower and upper end (s) of the central interval holding `share` of new runs: log runtime is Student-t.

    Its scale adds the repeats' variance to the law's own, which grows by a leave-one-out error per doubling beyond
    the sizes observed. Up to 80% repeats count by their core, beyond it with their failed starts and hangs too. Where
    the tail is unidentified the ends reach out to the curve that bends at once.
    """
    half = stats.t.ppf(0.5 + share / 2, _freedom(curves)) * log_sd(curves, procs, _repeats(curves, share), settings)
    return np.fmin(runtime_s, bend_s) * np.exp(-half), np.fmax(runtime_s, bend_s) * np.exp(half)


def _repeats(curves: Curves, share: float) -> Floats:
    core = curves["core_log_sd"]
    return core if share <= CORE_SHARE else np.fmax(core, curves["repeat_log_sd"])


def log_sd(curves: Curves, procs: Floats, repeats: Floats, settings: PredictSettings) -> Floats:
    """Standard deviation of the log of one new run's runtime at procs (log s), given that of repeats at one size."""
    unseen = np.isnan(repeats)
    from_repeats = np.where(unseen, settings.default_log_sd, repeats) / np.sqrt(curves["n_jobs"])
    loo = curves["loo_log_rmse"]
    one_size = curves["n_points"] == 1
    law = np.where(np.isnan(loo), np.where(one_size, from_repeats, settings.default_log_sd), loo)
    alone = np.where(one_size & unseen, settings.default_log_sd, np.nan_to_num(repeats))
    spread: Floats = np.hypot(alone, law * (1 + doublings_beyond(curves, procs)))
    return spread


def doublings_beyond(curves: Curves, procs: Floats) -> Floats:
    """How far procs lies outside the sizes observed, in doublings; 0 inside."""
    ratio = np.maximum(procs / curves["procs_max"], curves["procs_min"] / procs)
    far: Floats = np.log2(np.maximum(ratio, 1.0))
    return far


def _freedom(curves: Curves) -> Floats:
    n_parameters = np.array([LAWS[law].n_parameters for law in curves.law], np.float64)
    return PRIOR_FREEDOM + np.maximum(curves["n_jobs"] - n_parameters, 0.0)
