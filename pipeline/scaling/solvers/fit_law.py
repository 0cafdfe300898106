"""A law fitted to a batch of series, by the solver that the law declares."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.laws import LAWS
from pipeline.laws.law import Law, Parameter, Solver
from pipeline.scaling.solvers import downey, overhead
from pipeline.scaling.solvers.downey_rows import (
    AT_BOUND,
    OK,
    Ends,
    Row,
    amdahl_row,
    constant_row,
    high_row,
    low_row,
)  # fmt: skip
from pipeline.scaling.solvers.series import (
    OUT_COLUMNS,
    STATUS_CODE,
    BatchFit,
    Codes,
    FitStatus,
    SeriesBatch,
    batch_fit,
    refusals,
)  # fmt: skip

FOLLOWED = 4
"""Points of the grid that are followed."""

CLOSE = 1e-5
"""A parameter this near a bound, relatively, is set on it where that costs no more than ..."""

TIE = 1e-9
"""... this share of the weights."""


def fit_generic(law: Law, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least squares of every series; at_bound where a parameter is on a bound."""
    # The constant's fit says which series hold values that nothing can be fitted to.
    status = fit_law("constant", batch).status.copy()
    status[(status == OK) & (batch.n_points < law.n_parameters)] = STATUS_CODE[FitStatus.TOO_FEW_POINTS]
    columns, chosen = {name: np.full(batch.n_series, np.nan) for name in OUT_COLUMNS}, np.flatnonzero(status == OK)
    for i in chosen:
        own = slice(batch.offsets[i], batch.offsets[i + 1])
        problem = _Problem(law, batch.procs[own], batch.runtime_s[own], batch.weights[own])
        shape = problem.best()
        t1_s, error = problem.scaled(shape[:, None])
        values = dict(zip(problem.names, shape, strict=True)) | {"t1_s": t1_s[0], "wssre": (error**2).sum()}
        if "overhead_s" in values:
            values["overhead_s"] *= t1_s[0]
        for name, value in values.items():
            columns[name][i] = value
        on_bound = [value in (one.low, one.high) for one, value in zip(law.parameters, shape, strict=True)]
        status[i] = AT_BOUND if any(on_bound) else OK
    return BatchFit(**columns, status=status)


class _Problem:
    """One series and the law to fit to it; a shape is one value per parameter."""

    def __init__(self, law: Law, n: Floats, t: Floats, w: Floats) -> None:
        self.law, self.n, self.t, self.root = law, n, t, np.sqrt(w)
        self.names = [one.name for one in law.parameters]
        self.low, self.high = (np.array([getattr(one, end) for one in law.parameters]) for end in ("low", "high"))

    def scaled(self, shapes: Floats) -> tuple[Floats, Floats]:
        """T(1) of each shape by least squares, float64[g]; its weighted relative errors, float64[m, g]."""
        given = {"t1_s": np.ones(1), **dict(zip(self.names, shapes, strict=True))}
        with np.errstate(all="ignore"):
            rate = self.root[:, None] * self.law.formula(given, self.n[:, None]) / self.t[:, None]
            t1_s = (self.root[:, None] * rate).sum(axis=0) / (rate * rate).sum(axis=0)
            error: Floats = self.root[:, None] - t1_s * rate
        return t1_s, error

    def squares(self, shapes: Floats) -> Floats:
        """The squares left by each shape; infinite where the law has no value."""
        left: Floats = np.nan_to_num((self.scaled(shapes)[1] ** 2).sum(axis=0), nan=np.inf)
        return left

    def best(self) -> Floats:
        """The shape that leaves the least squares."""
        if not self.names:
            return np.empty(0)
        axes = np.meshgrid(*[_starts(one) for one in self.law.parameters], indexing="ij")
        grid = np.array([axis.ravel() for axis in axes])
        first = np.argsort(self.squares(grid), kind="stable")[:FOLLOWED]
        found = np.column_stack([grid[:, first], *[self._followed(grid[:, place]) for place in first]])
        return self._on_bounds(found[:, self.squares(found).argmin()])

    def _followed(self, start: Floats) -> Floats:
        from scipy.optimize import least_squares  # noqa: PLC0415  (a fifth of a second, for laws without a solver of their own)

        def errors(shape: Floats) -> Floats:
            return np.nan_to_num(self.scaled(shape[:, None])[1][:, 0], nan=1e6)

        limits = (self.low, self.high)
        found = least_squares(errors, start, bounds=limits, x_scale="jac", xtol=1e-13, ftol=1e-13, gtol=1e-13)
        return np.asarray(found.x, np.float64)

    def _on_bounds(self, shape: Floats) -> Floats:
        """The shape with parameters that all but reach a bound set on it; each only where that fits as well."""
        for place, one in enumerate(self.law.parameters):
            for bound in (one.low, one.high):
                moved = shape.copy()
                moved[place] = bound
                limit = self.squares(shape[:, None]) + TIE * (self.root**2).sum()
                is_near = abs(shape[place] - bound) <= CLOSE * max(abs(bound), one.grid[0] or one.grid[-1])
                if np.isfinite(bound) and is_near and self.squares(moved[:, None]) <= limit:
                    shape = moved
        return shape


def _starts(one: Parameter) -> Floats:
    """The grid of a parameter inside its bounds."""
    values = np.array(one.grid)
    inside: Bools = (values >= one.low) & (values <= one.high)
    return values[inside]


POWER, GEOMETRIC = 0, 1
GOLDEN = 0.6180339887498949
STARTS = 257
STEPS = 60
SMALLEST = 1e-9
"""1/A below it is linear speedup: no size distinguishes them."""


@kernel
def shape_of(place: float, kind: int) -> float:
    """The exponent at a place in [0, 1]; 1/A, even in its logarithm, 0 at the end."""
    if kind == POWER:
        return place
    return SMALLEST**place if place < 1.0 else 0.0


@kernel
def relative_runtime(n: float, shape: float, kind: int) -> float:
    """T(n)/T(1)."""
    if kind == POWER:
        return float(n**-shape)
    if shape == 0.0:
        return 1.0 / n
    return shape / -np.expm1(n * np.log1p(-shape)) if shape < 1.0 else 1.0


@kernel
def _scale(shape: float, kind: int, n: Floats, t: Floats, w: Floats) -> float:
    """T(1) in units of the first runtime, by least squares."""
    zx, vxx = 0.0, 0.0
    for i in range(len(n)):
        x = relative_runtime(n[i], shape, kind) * t[0] / t[i]
        zx += w[i] * x
        vxx += w[i] * x * x
    return zx / vxx


@kernel
def _left(place: float, kind: int, n: Floats, t: Floats, w: Floats) -> float:
    """The squares left at one shape, from residuals."""
    shape, total = shape_of(place, kind), 0.0
    scale = _scale(shape, kind, n, t, w)
    for i in range(len(n)):
        error = 1.0 - scale * relative_runtime(n[i], shape, kind) * t[0] / t[i]
        total += w[i] * error * error
    return total


@entry_kernel
def one_shape_batch(
    chosen: Ints, offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, found: Floats, kind: int
) -> None:
    """The power law or Smirni's: the squares left, T(1) (s), the shape, and its place, of the chosen series."""
    for i in chosen:
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        place = _best_place(kind, n, t, w)
        shape = shape_of(place, kind)
        found[i, 0], found[i, 1] = _left(place, kind, n, t, w), _scale(shape, kind, n, t, w) * t[0]
        found[i, 2], found[i, 3] = shape, place


@kernel
def _best_place(kind: int, n: Floats, t: Floats, w: Floats) -> float:
    """A grid over the whole range, then golden section between the best's neighbours."""
    best, least = 0, np.inf
    for k in range(STARTS):
        left = _left(k / (STARTS - 1.0), kind, n, t, w)
        if left < least:
            best, least = k, left
    place = best / (STARTS - 1.0)
    lo, hi = max(best - 1, 0) / (STARTS - 1.0), min(best + 1, STARTS - 1) / (STARTS - 1.0)
    for _ in range(STEPS):
        one, other = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
        left_one, left_other = _left(one, kind, n, t, w), _left(other, kind, n, t, w)
        if left_one <= left_other:
            hi = other
        else:
            lo = one
        if min(left_one, left_other) < least:
            least, place = min(left_one, left_other), one if left_one <= left_other else other
    return place


def _power_row(found: Floats, _: Ends) -> Row:
    return {"wssre": found[:, 0], "t1_s": found[:, 1], "exponent": found[:, 2]}, _is_inside(found[:, 3])


def _geometric_row(found: Floats, _: Ends) -> Row:
    t1_s, shape = found[:, 1], found[:, 2]
    with np.errstate(divide="ignore"):
        columns = {"wssre": found[:, 0], "t1_s": t1_s, "tinf_s": t1_s * shape, "avg_parallelism": 1.0 / shape}
    return columns, _is_inside(found[:, 3])


def _is_inside(place: Floats) -> Codes:
    """at_bound where the law is constant or linear."""
    return np.where((place > 0.0) & (place < 1.0), OK, AT_BOUND).astype(np.int8)


_SOLVERS: dict[Solver, tuple[Any, int, Callable[[Floats, Ends], Row]]] = {
    Solver.CONSTANT: (downey.exact_batch, downey.CONSTANT, constant_row),
    Solver.AMDAHL: (downey.exact_batch, downey.AMDAHL, amdahl_row),
    Solver.DOWNEY_LOW: (downey.exact_batch, downey.DOWNEY_LOW, low_row),
    Solver.DOWNEY_HIGH: (downey.exact_batch, downey.DOWNEY_HIGH, high_row),
    Solver.AMDAHL_LINEAR: (overhead.amdahl_overhead_batch, overhead.LINEAR, overhead.amdahl_overhead_row),
    Solver.AMDAHL_LOG: (overhead.amdahl_overhead_batch, overhead.LOGARITHMIC, overhead.amdahl_overhead_row),
    Solver.DOWNEY_LINEAR: (overhead.downey_overhead_batch, overhead.LINEAR, overhead.downey_overhead_row),
    Solver.DOWNEY_LOG: (overhead.downey_overhead_batch, overhead.LOGARITHMIC, overhead.downey_overhead_row),
    Solver.GEOMETRIC: (one_shape_batch, GEOMETRIC, _geometric_row),
    Solver.POWER: (one_shape_batch, POWER, _power_row),
}
"""The kernel that fills optima, its form, and what reads them."""

N_FOUND = 6
"""Columns of optima that a kernel may fill."""


def fit_law(name: str, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
    law = LAWS[name]
    if law.solver is None or law.solver == Solver.GENERIC:
        return fit_generic(law, batch)
    fill, form, read = _SOLVERS[law.solver]
    status = refusals(batch, law.n_parameters)
    chosen, found = np.flatnonzero(status == OK), np.full((batch.n_series, N_FOUND), np.nan)
    if not chosen.size:
        return batch_fit(batch.n_series, chosen, {}, status)
    fill(chosen, batch.offsets, batch.procs, batch.runtime_s, batch.weights, found, form)
    first, last = batch.offsets[chosen], batch.offsets[chosen + 1] - 1
    second, n = np.minimum(first + 1, last), batch.procs
    ends = Ends(n[first], n[second], n[last], batch.runtime_s[first])
    columns, status[chosen] = read(found[chosen], ends)
    # Runtimes or weights were too extreme for arithmetic.
    is_sound = np.isfinite(columns["wssre"]) & np.isfinite(columns["t1_s"])
    status[chosen[~is_sound]] = STATUS_CODE[FitStatus.BAD_VALUES]
    sound = {name: values[is_sound] for name, values in columns.items()}
    return batch_fit(batch.n_series, chosen[is_sound], sound, status)
