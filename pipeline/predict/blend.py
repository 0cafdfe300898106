"""At a size that was seen, the law and the median seen there each have a say, by their precision."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, Floats, category_codes, floats
from pipeline.core.settings import PredictSettings
from pipeline.predict.curves import Curves
from pipeline.predict.intervals import law_log_sd

MEDIAN_VARIANCE = np.pi / 2
"""Variance of a median over that of a mean, for normal errors and many of them."""

MISSED_ERRORS = 3
"""Standard errors of the median beyond which the law is said to miss it."""


@dataclass(frozen=True, slots=True)
class Blend:
    """Per prediction: the runtime (s), its own log sd, whether repeats were seen there, whether the law missed them."""

    runtime_s: Floats
    log_sd: Floats
    is_observed: Bools
    is_missed: Bools


def blended(curves: Curves, procs: Floats, observations: pa.Table, settings: PredictSettings) -> Blend:
    """Precision-weighted mean of log runtimes: the law's, with its own error, and the median of repeats at this size.

    A size never seen, or seen without repeats anywhere in the group, is left to the law.
    """
    law_s, law_sd = curves.runtime_s(procs), law_log_sd(curves, procs, settings)
    median_s, n_jobs = _seen(curves, procs, observations)
    median_sd = np.sqrt(MEDIAN_VARIANCE / n_jobs) * np.maximum(curves["core_log_sd"], settings.measured_log_sd)
    is_observed = np.isfinite(median_s * median_sd * law_sd) & (law_sd + median_sd > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(is_observed, law_sd**2 / (law_sd**2 + median_sd**2), 0.0)
        distance = np.where(is_observed, np.log(median_s / law_s), 0.0)
    log_sd = np.where(is_observed, np.sqrt(1 - share) * law_sd, law_sd)
    missed = is_observed & (np.abs(distance) > np.maximum(MISSED_ERRORS * median_sd, settings.high_log_error))
    return Blend(law_s * np.exp(share * distance), log_sd, is_observed, missed)


def _seen(curves: Curves, procs: Floats, observations: pa.Table) -> tuple[Floats, Floats]:
    """Median runtime of each row's group at its size and the jobs that ended there; NaN where none ran."""
    codes, ids = category_codes(observations, "group_id")
    place = {group: code for code, group in enumerate(ids)}
    wanted = np.array([place[group] for group in curves.group_id], np.float64)
    span = float(max(procs.max(initial=0), floats(observations, "procs").max(initial=0))) + 1
    keys = codes * span + floats(observations, "procs")
    order = np.argsort(keys)
    found = np.searchsorted(keys[order], wanted * span + procs)
    rows = order[np.minimum(found, len(order) - 1)] if len(order) else np.zeros(0, np.int64)
    is_seen = keys[rows] == wanted * span + procs
    n_ended = np.maximum(floats(observations, "n_jobs") - np.nan_to_num(floats(observations, "n_censored")), 1.0)
    columns = (floats(observations, "runtime_s_median")[rows], n_ended[rows])
    median_s, n_jobs = (np.where(is_seen, values, np.nan) for values in columns)
    return median_s, n_jobs
