"""What a law declares: formula, parameters, solver, part in the model average, paper. See `forms`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats

Parameters = Mapping[str, Floats]

LAST = 100
"""The place of a law that asks for none: behind those that do, in order of name."""

COLUMNS = ("avg_parallelism", "sigma", "serial_fraction", "overhead_s", "exponent")
"""Columns of FITS, beside t1_s, that a fitted law may take as parameters."""


class Solver(StrEnum):
    """How a law is fitted: by the one search of `pipeline.scaling.fit_law`, or exactly as one of Downey's."""

    SEPARABLE = "separable"
    DOWNEY_LOW = "downey_low"
    DOWNEY_HIGH = "downey_high"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter beside T(1): its bounds in a fit, and its values in the grids of the average and of generic fits.

    Seconds (`overhead_s`) count in multiples of T(1) in bounds and grid.
    """

    name: str
    low: float
    high: float
    grid: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """Runtime as a sum of functions of n whose coefficients (s) are at least 0, given at most one shape.

    `functions(shape, n)` are those functions, `parameters(coefficients, shape)` the law's columns of FITS from their
    coefficients. `shape` is the parameter that is searched; None: least squares need no search. `bends(n)` are the
    shapes at which a function bends at a size n, so that what is left has an edge there.
    """

    functions: Callable[[Floats, Floats], tuple[Floats, ...]]
    parameters: Callable[[Sequence[Floats], Floats], dict[str, Floats]]
    shape: Parameter | None = None
    bends: Callable[[Floats], tuple[Floats, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Averaging:
    """A law's part in the model average: its prior weight, and its place in the grid.

    Sums over the grid run in order of place, so that the last digits of predictions depend on it.
    """

    weight: float = 1.0
    place: int = LAST


@dataclass(frozen=True, slots=True)
class Law:
    """A functional form T(n).

    `formula(parameters, x)` is in seconds, by numpy broadcasting of the parameters it reads and of x > 0; NaN where a
    parameter is NaN. The average asks for x below 1, where overheads are none. `largest_useful_procs(parameters)` is
    the size beyond which the law gains nothing, infinite where it never stops gaining.

    Laws of one `family` are branches of one law that meet at a boundary: only the better-fitting one can be meant.
    A law without a `solver` only takes part in the model average; one without `averaging` is only fitted.

    A separable law is fitted in its `forms`, of which the one that leaves least counts. Where it gives none, T(1) and
    overhead_s are its coefficients, and at most one other parameter is its shape.
    """

    name: str
    equation: str
    source: str
    formula: Callable[[Parameters, Floats], Floats]
    largest_useful_procs: Callable[[Parameters], Floats]
    parameters: tuple[Parameter, ...] = ()
    solver: Solver | None = Solver.SEPARABLE
    forms: tuple[Form, ...] = ()
    averaging: Averaging | None = None
    family: str = ""
    place: int = LAST

    def __post_init__(self) -> None:
        """The family is the law itself where none is given; ValueError where nothing could fit or tabulate the law."""
        object.__setattr__(self, "family", self.family or self.name)
        for one in self.parameters:
            if self.solver and one.name not in COLUMNS:
                raise ValueError(f"law {self.name}: found parameter {one.name}, expected one of {', '.join(COLUMNS)}")
            if self.averaging and not one.grid:
                raise ValueError(f"law {self.name}: found no grid of {one.name}, expected the values to begin with")
        if self.solver == Solver.SEPARABLE and not self.forms:
            object.__setattr__(self, "forms", (self._form(),))

    def _form(self) -> Form:
        """The form of a law that declares none."""
        shapes = [one for one in self.parameters if one.name != "overhead_s"]
        if len(shapes) > 1:
            found = ", ".join(one.name for one in shapes)
            raise ValueError(f"law {self.name}: found the shapes {found}, expected at most one, or a form")
        name, n_others = (shapes[0].name if shapes else ""), len(self.parameters) - len(shapes)

        def functions(shape: Floats, n: Floats) -> tuple[Floats, ...]:
            given = {"t1_s": np.ones(1), "overhead_s": np.zeros(1), name: shape}
            runtime = self.formula(given, n)
            return (runtime, self.formula({**given, "overhead_s": np.ones(1)}, n) - runtime)[: 1 + n_others]

        def parameters(coefficients: Sequence[Floats], shape: Floats) -> dict[str, Floats]:
            columns = dict(zip(("t1_s", "overhead_s"), coefficients, strict=False))
            if name == "avg_parallelism" and not n_others:
                columns["tinf_s"] = columns["t1_s"] / shape
            return columns | ({name: shape} if name else {})

        return Form(functions, parameters, shapes[0] if shapes else None)

    @property
    def n_parameters(self) -> int:
        """How many numbers a fit of the law finds, T(1) among them."""
        return 1 + len(self.parameters)

    def runtime_s(self, parameters: Parameters, procs: npt.ArrayLike) -> Floats:
        """The formula at processor counts (s); ValueError where one is below 1, because no law reaches there."""
        sizes = np.asarray(procs, np.float64)
        if (sizes < 1).any():
            raise ValueError(
                f"found procs = {sizes.min():g}, expected at least 1: a law's runtime starts at one processor"
            )
        return self.formula(parameters, sizes)

    def grid(self) -> dict[str, Floats]:
        """Every combination of the parameters' grids, with T(1) = 1: float64[g] per parameter."""
        axes = np.meshgrid(*[np.array(one.grid) for one in self.parameters], indexing="ij")
        shapes = {one.name: axis.ravel() for one, axis in zip(self.parameters, axes, strict=True)}
        return {"t1_s": np.ones(1), **shapes}


def parameter(parameters: Parameters, name: str) -> Floats:
    """One parameter as a float64 array."""
    return np.asarray(parameters[name], np.float64)


def powers(first: float, last: float, step: float = 1.0) -> tuple[float, ...]:
    """Powers of two: 2^first, 2^(first + step) and so on up to 2^last."""
    return tuple((2.0 ** np.arange(first, last + step / 2, step)).tolist())


def extra_procs(n: Floats) -> Floats:
    """n - 1, what an overhead per processor is counted in; 0 below one processor."""
    return np.maximum(n - 1.0, 0.0)


def doublings(n: Floats) -> Floats:
    """log2 n, what an overhead per doubling is counted in; 0 below one processor."""
    return np.log2(np.maximum(n, 1.0))


def never_or_one(parameters: Parameters, name: str, never: Callable[[Floats], npt.NDArray[np.bool_]]) -> Floats:
    """The largest useful size of a law without overhead: infinite where anything runs in parallel, else 1."""
    value = parameter(parameters, name)
    return np.where(np.isnan(value), np.nan, np.where(never(value), np.inf, 1.0))


def least_at(falling_s: Floats, rising_s: Floats) -> Floats:
    """falling/rising, at least 1: where fall/n + rise g(n) turns, up to g; infinite for no rise, 1 for no fall."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.maximum(falling_s / rising_s, 1.0)
    return np.where((falling_s == 0.0) & ~np.isnan(rising_s), 1.0, ratio)
