"""Fits: OBSERVATIONS -> FITS, one row per group and law, failed fits too, and which law answers for its group.

Downey's laws are fitted exactly (downey.py), every other law by one search of its separable form: runtime is a sum of
functions with coefficients of at least 0, once its shape is given. At one shape every support of coefficients is tried,
on sums over each series (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23). The shape is searched on
a grid with both ends of its range and all bends, then by golden section between the neighbours of the lowest places.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints, category_codes, floats
from pipeline.laws import LAWS, Form, Parameter, Solver
from pipeline.report import Fact, Report, Tally
from pipeline.scaling.batch import OUT_COLUMNS, STATUS_CODE, STATUSES, BatchFit, Codes, FitStatus, SeriesBatch, ranges
from pipeline.scaling.downey import fit_exactly
from pipeline.scaling.points import (
    axes_of_groups,
    ended_jobs,
    fitted_points,
    precision_weights,
    repeat_spread,
    series_of,
)
from pipeline.scaling.rules import FitRules
from pipeline.tables import FITS

Loss = Literal["log", "relative"]

ROUNDS = 8
"""Reweightings; each series keeps its best, so one too many costs time only."""

MIN_POINTS = 3
"""Sizes leave-one-out needs: with two, one point would have to give a slope."""

GRID = 65
"""Values that a shape within finite bounds begins with."""

FOLLOWED = 5
"""Places of the grid, lower than their neighbours, that are followed."""

GOLDEN, STEPS = 0.6180339887498949, 40
"""Steps of golden section, which leave 4e-9 of what lies between two neighbours."""

SINGULAR = 1e-13
"""Share of a function's squares that must be left beside the others for its coefficient to be determined."""

RICHER = 1e-12
"""More functions must leave less by this share of the squares, and of all squares times itself."""

TIE = 1e-10
"""An end of the shape is taken where it leaves more by at most this share, likewise: residuals are no more precise."""


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
    fitted_ids, offsets, rows = series_of(points)
    observed = points.take(pa.array(rows))
    spread, n_ended = repeat_spread(offsets, observed), ended_jobs(observed)
    weights = precision_weights(offsets, n_ended, spread["core_log_sd"], rules.noise_floor)
    weights = weights * np.nan_to_num(floats(observed, "fit_weight"), nan=1.0)
    batch = SeriesBatch(offsets, floats(observed, "procs"), floats(observed, "runtime_s_median"), weights)
    fits = {name: fit_batch(name, batch, rules.loss) for name in rules.laws}
    loo = {name: leave_one_out(name, batch, rules.loss) for name in rules.laws}
    chosen = choose(fits, loo, batch, n_ended, spread["core_log_sd"], rules)

    # A row per group and law; groups without a point have the values they are filled with.
    codes, ids = category_codes(observations, "group_id")
    row_of, n_laws = {group: row for row, group in enumerate(ids)}, len(fits)
    fitted = np.array([row_of[group] for group in fitted_ids], np.int64)
    n_jobs = np.bincount(codes, floats(observations, "n_jobs"), len(ids))
    n_jobs[fitted] = batch.total(floats(observed, "n_jobs"))

    def by_law(values: Mapping[str, Array], otherwise: object = np.nan) -> Array:
        whole = np.full((len(ids), n_laws), otherwise, next(iter(values.values())).dtype)
        whole[fitted] = np.column_stack(list(values.values()))
        return whole.ravel()

    def by_group(values: Array, otherwise: float = np.nan) -> Array:
        return by_law({name: values.astype(np.float64) for name in fits}, otherwise)

    fitted_by_law = {c: by_law({name: getattr(one, c) for name, one in fits.items()}) for c in OUT_COLUMNS}
    status = by_law({name: one.status for name, one in fits.items()}, STATUS_CODE[FitStatus.TOO_FEW_POINTS])
    table = FITS.build(
        **fitted_by_law,
        **{name: by_group(values) for name, values in spread.items()},
        group_id=np.repeat(np.array(ids, object), n_laws),
        axis=np.repeat(np.array(axes_of_groups(observations, ids), object), n_laws),
        law=np.tile(np.array(list(fits), object), len(ids)),
        n_points=by_group(batch.n_points, 0),
        n_jobs=np.repeat(n_jobs, n_laws),
        procs_min=by_group(batch.procs[offsets[:-1]]),
        procs_max=by_group(batch.procs[offsets[1:] - 1]),
        loo_log_rmse=by_law(loo),
        status=np.array([str(one) for one in STATUSES], object)[status],
        is_chosen=by_law(chosen, False),
    )
    return table, _report(len(ids), fits, chosen, int((floats(observations, "fit_weight") == 0).sum()))


def _report(n_groups: int, fits: Mapping[str, BatchFit], chosen: Mapping[str, Bools], n_left_out: int) -> Report:
    facts: dict[str, Fact] = {"sizes_left_out": n_left_out} if n_left_out else {}
    for name, one in fits.items():
        for code, status in enumerate(STATUSES):
            count = int((chosen[name] & (one.status == code)).sum())
            facts |= {f"chosen_{name}_{status}": count} if count else {}
    answered = int(sum(mask.sum() for mask in chosen.values()))
    set_aside = {"no_usable_fit": Tally(n_groups - answered)} if answered < n_groups else {}
    return Report("fit", "group", Tally(n_groups), Tally(answered), set_aside, facts).check()


def fit_batch(law: str, batch: SeriesBatch, loss: Loss) -> BatchFit:
    """One law fitted to every series; wssre is in the batch's own weights whatever the loss."""
    best = fit_law(law, batch)
    if loss == "relative":
        return best
    with np.errstate(divide="ignore", invalid="ignore"):
        runtime_s = np.exp(batch.total(batch.weights * np.log(batch.runtime_s)) / batch.total(batch.weights))
    runtime_s, least = np.repeat(runtime_s, batch.n_points), misfit(law, best, batch, loss)
    for _ in range(ROUNDS):
        # What a squared relative error must weigh to have the slope of a squared log error, at predicted/observed.
        ratio = runtime_s / batch.runtime_s
        ratio = np.clip(np.where(np.isfinite(ratio), ratio, 1.0), 1e-6, 1e6)
        is_near = np.abs(ratio - 1) < 1e-6
        slope = np.where(is_near, 1.0, np.log(ratio) / (ratio * np.where(is_near, 1.0, ratio - 1)))
        again = fit_law(law, dataclasses.replace(batch, weights=batch.weights * slope))
        reached = misfit(law, again, batch, loss)
        best, least = best.or_else(again, reached < least), np.fmin(reached, least)
        runtime_s = np.sqrt(runtime_s * _curve_s(law, again, batch))
    return dataclasses.replace(best, wssre=np.where(np.isnan(best.wssre), np.nan, misfit(law, best, batch, "relative")))


def misfit(law: str, fitted: BatchFit, batch: SeriesBatch, loss: Loss) -> Floats:
    """Per series, the weighted sum of squared errors of the loss; NaN where nothing was fitted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = _curve_s(law, fitted, batch) / batch.runtime_s
        error = np.log(ratio) if loss == "log" else 1 - ratio
    return batch.total(batch.weights * error**2)


def _curve_s(law: str, fitted: BatchFit, batch: SeriesBatch) -> Floats:
    """Each series' fitted runtime at its own sizes (s)."""
    rows = np.repeat(np.arange(batch.n_series), batch.n_points)
    return LAWS[law].runtime_s(fitted.parameters_of(rows), np.maximum(batch.procs, 1.0))


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
    fits: Mapping[str, BatchFit], loo: Mapping[str, Floats], batch: SeriesBatch, n_jobs: Floats,
    core_log_sd: Floats, rules: FitRules,
) -> dict[str, Bools]:  # fmt: skip
    """Per law, whether it answers for each series; at most one law does.

    Of Downey's two modes only the one that fits better can be chosen. Three sizes or more: of the laws whose
    leave-one-out error is within `choice_margin` of the least, the one with the fewest parameters. Fewer: the constant,
    unless two sizes with repeats differ by more than noise explains and by no more than processors do.
    """
    names = sorted(fits, key=lambda name: LAWS[name].n_parameters)
    n_parameters = np.array([LAWS[name].n_parameters for name in names])
    usable, errors = (np.empty((batch.n_series, len(names)), kind) for kind in (bool, float))
    misfits = {name: np.nan_to_num(misfit(name, fits[name], batch, rules.loss), nan=np.inf) for name in names}
    for column, name in enumerate(names):
        unusable = [STATUS_CODE[FitStatus.TOO_FEW_POINTS], STATUS_CODE[FitStatus.BAD_VALUES]]
        usable[:, column] = ~np.isin(fits[name].status, unusable)
        # Of branches that tie, the first by name.
        for other in names:
            if other != name and LAWS[other].family == LAWS[name].family:
                ours, theirs = misfits[name], misfits[other]
                usable[:, column] &= ours <= theirs if name < other else ours < theirs
        errors[:, column] = np.where(usable[:, column] & ~np.isnan(loo[name]), loo[name], np.inf)
    is_near = errors <= errors.min(axis=1, keepdims=True) * (1 + rules.choice_margin)
    is_near &= np.isfinite(errors)
    # Where leave-one-out cannot judge, two parameters only if two sizes with repeats clearly scale.
    first, last = batch.offsets[:-1], batch.offsets[1:] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = np.log(batch.runtime_s[first] / batch.runtime_s[last])
    noise = 2 * np.sqrt(2) * np.fmax(core_log_sd, rules.noise_floor)
    linear = np.log(batch.procs[last] / batch.procs[first])
    is_repeated = np.minimum(n_jobs[first], n_jobs[last]) > 1
    scales = (batch.n_points == 2) & is_repeated & (fall > noise) & (fall < linear + noise)
    few = ~is_near.any(axis=1)
    is_near[few] = (usable & ((n_parameters == 1) ^ scales[:, None]))[few]
    is_first = is_near & (np.cumsum(is_near, axis=1) == 1)
    return {name: is_first[:, column] for column, name in enumerate(names)}


def fit_law(name: str, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
    law = LAWS[name]
    refused = batch.refusals(law.n_parameters)
    chosen = np.flatnonzero(refused == STATUS_CODE[FitStatus.OK])
    with np.errstate(all="ignore"):
        parts = [_separable(form, batch, chosen) for form in law.forms if chosen.size]
        if law.solver != Solver.SEPARABLE and chosen.size:
            parts = [fit_exactly(law.name, batch, chosen)]
    fits = [BatchFit.of(chosen, columns, refused) for columns in parts] or [BatchFit.of(chosen, {}, refused)]
    best = fits[0]
    for other in fits[1:]:
        best = best.or_else(other, other.wssre < best.wssre * (1.0 - RICHER))
    # Runtimes or weights were too extreme for arithmetic.
    is_unsound = ~np.isfinite(best.wssre[chosen]) | ~np.isfinite(best.t1_s[chosen])
    if is_unsound.any():
        failed = BatchFit.of(chosen, {"status": np.full(chosen.size, STATUS_CODE[FitStatus.BAD_VALUES])}, refused)
        best = best.or_else(failed, np.isin(np.arange(batch.n_series), chosen[is_unsound]))
    return best


@dataclass(frozen=True, slots=True)
class _Series:
    """Series end to end, none empty: the first place of each, and of each size its series, count and root weights.

    `rate` is the root of the weight over the runtime, which is in units of the series' first.
    """

    first: Ints
    owner: Ints
    procs: Floats
    root: Floats
    rate: Floats

    @classmethod
    def of(cls, batch: SeriesBatch, chosen: Ints) -> "_Series":
        rows, owner = ranges(batch.offsets[chosen], batch.offsets[chosen + 1])
        first = np.searchsorted(owner, np.arange(chosen.size))
        root, runtime_s = np.sqrt(batch.weights[rows]), batch.runtime_s[rows]
        return cls(first, owner, batch.procs[rows], root, root * runtime_s[first[owner]] / runtime_s)

    def total(self, values: Floats) -> Floats:
        """The sum over each series, along the last axis."""
        return np.add.reduceat(values, self.first, axis=-1)


def _separable(form: Form, batch: SeriesBatch, chosen: Ints) -> dict[str, Floats | Codes]:
    """The best shape of the form; at_bound where a coefficient is 0 or the shape is at an end of its range."""
    series = _Series.of(batch, chosen)
    whole, rank = series.total(series.root**2), np.full(chosen.size, np.inf)
    ends = (form.shape.low, form.shape.high) if form.shape else ()
    least, best, best_shape = rank, np.zeros((0, chosen.size)), np.zeros(chosen.size)
    for shape in _searched(series, form, form.shape) if form.shape else [best_shape]:
        left, coefficients = _fitted_at(series, form, shape)
        own = np.where(np.isin(shape, ends), left * (1.0 - TIE) - TIE**2 * whole, left)
        is_better = (own < rank) | np.isinf(rank)
        rank, least = np.where(is_better, own, rank), np.where(is_better, left, least)
        best_shape = np.where(is_better, shape, best_shape)
        best = np.where(is_better, coefficients, best) if best.size else coefficients
    is_end = (best <= 0.0).any(axis=0) | np.isin(best_shape, ends)
    columns = form.parameters(list(best * batch.runtime_s[batch.offsets[chosen]]), best_shape)
    status = np.where(is_end, STATUS_CODE[FitStatus.AT_BOUND], STATUS_CODE[FitStatus.OK])
    return {**columns, "wssre": least, "status": status}


def _searched(series: _Series, form: Form, shape: Parameter) -> list[Floats]:
    """Shapes that may be best, per series: the ends, the best of the grid, and what its lowest places lead to."""
    values = np.linspace(shape.low, shape.high, GRID)
    if np.isinf(shape.high):
        values = np.append(shape.low * 2.0 ** np.arange(0.0, 30.25, 0.25), np.inf)
    parts = [np.tile(values, (series.first.size, 1))]
    for bends in form.bends(series.procs) if form.bends else ():
        # Where each series bends; those with fewer sizes repeat the upper end.
        parts.append(np.full((series.first.size, int(np.bincount(series.owner).max())), np.inf))
        parts[-1][series.owner, np.arange(series.owner.size) - series.first[series.owner]] = bends
    grid = np.sort(np.hstack(parts), axis=1)
    left = np.stack([_fitted_at(series, form, one)[0] for one in grid.T], axis=1)
    rows = np.arange(len(grid))
    found = [grid[:, 0], grid[:, -1], grid[rows, left.argmin(axis=1)]]
    beside = np.pad(left, ((0, 0), (1, 1)), constant_values=np.inf)
    is_lowest = (left <= beside[:, :-2]) & (left <= beside[:, 2:])
    order = np.argsort(np.where(is_lowest, left, np.inf), axis=1, kind="stable")
    for place in order[:, :FOLLOWED].T:
        lo, hi = grid[rows, np.maximum(place - 1, 0)], grid[rows, np.minimum(place + 1, grid.shape[1] - 1)]
        found.append(_followed(series, form, lo, np.where(np.isinf(hi), 4.0 * lo, hi)))
    return found


def _followed(series: _Series, form: Form, lo: Floats, hi: Floats) -> Floats:
    """Golden section for the least that is left."""
    one, other = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
    left_one, left_other = (_fitted_at(series, form, shape)[0] for shape in (one, other))
    for _ in range(STEPS):
        is_low = left_one <= left_other
        lo, hi = np.where(is_low, lo, one), np.where(is_low, other, hi)
        asked = np.where(is_low, hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo))
        left = _fitted_at(series, form, asked)[0]
        one, other = np.where(is_low, asked, other), np.where(is_low, one, asked)
        left_one, left_other = np.where(is_low, left, left_other), np.where(is_low, left_one, left)
    return np.where(left_one <= left_other, one, other)


def _fitted_at(series: _Series, form: Form, shape: Floats) -> tuple[Floats, Floats]:
    """The least squares left at one shape, from residuals; the coefficients, float64[functions, series]."""
    columns = np.stack(form.functions(shape[series.owner], series.procs)) * series.rate
    gram, whole = series.total(columns[:, None] * columns), series.total(series.root**2)
    least, best = np.full(whole.size, np.inf), np.zeros((len(columns), whole.size))
    sizes = range(1, len(columns) + 1)
    for support in (np.array(one) for size in sizes for one in combinations(range(len(columns)), size)):
        own, found = columns[support], np.zeros((len(support), whole.size))
        # Once more on what is left: sums of squares lose half of the digits.
        for _ in range(2):
            residual = series.root - (found[:, series.owner] * own).sum(axis=0)
            more, is_sound = _solved(gram[np.ix_(support, support)], series.total(own * residual))
            found = found + more
        left = series.total((series.root - (found[:, series.owner] * own).sum(axis=0)) ** 2)
        is_good = is_sound & (found >= 0.0).all(axis=0)
        is_better = is_good & (left < least * (1.0 - RICHER) - RICHER**2 * whole)
        least, best[:, is_better] = np.where(is_better, left, least), 0.0
        best[np.ix_(support, is_better)] = found[:, is_better]
    return least, best


def _solved(gram: Floats, rest: Floats) -> tuple[Floats, Bools]:
    """The solutions of small systems by elimination, float64[functions, series], and where they are determined."""
    gram, n, is_sound = gram.copy(), len(rest), np.ones(rest.shape[1], np.bool_)
    squares = [gram[j, j].copy() for j in range(n)]
    for j in range(n):
        is_sound &= gram[j, j] > SINGULAR * squares[j]
        for i in range(j + 1, n):
            share = gram[i, j] / gram[j, j]
            gram[i] -= share * gram[j]
            rest[i] -= share * rest[j]
    for j in reversed(range(n)):
        rest[j] = (rest[j] - (gram[j, j + 1 :] * rest[j + 1 :]).sum(axis=0)) / gram[j, j]
    return rest, is_sound
