"""Gradient-boosted medians (LightGBM) of runtime over request, refitted as jobs end, over a window of the latest."""

from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.alike import alike_at, alikeness
from pipeline.estimate.features import features
from pipeline.estimate.history import History
from pipeline.estimate.kinds import kind_features
from pipeline.estimate.past import capped, past_of
from pipeline.estimate.score import QUANTILES

FIRST_FIT_JOBS = 500
BINS = 63
LEAF_JOBS = 30
SAMPLE = 0.7
LEARNING_RATE = 0.12
LONGEST_SHARE = 1.2
"""Runtimes past this many requests tell of clocks and grace times, not of jobs."""

INNER_SHARES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def boosted(history: History, settings: ForecastSettings) -> Floats:
    """(jobs, 5) quantiles, s, one model a quantile; NaN until enough jobs have ended."""
    told = alike_at(history, settings, INNER_SHARES)
    seen = inputs(history, settings, told)
    columns = [boosted_at(history, settings, told, seen, share) for share in QUANTILES]
    return np.maximum.accumulate(np.stack(columns, axis=1), axis=1)


def boosted_at(history: History, settings: ForecastSettings, told: Floats, seen: Floats, share: float) -> Floats:
    """One quantile of every job's runtime, s; `told` is alike_at's answer at INNER_SHARES, `seen` what the trees see.

    A second counts the same in every job: shares of the request are weighted by the request.
    """
    requested_s = past_of(history).requested_s
    scale_s = np.where(requested_s > 0, requested_s, np.maximum(2 * np.nan_to_num(told[:, 2]), 60.0))
    target = np.where(history.is_lower_bound, LONGEST_SHARE, np.minimum(history.runtime_s / scale_s, LONGEST_SHARE))
    found = np.full(len(history), np.nan)
    edges = [*_refits(history.ended, settings.refit_jobs), len(history)]
    for start, stop in pairwise(edges):
        n_ended = int(history.ended[start])
        # In order of submit, so that jobs that end in the same second make the same trees in any order.
        known = np.sort(history.by_end[max(0, n_ended - settings.window_jobs) : n_ended])
        model = _fitted(seen[known], target[known], scale_s[known], share, settings)
        found[start:stop] = model.predict(seen[start:stop], num_threads=1)
    return capped(np.maximum(found * scale_s, 1.0), requested_s)


def inputs(history: History, settings: ForecastSettings, told: Floats) -> Floats:
    """(jobs, columns) what the trees see: `told`, runtimes (s) of other methods, among it."""
    codes = np.stack([history.codes["application"], history.codes["user_group"]], axis=1).astype(float)
    place = alikeness(history, settings).place
    return features(history, np.log(np.maximum(told, 1e-6)), place, codes, kind_features(history))


def _refits(ended: Ints, every: int) -> Ints:
    """The jobs at whose submits models are fitted: after 500 ended jobs, twice as many, ..., then every so many."""
    counts = [FIRST_FIT_JOBS]
    while len(ended) and counts[-1] <= ended[-1]:
        counts.append(min(2 * counts[-1], counts[-1] + every))
    jobs = np.unique(np.searchsorted(ended, counts))
    return jobs[jobs < len(ended)]


def _fitted(inputs: Floats, target: Floats, weight: Floats, share: float, settings: ForecastSettings) -> Any:
    import lightgbm  # noqa: PLC0415  (half a second, which most commands need not wait for)

    parameters = {
        "objective": "quantile", "alpha": share, "num_leaves": settings.leaves, "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": LEAF_JOBS, "max_bin": BINS, "feature_fraction": SAMPLE, "bagging_fraction": SAMPLE,
        "bagging_freq": 1, "seed": settings.seed, "num_threads": 1, "deterministic": True, "force_row_wise": True,
        "verbose": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(inputs, target, weight=weight / weight.mean(), params=parameters)
    return lightgbm.train(parameters, data, settings.trees)
