"""Laws of one scale and one shape: the scale in closed form, the shape by a search over its whole range.

The shape is u in [0, 1]: b of the power law; 1 - 1/A of Smirni's, searched in 1/A from 1 (constant) down to 0 (linear).
"""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.scaling.solvers.downey_rows import A_, AT_BOUND, EXPONENT, OK, T1, TINF, WSSRE
from pipeline.scaling.solvers.exact import Codes, checked, refusal

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
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes, kind: int
) -> None:
    """The power law or Smirni's, 2 parameters; at_bound where it is constant or linear."""
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 2)
        if codes[i] == OK:
            place = _best_place(kind, n, t, w)
            shape = shape_of(place, kind)
            out[i, T1], out[i, WSSRE] = _scale(shape, kind, n, t, w) * t[0], _left(place, kind, n, t, w)
            if kind == POWER:
                out[i, EXPONENT] = shape
            else:
                out[i, A_], out[i, TINF] = 1.0 / shape, out[i, T1] * shape
            codes[i] = checked(out[i], OK if 0.0 < place < 1.0 else AT_BOUND)


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
