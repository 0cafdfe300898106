"""Exact least relative squares of Downey's two modes (exact-fit.md, L0 to L5, H0 to H4).

One series and many take the same path: the entry point fills a row of optima per series; downey_rows.py reads them.

Low mode: with s = tau sigma/2 and A fixed, T = tau x + s y is linear; A is searched interval by interval between the
sizes n and (n + 1)/2 at which a point changes its piece.
"""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.scaling.downey_sums import (
    FLAT_SSE,
    FLAT_V,
    FLAT_Z,
    HIGHEST,
    P1,
    P2,
    P3,
    RATE,
    ROUNDING,
    SSE,
    SW,
    TIE,
    TOLERANCE,
    WEIGHT,
    XX,
    XY,
    YY,
    ZX,
    ZY,
    F,
    N,
    V,
    Workspace,
    X,
    Z,
    hyperbola,
    least_error,
    prepare,
    solve,
    unit_variance_ray,
    workspace,
)  # fmt: skip
from pipeline.scaling.rational import (
    Gram,
    determinant_along,
    explained_along,
    fill_slope,
    gram_along,
    gram_at,
    next_falling_root,
    stays_below,
    to_bernstein,
)  # fmt: skip

# Share of G11 G22 the determinant must keep for N and D to be trusted beyond the screening tolerance.
SOUND = 1e-5


@kernel
def low_value(n: float, x: float, tau: float, s: float, A: float) -> float:
    """T(n) in low mode, x = 1/n."""
    if n <= A:
        return tau * A * x + s * (1.0 - x)
    if n < 2.0 * A - 1.0:
        return tau + s * ((2.0 * A - 1.0) * x - 1.0)
    return tau


@kernel
def low_objective(m: int, points: Floats, tau: float, s: float, A: float) -> float:
    """Sum of w (1 - T/t)^2 from residuals."""
    total = 0.0
    for i in range(m):
        error = 1.0 - low_value(points[i, N], points[i, X], tau, s, A) * points[i, RATE]
        total += points[i, WEIGHT] * error * error
    return total


@kernel
def offer_low(m: int, work: Workspace, gain: float, tau: float, s: float, A: float) -> None:
    """Keep (tau, s, A) if it beats the best: screened by the squares it explains, decided by residuals.

    Separate curves may fit equally well, such as two through the same two sizes before a plateau: of those the one
    with the lowest A is kept, and the highest A remembered.
    """
    best = work.best
    least = work.prefix[m, SW] - gain
    if least > best[F] + best[TOLERANCE]:
        return
    f = low_objective(m, work.points, tau, s, A)
    rounding = TIE * best[F] + best[ROUNDING]
    if f > best[F] + rounding:
        return
    is_tie = f >= best[F] - rounding
    best[HIGHEST] = max(best[HIGHEST], A) if is_tie else A
    if not (is_tie and best[P3] <= A):
        best[F], best[P1], best[P2], best[P3] = f, tau, s, A


@kernel
def search_low(m: int, work: Workspace) -> None:
    """The optimum over all of low mode into work.best: objective, tau, s, A."""
    _offer_one_piece(m, work)
    for j in range(1, m + 1):
        _offer_rays(j, m, work)
    _sweep(m, work)


@kernel
def _offer_one_piece(m: int, work: Workspace) -> None:
    """L0, every point flat, and L1, every point in piece 1: there the lowest A, n_M, stands for the whole range."""
    v0, z0 = work.suffix[0, FLAT_V], work.suffix[0, FLAT_Z]
    offer_low(m, work, z0 * z0 / v0, z0 / v0, 0.0, 1.0)
    last, zx, xx = work.points[m - 1, N], work.prefix[m, ZX], work.prefix[m, XX]
    offer_low(m, work, zx * zx / xx, zx / xx / last, 0.0, last)
    P, s, gain, is_determined = hyperbola(work.prefix, m)
    if is_determined and s >= 0.0 and 2.0 * s * last <= P:
        offer_low(m, work, gain, P / last, s, last)


@kernel
def _offer_rays(j: int, m: int, work: Workspace) -> None:
    """L2 and L3: sigma = 0 and sigma = 1 with A free, the first j points sloped."""
    if least_error(j, work) > work.best[F] + work.best[TOLERANCE]:
        return
    tau, plateau, gain, is_inside = unit_variance_ray(j, m, work)
    if is_inside:
        offer_low(m, work, gain, tau, 0.5 * tau, 0.5 * (plateau + 1.0))
    if j == m:
        return
    zx, xx, z0, v0 = work.prefix[j, ZX], work.prefix[j, XX], work.suffix[j, FLAT_Z], work.suffix[j, FLAT_V]
    A = zx / xx * v0 / z0
    if work.points[j - 1, N] <= A <= work.points[j, N]:
        offer_low(m, work, zx * zx / xx + z0 * z0 / v0, z0 / v0, 0.0, A)


@kernel
def _sweep(m: int, work: Workspace) -> None:
    """L4 and L5: every interval of A between breakpoints, its upper end and its interior."""
    n = work.points[:, N]
    lo, n_sloped, n_unflat = 1.0, 0, 0
    while n_sloped < m:
        hi = n[n_sloped]
        if n_unflat < m:
            hi = min(hi, 0.5 * (n[n_unflat] + 1.0))
        if hi > lo:
            if n_unflat > 0:
                _search_interval(lo, hi, n_sloped, n_unflat, m, work)
            lo = hi
        while n_unflat < m and 0.5 * (n[n_unflat] + 1.0) <= lo:
            n_unflat += 1
        while n_sloped < m and n[n_sloped] <= lo:
            n_sloped += 1


@kernel
def _search_interval(lo: float, hi: float, n_sloped: int, n_unflat: int, m: int, work: Workspace) -> None:
    """Points before n_sloped lie in piece 1, those before n_unflat in piece 2, the rest on the plateau."""
    middle = _middle_sums(n_sloped, n_unflat, work.points)
    bound = work.prefix[n_sloped, SSE] + work.suffix[n_unflat, FLAT_SSE]
    if bound + _middle_sse(n_unflat - n_sloped, middle) > work.best[F] + work.best[TOLERANCE]:
        return
    gram = gram_along(lo, hi - lo, n_sloped, n_unflat, middle, work.prefix, work.suffix)
    g11, g22 = gram.a0 + gram.a1 + gram.a2, gram.c0 + gram.c1 + gram.c2
    explained, determinant = explained_along(gram), determinant_along(gram)
    end = determinant[0] + determinant[1] + determinant[2] + determinant[3] + determinant[4]
    is_sound = determinant[0] > SOUND * gram.a0 * gram.c0 and end > SOUND * g11 * g22
    limit = work.prefix[m, SW] - work.best[F] - work.best[TOLERANCE]
    if is_sound and stays_below(explained, determinant, limit):
        return
    _offer_clamped(1.0, hi, gram, m, work)
    is_degenerate = n_unflat == 1 or (n_sloped == 0 and n_unflat == m)
    if not is_degenerate:
        fill_slope(explained, determinant, work.slope)
        _offer_interior(lo, hi, gram, m, work)


@kernel
def _middle_sums(start: int, stop: int, points: Floats) -> tuple[float, float, float, float, float, float]:
    """Sums of w, v, v/n, v/n^2, z, z/n over piece 2, added up afresh: differences of prefixes would lose digits."""
    w, v0, v1, v2, z0, z1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(start, stop):
        x, v, z = points[i, X], points[i, V], points[i, Z]
        w += points[i, WEIGHT]
        v0 += v
        v1 += v * x
        v2 += v * x * x
        z0 += z
        z1 += z * x
    return w, v0, v1, v2, z0, z1


@kernel
def _middle_sse(count: int, middle: tuple[float, float, float, float, float, float]) -> float:
    """Least error of a free line in 1/n over piece 2: no curve of the law does better there."""
    if count <= 2:
        return 0.0
    w, v0, v1, v2, z0, z1 = middle
    _, _, gain, is_determined = solve(v0, v1, v2, z0, z1)
    return max(w - gain, 0.0) if is_determined else 0.0


@kernel
def _offer_interior(lo: float, hi: float, gram: Gram, m: int, work: Workspace) -> None:
    """L5: minima of f over A inside the interval."""
    to_bernstein(work.slope, work.bernstein[0])
    work.span[0, 0], work.span[0, 1] = 0.0, 1.0
    top = 1
    while True:
        u, top = next_falling_root(work.slope, work.bernstein, work.span, top)
        if u < 0.0:
            return
        _offer_clamped(u, lo + (hi - lo) * u, gram, m, work)


@kernel
def _offer_clamped(u: float, A: float, gram: Gram, m: int, work: Workspace) -> None:
    """Least squares in (tau, s) at one A, kept in the cone 0 <= s <= tau/2: its better edge where it is left."""
    g11, g12, g22, g1, g2 = gram_at(u, gram)
    tau, s, gain, is_determined = solve(g11, g12, g22, g1, g2)
    if not (is_determined and tau > 0.0 and 0.0 <= s <= 0.5 * tau):
        edge, slope = g11 + g12 + 0.25 * g22, g1 + 0.5 * g2
        tau, s, gain = g1 / g11, 0.0, g1 * g1 / g11
        if slope * slope / edge > gain:
            tau, gain = slope / edge, slope * slope / edge
            s = 0.5 * tau
    offer_low(m, work, gain, tau, s, A)


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
    _offer_one_piece_high(m, work)
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
def _offer_one_piece_high(m: int, work: Workspace) -> None:
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


DOWNEY_LOW, DOWNEY_HIGH = range(2)


@entry_kernel
def exact_batch(
    chosen: Ints, offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, found: Floats, law: int
) -> None:
    """Objective, three parameters and the highest A that ties, of the chosen series; runtimes in units of the first."""
    work = workspace(np.diff(offsets).max())
    for i in chosen:
        part = slice(offsets[i], offsets[i + 1])
        m = offsets[i + 1] - offsets[i]
        prepare(procs[part], runtime_s[part], weights[part], work)
        if law == DOWNEY_LOW:
            search_low(m, work)
        else:
            search_high(m, work)
        found[i, : HIGHEST + 1] = work.best[: HIGHEST + 1]
