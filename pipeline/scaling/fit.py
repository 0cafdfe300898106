"""Fits: OBSERVATIONS -> FITS, one row per group and law, failed fits too, and which law answers for its group.

Downey's laws are fitted exactly (downey.py), every other law by one search of its separable form: runtime is a sum of
functions with coefficients of at least 0, once its shape is given. At one shape every support of coefficients is tried,
on sums over each series (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23). The shape is searched on
a grid with both ends of its range and all bends, then by golden section between the neighbours of the lowest places.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints, category_codes, floats
from pipeline.laws import COLUMNS, LAWS, FitStatus, Form, Law, Parameter
from pipeline.report import Fact, Report, Tally
from pipeline.scaling.downey import fit_exactly
from pipeline.scaling.series import (
    STATUS,
    ObservedSizes,
    SeriesBatch,
    axes_of_groups,
    precision_weights,
    repeat_spread,
)
from pipeline.tables import FITS

Loss = Literal["log", "relative"]

NUMBERS = ("t1_s", "tinf_s", *COLUMNS, "avg_parallelism_lo", "avg_parallelism_hi", "wssre")
_FIT = np.dtype([*((name, np.float64) for name in NUMBERS), ("status", STATUS)])
# A law fitted to k series, a record each: NUMBERS, NaN where the law has none or nothing was fitted, and `status`.
#
# wssre is sum w (1 - T/t)^2 at the optimum, in the weights of the batch. avg_parallelism_lo and _hi are set only where
# the status is tail_unidentified or head_unidentified (every A between them fits equally well) or runner_up (a second
# curve, with the A of _hi, does): the parameters given are those of the lowest A, the most cautious promise.
Fits = np.recarray[Any, Any]

# Reweightings; each series keeps its best, so one too many costs time only.
ROUNDS = 8

# Sizes leave-one-out needs: with two, one point would have to give a slope.
MIN_POINTS = 3

# Values that a shape within finite bounds begins with.
GRID = 65

# Places of the grid, lower than their neighbours, that are followed.
FOLLOWED = 5

# Steps of golden section, which leave 4e-9 of what lies between two neighbours.
GOLDEN, STEPS = 0.6180339887498949, 40

# Share of a function's squares that must be left beside the others for its coefficient to be determined.
SINGULAR = 1e-13

# More functions must leave less by this share of the squares, and of all squares times itself.
RICHER = 1e-12

# An end of the shape is taken where it leaves more by at most this share, likewise: residuals are no more precise.
TIE = 1e-10


@dataclass(frozen=True, slots=True)
class FitRules:
    """Which laws are fitted, and how one is chosen."""

    # The laws that are fitted to each group, by the names on the page of laws.
    laws: tuple[str, ...] = ("constant", "amdahl", "downey_low", "downey_high")
    # Errors whose squares are summed: log errors, or relative errors as in ADEPT's WSSRE.
    loss: Literal["log", "relative"] = "log"
    # Lower bound of a size's error, however many jobs it has (log s).
    noise_floor: float = 0.05
    # A simpler law is chosen if its leave-one-out error is larger by at most this share.
    choice_margin: float = 0.1


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
    observed = ObservedSizes.of(observations)
    spread, batch = repeat_spread(observed), observed.batch
    weights = precision_weights(batch, observed.n_runs, spread["core_log_sd"], rules.noise_floor)
    batch = batch._replace(weights=weights * batch.weights)
    fits = {law: fit_batch(law, batch, rules.loss) for law in rules.laws}
    loo = np.column_stack([leave_one_out(law, batch, rules.loss) for law in rules.laws])
    answers = choose(fits, loo, batch, observed.n_runs, spread["core_log_sd"], rules)

    # A row per group and law.
    (codes, ids), procs = category_codes(observations, "group_id"), batch.ends(batch.procs)
    n_of_all = np.bincount(codes, floats(observations, "n_jobs"), len(ids))
    n_jobs = np.where(batch.n_points > 0, batch.total(floats(observed.table, "n_jobs")), n_of_all)
    every, is_chosen = np.stack(list(fits.values()), axis=1), answers[:, None] == np.arange(len(fits))
    of_group = {"group_id": np.array(ids, object), "axis": np.array(axes_of_groups(observations, ids), object)}
    of_group |= {"n_points": batch.n_points, "n_jobs": n_jobs, "procs_min": procs[0], "procs_max": procs[1], **spread}
    table = FITS.build(
        **{name: every[name].ravel() for name in (*NUMBERS, "status")},
        **{name: np.repeat(values, len(fits)) for name, values in of_group.items()},
        law=np.tile(np.array(list(fits), object), len(ids)),
        loo_log_rmse=loo.ravel(),
        is_chosen=is_chosen.ravel(),
    )
    groups, laws = np.nonzero(is_chosen)
    counts = Counter(zip(laws.tolist(), every["status"][groups, laws], strict=True))
    n_left_out = int((floats(observations, "fit_weight") == 0).sum())
    facts: dict[str, Fact] = {"sizes_left_out": n_left_out} if n_left_out else {}
    for code, law in enumerate(fits):
        facts |= {f"chosen_{law}_{one}": counts[code, one] for one in FitStatus if counts[code, one]}
    set_aside = {"no_usable_fit": Tally(len(ids) - groups.size)} if groups.size < len(ids) else {}
    return table, Report("fit", "group", Tally(len(ids)), Tally(groups.size), set_aside, facts).check()


def unfitted(status: Array, **numbers: Array) -> Fits:
    """A record per status, with these numbers alone."""
    fits = np.recarray(status.shape, _FIT)
    for name in NUMBERS:
        fits[name] = numbers.get(name, np.nan)
    fits["status"] = status
    return fits


def fit_batch(law: str, batch: SeriesBatch, loss: Loss) -> Fits:
    """One law fitted to every series; wssre is in the batch's own weights whatever the loss."""
    best = fit_law(law, batch)
    if loss == "relative":
        return best
    with np.errstate(divide="ignore", invalid="ignore"):
        runtime_s = np.exp(batch.total(batch.weights * np.log(batch.runtime_s)) / batch.total(batch.weights))
    runtime_s, least = runtime_s[batch.owner], misfit(law, best, batch, loss)
    for _ in range(ROUNDS):
        # What a squared relative error must weigh to have the slope of a squared log error, at predicted/observed.
        ratio = runtime_s / batch.runtime_s
        ratio = np.clip(np.where(np.isfinite(ratio), ratio, 1.0), 1e-6, 1e6)
        is_near = np.abs(ratio - 1) < 1e-6
        slope = np.where(is_near, 1.0, np.log(ratio) / (ratio * np.where(is_near, 1.0, ratio - 1)))
        again = fit_law(law, batch._replace(weights=batch.weights * slope))
        reached = misfit(law, again, batch, loss)
        is_better = reached < least
        best[is_better], least = again[is_better], np.fmin(reached, least)
        runtime_s = np.sqrt(runtime_s * _curve_s(law, again, batch))
    best["wssre"] = np.where(np.isnan(best["wssre"]), np.nan, misfit(law, best, batch, "relative"))
    return best


def misfit(law: str, fits: Fits, batch: SeriesBatch, loss: Loss) -> Floats:
    """Per series, the weighted sum of squared errors of the loss; NaN where nothing was fitted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = _curve_s(law, fits, batch) / batch.runtime_s
        error = np.log(ratio) if loss == "log" else 1 - ratio
    return batch.total(batch.weights * error**2)


def _curve_s(law: str, fits: Fits, batch: SeriesBatch) -> Floats:
    """Each series' fitted runtime at its own sizes (s)."""
    return LAWS[law].runtime_s(fits[batch.owner], np.maximum(batch.procs, 1.0))


def leave_one_out(law: str, batch: SeriesBatch, loss: Loss) -> Floats:
    """Per series, the weighted root mean square of log errors at each size predicted from the others (log s).

    NaN where the series has fewer than three sizes, or the others are too few for the law.
    """
    judged = np.flatnonzero(batch.n_points >= max(MIN_POINTS, LAWS[law].n_parameters + 1))
    part = batch.take(judged)
    # Every series without each of its sizes in turn, all in one fit.
    copies, turns = part.take(part.owner), np.arange(part.procs.size)
    held = copies.offsets[:-1] + turns - part.offsets[part.owner]
    columns = (np.delete(one, held) for one in (copies.procs, copies.runtime_s, copies.weights))
    rest = SeriesBatch(copies.offsets - np.append(turns, turns.size), *columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.log(LAWS[law].runtime_s(fit_batch(law, rest, loss), part.procs) / part.runtime_s)
    found = np.full(batch.n_series, np.nan)
    found[judged] = np.sqrt(part.total(part.weights * error**2) / part.n_points)
    return found


def choose(
    fits: Mapping[str, Fits], loo: Floats, batch: SeriesBatch, n_jobs: Floats, core_log_sd: Floats, rules: FitRules
) -> Ints:
    """The law that answers for each series, by its place in fits; -1 where none does.

    Of Downey's two modes only the one that fits better can be chosen. Three sizes or more: of the laws whose
    leave-one-out error is within `choice_margin` of the least, the one with the fewest parameters. Fewer: the constant,
    unless two sizes with repeats differ by more than noise explains and by no more than processors do.
    """
    laws = [LAWS[name] for name in fits]
    misfits = np.column_stack([misfit(law.name, fits[law.name], batch, rules.loss) for law in laws])
    misfits = np.nan_to_num(misfits, nan=np.inf)
    usable = np.column_stack([~np.isnan(one["wssre"]) for one in fits.values()])
    for column, law in enumerate(laws):
        # Of branches that tie up to rounding, the first by name.
        for other, rival in enumerate(laws):
            if rival.family == law.family and rival is not law:
                ours, theirs = misfits[:, column], misfits[:, other]
                usable[:, column] &= ours <= theirs * (1 + TIE) if law.name < rival.name else ours < theirs * (1 - TIE)
    errors = np.where(usable & ~np.isnan(loo), loo, np.inf)
    is_near = np.isfinite(errors) & (errors <= errors.min(axis=1, keepdims=True) * (1 + rules.choice_margin))
    # Where leave-one-out cannot judge, two parameters only if two sizes with repeats clearly scale.
    with np.errstate(divide="ignore", invalid="ignore"):
        fall, linear = (np.log(first / last) for first, last in map(batch.ends, (batch.runtime_s, 1.0 / batch.procs)))
    noise, is_repeated = 2 * np.sqrt(2) * np.fmax(core_log_sd, rules.noise_floor), batch.ends(n_jobs).min(axis=0) > 1
    scales = (batch.n_points == 2) & is_repeated & (fall > noise) & (fall < linear + noise)
    few, n_parameters = ~is_near.any(axis=1), np.array([law.n_parameters for law in laws])
    is_near[few] = (usable & ((n_parameters == 1) ^ scales[:, None]))[few]
    order = np.argsort(n_parameters, kind="stable")
    return np.where(is_near.any(axis=1), order[is_near[:, order].argmax(axis=1)], -1)


def fit_law(name: str, batch: SeriesBatch) -> Fits:
    """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
    law = LAWS[name]
    fits = unfitted(batch.refusals(law.n_parameters))
    chosen = np.flatnonzero(fits["status"] == FitStatus.OK)
    if not chosen.size:
        return fits
    part = batch.take(chosen)
    with np.errstate(all="ignore"):
        if law.fitted == "exactly":
            columns = (part.offsets, part.procs, part.runtime_s, part.weights)
            found = [fit_exactly(*columns, law.name == "downey_high")]
        else:
            found = [_best_of_form(law, form, part) for form in law.forms]
    best, *others = (unfitted(**columns) for columns in found)
    for other in others:
        is_better = other["wssre"] < best["wssre"] * (1.0 - RICHER)
        best[is_better] = other[is_better]
    # Runtimes or weights were too extreme for arithmetic.
    is_unsound = ~np.isfinite(best["wssre"]) | ~np.isfinite(best["t1_s"])
    best[is_unsound] = unfitted(np.full(is_unsound.sum(), FitStatus.BAD_VALUES, STATUS))
    fits[chosen] = best
    return fits


def _best_of_form(law: Law, form: Form, batch: SeriesBatch) -> dict[str, Array]:
    """The best shape of the form; at_bound where a coefficient is 0 or the shape is at an end of its range."""
    owner, unit, root = batch.owner, batch.runtime_s[batch.offsets[:-1]], np.sqrt(batch.weights)
    grown = [law.overhead(batch.procs)] if law.overhead else []

    def at(shape: Floats, n_turns: int = 1) -> tuple[Floats, Floats]:
        of_size = shape[..., owner]
        *functions, _ = np.broadcast_arrays(*form.functions(of_size, batch.procs), *grown, of_size)
        return least_squares(batch, np.stack(functions) * (root * unit[owner] / batch.runtime_s), root, n_turns)

    shape = _best_shape(form, form.shape, batch, at) if form.shape else np.zeros(batch.n_series)
    least, found = at(shape, 2)
    is_end = (found <= 0.0).any(axis=0) | np.isin(shape, (form.shape.low, form.shape.high) if form.shape else ())
    columns = form.columns(list(found * unit), shape)
    if grown:
        # With an overhead nothing is known of the limit.
        columns["overhead_s"] = found[-1] * unit
        columns = {name: columns[name] for name in ("t1_s", *(one.name for one in law.parameters))}
    return {**columns, "wssre": least, "status": np.where(is_end, FitStatus.AT_BOUND, FitStatus.OK)}


def _best_shape(
    form: Form, shape: Parameter, batch: SeriesBatch, at: Callable[[Floats], tuple[Floats, Floats]]
) -> Floats:
    """The best of a grid, and of what golden section finds between the neighbours of its lowest places.

    `at` gives the squares left by shapes, float64[..., series], and the coefficients, with an axis before.
    """
    values = np.linspace(shape.low, shape.high, GRID)
    if np.isinf(shape.high):
        values = np.append(shape.low * 2.0 ** np.arange(0.0, 30.25, 0.25), np.inf)
    parts, owner = [np.tile(values[:, None], batch.n_series)], batch.owner
    for bends in form.bends(batch.procs):
        # Where each series bends; those with fewer sizes repeat the upper end.
        parts.append(np.full((batch.n_points.max(), batch.n_series), np.inf))
        parts[-1][np.arange(owner.size) - batch.offsets[owner], owner] = bends
    grid = np.sort(np.vstack(parts), axis=0)
    left = np.stack([at(one)[0] for one in grid])
    beside = np.pad(left, ((1, 1), (0, 0)), constant_values=np.inf)
    # Of a plateau only the ends, because rounding makes lowest places all over it.
    slack = TIE * left + TIE**2 * batch.total(batch.weights)
    is_lowest = (left <= beside[:-2] + slack) & (left <= beside[2:] + slack)
    is_lowest &= (left < beside[:-2] - slack) | (left < beside[2:] - slack)
    places = np.argsort(np.where(is_lowest, left, np.inf), axis=0, kind="stable")[:FOLLOWED]
    lo = np.take_along_axis(grid, np.maximum(places - 1, 0), axis=0)
    hi = np.take_along_axis(grid, np.minimum(places + 1, len(grid) - 1), axis=0)
    hi = np.where(np.isinf(hi), 4.0 * lo, hi)
    one, other = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
    left_one, left_other = at(one)[0], at(other)[0]
    for _ in range(STEPS):
        is_low = left_one <= left_other
        lo, hi = np.where(is_low, lo, one), np.where(is_low, other, hi)
        asked = np.where(is_low, hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo))
        fresh = at(asked)[0]
        one, other = np.where(is_low, asked, other), np.where(is_low, one, asked)
        left_one, left_other = np.where(is_low, fresh, left_other), np.where(is_low, left_one, fresh)
    shapes, left = np.vstack([grid, one, other]), np.vstack([left, left_one, left_other])
    slack = TIE * left + TIE**2 * batch.total(batch.weights)
    best = np.where(np.isin(shapes, (shape.low, shape.high)), left - slack, left).argmin(axis=0)
    found: Floats = shapes[best, np.arange(batch.n_series)]
    return found


def least_squares(batch: SeriesBatch, columns: Floats, root: Floats, n_turns: int) -> tuple[Floats, Floats]:
    """Least squares of `root` by columns[function, ..., size] of each series, with coefficients of at least 0.

    The squares left, float64[..., series], infinite where no coefficients are determined; and the coefficients, which
    have an axis of functions before. Every support, the functions that take part, is solved, the smaller ones first.
    Sums of squares lose half of the digits; a second turn, on what is left, has them.
    """
    p, sums, whole = len(columns), batch.total(columns[:, None] * columns), batch.total(root**2)
    least, best, owner = np.full(sums.shape[2:], np.inf), np.zeros(sums.shape[1:]), batch.owner
    for support in (list(one) for size in range(1, p + 1) for one in combinations(range(p), size)):
        used, found, is_sound = columns[support], np.zeros((len(support), *least.shape)), np.isfinite(whole)
        left = root
        for _ in range(n_turns):
            step, is_determined = _solved(sums[np.ix_(support, support)], batch.total(used * left))
            found, is_sound = found + step, is_sound & is_determined
            left = root - np.sum(found[..., owner] * used, axis=0)
        squares = batch.total(left**2)
        is_best = is_sound & (found >= 0.0).all(axis=0) & (squares < least * (1.0 - RICHER) - RICHER**2 * whole)
        every = np.zeros(best.shape)
        every[support] = found
        least, best = np.where(is_best, squares, least), np.where(is_best, every, best)
    return least, best


def _solved(sums: Floats, right: Floats) -> tuple[Floats, Bools]:
    """The solution of the equations, axes before all others, and whether it is determined (Gauss and Jordan)."""
    system, is_sound = np.concatenate([sums, right[:, None]], axis=1), np.ones(right.shape[1:], np.bool_)
    for j in range(len(right)):
        is_sound &= system[j, j] > SINGULAR * sums[j, j]
        system[j] = system[j] / system[j, j]
        for i in range(len(right)):
            system[i] -= system[i, j] * system[j] if i != j else 0.0
    return system[:, -1], is_sound
