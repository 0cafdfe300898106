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
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Floats

Parameters = Mapping[str, Floats]

COLUMNS = ("avg_parallelism", "sigma", "serial_fraction", "overhead_s", "exponent")
"""Columns of FITS, beside t1_s, that a fitted law may take as parameters."""


class Solver(StrEnum):
    """How a law is fitted: by the one search of `pipeline.scaling.fit`, or exactly as one of Downey's."""

    SEPARABLE = "separable"
    DOWNEY_LOW = "downey_low"
    DOWNEY_HIGH = "downey_high"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter beside T(1): its bounds in a fit, and its values in the grid of the average.

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
class Law:
    """A functional form T(n).

    `curve(n, t1_s, *others)` is in seconds, `useful(t1_s, *others)` the size beyond which the law gains nothing,
    infinite where it never stops gaining. Both take arrays in the order of `parameters`, which broadcast with one
    another, and give NaN where a parameter is NaN. The average asks for n below 1, where overheads are none.

    Laws of one `family` are branches of one law that meet at a boundary: only the better-fitting one can be meant.
    A law without a `solver` only takes part in the model average; one without a `prior_weight` there is only fitted.

    A separable law is fitted in its `forms`, of which the one that leaves least counts. Where it gives none, T(1) and
    overhead_s are its coefficients, and at most one other parameter is its shape.
    """

    name: str
    equation: str
    source: str
    curve: Callable[..., Floats]
    useful: Callable[..., Floats]
    parameters: tuple[Parameter, ...] = ()
    solver: Solver | None = Solver.SEPARABLE
    forms: tuple[Form, ...] = ()
    prior_weight: float = 0.0
    family: str = ""

    def __post_init__(self) -> None:
        """The family is the law itself where none is given; ValueError where nothing could fit or tabulate the law."""
        object.__setattr__(self, "family", self.family or self.name)
        for one in self.parameters:
            if self.solver and one.name not in COLUMNS:
                raise ValueError(f"law {self.name}: found parameter {one.name}, expected one of {', '.join(COLUMNS)}")
            if self.prior_weight and not one.grid:
                raise ValueError(f"law {self.name}: found no grid of {one.name}, expected the values to begin with")
        if self.solver == Solver.SEPARABLE and not self.forms:
            object.__setattr__(self, "forms", (self._form(),))

    def _form(self) -> Form:
        """The form of a law that declares none."""
        shapes = [one for one in self.parameters if one.name != "overhead_s"]
        if len(shapes) > 1:
            found = ", ".join(one.name for one in shapes)
            raise ValueError(f"law {self.name}: found the shapes {found}, expected at most one, or a form")
        name, has_overhead = (shapes[0].name if shapes else ""), len(self.parameters) > len(shapes)

        def functions(shape: Floats, n: Floats) -> tuple[Floats, ...]:
            given = {"t1_s": np.ones(1), "overhead_s": np.zeros(1), name: shape}
            runtime = self.formula(given, n)
            return (runtime, self.formula({**given, "overhead_s": np.ones(1)}, n) - runtime)[: 1 + has_overhead]

        def parameters(coefficients: Sequence[Floats], shape: Floats) -> dict[str, Floats]:
            columns = dict(zip(("t1_s", "overhead_s"), coefficients, strict=False))
            if name == "avg_parallelism" and not has_overhead:
                columns["tinf_s"] = columns["t1_s"] / shape
            return columns | ({name: shape} if name else {})

        return Form(functions, parameters, shapes[0] if shapes else None)

    @property
    def n_parameters(self) -> int:
        """How many numbers a fit of the law finds, T(1) among them."""
        return 1 + len(self.parameters)

    def _arrays(self, parameters: Parameters) -> list[Floats]:
        return [np.asarray(parameters[name], np.float64) for name in ("t1_s", *(one.name for one in self.parameters))]

    def formula(self, parameters: Parameters, n: Floats) -> Floats:
        """Runtime (s) at any n above 0."""
        return self.curve(n, *self._arrays(parameters))

    def runtime_s(self, parameters: Parameters, procs: npt.ArrayLike) -> Floats:
        """The same at processor counts; ValueError where one is below 1, because no law reaches there."""
        sizes = np.asarray(procs, np.float64)
        if (sizes < 1).any():
            raise ValueError(
                f"found procs = {sizes.min():g}, expected at least 1: a law's runtime starts at one processor"
            )
        return self.formula(parameters, sizes)

    def largest_useful_procs(self, parameters: Parameters) -> Floats:
        """The size beyond which the law gains nothing; infinite where it never stops gaining."""
        return self.useful(*self._arrays(parameters))

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


def never_or_one(value: Floats, gains: Bools) -> Floats:
    """The largest useful size of a law without overhead: infinite where more processors gain, else 1."""
    return np.where(np.isnan(value), np.nan, np.where(gains, np.inf, 1.0))


def least_at(falling_s: Floats, rising_s: Floats) -> Floats:
    """falling/rising, at least 1: where fall/n + rise g(n) turns, up to g; infinite for no rise, 1 for no fall."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.maximum(falling_s / rising_s, 1.0)
    return np.where((falling_s == 0.0) & ~np.isnan(rising_s), 1.0, ratio)


# Amdahl's law, alone and with overheads: T = b + a/n, and c times what grows.


def _sum_form(*growing: Callable[[Floats], Floats]) -> Form:
    def parameters(coefficients: Sequence[Floats], _: Floats) -> dict[str, Floats]:
        parallel_s, serial_s = coefficients[:2]
        t1_s = serial_s + parallel_s
        serial = np.where(t1_s > 0.0, serial_s / t1_s, 1.0)
        if growing:
            return {"t1_s": t1_s, "serial_fraction": serial, "overhead_s": coefficients[2]}
        return {"t1_s": t1_s, "tinf_s": serial_s, "serial_fraction": serial, "avg_parallelism": t1_s / serial_s}

    return Form(lambda _, n: (1.0 / n, np.ones_like(n), *(grown(n) for grown in growing)), parameters)


def constant_s(n: Floats, t1_s: Floats) -> Floats:
    """T(n) = T(1)."""
    t1_s, sizes = np.broadcast_arrays(t1_s, n)
    return np.where(np.isnan(sizes), np.nan, t1_s)


def amdahl_s(n: Floats, t1_s: Floats, serial: Floats) -> Floats:
    """T(n) from the serial fraction in [0, 1]; 0 is linear speedup."""
    return t1_s * (serial + (1.0 - serial) / n)


def amdahl_log_s(n: Floats, t1_s: Floats, serial: Floats, overhead_s: Floats) -> Floats:
    """T(n) with an overhead for each doubling of processors."""
    return amdahl_s(n, t1_s, serial) + overhead_s * doublings(n)


def usl_s(n: Floats, t1_s: Floats, serial: Floats, overhead_s: Floats) -> Floats:
    """T(n) with an overhead for each processor beyond the first."""
    return amdahl_s(n, t1_s, serial) + overhead_s * extra_procs(n)


def ernest_s(n: Floats, t1_s: Floats, serial: Floats, overhead_s: Floats, linear_s: Floats) -> Floats:
    """T(n) with both."""
    return usl_s(n, t1_s, serial, linear_s) + overhead_s * doublings(n)


def ernest_useful(t1_s: Floats, serial: Floats, overhead_s: Floats, linear_s: Floats) -> Floats:
    """Where runtime is least: the positive root of c2 n^2 + c1 n / ln 2 = (1 - f) T(1)."""
    falling_s, per_log = t1_s * (1.0 - serial), overhead_s / np.log(2.0)
    # The form of the root that needs no division by the linear overhead.
    return least_at(2.0 * falling_s, per_log + np.sqrt(per_log**2 + 4.0 * linear_s * falling_s))


def dowdy_s(n: Floats, t1_s: Floats, A: Floats) -> Floats:
    """T(n) from A >= 1; infinite A is linear speedup."""
    return amdahl_s(n, t1_s, 1.0 / A)


_A = Parameter("avg_parallelism", 1.0, np.inf)
_SERIAL = Parameter("serial_fraction", 0.0, 1.0)
_OVERHEAD = Parameter("overhead_s", 0.0, np.inf)

CONSTANT = Law(
    "constant", "T(1)", "baseline", constant_s, lambda t1_s: np.where(np.isnan(t1_s), np.nan, 1.0),
    forms=(Form(lambda _, n: (np.ones_like(n),),
                lambda t, _: {"t1_s": t[0], "tinf_s": t[0], "avg_parallelism": np.ones_like(t[0])}),),
    prior_weight=1.0,
)  # fmt: skip
# Of prior weights 1, 2 and 3 those that real applications prefer, each left out in turn: most other laws are Amdahl's
# with something more, which few sizes should not be read to show.
AMDAHL = Law(
    "amdahl", "T(1) (f + (1 - f)/n)", "Amdahl 1967", amdahl_s,
    lambda _, serial: never_or_one(serial, serial < 1.0),
    (Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-14, 0, 0.5))),),
    forms=(_sum_form(),), prior_weight=3.0,
)  # fmt: skip
AMDAHL_LOG = Law(
    "amdahl_log", "T(1) (f + (1 - f)/n) + c log2 n", "Flatt and Kennedy 1989", amdahl_log_s,
    lambda t1_s, serial, overhead_s: least_at(t1_s * (1.0 - serial) * np.log(2.0), overhead_s),
    (_SERIAL, _OVERHEAD), forms=(_sum_form(doublings),),
)  # fmt: skip
USL = Law(
    "usl", "T(1) (f + (1 - f)/n) + c (n - 1)", "Gunther 2007", usl_s,
    lambda t1_s, serial, overhead_s: np.sqrt(least_at(t1_s * (1.0 - serial), overhead_s)),
    (_SERIAL, _OVERHEAD), forms=(_sum_form(extra_procs),),
)  # fmt: skip
# Only the model average has it: with both overheads it stands for laws that have either.
ERNEST = Law(
    "ernest", "T(1) (f + (1 - f)/n) + c log2 n + c2 (n - 1)", "Venkataraman et al. 2016", ernest_s, ernest_useful,
    (
        Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-9, -1, 2))),
        Parameter("overhead_s", 0.0, np.inf, powers(-11, -1, 2)),
        Parameter("linear_overhead_s", 0.0, np.inf, powers(-14, -2, 2)),
    ),
    solver=None, prior_weight=2.0,
)  # fmt: skip
DOWDY = Law(
    "dowdy", "T(1) (n + A - 1)/(A n)", "Dowdy 1988; Chiang, Mansharamani and Vernon 1994", dowdy_s,
    lambda _, A: never_or_one(A, A > 1.0), (_A,), forms=(_sum_form(),), family="amdahl",
)  # fmt: skip


# Laws of one shape.


def power_s(n: Floats, t1_s: Floats, b: Floats) -> Floats:
    """T(n) from the exponent; 1 is linear speedup."""
    # pow(1, NaN) is 1
    return np.where(np.isnan(b), np.nan, t1_s * n**-b)


def smirni_s(n: Floats, t1_s: Floats, A: Floats) -> Floats:
    """T(n) from A >= 1; infinite A is linear speedup."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return t1_s / np.where(np.isinf(A), n, -A * np.expm1(n * np.log1p(-1.0 / A)))


def smirni_useful(_: Floats, A: Floats) -> Floats:
    """Where what one more processor adds is lost in the rounding of A; infinite where A is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(A), np.inf, np.maximum(np.log(2.0**-53) / np.log1p(-1.0 / A), 1.0))


# Measured speedups exceed the processors a little, so that the grid of the average goes beyond the bound of a fit.
POWER = Law(
    "power", "T(1) n^-b", "Barnes et al. 2008", power_s, lambda _, b: never_or_one(b, b > 0.0),
    (Parameter("exponent", 0.0, 1.0, tuple(np.arange(0.05, 1.36, 0.05).tolist())),), prior_weight=4.0,
)  # fmt: skip
SMIRNI = Law(
    "smirni", "T(1)/(A (1 - (1 - 1/A)^n))", "Smirni, Rosti, Dowdy and Serazzi 1998", smirni_s, smirni_useful, (_A,),
)  # fmt: skip
# Measured runtimes that rise level off, so that faster growth weighs little: three sizes that show it are enough to
# believe it. A second processor costs time.
GROWING = Law(
    "growing", "T(1) (1 - c + c n^p)", "Walltime", lambda n, t1_s, share, p: t1_s * ((1.0 - share) + share * n**p),
    lambda _, share, _power: np.where(np.isnan(share), np.nan, 1.0),
    (
        Parameter("growing_share", 0.0, 1.0, powers(-8, 0)),
        Parameter("power", 1.5, 3.0, (1.5, 2.0, 2.5, 3.0)),
    ),
    solver=None, prior_weight=0.02,
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


def downey_low_useful(_: Floats, A: Floats, sigma: Floats) -> Floats:
    """2A - 1, where the flat piece begins; A where sigma = 0, because the bending piece is flat then."""
    return np.where(np.isnan(sigma), np.nan, np.where(sigma == 0.0, A, 2.0 * A - 1.0))


def downey_high_s(n: Floats, t1_s: Floats, A: Floats, sigma: Floats) -> Floats:
    """T(n) from A >= 1 and sigma >= 1.

    Infinite A is linear speedup; infinite sigma is Amdahl's law with serial fraction 1/A.
    """
    serial, sloped = 1.0 / (A * (1.0 + 1.0 / sigma)), np.minimum(n, downey_high_useful(t1_s, A, sigma))
    return amdahl_s(sloped, t1_s, serial)


def downey_high_useful(_: Floats, A: Floats, sigma: Floats) -> Floats:
    """N* = A + A sigma - sigma, where the flat piece begins."""
    with np.errstate(invalid="ignore"):
        product = (A - 1.0) * sigma
    return A + np.where((A == 1.0) & ~np.isnan(sigma), 0.0, product)


def downey_s(n: Floats, t1_s: Floats, A: Floats, sigma: Floats) -> Floats:
    """T(n) from A >= 1 and sigma >= 0: the mode that sigma belongs to."""
    high_s = downey_high_s(n, t1_s, A, np.maximum(sigma, 1.0))
    return np.where(sigma > 1.0, high_s, downey_low_s(n, t1_s, A, np.minimum(sigma, 1.0)))


def downey_useful(t1_s: Floats, A: Floats, sigma: Floats) -> Floats:
    """Where the flat piece begins: 2A - 1 in the low mode, N* in the high one."""
    return np.where(sigma > 1.0, downey_high_useful(t1_s, A, sigma), 2.0 * A - 1.0)


def _with_overhead(
    name: str, equation: str, grown: Callable[[Floats], Floats], turns_at: Callable[[Floats, Floats], Floats]
) -> Law:
    """Downey's law and c times what grows; `turns_at(a, c)` is where a/n + c grown(n) is least.

    With A given each mode is a sum of the two curves at the ends of its sigma, and the overhead.
    """

    def curve(n: Floats, t1_s: Floats, A: Floats, sigma: Floats, overhead_s: Floats) -> Floats:
        return downey_s(n, t1_s, A, sigma) + overhead_s * grown(n)

    def useful(t1_s: Floats, A: Floats, sigma: Floats, overhead_s: Floats) -> Floats:
        # Of each sloped piece, level + fall/n + overhead, the turning point kept inside it; the best of them.
        plateau = np.maximum(downey_useful(t1_s, A, sigma), 1.0)
        bend = np.where(sigma > 1.0, plateau, A)
        with np.errstate(invalid="ignore", divide="ignore"):
            first = t1_s * np.where(sigma > 1.0, 1.0 - 1.0 / (A * (1.0 + 1.0 / sigma)), 1.0 - sigma / (2.0 * A))
            second = t1_s * (sigma - sigma / (2.0 * A))
            early = np.clip(turns_at(first, overhead_s), 1.0, bend)
            late = np.clip(turns_at(second, overhead_s), bend, np.maximum(plateau, bend))
            early_s, late_s = (curve(np.fmax(n, 1.0), t1_s, A, sigma, overhead_s) for n in (early, late))
        is_late = (sigma <= 1.0) & (late_s < early_s * (1 - 1e-12))
        return np.where(np.isnan(early_s), np.nan, np.where(is_late, late, early))

    def at_one(A: Floats, n: Floats) -> Floats:
        return np.maximum((1.0 - 0.5 / A) / n + 0.5 / A, 1.0 / A)

    def low_parameters(found: Sequence[Floats], A: Floats) -> dict[str, Floats]:
        t1_s = found[0] + found[1]
        return columns(t1_s, A, found[1] / t1_s, found[2])

    def high_parameters(found: Sequence[Floats], A: Floats) -> dict[str, Floats]:
        t1_s, tinf_s = found[0] + found[1], found[0] + found[1] / A
        sigma = np.where(found[1] > 0.0, 1.0 + 2.0 * found[0] * A / found[1], 1.0)
        return columns(t1_s, t1_s / tinf_s, sigma, found[2])

    def columns(t1_s: Floats, A: Floats, sigma: Floats, overhead_s: Floats) -> dict[str, Floats]:
        # A runtime that is overhead alone has A of 1 and sigma of 0.
        is_nothing = t1_s <= 0.0
        tinf_s = np.where(is_nothing | (overhead_s > 0.0), np.nan, t1_s / A)
        A, sigma = np.where(is_nothing, 1.0, A), np.where(is_nothing, 0.0, sigma)
        return {"t1_s": t1_s, "tinf_s": tinf_s, "overhead_s": overhead_s, "avg_parallelism": A, "sigma": sigma}

    low = Form(
        lambda A, n: (np.maximum(1.0 / n, 1.0 / A), at_one(A, n), grown(n)), low_parameters, _A,
        lambda n: (n, (n + 1.0) / 2.0),
    )  # fmt: skip
    high = Form(
        lambda A, n: (np.ones_like(n), at_one(A, n), grown(n)), high_parameters, _A, lambda n: ((n + 1.0) / 2.0,)
    )
    parameters = (_A, Parameter("sigma", 0.0, np.inf), _OVERHEAD)
    return Law(name, equation, f"{_DOWNEY}; Lan 2007, 6.6", curve, useful, parameters, forms=(low, high))


_DOWNEY = "Downey 1997, CSD-97-933"

DOWNEY_LOW = Law(
    "downey_low", "three pieces, flat from 2A - 1 on", f"{_DOWNEY}, low variance", downey_low_s, downey_low_useful,
    (_A, Parameter("sigma", 0.0, 1.0)), solver=Solver.DOWNEY_LOW, family="downey",
)  # fmt: skip
DOWNEY_HIGH = Law(
    "downey_high", "two pieces, flat from A + A sigma - sigma on", f"{_DOWNEY}, high variance", downey_high_s,
    downey_high_useful, (_A, Parameter("sigma", 1.0, np.inf)), solver=Solver.DOWNEY_HIGH, family="downey",
)  # fmt: skip
DOWNEY = Law(
    "downey", "the mode that sigma belongs to", _DOWNEY, downey_s, downey_useful,
    (
        Parameter("avg_parallelism", 1.0, np.inf, powers(1, 11, 0.25)),
        Parameter("sigma", 0.0, np.inf, (0.0, 0.5, 1.0, 2.0, 5.0)),
    ),
    solver=None, prior_weight=1.0,
)  # fmt: skip
DOWNEY_LINEAR = _with_overhead(
    "downey_linear", "Downey's + c (n - 1)", extra_procs, lambda fall, c: np.sqrt(least_at(fall, c))
)
DOWNEY_LOG = _with_overhead(
    "downey_log", "Downey's + c log2 n", doublings, lambda fall, c: least_at(fall * np.log(2.0), c)
)

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
    if law.solver:
        LAWS[law.name] = law
    if law.prior_weight:
        AVERAGED[law.name] = law
