"""The fitting stage: OBSERVATIONS -> FITS, one row per group and law, failed fits too."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, category_codes, floats
from pipeline.axes import Axis
from pipeline.laws import LAWS
from pipeline.report import Fact, Report, Tally
from pipeline.scaling.fit_law import fit_law
from pipeline.scaling.points import (
    axes_of_groups,
    ended_jobs,
    fitted_points,
    precision_weights,
    repeat_spread,
    series_of,
)
from pipeline.scaling.rules import FitRules
from pipeline.scaling.series import OUT_COLUMNS, STATUS_CODE, STATUSES, BatchFit, FitStatus, SeriesBatch, ranges
from pipeline.tables import FITS

Loss = Literal["log", "relative"]

ROUNDS = 8
"""Reweightings; each series keeps its best, so one too many costs time only."""


def fit_batch(law: str, batch: SeriesBatch, loss: Loss) -> BatchFit:
    """One law fitted to every series; wssre is in the batch's own weights whatever the loss."""
    best = fit_law(law, batch)
    if loss == "relative" or not batch.n_series:
        return best
    runtime_s = np.repeat(_geometric_mean_s(batch), batch.n_points)
    least = misfit(law, best, batch, loss)
    for _ in range(ROUNDS):
        reweighted = dataclasses.replace(batch, weights=batch.weights * _log_to_relative(runtime_s / batch.runtime_s))
        fitted = fit_law(law, reweighted)
        reached = misfit(law, fitted, batch, loss)
        best, least = _better(best, fitted, reached < least), np.fmin(reached, least)
        runtime_s = np.sqrt(runtime_s * curve_s(law, fitted, batch))
    return dataclasses.replace(best, wssre=np.where(np.isnan(best.wssre), np.nan, misfit(law, best, batch, "relative")))


def misfit(law: str, fitted: BatchFit, batch: SeriesBatch, loss: Loss) -> Floats:
    """Per series, the weighted sum of squared errors of the loss; NaN where nothing was fitted."""
    if not batch.n_series:
        return np.empty(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = curve_s(law, fitted, batch) / batch.runtime_s
        error = np.log(ratio) if loss == "log" else 1 - ratio
    squares: Floats = np.add.reduceat(np.append(batch.weights * error**2, 0.0), batch.offsets[:-1])
    return np.where(batch.n_points > 0, squares, np.nan)


def curve_s(law: str, fitted: BatchFit, batch: SeriesBatch) -> Floats:
    """Each series' fitted runtime at its own sizes (s)."""
    rows = np.repeat(np.arange(batch.n_series), batch.n_points)
    return LAWS[law].runtime_s(fitted.parameters_of(rows), np.maximum(batch.procs, 1.0))


def _log_to_relative(ratio: Floats) -> Floats:
    """What a squared relative error must weigh to have the slope of a squared log error, at predicted/observed."""
    x = np.clip(np.where(np.isfinite(ratio), ratio, 1.0), 1e-6, 1e6)
    is_near = np.abs(x - 1) < 1e-6
    return np.where(is_near, 1.0, np.log(x) / (x * np.where(is_near, 1.0, x - 1)))


def _better(one: BatchFit, other: BatchFit, is_better: Bools) -> BatchFit:
    columns = [field.name for field in dataclasses.fields(one)]
    return BatchFit(**{name: np.where(is_better, getattr(other, name), getattr(one, name)) for name in columns})


def _geometric_mean_s(batch: SeriesBatch) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(batch.runtime_s)
    sums = np.add.reduceat(np.append(batch.weights * logs, 0.0), batch.offsets[:-1])
    weights = np.add.reduceat(np.append(batch.weights, 0.0), batch.offsets[:-1])
    return np.exp(sums / weights)


MIN_POINTS = 3
"""Sizes leave-one-out needs: with two, one point would have to give a slope."""

_UNUSABLE = (STATUS_CODE[FitStatus.TOO_FEW_POINTS], STATUS_CODE[FitStatus.BAD_VALUES])


def leave_one_out(law: str, batch: SeriesBatch, loss: Loss) -> Floats:
    """Per series, the weighted root mean square of log errors at each size predicted from the others (log s).

    NaN where the series has fewer than three sizes, or the others are too few for the law.
    """
    n_points = batch.n_points
    series = np.flatnonzero(n_points >= max(MIN_POINTS, LAWS[law].n_parameters + 1))
    held, owner = ranges(batch.offsets[series], batch.offsets[series + 1])
    # Every series without each of its sizes in turn, all in one fit.
    n_kept = n_points[series[owner]] - 1
    offsets = np.append(0, np.cumsum(n_kept))
    place, fold = ranges(np.zeros(held.size, np.int64), n_kept)
    kept = batch.offsets[series[owner]][fold] + place
    kept += kept >= held[fold]
    part = SeriesBatch(offsets, batch.procs[kept], batch.runtime_s[kept], batch.weights[kept])
    predicted_s = LAWS[law].runtime_s(fit_batch(law, part, loss).parameters, batch.procs[held])
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.log(predicted_s / batch.runtime_s[held])
    squares = np.bincount(owner, batch.weights[held] * error**2, series.size)
    found = np.full(len(n_points), np.nan)
    found[series] = np.sqrt(squares / n_points[series])
    return found


def choose(
    fits: Mapping[str, BatchFit],
    loo: Mapping[str, Floats],
    batch: SeriesBatch,
    n_jobs: Floats,
    core_log_sd: Floats,
    rules: FitRules,
) -> dict[str, Bools]:
    """Per law, whether it answers for each series; at most one law does.

    Of Downey's two modes only the one that fits better can be chosen. Three sizes or more: of the laws whose
    leave-one-out error is within `choice_margin` of the least, the one with the fewest parameters. Fewer: the constant,
    unless two sizes with repeats differ by more than noise explains and by no more than processors do.
    """
    names = sorted(fits, key=lambda name: LAWS[name].n_parameters)
    misfits = {name: misfit(name, fits[name], batch, rules.loss) for name in names}
    usable = np.column_stack(
        [~np.isin(fits[name].status, _UNUSABLE) & _best_of_family(name, misfits) for name in names]
    )
    errors = np.where(usable, np.column_stack([loo[name] for name in names]), np.nan)
    errors = np.where(np.isnan(errors), np.inf, errors)
    near = errors <= errors.min(axis=1, keepdims=True) * (1 + rules.choice_margin)
    near &= np.isfinite(errors)
    few = ~near.any(axis=1)
    near[few] = (usable & _simple_enough(names, batch, n_jobs, core_log_sd, rules))[few]
    first = near.argmax(axis=1)
    return {name: near.any(axis=1) & (first == place) for place, name in enumerate(names)}


def _best_of_family(name: str, misfits: Mapping[str, Floats]) -> Bools:
    """Whether no other branch of the law's family fits better; of branches that tie, the first by name."""
    best = np.ones(len(misfits[name]), np.bool_)
    for other in misfits:
        if other != name and LAWS[other].family == LAWS[name].family:
            ours, theirs = misfits[name], np.nan_to_num(misfits[other], nan=np.inf)
            best &= ours <= theirs if name < other else ours < theirs
    return best


def _simple_enough(names: list[str], batch: SeriesBatch, n_jobs: Floats, core_log_sd: Floats, rules: FitRules) -> Bools:
    """Laws allowed where leave-one-out cannot judge: two parameters only where two sizes with repeats clearly scale."""
    if not batch.n_series:
        return np.empty((0, len(names)), np.bool_)
    first, last = batch.offsets[:-1], batch.offsets[1:] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = np.log(batch.runtime_s[first] / batch.runtime_s[last])
    noise = 2 * np.sqrt(2) * np.fmax(core_log_sd, rules.noise_floor)
    linear = np.log(batch.procs[last] / batch.procs[first])
    repeated = np.minimum(n_jobs[first], n_jobs[last]) > 1
    scales = (batch.n_points == 2) & repeated & (fall > noise) & (fall < linear + noise)
    return np.column_stack([~scales if LAWS[name].n_parameters == 1 else scales for name in names])


def fit(observations: pa.Table, rules: FitRules) -> tuple[pa.Table, Report]:
    """FITS in order of group and of the laws in the rules; the Report counts groups by the status of their chosen law.

    Sizes are weighted by precision, times fit_weight where OBSERVATIONS calls one odd:
    at 0 it is left out, and counted as a fact. The choice is by leave-one-out. A size without a median
    is no point of its series: most of its jobs are lower bounds. A series without any is too_few_points.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS: median runtimes in s by group and processors.
    rules : FitRules
        Laws to fit, and rules of the choice.

    Returns
    -------
    table : pa.Table
        FITS: a row per group and law, with one chosen law per group.
    report : Report
        Groups by the status of their chosen law.

    Examples
    --------
    >>> table, _ = fit(tables["levelled"], FitRules())
    >>> table.equals(tables["fits"])
    True
    """
    points = fitted_points(observations)
    ids, offsets, rows = series_of(points)
    observed = points.take(pa.array(rows))
    spread, n_ended = repeat_spread(offsets, observed), ended_jobs(observed)
    weights = precision_weights(offsets, n_ended, spread["core_log_sd"], rules.noise_floor)
    weights = weights * np.nan_to_num(floats(observed, "fit_weight"), nan=1.0)
    batch = SeriesBatch(offsets, floats(observed, "procs"), floats(observed, "runtime_s_median"), weights)
    fits: dict[str, BatchFit] = {name: fit_batch(name, batch, rules.loss) for name in rules.laws}
    loo: dict[str, Floats] = {name: leave_one_out(name, batch, rules.loss) for name in rules.laws}
    chosen = choose(fits, loo, batch, n_ended, spread["core_log_sd"], rules)
    table = _table(ids, axes_of_groups(observations, ids), fits, loo, chosen, _series_facts(batch, observed) | spread)
    without = _without_medians(observations, rules.laws)
    return _in_order(table, without), _report(
        len(ids) + without.num_rows // len(rules.laws), fits, chosen, _sizes_left_out(observations)
    )


def _without_medians(observations: pa.Table, laws: Sequence[str]) -> pa.Table:
    """FITS of the groups of which no size has a median: nothing to fit."""
    codes, ids = category_codes(observations, "group_id")
    has_median = np.bincount(codes, np.isfinite(floats(observations, "runtime_s_median")), len(ids)) > 0
    n_jobs = np.bincount(codes, floats(observations, "n_jobs"), len(ids)).astype(np.int64)
    names = np.array(ids, object)[~has_median]
    n_rows = len(names) * len(laws)
    return FITS.build(
        group_id=np.repeat(names, len(laws)),
        axis=np.repeat(np.array(axes_of_groups(observations, list(names)), object), len(laws)),
        law=np.tile(np.array(laws, object), len(names)),
        n_points=np.zeros(n_rows, np.int64),
        n_jobs=np.repeat(n_jobs[~has_median], len(laws)),
        status=[str(FitStatus.TOO_FEW_POINTS)] * n_rows,
        is_chosen=np.zeros(n_rows, bool),
    )


def _in_order(fitted: pa.Table, others: pa.Table) -> pa.Table:
    """Both in order of group; a group's laws stay as they are."""
    if not others.num_rows:
        return fitted
    both = pa.concat_tables([fitted, others])
    return FITS.check(both.take(pa.array(np.argsort(category_codes(both, "group_id")[0], kind="stable"))))


def _series_facts(batch: SeriesBatch, observed: pa.Table) -> dict[str, Array]:
    first, last = batch.offsets[:-1], batch.offsets[1:] - 1
    jobs = floats(observed, "n_jobs")
    return {
        "n_points": batch.n_points,
        "n_jobs": np.add.reduceat(jobs, first) if len(first) else jobs,
        "procs_min": batch.procs[first],
        "procs_max": batch.procs[last],
    }


def _table(
    ids: list[str],
    axes: list[Axis],
    fits: Mapping[str, BatchFit],
    loo: Mapping[str, Floats],
    chosen: Mapping[str, Bools],
    facts: Mapping[str, Array],
) -> pa.Table:
    n_laws = len(fits)

    def interleaved(by_law: Iterable[Array]) -> Array:
        return np.column_stack(list(by_law)).ravel()

    columns = {name: interleaved([getattr(one, name) for one in fits.values()]) for name in OUT_COLUMNS}
    words = np.array([str(status) for status in STATUSES], object)
    counts = {name: np.repeat(values, n_laws) for name, values in facts.items()}
    whole = {name: counts[name].astype(np.int64) for name in ("n_points", "n_jobs", "procs_min", "procs_max")}
    return FITS.build(
        **columns,
        **(counts | whole),
        group_id=np.repeat(np.array(ids, object), n_laws),
        axis=np.repeat(np.array(axes, object), n_laws),
        law=np.tile(np.array(list(fits), object), len(ids)),
        loo_log_rmse=interleaved([loo[name] for name in fits]),
        status=words[interleaved([one.status for one in fits.values()])],
        is_chosen=interleaved([chosen[name] for name in fits]),
    )


def _sizes_left_out(observations: pa.Table) -> dict[str, Fact]:
    count = int((floats(observations, "fit_weight") == 0).sum())
    return {"sizes_left_out": count} if count else {}


def _report(
    n_groups: int, fits: Mapping[str, BatchFit], chosen: Mapping[str, Bools], left_out: Mapping[str, Fact]
) -> Report:
    facts: dict[str, Fact] = dict(left_out)
    for name, one in fits.items():
        for code, status in enumerate(STATUSES):
            count = int((chosen[name] & (one.status == code)).sum())
            facts |= {f"chosen_{name}_{status}": count} if count else {}
    answered = int(sum(mask.sum() for mask in chosen.values()))
    set_aside = {"no_usable_fit": Tally(n_groups - answered)} if answered < n_groups else {}
    return Report("fit", "group", Tally(n_groups), Tally(answered), set_aside, facts).check()
