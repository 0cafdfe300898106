"""The grid of curve shapes a model average runs over, tabulated once on log2 of processors over the smallest count."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.bma_posterior import Shapes

STEPS_PER_OCTAVE = 16
"""Rows of the table per doubling; between rows log T is interpolated, less than 0.0001 off a smooth law."""

LEAST_LOG2, MOST_LOG2 = -20, 30
"""What the table spans; beyond it the last slope goes on."""

LAW_WEIGHTS = {"amdahl": 3.0, "amdahl_log": 0.5, "growing": 0.02}
"""Prior weight of a law; 1 where none is told. Of 1, 2, 3 and 0, 1/2, 1 those that real applications prefer, each left
out in turn: most other laws are Amdahl's with something more, which few sizes should not be read to show. Measured
runtimes that rise level off, so that faster growth weighs little: three sizes that show it are enough to believe it."""

Curve = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, slots=True)
class ShapeGrid:
    """`log_shape[row, shape]` of T(x) up to its scale, x = procs over the smallest; `prior` per shape sums to 1.

    `family[shape]` is a place in `families`. Counting in smallest counts makes 4, 8, 16 and 1, 2, 4 the same question.
    """

    log_shape: Floats
    prior: Floats
    family: Ints
    families: tuple[str, ...]

    def shapes(self) -> Shapes:
        """As the kernels read it."""
        return Shapes(self.log_shape, self.prior, float(LEAST_LOG2), float(STEPS_PER_OCTAVE))


@cache
def shape_grid() -> ShapeGrid:
    """Every law's shapes, by LAW_WEIGHTS; within a law all parameters weigh the same, spread evenly in the log."""
    log2_x = np.arange(LEAST_LOG2 * STEPS_PER_OCTAVE, MOST_LOG2 * STEPS_PER_OCTAVE + 1) / STEPS_PER_OCTAVE
    x = (2.0**log2_x)[:, None]
    parts = [np.log(curve(x, parameters)) for parameters, curve in _FAMILIES.values()]
    counts = [part.shape[1] for part in parts]
    prior = np.repeat([LAW_WEIGHTS.get(law, 1.0) / count for law, count in zip(_FAMILIES, counts, strict=True)], counts)
    return ShapeGrid(
        np.ascontiguousarray(np.hstack(parts)),
        prior / prior.sum(),
        np.repeat(np.arange(len(parts)), counts).astype(np.int64),
        tuple(_FAMILIES),
    )


def _halves(first: float, last: float, step: float = 1.0) -> Floats:
    powers: Floats = 2.0 ** np.arange(first, last + step / 2, step)
    return powers


def _crossed(*axes: Floats) -> Floats:
    """Every combination, a row per parameter."""
    grid: Floats = np.array([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    return grid


def _constant(x: Floats, parameters: Floats) -> Floats:
    return np.broadcast_to(1.0 + 0.0 * parameters[0], (len(x), 1))


def _power(x: Floats, parameters: Floats) -> Floats:
    shape: Floats = x ** -parameters[0]
    return shape


def _amdahl(x: Floats, parameters: Floats) -> Floats:
    shape: Floats = parameters[0] + (1.0 - parameters[0]) / x
    return shape


def _amdahl_linear(x: Floats, parameters: Floats) -> Floats:
    shape: Floats = _amdahl(x, parameters) + parameters[1] * np.maximum(x - 1.0, 0.0)
    return shape


def _amdahl_log(x: Floats, parameters: Floats) -> Floats:
    shape: Floats = _amdahl(x, parameters) + parameters[1] * np.log2(np.maximum(x, 1.0))
    return shape


def _growing(x: Floats, parameters: Floats) -> Floats:
    share, power = parameters
    shape: Floats = (1.0 - share) + share * x**power
    return shape


def _downey(x: Floats, parameters: Floats) -> Floats:
    A, sigma = parameters[0], parameters[1]
    half = sigma / (2.0 * A)
    bending = np.where(x < 2.0 * A - 1.0, (sigma - half) / x + 1.0 / A - half, 1.0 / A)
    low = np.where(x <= A, (1.0 - half) / x + half, bending)
    share = sigma / (A * (1.0 + sigma))
    high = share + (1.0 - share) / np.minimum(x, A + (A - 1.0) * sigma)
    shape: Floats = np.where(sigma <= 1.0, low, high)
    return shape


def _downey_linear(x: Floats, parameters: Floats) -> Floats:
    shape: Floats = _downey(x, parameters) + parameters[2] * np.maximum(x - 1.0, 0.0)
    return shape


_SIGMAS = np.array([0.0, 0.5, 1.0, 2.0])
_MORE_SIGMAS = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0])
_SERIAL = np.append(0.0, _halves(-10, -1, 0.5))
_FEWER_SERIAL = np.append(0.0, _halves(-10, -1))

_FAMILIES: dict[str, tuple[Floats, Curve]] = {
    "constant": (np.zeros((1, 1)), _constant),
    "power": (np.arange(0.05, 1.16, 0.05)[None, :], _power),
    "amdahl": (np.append(0.0, _halves(-14, 0, 0.5))[None, :], _amdahl),
    "usl": (_crossed(_SERIAL, _halves(-16, 0, 0.5)), _amdahl_linear),
    "amdahl_log": (_crossed(_FEWER_SERIAL, _halves(-12, 1, 0.5)), _amdahl_log),
    "downey": (_crossed(_halves(0.5, 12, 0.25), _MORE_SIGMAS), _downey),
    "downey_linear": (_crossed(_halves(1, 10), _SIGMAS, _halves(-14, 0, 2)), _downey_linear),
    "growing": (_crossed(_halves(-8, 0), np.array([1.5, 2.0, 2.5, 3.0])), _growing),
}
"""Per law: the grid of its shape parameters (a row each), and the curve.

Gene M. Amdahl 1967; Gunther's USL 1993; Downey CSD-97-933, 1997.

Overheads count from the second processor and reach the whole of T(1), as small problems on slow networks show. No
overhead grows faster than the processors; where runtime itself does (all talk to all, work that is repeated), `growing`
is the only shape that follows.
"""
