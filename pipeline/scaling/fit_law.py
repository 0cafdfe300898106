"""A law fitted to a batch of series: Downey's laws exactly, every other law by one search of its separable form.

A law is separable where runtime is a sum of functions with coefficients of at least 0, once its shape is given. At one
shape every support of coefficients is tried, on sums over each series (Lawson and Hanson, Solving Least Squares
Problems, 1974, chapter 23). The shape is searched on a grid with both ends of its range and all bends,
then by golden section between the neighbours of the lowest places.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.laws import LAWS
from pipeline.laws.law import Form, Parameter, Solver
from pipeline.scaling.downey import DOWNEY_HIGH, DOWNEY_LOW, exact_batch
from pipeline.scaling.downey_rows import AT_BOUND, OK, Ends, Row, high_row, low_row
from pipeline.scaling.series import STATUS_CODE, BatchFit, FitStatus, SeriesBatch, batch_fit, ranges, refusals

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
        """The sum over each series."""
        return np.add.reduceat(values, self.first)

    def by_series(self, values: Floats) -> Floats:
        """(series, most sizes) values of the sizes, filled up with infinity."""
        found = np.full((self.first.size, int(np.bincount(self.owner).max())), np.inf)
        found[self.owner, np.arange(self.owner.size) - self.first[self.owner]] = values
        return found

    def columns(self, form: Form, shape: Floats) -> list[Floats]:
        """The form's functions at a shape per series, over runtime and weighted."""
        return [values * self.rate for values in form.functions(shape[self.owner], self.procs)]


Sums = tuple[list[list[Floats]], list[Floats]]


def _sums(series: _Series, columns: Sequence[Floats], target: Floats) -> Sums:
    """Products of the columns with one another, and with the target, summed over each series."""
    gram: list[list[Floats]] = [[np.empty(0)] * len(columns) for _ in columns]
    for j, one in enumerate(columns):
        for k in range(j, len(columns)):
            gram[j][k] = gram[k][j] = series.total(one * columns[k])
    return gram, [series.total(one * target) for one in columns]


def _solved(sums: Sums, support: Sequence[int]) -> tuple[list[Floats], Bools]:
    """Coefficients of the columns of a support by elimination, and where they are determined."""
    gram = [[sums[0][j][k] for k in support] for j in support]
    rest, n = [sums[1][j] for j in support], len(support)
    is_sound = np.ones(rest[0].size, np.bool_)
    for j in range(n):
        is_sound &= gram[j][j] > SINGULAR * sums[0][support[j]][support[j]]
        for i in range(j + 1, n):
            share = gram[i][j] / gram[j][j]
            gram[i] = [one - share * other for one, other in zip(gram[i], gram[j], strict=True)]
            rest[i] = rest[i] - share * rest[j]
    for j in reversed(range(n)):
        for k in range(j + 1, n):
            rest[j] = rest[j] - gram[j][k] * rest[k]
        rest[j] = rest[j] / gram[j][j]
    return rest, is_sound


def _supports(n_functions: int) -> list[tuple[int, ...]]:
    """Every choice of functions, the fewest first."""
    return [one for size in range(1, n_functions + 1) for one in combinations(range(n_functions), size)]


def _fitted_at(series: _Series, form: Form, shape: Floats) -> tuple[Floats, Floats]:
    """The least squares left at one shape, from residuals; the coefficients, float64[functions, series]."""
    columns = series.columns(form, shape)
    (gram, products), whole = _sums(series, columns, series.root), series.total(series.root**2)
    least, best = np.full(whole.size, np.inf), np.zeros((len(columns), whole.size))
    for support in _supports(len(columns)):
        own = [columns[place] for place in support]
        found, is_sound = _solved((gram, products), support)
        # Once more on what is left: sums of squares lose half of the digits.
        residual = _residual(series, own, found)
        again, _ = _solved((gram, [series.total(one * residual) for one in columns]), support)
        found = [one + more for one, more in zip(found, again, strict=True)]
        left = series.total(_residual(series, own, found) ** 2)
        is_good = is_sound & np.logical_and.reduce([value >= 0.0 for value in found])
        is_better = is_good & (left < least * (1.0 - RICHER) - RICHER**2 * whole)
        least = np.where(is_better, left, least)
        best[:, is_better] = 0.0
        for place, values in zip(support, found, strict=True):
            best[place, is_better] = values[is_better]
    return least, best


def _residual(series: _Series, columns: Sequence[Floats], coefficients: Sequence[Floats]) -> Floats:
    left = series.root
    for one, value in zip(columns, coefficients, strict=True):
        left = left - value[series.owner] * one
    return left


def _begun(series: _Series, form: Form, shape: Parameter) -> Floats:
    """(series, shapes) to begin with, rising; both ends of the range and every bend are among them."""
    grid = np.linspace(shape.low, shape.high, GRID)
    if np.isinf(shape.high):
        grid = np.append(shape.low * 2.0 ** np.arange(0.0, 30.25, 0.25), np.inf)
    own = [series.by_series(bends) for bends in form.bends(series.procs)] if form.bends else []
    return np.sort(np.hstack([np.tile(grid, (series.first.size, 1)), *own]), axis=1)


def _searched(series: _Series, form: Form, shape: Parameter) -> list[Floats]:
    """Shapes that may be best, per series: the ends, the best of the grid, and what its lowest places lead to."""
    grid = _begun(series, form, shape)
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


def _separable(form: Form, batch: SeriesBatch, chosen: Ints) -> Row:
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
    return columns | {"wssre": least}, np.where(is_end, AT_BOUND, OK).astype(np.int8)


_DOWNEY: dict[Solver | None, tuple[int, Callable[[Floats, Ends], Row]]] = {
    Solver.DOWNEY_LOW: (DOWNEY_LOW, low_row),
    Solver.DOWNEY_HIGH: (DOWNEY_HIGH, high_row),
}
"""The form that the kernel fits, and what reads its optima."""

N_FOUND = 6
"""Columns of optima that a kernel may fill."""


def _downey(solver: Solver | None, batch: SeriesBatch, chosen: Ints) -> Row:
    form, read = _DOWNEY[solver]
    found = np.full((batch.n_series, N_FOUND), np.nan)
    exact_batch(chosen, batch.offsets, batch.procs, batch.runtime_s, batch.weights, found, form)
    first, last = batch.offsets[chosen], batch.offsets[chosen + 1] - 1
    second, n = np.minimum(first + 1, last), batch.procs
    return read(found[chosen], Ends(n[first], n[second], n[last], batch.runtime_s[first]))


def _better(parts: list[Row]) -> Row:
    """Of two forms of one law the one that leaves less, the first where both leave the same."""
    if len(parts) == 1:
        return parts[0]
    (one, one_status), (other, other_status) = parts
    is_other = other["wssre"] < one["wssre"] * (1.0 - RICHER)
    return {k: np.where(is_other, other[k], one[k]) for k in one}, np.where(is_other, other_status, one_status)


def fit_law(name: str, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
    law = LAWS[name]
    status = refusals(batch, law.n_parameters)
    chosen = np.flatnonzero(status == OK)
    if not chosen.size:
        return batch_fit(batch.n_series, chosen, {}, status)
    with np.errstate(all="ignore"):
        parts = [_separable(form, batch, chosen) for form in law.forms] or [_downey(law.solver, batch, chosen)]
    columns, status[chosen] = _better(parts)
    # Runtimes or weights were too extreme for arithmetic.
    is_sound = np.isfinite(columns["wssre"]) & np.isfinite(columns["t1_s"])
    status[chosen[~is_sound]] = STATUS_CODE[FitStatus.BAD_VALUES]
    sound = {name: values[is_sound] for name, values in columns.items()}
    return batch_fit(batch.n_series, chosen[is_sound], sound, status)
