"""What a law is: runtime as a function of processors, and where adding processors stops paying."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Floats

Parameters = Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Law:
    """A functional form T(n), in the parameters of the FITS table.

    Laws of one `family` are branches of one law that meet at a boundary: only the better-fitting one can be meant.

    `runtime_s(parameters, procs)` is in seconds, by numpy broadcasting of the parameters it reads and procs; NaN where
    a parameter is NaN; ValueError where procs < 1. `largest_useful_procs(parameters)` is the size beyond which the law
    gains nothing, infinite where it never stops gaining.
    """

    name: str
    family: str
    n_parameters: int
    source: str
    runtime_s: Callable[[Parameters, npt.ArrayLike], Floats]
    largest_useful_procs: Callable[[Parameters], Floats]


def checked_procs(procs: npt.ArrayLike) -> Floats:
    """Processors as float64; ValueError where one is below 1, because no law reaches there."""
    sizes = np.asarray(procs, np.float64)
    if (sizes < 1).any():
        raise ValueError(f"found procs = {sizes.min():g}, expected at least 1: a law's runtime starts at one processor")
    return sizes


def parameter(parameters: Parameters, name: str) -> Floats:
    """One parameter as a float64 array."""
    return np.asarray(parameters[name], np.float64)


def least_at(falling_s: Floats, rising_s: Floats) -> Floats:
    """falling/rising, at least 1: where fall/n + rise g(n) turns, up to g; infinite for no rise, 1 for no fall."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.maximum(falling_s / rising_s, 1.0)
    return np.where((falling_s == 0.0) & ~np.isnan(rising_s), 1.0, ratio)
