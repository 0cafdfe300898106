"""Sums every exact fit is built from, and least squares in two unknowns.

Prefixes run over the sloped sizes, suffixes over the flat ones. A hyperbola is written T = P/n + a (1 - 1/n), so that
P = T(1) and a = T(inf): its Gram terms are sums of positive terms, and (P, a) are less correlated than (1, 1/n) of
exact-fit.md. Runtimes are scaled by the first of the series.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats
from pipeline.kernels import kernel

# columns of Workspace.points
N, X, RATE, V, Z, WEIGHT = range(6)
# columns of Workspace.prefix, with x = 1/n and y = 1 - x: sums of w, vxx, vxy, vyy, zx, zy; a hyperbola's least error
SW, XX, XY, YY, ZX, ZY, SSE = range(7)
# columns of Workspace.suffix: sums of w, v, z; least error of a constant
FLAT_W, FLAT_V, FLAT_Z, FLAT_SSE = range(4)
# entries of Workspace.best: objective, three parameters, highest A that ties, screening tolerance, rounding
F, P1, P2, P3, HIGHEST, TOLERANCE, ROUNDING = range(7)

# Screening works in W - gain, which loses about this share of W; candidates that close are compared by residuals.
SCREENING_LOSS = 1e-9
SINGULAR = 1e-13
# Objectives this close, relatively and as a share of W, are equal.
TIE, TIE_SHARE = 1e-12, 1e-24
SAME = 1e-9
DEPTH = 64


class Workspace(NamedTuple):
    """Arrays one fit after another reuses: row k of prefix covers the first k sizes, of suffix those from k on."""

    points: Floats
    prefix: Floats
    suffix: Floats
    best: Floats
    slope: Floats
    bernstein: Floats
    span: Floats


@kernel
def workspace(longest: int) -> Workspace:
    """A workspace for series of up to `longest` sizes."""
    return Workspace(
        np.zeros((longest, 6)),
        np.zeros((longest + 1, 7)),
        np.zeros((longest + 1, 4)),
        np.zeros(7),
        np.zeros(7),
        np.zeros((DEPTH + 2, 7)),
        np.zeros((DEPTH + 2, 2)),
    )


@kernel
def solve(g11: float, g12: float, g22: float, g1: float, g2: float) -> tuple[float, float, float, bool]:
    """Least squares in two unknowns: both, the squares they explain, and whether they are determined.

    The first unknown is eliminated, so that what the second adds loses no digits to it.
    """
    share = g12 / g11
    left = g22 - share * g12
    if not left > SINGULAR * g22:
        return 0.0, 0.0, 0.0, False
    rest = g2 - share * g1
    second = rest / left
    first = (g1 - second * g12) / g11
    return first, second, g1 * g1 / g11 + second * rest, True


@kernel
def hyperbola(prefix: Floats, k: int) -> tuple[float, float, float, bool]:
    """Least squares P/n + a (1 - 1/n) over the first k sizes: P, a, squares explained, whether determined."""
    a, P, gain, is_determined = solve(prefix[k, YY], prefix[k, XY], prefix[k, XX], prefix[k, ZY], prefix[k, ZX])
    return P, a, gain, is_determined


@kernel
def prepare(n: Floats, t: Floats, w: Floats, work: Workspace) -> None:
    """Fill the points and sums of a usable series, its runtimes divided by the first."""
    for i in range(len(n)):
        rate = t[0] / t[i]
        work.points[i, N] = n[i]
        work.points[i, X] = 1.0 / n[i]
        work.points[i, RATE] = rate
        work.points[i, V] = w[i] * rate * rate
        work.points[i, Z] = w[i] * rate
        work.points[i, WEIGHT] = w[i]
    _fill_prefix(len(n), work.points, work.prefix)
    _fill_suffix(len(n), work.points, work.suffix)
    total = work.prefix[len(n), SW]
    work.best[F], work.best[TOLERANCE], work.best[ROUNDING] = 2.0 * total, SCREENING_LOSS * total, TIE_SHARE * total


@kernel
def _fill_prefix(m: int, points: Floats, prefix: Floats) -> None:
    for c in range(7):
        prefix[0, c] = 0.0
    for i in range(m):
        x, v, z = points[i, X], points[i, V], points[i, Z]
        y = 1.0 - x
        prefix[i + 1, SW] = prefix[i, SW] + points[i, WEIGHT]
        prefix[i + 1, XX] = prefix[i, XX] + v * x * x
        prefix[i + 1, XY] = prefix[i, XY] + v * x * y
        prefix[i + 1, YY] = prefix[i, YY] + v * y * y
        prefix[i + 1, ZX] = prefix[i, ZX] + z * x
        prefix[i + 1, ZY] = prefix[i, ZY] + z * y
        prefix[i + 1, SSE] = 0.0
        if i >= 2:
            _, _, gain, is_determined = hyperbola(prefix, i + 1)
            prefix[i + 1, SSE] = max(prefix[i + 1, SW] - gain, 0.0) if is_determined else 0.0


@kernel
def _fill_suffix(m: int, points: Floats, suffix: Floats) -> None:
    for c in range(4):
        suffix[m, c] = 0.0
    for i in range(m - 1, -1, -1):
        suffix[i, FLAT_W] = suffix[i + 1, FLAT_W] + points[i, WEIGHT]
        suffix[i, FLAT_V] = suffix[i + 1, FLAT_V] + points[i, V]
        suffix[i, FLAT_Z] = suffix[i + 1, FLAT_Z] + points[i, Z]
        suffix[i, FLAT_SSE] = max(suffix[i, FLAT_W] - suffix[i, FLAT_Z] * suffix[i, FLAT_Z] / suffix[i, FLAT_V], 0.0)


@kernel
def least_error(j: int, work: Workspace) -> float:
    """No curve that is a hyperbola up to size j and flat from j + 1 on does better."""
    least: float = work.prefix[j, SSE] + work.suffix[j, FLAT_SSE]
    return least


@kernel
def unit_variance_ray(j: int, m: int, work: Workspace) -> tuple[float, float, float, bool]:
    """sigma = 1 with the plateau free between sizes j and j + 1 (exact-fit.md, L3 and H4): tau/2 + b/n, then tau.

    tau = T(inf), the plateau's start N* = 2b/tau, the squares explained, and whether N* lies where it was sought.
    """
    p, points = work.prefix, work.points
    v0, v1, z0 = p[j, XX] + 2.0 * p[j, XY] + p[j, YY], p[j, XX] + p[j, XY], p[j, ZX] + p[j, ZY]
    tau, b, gain, is_determined = solve(
        0.25 * v0 + work.suffix[j, FLAT_V], 0.5 * v1, p[j, XX], 0.5 * z0 + work.suffix[j, FLAT_Z], p[j, ZX]
    )
    if not (is_determined and tau > 0.0 and b > 0.0):
        return 0.0, 0.0, 0.0, False
    plateau = 2.0 * b / tau
    is_inside = plateau >= points[j - 1, N] and (j == m or plateau <= points[j, N])
    return tau, plateau, gain, is_inside
