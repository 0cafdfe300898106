"""Builds the input of the judgments for rows of PREDICTIONS and of SCALABILITY."""

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.scaling.calibration import median_variance
from pipeline.scaling.curves import Curves, ObservedSeries
from pipeline.scaling.fit_status import FitStatus
from pipeline.scaling.judgments import Case
from pipeline.scaling.next_run import NONE_FAVOURED, Favoured, next_runs
from pipeline.scaling.scaling_rules import PredictRules

NEAR = 1.1
"""Ratio to the least WSSRE up to which a fit is about as good as the best (Deshmeh 2013)."""

PERFECT = 0.005
"""Relative error per size that is tolerated even beside a perfect fit."""


def rival_parallelism(fits: Curves, chosen: Curves) -> tuple[Floats, Floats]:
    """Per row of `chosen`, least and largest A of its group's good fits; NaN where none of them has an A."""
    place = {group: row for row, group in enumerate(chosen.group_id)}
    group = np.array([place.get(name, -1) for name in fits.group_id], np.int64)
    rows = np.flatnonzero((group >= 0) & np.isfinite(fits["wssre"]))
    least = _extreme(np.minimum, group[rows], fits["wssre"][rows], len(chosen), np.inf)
    limit = NEAR * least + chosen["n_points"] * PERFECT**2
    good = rows[fits["wssre"][rows] <= limit[group[rows]]]
    parallelism = fits["avg_parallelism"][good]
    low = np.fmin(fits["avg_parallelism_lo"][good], parallelism)
    high = np.fmax(fits["avg_parallelism_hi"][good], parallelism)
    known = ~np.isnan(low)
    low = _extreme(np.minimum, group[good[known]], low[known], len(chosen), np.inf)
    high = _extreme(np.maximum, group[good[known]], high[known], len(chosen), -np.inf)
    has_any = high > -np.inf
    return np.where(has_any, low, np.nan), np.where(has_any, high, np.nan)


def _extreme(pick: np.ufunc, group: Ints, values: Floats, n_groups: int, empty: float) -> Floats:
    found = np.full(n_groups, empty)
    pick.at(found, group, values)
    return found


MISSED_ERRORS = 3
"""Standard errors of the median beyond which the law misses it."""


def case_of(
    fits: Curves, chosen: Curves, observed: ObservedSeries, rows: Ints, procs: Floats, observations: pa.Table,
    settings: PredictRules, max_procs: int | None, procs_per_node: int | None = None,
    patterns: pa.Table | None = None,
) -> Case:  # fmt: skip
    """A row per prediction: row of `chosen`, processor count. Suggested runs keep to counts that `patterns` favours."""
    curves = chosen.take(rows)
    tails = (fits.status == FitStatus.TAIL_UNIDENTIFIED) & np.isfinite(fits["avg_parallelism"])
    is_open = np.isin(chosen.group_id.astype(str), fits.group_id[tails].astype(str))
    low, high = rival_parallelism(fits, chosen)
    groups, places = np.unique(rows, return_inverse=True)
    by_group = {} if patterns is None else Favoured.by_group(patterns)
    favoured = [by_group.get(group, NONE_FAVOURED) for group in chosen.group_id[groups]]
    return Case(
        curves=curves,
        procs=procs,
        is_open=is_open[rows],
        rival_lo=low[rows],
        rival_hi=high[rows],
        is_missed=_missed(curves, procs, observed.run_sd[rows], observations, settings),
        next_run=next_runs(observed, groups, max_procs, procs_per_node, favoured).rows(places),
        settings=settings,
        max_procs=max_procs,
    )


def _missed(curves: Curves, procs: Floats, run_sd: Floats, observations: pa.Table, settings: PredictRules) -> Bools:
    """Rows whose median of repeats is further from the law than MISSED_ERRORS standard errors and than a high error."""
    median_s, n_jobs = _seen_at(curves, procs, observations)
    error = np.sqrt(median_variance(run_sd, n_jobs, settings.measured_log_sd))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(np.log(median_s / curves.runtime_s(procs)))
    missed: Bools = (n_jobs > 1) & (distance > np.maximum(MISSED_ERRORS * error, settings.high_log_error))
    return missed


def _seen_at(curves: Curves, procs: Floats, observations: pa.Table) -> tuple[Floats, Floats]:
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
