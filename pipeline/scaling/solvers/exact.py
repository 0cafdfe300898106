"""Exact least relative squares of every law over a whole batch (exact-fit.md): one series and many take the same path.

The entry points fill one row of results.OUT_COLUMNS and one status code per series.
"""

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.scaling.solvers.downey_low import search_low
from pipeline.scaling.solvers.downey_rows import (
    A_,
    AT_BOUND,
    BAD_VALUES,
    OK,
    SERIAL,
    T1,
    TINF,
    TOO_FEW_POINTS,
    WSSRE,
    read_high,
    read_low,
)
from pipeline.scaling.solvers.sums import (
    FLAT_V,
    FLAT_Z,
    P1,
    P2,
    P3,
    RATE,
    SW,
    TOLERANCE,
    WEIGHT,
    XX,
    XY,
    YY,
    ZX,
    ZY,
    F,
    N,
    Workspace,
    X,
    are_usable,
    hyperbola,
    least_error,
    longest_series,
    prepare,
    solve,
    unit_variance_ray,
    workspace,
)


@kernel
def high_objective(m: int, points: Floats, a: float, b: float, plateau: float) -> float:
    """Sum of w (1 - T/t)^2 from residuals."""
    total, x_plateau = 0.0, 1.0 / plateau
    for i in range(m):
        error = 1.0 - (a + b * max(points[i, X], x_plateau)) * points[i, RATE]
        total += points[i, WEIGHT] * error * error
    return total


@kernel
def offer_high(m: int, work: Workspace, gain: float, a: float, b: float, plateau: float) -> None:
    """Keep (a, b, N*) if it beats the best: screened by the squares it explains, decided by residuals."""
    best = work.best
    if not work.prefix[m, SW] - gain <= best[F] + best[TOLERANCE]:
        return
    f = high_objective(m, work.points, a, b, plateau)
    if f < best[F]:
        best[F], best[P1], best[P2], best[P3] = f, a, b, plateau


@kernel
def search_high(m: int, work: Workspace) -> None:
    """The optimum over all of high mode into work.best: objective, a, b, N*."""
    _offer_one_piece(m, work)
    for j in range(1, m + 1):
        if least_error(j, work) > work.best[F] + work.best[TOLERANCE]:
            continue
        tau, plateau, gain, is_inside = unit_variance_ray(j, m, work)
        if is_inside:
            offer_high(m, work, gain, 0.5 * tau, 0.5 * tau * plateau, plateau)
    for k in range(2, m + 1):
        if k < m:
            _offer_bend_after(k, m, work)
        _offer_bend_at(k, m, work)


@kernel
def _offer_one_piece(m: int, work: Workspace) -> None:
    """H0, every point flat; H1, every point sloped, with the earliest bend for the whole range; linear speedup."""
    v0, z0 = work.suffix[0, FLAT_V], work.suffix[0, FLAT_Z]
    offer_high(m, work, z0 * z0 / v0, z0 / v0, 0.0, 1.0)
    zx, xx = work.prefix[m, ZX], work.prefix[m, XX]
    offer_high(m, work, zx * zx / xx, 0.0, zx / xx, np.inf)
    P, a, gain, is_determined = hyperbola(work.prefix, m)
    if is_determined and 0.0 < a < P:
        offer_high(m, work, gain, a, P - a, max(work.points[m - 1, N], (P - a) / a))


@kernel
def _offer_bend_after(j: int, m: int, work: Workspace) -> None:
    """H2: the bend free between sizes j and j + 1, slope and plateau fitted apart."""
    bound = least_error(j, work)
    if bound > work.best[F] + work.best[TOLERANCE]:
        return
    P, a, _, is_determined = hyperbola(work.prefix, j)
    b, flat = P - a, work.suffix[j, FLAT_Z] / work.suffix[j, FLAT_V]
    is_inside = a + b * work.points[j, X] <= flat <= a + b * work.points[j - 1, X]
    if is_determined and b > 0.0 and is_inside and a < flat <= 2.0 * a:
        offer_high(m, work, work.prefix[m, SW] - bound, a, b, b / (flat - a))


@kernel
def _offer_bend_at(k: int, m: int, work: Workspace) -> None:
    """H3: the bend at size k, sigma kept at 1 where it would fall below."""
    bound = min(least_error(k - 1, work), least_error(k, work))
    if bound > work.best[F] + work.best[TOLERANCE]:
        return
    prefix, v, z = work.prefix, work.suffix[k, FLAT_V], work.suffix[k, FLAT_Z]
    plateau, x = work.points[k - 1, N], work.points[k - 1, X]
    y = 1.0 - x
    xx, xy, yy = prefix[k, XX] + v * x * x, prefix[k, XY] + v * x * y, prefix[k, YY] + v * y * y
    zx, zy = prefix[k, ZX] + z * x, prefix[k, ZY] + z * y
    a, P, gain, is_determined = solve(yy, xy, xx, zy, zx)
    if is_determined and a < P and P - a <= a * plateau:
        offer_high(m, work, gain, a, P - a, plateau)
    elif is_determined and a < P:
        # sigma = 1: T = tau/2 (y + (1 + N*) x), in the same sums
        slope, edge = zy + (1.0 + plateau) * zx, yy + (1.0 + plateau) * (2.0 * xy + (1.0 + plateau) * xx)
        a = slope / edge
        offer_high(m, work, slope * a, a, a * plateau, plateau)


@kernel
def fit_constant(m: int, work: Workspace, scale: float, row: Floats) -> int:
    """T = sum z / sum v; status ok."""
    v0, z0 = work.suffix[0, FLAT_V], work.suffix[0, FLAT_Z]
    offer_high(m, work, z0 * z0 / v0, z0 / v0, 0.0, 1.0)
    row[T1], row[TINF], row[A_], row[WSSRE] = work.best[P1] * scale, work.best[P1] * scale, 1.0, work.best[F]
    return OK


@kernel
def fit_amdahl(m: int, work: Workspace, scale: float, row: Floats) -> int:
    """T = a + b/n with a, b >= 0; at_bound where one of them is zero."""
    v0, z0, zx, xx = work.suffix[0, FLAT_V], work.suffix[0, FLAT_Z], work.prefix[m, ZX], work.prefix[m, XX]
    bend = 2.0 * work.points[m - 1, 0]
    offer_high(m, work, z0 * z0 / v0, z0 / v0, 0.0, bend)
    offer_high(m, work, zx * zx / xx, 0.0, zx / xx, bend)
    P, a, gain, is_determined = hyperbola(work.prefix, m)
    if is_determined and 0.0 <= a <= P:
        offer_high(m, work, gain, a, P - a, bend)
    a, b = work.best[P1] * scale, work.best[P2] * scale
    row[T1], row[TINF], row[A_], row[SERIAL], row[WSSRE] = a + b, a, (a + b) / a, a / (a + b), work.best[F]
    return OK if a > 0.0 and b > 0.0 else AT_BOUND


Codes = npt.NDArray[np.int8]

CONSTANT, AMDAHL, DOWNEY_LOW, DOWNEY_HIGH = range(4)


@kernel
def refusal(n: Floats, t: Floats, w: Floats, n_parameters: int) -> int:
    """The status that keeps a series from being fitted; OK where nothing does."""
    if not are_usable(n, t, w):
        return BAD_VALUES
    return TOO_FEW_POINTS if len(n) < n_parameters else OK


@kernel
def checked(row: Floats, status: int) -> int:
    """The status, or BAD_VALUES with an empty row where runtimes or weights were too extreme for arithmetic."""
    if np.isfinite(row[WSSRE]) and np.isfinite(row[0]):
        return status
    row[:] = np.nan
    return BAD_VALUES


@entry_kernel
def exact_batch(
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes, law: int
) -> None:
    """The constant (1 parameter), Amdahl's law (2), or Downey's of low or of high variance (3)."""
    work = workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, min(law + 1, 3))
        if codes[i] == OK:
            scale = prepare(n, t, w, work)
            codes[i] = checked(out[i], _fitted(law, len(n), work, scale, out[i]))


@kernel
def _fitted(law: int, m: int, work: Workspace, scale: float, row: Floats) -> int:
    """Fill a row with the law's optimum for the prepared series; the status's code."""
    if law == CONSTANT:
        return fit_constant(m, work, scale, row)
    if law == AMDAHL:
        return fit_amdahl(m, work, scale, row)
    if law == DOWNEY_LOW:
        search_low(m, work)
        return read_low(m, work, scale, row)
    search_high(m, work)
    return read_high(m, work, scale, row)
