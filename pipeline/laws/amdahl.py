"""No scaling at all, and Amdahl's law alone and with an overhead.

constant: the baseline every other law has to beat. amdahl: G. M. Amdahl, "Validity of the single processor approach",
AFIPS Spring Joint Computer Conference 1967, states in words that with serial fraction f, T(n) = T(1) (f + (1 - f)/n).

usl: the universal scalability law. N. J. Gunther, "Guerrilla Capacity Planning", Springer 2007, chapter 4. Capacity
C(n) = n/(1 + alpha (n - 1) + beta n (n - 1)); as a runtime, with f = alpha (contention) and c = beta T(1) (coherency,
seconds for each processor beyond the first): T(n) = T(1) (f + (1 - f)/n) + c (n - 1).

amdahl_log: a tree of messages on top, T(n) = T(1) (f + (1 - f)/n) + c log2 n. The logarithm is the depth of a reduction
over n processors: H. P. Flatt and K. Kennedy, "Performance of parallel processors", Parallel Computing 12(1), 1989.

ernest: both overheads on top, T(n) = T(1) (f + (1 - f)/n) + c log2 n + c2 (n - 1). S. Venkataraman, Z. Yang,
M. Franklin, B. Recht and I. Stoica, "Ernest: efficient performance prediction for large-scale advanced analytics",
NSDI 2016.

dowdy: L. W. Dowdy's execution signature, "On the partitioning of multiprocessor systems", Vanderbilt 1988,
S(n) = n/(C1 + C2 n). Chiang, Mansharamani and Vernon (SIGMETRICS 1994) scale it to S(1) = 1, as (1 + b) n/(n + b); so
A = 1 + b and T(n) = T(1) (n + A - 1)/(A n). It is Amdahl's law with f = 1/A in other parameters: the two always
fit alike, and as one family they are never weighed against each other.
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
    doublings,
    extra_procs,
    least_at,
    never_or_one,
    parameter,
    powers,
)


def amdahl_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) = T(1) (f + (1 - f)/n), from t1_s and serial_fraction in [0, 1]; f = 0 is linear speedup."""
    serial = parameter(parameters, "serial_fraction")
    return parameter(parameters, "t1_s") * (serial + (1.0 - serial) / n)


def amdahl_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where anything runs in parallel, 1 where nothing does."""
    return never_or_one(parameters, "serial_fraction", lambda serial: serial < 1.0)


def _parameters(coefficients: Sequence[Floats], _: Floats) -> dict[str, Floats]:
    parallel_s, serial_s = coefficients[:2]
    t1_s = serial_s + parallel_s
    serial = np.where(t1_s > 0.0, serial_s / t1_s, 1.0)
    if len(coefficients) > 2:
        return {"t1_s": t1_s, "serial_fraction": serial, "overhead_s": coefficients[2]}
    return {"t1_s": t1_s, "tinf_s": serial_s, "serial_fraction": serial, "avg_parallelism": t1_s / serial_s}


def _form(*growing: Callable[[Floats], Floats]) -> Form:
    """T = a/n + b, and c times what grows."""
    return Form(lambda _, n: (1.0 / n, np.ones_like(n), *(grown(n) for grown in growing)), _parameters)


# Of prior weights 1, 2 and 3 those that real applications prefer, each left out in turn: most other laws are Amdahl's
# with something more, which few sizes should not be read to show.
AMDAHL = Law(
    "amdahl", "T(1) (f + (1 - f)/n)", "Amdahl 1967", amdahl_s, amdahl_useful_procs,
    (Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-14, 0, 0.5))),),
    forms=(_form(),), averaging=Averaging(3.0, place=2), place=1,
)  # fmt: skip


def constant_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) = T(1), from t1_s."""
    t1_s, sizes = np.broadcast_arrays(parameter(parameters, "t1_s"), n)
    return np.where(np.isnan(sizes), np.nan, t1_s)


def constant_useful_procs(parameters: Parameters) -> Floats:
    """1: a second processor gains nothing."""
    return np.where(np.isnan(parameter(parameters, "t1_s")), np.nan, 1.0)


CONSTANT = Law(
    "constant", "T(1)", "baseline", constant_s, constant_useful_procs,
    forms=(Form(lambda _, n: (np.ones_like(n),),
                lambda t, _: {"t1_s": t[0], "tinf_s": t[0], "avg_parallelism": np.ones_like(t[0])}),),
    averaging=Averaging(place=0), place=0,
)  # fmt: skip


def amdahl_log_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, serial_fraction in [0, 1] and overhead_s >= 0 for each doubling of processors."""
    return amdahl_s(parameters, n) + parameter(parameters, "overhead_s") * doublings(n)


def amdahl_log_useful_procs(parameters: Parameters) -> Floats:
    """(1 - f) T(1) ln 2/c, where runtime is least; infinite where c = 0 and anything runs in parallel."""
    parallel_s = parameter(parameters, "t1_s") * (1.0 - parameter(parameters, "serial_fraction"))
    return least_at(parallel_s * np.log(2.0), parameter(parameters, "overhead_s"))


AMDAHL_LOG = Law(
    "amdahl_log", "T(1) (f + (1 - f)/n) + c log2 n", "Flatt and Kennedy 1989", amdahl_log_s, amdahl_log_useful_procs,
    (
        Parameter("serial_fraction", 0.0, 1.0), Parameter("overhead_s", 0.0, np.inf),
    ),
    forms=(_form(doublings),), place=5,
)  # fmt: skip


def dowdy_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s and avg_parallelism >= 1; infinite A is linear speedup."""
    serial = 1.0 / parameter(parameters, "avg_parallelism")
    return amdahl_s({"t1_s": parameters["t1_s"], "serial_fraction": serial}, n)


def dowdy_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where A > 1, 1 where nothing runs in parallel."""
    return never_or_one(parameters, "avg_parallelism", lambda A: A > 1.0)


DOWDY = Law(
    "dowdy", "T(1) (n + A - 1)/(A n)", "Dowdy 1988; Chiang, Mansharamani and Vernon 1994", dowdy_s,
    dowdy_useful_procs, (Parameter("avg_parallelism", 1.0, np.inf),),
    forms=(_form(),), family="amdahl", place=8,
)  # fmt: skip


def usl_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, serial_fraction in [0, 1] and overhead_s >= 0."""
    return amdahl_s(parameters, n) + parameter(parameters, "overhead_s") * extra_procs(n)


def usl_useful_procs(parameters: Parameters) -> Floats:
    """sqrt((1 - f) T(1)/c), where runtime is least; infinite where c = 0 and anything runs in parallel."""
    parallel_s = parameter(parameters, "t1_s") * (1.0 - parameter(parameters, "serial_fraction"))
    return np.sqrt(least_at(parallel_s, parameter(parameters, "overhead_s")))


USL = Law(
    "usl", "T(1) (f + (1 - f)/n) + c (n - 1)", "Gunther 2007", usl_s, usl_useful_procs,
    (
        Parameter("serial_fraction", 0.0, 1.0), Parameter("overhead_s", 0.0, np.inf),
    ),
    forms=(_form(extra_procs),), place=4,
)  # fmt: skip


def ernest_s(parameters: Parameters, n: Floats) -> Floats:
    """T(n) from t1_s, serial_fraction in [0, 1], overhead_s and linear_overhead_s >= 0."""
    runtime: Floats = usl_s({**parameters, "overhead_s": parameters["linear_overhead_s"]}, n)
    return runtime + parameter(parameters, "overhead_s") * doublings(n)


def ernest_useful_procs(parameters: Parameters) -> Floats:
    """Where runtime is least: the positive root of c2 n^2 + c1 n / ln 2 = (1 - f) T(1)."""
    falling_s = parameter(parameters, "t1_s") * (1.0 - parameter(parameters, "serial_fraction"))
    per_log, linear = parameter(parameters, "overhead_s") / np.log(2.0), parameter(parameters, "linear_overhead_s")
    # The form of the root that needs no division by the linear overhead.
    return least_at(2.0 * falling_s, per_log + np.sqrt(per_log**2 + 4.0 * linear * falling_s))


# Only the model average has it: with both overheads it stands for laws that have either.
ERNEST = Law(
    "ernest", "T(1) (f + (1 - f)/n) + c log2 n + c2 (n - 1)", "Venkataraman et al. 2016", ernest_s,
    ernest_useful_procs,
    (
        Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-9, -1, 2))),
        Parameter("overhead_s", 0.0, np.inf, powers(-11, -1, 2)),
        Parameter("linear_overhead_s", 0.0, np.inf, powers(-14, -2, 2)),
    ),
    solver=None, averaging=Averaging(2.0, place=3), place=12,
)  # fmt: skip
