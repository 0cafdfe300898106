"""Downey's law in its two modes, low variance (sigma up to 1) and high variance (sigma from 1 on), and both as one.

A. B. Downey, "A model for speedup of parallel programs", UC Berkeley CSD-97-933, 1997; as a runtime in Deshmeh 2013
(ADEPT), chapter 3. Low variance, with tau = T(inf) = T(1)/A:

    1 <= n <= A          T = tau ((A - sigma/2)/n + sigma/2)
    A <= n <= 2A - 1     T = tau (sigma (A - 1/2)/n + 1 - sigma/2)
    n >= 2A - 1          T = tau

High variance, with N* = A + A sigma - sigma and tau = T(1)/(A (1 + sigma)):

    1 <= n <= N*         T = tau (sigma + N*/n)
    n >= N*              T = tau (sigma + 1)

Neither has a piece that declines; Lan 2007, section 6.6, asks for one. So downey_linear adds c (n - 1), and downey_log
c log2 n: nothing at one processor, so that T(1) keeps its meaning.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pipeline.arrays import Floats
from pipeline.laws.law import (
    Averaging,
    Form,
    Law,
    Parameter,
    Parameters,
    Solver,
    doublings,
    extra_procs,
    least_at,
    parameter,
    powers,
)


def low(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1 and sigma in [0, 1]; infinite A is linear speedup, T(1)/n."""
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    # Written in 1/A, so that an infinite A needs no case of its own.
    half = sigma / (2.0 * A)
    rising = (1.0 - half) / n + half
    bending = (sigma - half) / n + 1.0 / A - half
    relative = np.where(n <= A, rising, np.where(n < 2.0 * A - 1.0, bending, 1.0 / A))
    return parameter(parameters, "t1_s") * np.where(np.isnan(sigma + n), np.nan, relative)


def low_useful_procs(parameters: Parameters) -> Floats:
    """2A - 1, where the flat piece begins; A where sigma = 0, because the bending piece is flat then."""
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    return np.where(np.isnan(sigma), np.nan, np.where(sigma == 0.0, A, 2.0 * A - 1.0))


def high(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1 and sigma >= 1.

    Infinite A is linear speedup, T(1)/n; infinite sigma is Amdahl's law with serial fraction 1/A.
    """
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    return _high(parameters, n, 1.0 / (A * (1.0 + 1.0 / sigma)))


def _high(parameters: Parameters, n: Floats, share: Floats) -> Floats:
    """High variance from the share of T(1) that runs on one processor, sigma/(A (1 + sigma))."""
    reached = np.minimum(n, high_useful_procs(parameters))
    return parameter(parameters, "t1_s") * (share + (1.0 - share) / reached)


def high_useful_procs(parameters: Parameters) -> Floats:
    """N* = A + A sigma - sigma, where the flat piece begins."""
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    with np.errstate(invalid="ignore"):
        product = (A - 1.0) * sigma
    return A + np.where((A == 1.0) & ~np.isnan(sigma), 0.0, product)


def both(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1 and sigma >= 0: the mode that sigma belongs to."""
    return _mode_of(parameters, n, high)


def averaged(parameters: Parameters, n: Floats) -> Floats:
    """The same for finite sigma; its other rounding of the share keeps the last digits of published predictions."""

    def high_of(own: Parameters, sizes: Floats) -> Floats:
        A, sigma = own["avg_parallelism"], own["sigma"]
        return _high(own, sizes, sigma / (A * (1.0 + sigma)))

    return _mode_of(parameters, n, high_of)


def _mode_of(parameters: Parameters, n: Floats, high_of: Callable[[Parameters, Floats], Floats]) -> Floats:
    sigma = parameter(parameters, "sigma")
    high_s = high_of({**parameters, "sigma": np.maximum(sigma, 1.0)}, n)
    low_s = low({**parameters, "sigma": np.minimum(sigma, 1.0)}, n)
    return np.where(sigma > 1.0, high_s, low_s)


def plateau_procs(parameters: Parameters) -> Floats:
    """Where the flat piece begins: 2A - 1 in the low mode, N* in the high one."""
    A, sigma = parameter(parameters, "avg_parallelism"), parameter(parameters, "sigma")
    return np.where(sigma > 1.0, high_useful_procs(parameters), 2.0 * A - 1.0)


_SOURCE = "Downey 1997, CSD-97-933"
_A = Parameter("avg_parallelism", 1.0, np.inf, powers(1, 11, 0.25))

DOWNEY_LOW = Law(
    "downey_low", "three pieces, flat from 2A - 1 on", f"{_SOURCE}, low variance", low, low_useful_procs,
    (_A, Parameter("sigma", 0.0, 1.0)), solver=Solver.DOWNEY_LOW, family="downey", place=2,
)  # fmt: skip
DOWNEY_HIGH = Law(
    "downey_high", "two pieces, flat from A + A sigma - sigma on", f"{_SOURCE}, high variance", high, high_useful_procs,
    (_A, Parameter("sigma", 1.0, np.inf)), solver=Solver.DOWNEY_HIGH, family="downey", place=3,
)  # fmt: skip
DOWNEY = Law(
    "downey", "the mode that sigma belongs to", _SOURCE, averaged, plateau_procs,
    (_A, Parameter("sigma", 0.0, np.inf, (0.0, 0.5, 1.0, 2.0, 5.0))),
    solver=None, averaging=Averaging(place=5), place=6,
)  # fmt: skip


def linear(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1, sigma >= 0 and overhead_s >= 0 for each processor beyond the first."""
    return both(parameters, n) + parameter(parameters, "overhead_s") * extra_procs(n)


def logarithmic(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, avg_parallelism >= 1, sigma >= 0 and overhead_s >= 0 for each doubling of processors."""
    return both(parameters, n) + parameter(parameters, "overhead_s") * doublings(n)


def linear_useful_procs(parameters: Parameters) -> Floats:
    """Where runtime is least, the smallest such size."""
    return _least(parameters, linear, lambda fall, c: np.sqrt(least_at(fall, c)))


def log_useful_procs(parameters: Parameters) -> Floats:
    """Where runtime is least, the smallest such size."""
    return _least(parameters, logarithmic, lambda fall, c: least_at(fall * np.log(2.0), c))


def _least(
    parameters: Parameters,
    curve_s: Callable[[Parameters, Floats], Floats],
    turns_at: Callable[[Floats, Floats], Floats],
) -> Floats:
    """Of each sloped piece, level + fall/n + overhead, the turning point kept inside it; the best of them."""
    t1_s, A, sigma, c = (parameter(parameters, name) for name in ("t1_s", "avg_parallelism", "sigma", "overhead_s"))
    plateau = np.maximum(plateau_procs(parameters), 1.0)
    bend = np.where(sigma > 1.0, plateau, A)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = t1_s * np.where(sigma > 1.0, 1.0 - 1.0 / (A * (1.0 + 1.0 / sigma)), 1.0 - sigma / (2.0 * A))
        second = t1_s * (sigma - sigma / (2.0 * A))
        sizes = [np.clip(turns_at(first, c), 1.0, bend), np.clip(turns_at(second, c), bend, np.maximum(plateau, bend))]
        best, least_s = sizes[0], curve_s(parameters, np.fmax(sizes[0], 1.0))
        runtime_s = curve_s(parameters, np.fmax(sizes[1], 1.0))
    is_better = (sigma <= 1.0) & (runtime_s < least_s * (1 - 1e-12))
    return np.where(np.isnan(least_s), np.nan, np.where(is_better, sizes[1], best))


_SOURCE_OF_OVERHEAD = f"{_SOURCE}; Lan 2007, 6.6"
_PARAMETERS = (
    Parameter("avg_parallelism", 1.0, np.inf),
    Parameter("sigma", 0.0, np.inf),
    Parameter("overhead_s", 0.0, np.inf),
)


def _forms(grown: Callable[[Floats], Floats]) -> tuple[Form, ...]:
    """Of the low and of the high mode with an overhead; with A given each is a sum, as of both ends of its sigma."""

    def at_one(A: Floats, n: Floats) -> Floats:
        return np.maximum((1.0 - 0.5 / A) / n + 0.5 / A, 1.0 / A)

    def low_functions(A: Floats, n: Floats) -> tuple[Floats, ...]:
        return np.maximum(1.0 / n, 1.0 / A), at_one(A, n), grown(n)

    def high_functions(A: Floats, n: Floats) -> tuple[Floats, ...]:
        return np.ones_like(n), at_one(A, n), grown(n)

    def low_parameters(found: Sequence[Floats], A: Floats) -> dict[str, Floats]:
        t1_s = found[0] + found[1]
        return _columns(t1_s, A, found[1] / t1_s, found[2])

    def high_parameters(found: Sequence[Floats], A: Floats) -> dict[str, Floats]:
        t1_s, tinf_s = found[0] + found[1], found[0] + found[1] / A
        sigma = np.where(found[1] > 0.0, 1.0 + 2.0 * found[0] * A / found[1], 1.0)
        return _columns(t1_s, t1_s / tinf_s, sigma, found[2])

    def low_bends(n: Floats) -> tuple[Floats, ...]:
        return n, (n + 1.0) / 2.0

    def high_bends(n: Floats) -> tuple[Floats, ...]:
        return ((n + 1.0) / 2.0,)

    A = _PARAMETERS[0]
    return Form(low_functions, low_parameters, A, low_bends), Form(high_functions, high_parameters, A, high_bends)


def _columns(t1_s: Floats, A: Floats, sigma: Floats, overhead_s: Floats) -> dict[str, Floats]:
    """Columns of FITS; a runtime that is overhead alone has A of 1 and sigma of 0."""
    is_nothing = t1_s <= 0.0
    return {
        "t1_s": t1_s, "tinf_s": np.where(is_nothing | (overhead_s > 0.0), np.nan, t1_s / A), "overhead_s": overhead_s,
        "avg_parallelism": np.where(is_nothing, 1.0, A), "sigma": np.where(is_nothing, 0.0, sigma),
    }  # fmt: skip


DOWNEY_LINEAR = Law(
    "downey_linear", "Downey's + c (n - 1)", _SOURCE_OF_OVERHEAD, linear, linear_useful_procs, _PARAMETERS,
    forms=_forms(extra_procs), place=6,
)  # fmt: skip
DOWNEY_LOG = Law(
    "downey_log", "Downey's + c log2 n", _SOURCE_OF_OVERHEAD, logarithmic, log_useful_procs, _PARAMETERS,
    forms=_forms(doublings), place=7,
)  # fmt: skip
