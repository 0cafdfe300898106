"""Laws of scalability: runtime as a formula of processors, T(n; parameters), each declared with all it is asked.

A new law is a `Law` below, and its name among LAWS, AVERAGED or both. The formulas and where they come from:

constant: the baseline every other law has to beat.

amdahl: G. M. Amdahl, "Validity of the single processor approach", AFIPS Spring Joint Computer Conference 1967, states
in words that with serial fraction f, T(n) = T(1) (f + (1 - f)/n).

amdahl_log: a tree of messages on top, T(n) = T(1) (f + (1 - f)/n) + c log2 n. The logarithm is the depth of a reduction
over n processors: H. P. Flatt and K. Kennedy, "Performance of parallel processors", Parallel Computing 12(1), 1989.

usl: the universal scalability law. N. J. Gunther, "Guerrilla Capacity Planning", Springer 2007, chapter 4. Capacity
C(n) = n/(1 + alpha (n - 1) + beta n (n - 1)); as a runtime, with f = alpha (contention) and c = beta T(1) (coherency,
seconds for each processor beyond the first): T(n) = T(1) (f + (1 - f)/n) + c (n - 1).

ernest: both overheads on top, T(n) = T(1) (f + (1 - f)/n) + c log2 n + c2 (n - 1). S. Venkataraman, Z. Yang,
M. Franklin, B. Recht and I. Stoica, "Ernest: efficient performance prediction for large-scale advanced analytics",
NSDI 2016.

dowdy: L. W. Dowdy's execution signature, "On the partitioning of multiprocessor systems", Vanderbilt 1988,
S(n) = n/(C1 + C2 n). Chiang, Mansharamani and Vernon (SIGMETRICS 1994) scale it to S(1) = 1, as (1 + b) n/(n + b); so
A = 1 + b and T(n) = T(1) (n + A - 1)/(A n). It is Amdahl's law with f = 1/A in other parameters: the two always
fit alike, and as one family they are never weighed against each other.

power: T(n) = T(1) n^-b with 0 <= b <= 1, a straight line on logarithmic axes. B. J. Barnes, B. Rountree,
D. K. Lowenthal, J. Reeves, B. de Supinski and M. Schulz, "A regression-based approach to scalability prediction",
ICS 2008.

smirni: E. Smirni, E. Rosti, L. W. Dowdy and G. Serazzi, "A methodology for the evaluation of multiprocessor
non-preemptive allocation policies", Journal of Systems Architecture 44, 1998. Each processor adds alpha times what the
one before it added: S(n) = (1 - alpha^n)/(1 - alpha), 0 <= alpha < 1. Here in A = S(infinity) = 1/(1 - alpha), and
T(n) = T(1)/S(n).

growing: T(n) = T(1) (1 - c + c n^p), p from 1.5 to 3. Only the model average has it. No overhead of the other laws
grows faster than the processors; where runtime itself does (all talk to all, work that is repeated), this is the only
shape that follows.

downey: A. B. Downey, "A model for speedup of parallel programs", UC Berkeley CSD-97-933, 1997; as a runtime in Deshmeh
2013 (ADEPT), chapter 3. Low variance, sigma up to 1, with tau = T(inf) = T(1)/A:

    1 <= n <= A          T = tau ((A - sigma/2)/n + sigma/2)
    A <= n <= 2A - 1     T = tau (sigma (A - 1/2)/n + 1 - sigma/2)
    n >= 2A - 1          T = tau

High variance, sigma from 1 on, with N* = A + A sigma - sigma and tau = T(1)/(A (1 + sigma)):

    1 <= n <= N*         T = tau (sigma + N*/n)
    n >= N*              T = tau (sigma + 1)

Neither has a piece that declines; Lan 2007, section 6.6, asks for one. So downey_linear adds c (n - 1), and downey_log
c log2 n: nothing at one processor, so that T(1) keeps its meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats

Parameters = Mapping[str, Floats] | npt.NDArray[Any]

# Columns of FITS, beside t1_s, that a fitted law may take as parameters.
COLUMNS = ("avg_parallelism", "sigma", "serial_fraction", "overhead_s", "exponent")


class FitStatus(StrEnum):
    """How a fit ended: a failed or unreliable one is a row with a status."""

    # Every parameter is determined by the sizes observed.
    OK = "ok"
    # Fewer distinct sizes than the law has parameters: nothing was fitted.
    TOO_FEW_POINTS = "too_few_points"
    # Runtime still falls at the largest size: any A in the range given fits equally well.
    TAIL_UNIDENTIFIED = "tail_unidentified"
    # Too few sizes on the slope: any A in the range given fits equally well.
    HEAD_UNIDENTIFIED = "head_unidentified"
    # The optimum lies on the edge of the law's domain: another law may fit better.
    AT_BOUND = "at_bound"
    # A size below 1 or not rising, or a runtime or weight that is not finite and positive.
    BAD_VALUES = "bad_values"
    # A second curve fits equally well: the two have the A at the ends of the range given.
    RUNNER_UP = "runner_up"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter beside T(1): its bounds in a fit, and its values in the grid of the average.

    Seconds (`overhead_s`) count in multiples of T(1) in the grid.
    """

    name: str
    low: float
    high: float
    grid: tuple[float, ...] = ()


class Form(NamedTuple):
    """Runtime as a sum of functions of n whose coefficients (s) are at least 0, given at most one shape.

    `functions(shape, n)` are those functions, `columns(coefficients, shape)` the law's columns of FITS from their
    coefficients. `shape` is the parameter that is searched; None: least squares need no search. `bends(n)` are the
    shapes at which a function bends at a size n, so that what is left has an edge there.
    """

    functions: Callable[[Floats, Floats], tuple[Floats, ...]]
    columns: Callable[[Sequence[Floats], Floats], dict[str, Floats]]
    shape: Parameter | None = None
    bends: Callable[[Floats], tuple[Floats, ...]] = lambda _: ()


Overhead = Callable[[Floats], Floats]
"""What c is multiplied by where a law has c seconds of overhead, a function of n; nothing at one processor."""

MOST_PROCS = 2.0**20
"""A law that still gains there is said to gain for ever."""
NEXT, HALVINGS = 1.000001, 50
"""A law gains at n where it is faster on NEXT times n; how often the range in which that ends is halved."""


@dataclass(frozen=True, slots=True)
class Law:
    """A functional form T(n).

    `curve(n, t1_s, *others)` is in seconds, without the overhead. It takes arrays in the order of `parameters`, which
    broadcast with one another, and gives NaN where a parameter is NaN. A law falls to one least runtime and never
    falls after it. The average asks for n below 1, where overheads are none.

    Laws of one `family` are branches of one law that meet at a boundary: only the better-fitting one can be meant.
    A law that is not `fitted` only takes part in the model average; one without a `prior_weight` there is only fitted.

    A law is fitted in its `forms`, of which the one that leaves least counts; without any, T(1) is the coefficient, and
    at most one other parameter is the shape. Downey's two modes are fitted exactly.
    """

    name: str
    equation: str
    source: str
    curve: Callable[..., Floats]
    parameters: tuple[Parameter, ...] = ()
    overhead: Overhead | None = None
    fitted: Literal["in forms", "exactly", "no"] = "in forms"
    forms: tuple[Form, ...] = ()
    prior_weight: float = 0.0
    family: str = ""

    def __post_init__(self) -> None:
        """The family is the law itself where none is given; ValueError where nothing could fit or tabulate the law."""
        object.__setattr__(self, "family", self.family or self.name)
        for one in self.parameters:
            if self.fitted != "no" and one.name not in COLUMNS:
                raise ValueError(f"law {self.name}: found parameter {one.name}, expected one of {', '.join(COLUMNS)}")
            if self.prior_weight and not one.grid:
                raise ValueError(f"law {self.name}: found no grid of {one.name}, expected the values to begin with")
        if self.fitted == "in forms" and not self.forms:
            object.__setattr__(self, "forms", (self._form(),))

    def _form(self) -> Form:
        """The form of a law that declares none."""
        if len(self._shapes) > 1:
            found = ", ".join(one.name for one in self._shapes)
            raise ValueError(f"law {self.name}: found the shapes {found}, expected at most one, or a form")
        names = [one.name for one in self._shapes]

        def columns(found: Sequence[Floats], shape: Floats) -> dict[str, Floats]:
            tinf_s = found[0] / shape if names == ["avg_parallelism"] else np.full_like(shape, np.nan)
            return {"t1_s": found[0], "tinf_s": tinf_s, **dict.fromkeys(names, shape)}

        return Form(
            lambda shape, n: (self.curve(n, np.ones(1), *[shape for _ in names]),),
            columns,
            next(iter(self._shapes), None),
        )

    @property
    def _shapes(self) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if one.name != "overhead_s" or not self.overhead)

    @property
    def n_parameters(self) -> int:
        """How many numbers a fit of the law finds, T(1) among them."""
        return 1 + len(self.parameters)

    def formula(self, parameters: Parameters, n: Floats) -> Floats:
        """Runtime (s) at any n above 0."""
        names = "t1_s", *(one.name for one in self._shapes)
        runtime_s = self.curve(n, *(np.asarray(parameters[name], np.float64) for name in names))
        return runtime_s + parameters["overhead_s"] * self.overhead(n) if self.overhead else runtime_s

    def runtime_s(self, parameters: Parameters, procs: npt.ArrayLike) -> Floats:
        """The same at processor counts; ValueError where one is below 1, because no law reaches there."""
        sizes = np.asarray(procs, np.float64)
        if (sizes < 1).any():
            raise ValueError(
                f"found procs = {sizes.min():g}, expected at least 1: a law's runtime starts at one processor"
            )
        return self.formula(parameters, sizes)

    def largest_useful_procs(self, parameters: Parameters) -> Floats:
        """The size beyond which the law gains nothing; infinite where it still gains at MOST_PROCS."""
        is_known = ~np.isnan(self.formula(parameters, np.ones(())))
        low, high = np.zeros(is_known.shape), np.full(is_known.shape, np.log2(MOST_PROCS))
        for _ in range(HALVINGS):
            n = 2.0 ** ((low + high) / 2)
            gains = self.formula(parameters, n * NEXT) < self.formula(parameters, n)
            low, high = np.where(gains, np.log2(n), low), np.where(gains, high, np.log2(n))
        found = np.where(low == 0.0, 1.0, np.where(2.0**high == MOST_PROCS, np.inf, 2.0**high))
        return np.where(is_known, found, np.nan)

    def grid(self) -> dict[str, Floats]:
        """Every combination of the parameters' grids, with T(1) = 1: float64[g] per parameter."""
        axes = np.meshgrid(*[np.array(one.grid) for one in self.parameters], indexing="ij")
        shapes = {one.name: axis.ravel() for one, axis in zip(self.parameters, axes, strict=True)}
        return {"t1_s": np.ones(1), **shapes}


def powers(first: float, last: float, step: float = 1.0) -> tuple[float, ...]:
    """Powers of two: 2^first, 2^(first + step) and so on up to 2^last."""
    return tuple((2.0 ** np.arange(first, last + step / 2, step)).tolist())


def extra_procs(n: Floats) -> Floats:
    """n - 1, what an overhead per processor is counted in; 0 below one processor."""
    return np.maximum(n - 1.0, 0.0)


def doublings(n: Floats) -> Floats:
    """log2 n, what an overhead per doubling is counted in; 0 below one processor."""
    return np.log2(np.maximum(n, 1.0))


_OVERHEAD = Parameter("overhead_s", 0.0, np.inf)

# Amdahl's law, alone and with overheads.


def constant_s(n: Floats, t1_s: Floats) -> Floats:
    """T(n) = T(1)."""
    t1_s, sizes = np.broadcast_arrays(t1_s, n)
    return np.where(np.isnan(sizes), np.nan, t1_s)


def amdahl_s(n: Floats, t1_s: Floats, serial: Floats) -> Floats:
    """T(n) from the serial fraction in [0, 1]; 0 is linear speedup."""
    return t1_s * (serial + (1.0 - serial) / n)


def _amdahl_columns(found: Sequence[Floats], _: Floats) -> dict[str, Floats]:
    t1_s, serial_s = found[0] + found[1], found[1]
    serial = np.where(t1_s > 0.0, serial_s / t1_s, 1.0)
    return {"t1_s": t1_s, "tinf_s": serial_s, "serial_fraction": serial, "avg_parallelism": t1_s / serial_s}


CONSTANT = Law(
    "constant", "T(1)", "baseline", constant_s,
    forms=(Form(lambda _, n: (np.ones_like(n),),
                lambda t, _: {"t1_s": t[0], "tinf_s": t[0], "avg_parallelism": np.ones_like(t[0])}),),
    prior_weight=1.0,
)  # fmt: skip
# Of prior weights 1, 2 and 3 those that real applications prefer, each left out in turn: most other laws are Amdahl's
# with something more, which few sizes should not be read to show.
AMDAHL = Law(
    "amdahl", "T(1) (f + (1 - f)/n)", "Amdahl 1967", amdahl_s,
    (Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-14, 0, 0.5))),),
    forms=(Form(lambda _, n: (1.0 / n, np.ones_like(n)), _amdahl_columns),), prior_weight=3.0,
)  # fmt: skip
DOWDY = replace(
    AMDAHL, name="dowdy", equation="T(1) (n + A - 1)/(A n), f = 1/A",
    source="Dowdy 1988; Chiang, Mansharamani and Vernon 1994", prior_weight=0.0, family="amdahl",
)  # fmt: skip
AMDAHL_LOG = replace(
    AMDAHL, name="amdahl_log", equation="T(1) (f + (1 - f)/n) + c log2 n", source="Flatt and Kennedy 1989",
    parameters=(*AMDAHL.parameters, _OVERHEAD), overhead=doublings, prior_weight=0.0, family="",
)  # fmt: skip
USL = replace(
    AMDAHL_LOG, name="usl", equation="T(1) (f + (1 - f)/n) + c (n - 1)", source="Gunther 2007", overhead=extra_procs,
    family="",
)  # fmt: skip
# Only the model average has it: with both overheads it stands for laws that have either.
ERNEST = Law(
    "ernest", "T(1) (f + (1 - f)/n) + c log2 n + c2 (n - 1)", "Venkataraman et al. 2016",
    lambda n, t1_s, serial, log_s, linear_s:
        amdahl_s(n, t1_s, serial) + log_s * doublings(n) + linear_s * extra_procs(n),
    (
        Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-9, -1, 2))),
        Parameter("overhead_s", 0.0, np.inf, powers(-11, -1, 2)),
        Parameter("linear_overhead_s", 0.0, np.inf, powers(-14, -2, 2)),
    ),
    fitted="no", prior_weight=2.0,
)  # fmt: skip


# Laws of one shape.

_A = Parameter("avg_parallelism", 1.0, np.inf)


def power_s(n: Floats, t1_s: Floats, b: Floats) -> Floats:
    """T(n) from the exponent; 1 is linear speedup."""
    # pow(1, NaN) is 1
    return np.where(np.isnan(b), np.nan, t1_s * n**-b)


def smirni_s(n: Floats, t1_s: Floats, A: Floats) -> Floats:
    """T(n) from A >= 1; infinite A is linear speedup."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return t1_s / np.where(np.isinf(A), n, -A * np.expm1(n * np.log1p(-1.0 / A)))


# Measured speedups exceed the processors a little, so that the grid of the average goes beyond the bound of a fit.
POWER = Law(
    "power", "T(1) n^-b", "Barnes et al. 2008", power_s,
    (Parameter("exponent", 0.0, 1.0, tuple(np.arange(0.05, 1.36, 0.05).tolist())),), prior_weight=4.0,
)  # fmt: skip
SMIRNI = Law("smirni", "T(1)/(A (1 - (1 - 1/A)^n))", "Smirni, Rosti, Dowdy and Serazzi 1998", smirni_s, (_A,))
# Measured runtimes that rise level off, so that faster growth weighs little: three sizes that show it are enough to
# believe it. A second processor costs time.
GROWING = Law(
    "growing", "T(1) (1 - c + c n^p)", "Walltime", lambda n, t1_s, share, p: t1_s * ((1.0 - share) + share * n**p),
    (
        Parameter("growing_share", 0.0, 1.0, powers(-8, 0)),
        Parameter("power", 1.5, 3.0, (1.5, 2.0, 2.5, 3.0)),
    ),
    fitted="no", prior_weight=0.02,
)  # fmt: skip


# Downey's law in its two modes, both as one, and that one with an overhead.


def downey_low_s(n: Floats, t1_s: Floats, A: Floats, sigma: Floats) -> Floats:
    """T(n) from A >= 1 and sigma in [0, 1]; infinite A is linear speedup."""
    # Written in 1/A, so that an infinite A needs no case of its own.
    half = sigma / (2.0 * A)
    rising = (1.0 - half) / n + half
    bending = (sigma - half) / n + 1.0 / A - half
    relative = np.where(n <= A, rising, np.where(n < 2.0 * A - 1.0, bending, 1.0 / A))
    return t1_s * np.where(np.isnan(sigma + n), np.nan, relative)


def downey_high_s(n: Floats, t1_s: Floats, A: Floats, sigma: Floats) -> Floats:
    """T(n) from A >= 1 and sigma >= 1.

    Infinite A is linear speedup; infinite sigma is Amdahl's law with serial fraction 1/A.
    """
    with np.errstate(invalid="ignore"):
        plateau = A + np.where((A == 1.0) & ~np.isnan(sigma), 0.0, (A - 1.0) * sigma)
    return amdahl_s(np.minimum(n, plateau), t1_s, 1.0 / (A * (1.0 + 1.0 / sigma)))


def downey_s(n: Floats, t1_s: Floats, A: Floats, sigma: Floats) -> Floats:
    """T(n) from A >= 1 and sigma >= 0: the mode that sigma belongs to."""
    high_s = downey_high_s(n, t1_s, A, np.maximum(sigma, 1.0))
    return np.where(sigma > 1.0, high_s, downey_low_s(n, t1_s, A, np.minimum(sigma, 1.0)))


def _sigma_one(A: Floats, n: Floats) -> Floats:
    return np.maximum((1.0 - 0.5 / A) / n + 0.5 / A, 1.0 / A)


def _low_columns(found: Sequence[Floats], A: Floats) -> dict[str, Floats]:
    t1_s = found[0] + found[1]
    return _downey_columns(t1_s, A, found[1] / t1_s)


def _high_columns(found: Sequence[Floats], A: Floats) -> dict[str, Floats]:
    t1_s = found[0] + found[1]
    sigma = np.where(found[1] > 0.0, 1.0 + 2.0 * found[0] * A / found[1], 1.0)
    return _downey_columns(t1_s, t1_s / (found[0] + found[1] / A), sigma)


def _downey_columns(t1_s: Floats, A: Floats, sigma: Floats) -> dict[str, Floats]:
    # A runtime that is overhead alone has A of 1 and sigma of 0.
    A, sigma = np.where(t1_s > 0.0, A, 1.0), np.where(t1_s > 0.0, sigma, 0.0)
    return {"t1_s": t1_s, "avg_parallelism": A, "sigma": sigma}


_SOURCE = "Downey 1997, CSD-97-933"

DOWNEY_LOW = Law(
    "downey_low", "three pieces, flat from 2A - 1 on", f"{_SOURCE}, low variance", downey_low_s,
    (_A, Parameter("sigma", 0.0, 1.0)), fitted="exactly", family="downey",
)  # fmt: skip
DOWNEY_HIGH = Law(
    "downey_high", "two pieces, flat from A + A sigma - sigma on", f"{_SOURCE}, high variance", downey_high_s,
    (_A, Parameter("sigma", 1.0, np.inf)), fitted="exactly", family="downey",
)  # fmt: skip
DOWNEY = Law(
    "downey", "the mode that sigma belongs to", _SOURCE, downey_s,
    (replace(_A, grid=powers(1, 11, 0.25)), Parameter("sigma", 0.0, np.inf, (0.0, 0.5, 1.0, 2.0, 5.0))),
    fitted="no", prior_weight=1.0,
)  # fmt: skip
# With A given each mode is a sum of the two curves at the ends of its sigma; in the high one A is that of sigma = 1.
DOWNEY_LINEAR = replace(
    DOWNEY, name="downey_linear", equation="Downey's + c (n - 1)", source=f"{_SOURCE}; Lan 2007, 6.6",
    parameters=(_A, Parameter("sigma", 0.0, np.inf), _OVERHEAD), overhead=extra_procs, fitted="in forms",
    prior_weight=0.0, family="",
    forms=(
        Form(lambda A, n: (np.maximum(1.0 / n, 1.0 / A), _sigma_one(A, n)), _low_columns, _A,
             lambda n: (n, (n + 1.0) / 2.0)),
        Form(lambda A, n: (np.ones_like(n), _sigma_one(A, n)), _high_columns, _A, lambda n: ((n + 1.0) / 2.0,)),
    ),
)  # fmt: skip
DOWNEY_LOG = replace(DOWNEY_LINEAR, name="downey_log", equation="Downey's + c log2 n", overhead=doublings, family="")

LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        CONSTANT, AMDAHL, DOWNEY_LOW, DOWNEY_HIGH, USL, AMDAHL_LOG, DOWNEY_LINEAR, DOWNEY_LOG, DOWDY, SMIRNI, POWER,
    )
}  # fmt: skip
"""The laws that can be fitted, by name."""

AVERAGED: dict[str, Law] = {law.name: law for law in (CONSTANT, POWER, AMDAHL, ERNEST, DOWNEY, GROWING)}
"""The laws that the model average runs over, by name, in the order of its grid: sums run in it."""


def register(law: Law) -> None:
    """Enter a law of another program's, last; ValueError where another law has its name."""
    if {**AVERAGED, **LAWS}.get(law.name, law) is not law:
        raise ValueError(f"found a second law {law.name}, expected a name of its own")
    if law.fitted != "no":
        LAWS[law.name] = law
    if law.prior_weight:
        AVERAGED[law.name] = law
