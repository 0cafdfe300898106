"""A law fitted to a batch of series, by the solver that the law declares."""

from typing import Any

import numpy as np

from pipeline.arrays import Bools, Floats
from pipeline.laws import LAWS
from pipeline.laws.law import Law, Parameter, Solver
from pipeline.scaling.fit_status import STATUS_CODE, FitStatus
from pipeline.scaling.solvers import exact, one_shape, overhead
from pipeline.scaling.solvers.downey_rows import OK
from pipeline.scaling.solvers.series import OUT_COLUMNS, BatchFit, SeriesBatch, batch_fit, empty_out

STARTS = 4
"""Points of the grid that are followed."""

CLOSE = 1e-5
"""A parameter this near a bound, relatively, is set on it where that costs no more than ..."""

TIE = 1e-9
"""... this share of the weights."""


def fit_generic(law: Law, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least squares of every series; at_bound where a parameter is on a bound."""
    out, status = empty_out(batch.n_series)
    # The constant's fit says which series hold values that nothing can be fitted to.
    exact.exact_batch(batch.offsets, batch.procs, batch.runtime_s, batch.weights, out, status, exact.CONSTANT)
    out[:] = np.nan
    status[(status == OK) & (batch.n_points < law.n_parameters)] = STATUS_CODE[FitStatus.TOO_FEW_POINTS]
    for i in np.flatnonzero(status == OK):
        own = slice(batch.offsets[i], batch.offsets[i + 1])
        problem = _Problem(law, batch.procs[own], batch.runtime_s[own], batch.weights[own])
        shape = problem.best()
        t1_s, error = problem.scaled(shape[:, None])
        values = dict(zip(problem.names, shape, strict=True)) | {"t1_s": t1_s[0], "wssre": (error**2).sum()}
        if "overhead_s" in values:
            values["overhead_s"] *= t1_s[0]
        for name, value in values.items():
            out[i, OUT_COLUMNS.index(name)] = value
        on_bound = [value in (one.low, one.high) for one, value in zip(law.parameters, shape, strict=True)]
        status[i] = STATUS_CODE[FitStatus.AT_BOUND] if any(on_bound) else OK
    return batch_fit(out, status)


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
        first = np.argsort(self.squares(grid), kind="stable")[:STARTS]
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


_KERNELS: dict[Solver, tuple[Any, int]] = {
    Solver.CONSTANT: (exact.exact_batch, exact.CONSTANT),
    Solver.AMDAHL: (exact.exact_batch, exact.AMDAHL),
    Solver.DOWNEY_LOW: (exact.exact_batch, exact.DOWNEY_LOW),
    Solver.DOWNEY_HIGH: (exact.exact_batch, exact.DOWNEY_HIGH),
    Solver.AMDAHL_LINEAR: (overhead.amdahl_overhead_batch, overhead.LINEAR),
    Solver.AMDAHL_LOG: (overhead.amdahl_overhead_batch, overhead.LOGARITHMIC),
    Solver.DOWNEY_LINEAR: (overhead.downey_overhead_batch, overhead.LINEAR),
    Solver.DOWNEY_LOG: (overhead.downey_overhead_batch, overhead.LOGARITHMIC),
    Solver.GEOMETRIC: (one_shape.one_shape_batch, one_shape.GEOMETRIC),
    Solver.POWER: (one_shape.one_shape_batch, one_shape.POWER),
}


def fit_law(name: str, batch: SeriesBatch) -> BatchFit:
    """The weighted relative least-squares optimum of every series; NaN and a status where there is none."""
    law = LAWS[name]
    if law.solver is None or law.solver == Solver.GENERIC:
        return fit_generic(law, batch)
    fill, form = _KERNELS[law.solver]
    out, status = empty_out(batch.n_series)
    fill(batch.offsets, batch.procs, batch.runtime_s, batch.weights, out, status, form)
    return batch_fit(out, status)
