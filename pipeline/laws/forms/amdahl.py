"""Amdahl's law. G. M. Amdahl, "Validity of the single processor approach", AFIPS Spring Joint Computer Conference 1967.

The paper states it in words; with serial fraction f, T(n) = T(1) (f + (1 - f)/n).
"""

from pipeline.core.arrays import Floats
from pipeline.laws.law import Averaging, Law, Parameter, Parameters, Solver, never_or_one, parameter, powers


def formula(parameters: Parameters, n: Floats) -> Floats:
    """T(n) = T(1) (f + (1 - f)/n), from t1_s and serial_fraction in [0, 1]; f = 0 is linear speedup."""
    serial = parameter(parameters, "serial_fraction")
    runtime: Floats = parameter(parameters, "t1_s") * (serial + (1.0 - serial) / n)
    return runtime


def largest_useful_procs(parameters: Parameters) -> Floats:
    """Infinite where anything runs in parallel, 1 where nothing does."""
    return never_or_one(parameters, "serial_fraction", lambda serial: serial < 1.0)


# Of prior weights 1, 2 and 3 those that real applications prefer, each left out in turn: most other laws are Amdahl's
# with something more, which few sizes should not be read to show.
AMDAHL = Law(
    "amdahl", "T(1) (f + (1 - f)/n)", "Amdahl 1967", formula, largest_useful_procs,
    (Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-14, 0, 0.5))),),
    solver=Solver.AMDAHL, averaging=Averaging(3.0, place=2), place=1,
)  # fmt: skip
