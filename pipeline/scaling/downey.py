"""Exact least relative squares of Downey's two modes; docs/explanations/exact-downey-fit.md derives them.

Runtime is linear in two numbers once the place of the bend is given, so that the optimum over everything is among few
candidates in closed form (L0 to L5 and H0 to H4 of that page). One series and many take the same path: the kernel fills
a row of optima per series, and low_row and high_row make columns of FITS of them.

A hyperbola is written T = P/n + a (1 - 1/n), so that P = T(1) and a = T(inf): its sums are of positive terms, and
(P, a) are less correlated than the (level, fall) of level + fall/n. Runtimes are scaled by the first of the series.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.laws import Solver, downey_low_s
from pipeline.scaling.batch import STATUS_CODE, Codes, FitStatus, SeriesBatch

# columns of Workspace.points: the size, 1/runtime, the weight
N, RATE, WEIGHT = range(3)
# columns of Workspace.prefix, with v = w/t^2, z = w/t, x = 1/n and y = 1 - x: sums of w, vxx, vxy, vyy, zx, zy; a
# hyperbola's least error
SW, XX, XY, YY, ZX, ZY, SSE = range(7)
# columns of Workspace.suffix: sums of w, v, z; least error of a constant
FLAT_W, FLAT_V, FLAT_Z, FLAT_SSE = range(4)
# entries of Workspace.best: objective, three parameters (low: tau, s, A; high: a, b, N*), the highest A that ties,
# screening tolerance, rounding
F, P1, P2, P3, HIGHEST, TOLERANCE, ROUNDING = range(7)
# rows of Workspace.gram
G11, G12, G22, G1, G2 = range(5)

# Screening works in W - gain, which loses about this share of W; candidates that close are compared by residuals.
SCREENING_LOSS = 1e-9
SINGULAR = 1e-13
# Objectives this close, relatively and as a share of W, are equal.
TIE, TIE_SHARE = 1e-12, 1e-24
SAME = 1e-9
# How far apart, relatively, two A that fit equally well make two curves.
APART = 1e-6
# Of the slope of the objective along an interval of A, as a polynomial.
DEGREE = 6
NEWTON_STEPS = 60


class Workspace(NamedTuple):
    """Arrays one fit after another reuses: row k of prefix covers the first k sizes, of suffix those from k on.

    gram: the sums of (tau, s) along an interval of A; explained, whole: numerator and denominator of what they explain;
    slopes: a polynomial and its derivatives, by rows.
    """

    points: Floats
    prefix: Floats
    suffix: Floats
    best: Floats
    gram: Floats
    pair: Floats
    explained: Floats
    whole: Floats
    slopes: Floats
    roots: Floats


@entry_kernel
def exact_batch(
    chosen: Ints, offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, found: Floats, is_high: bool
) -> None:
    """Objective, three parameters and the highest A that ties, of the chosen series; runtimes in units of the first."""
    longest = np.diff(offsets).max()
    work = Workspace(
        np.zeros((longest, 3)), np.zeros((longest + 1, 7)), np.zeros((longest + 1, 4)), np.zeros(7),
        np.zeros((5, 3)), np.zeros(5), np.zeros(5), np.zeros(5), np.zeros((DEGREE + 1, DEGREE + 1)), np.zeros(DEGREE),
    )  # fmt: skip
    for i in chosen:
        part = slice(offsets[i], offsets[i + 1])
        prepare(procs[part], runtime_s[part], weights[part], work)
        if is_high:
            search_high(offsets[i + 1] - offsets[i], work)
        else:
            search_low(offsets[i + 1] - offsets[i], work)
        found[i, : HIGHEST + 1] = work.best[: HIGHEST + 1]


@kernel
def search_low(m: int, work: Workspace) -> None:
    """The optimum over all of the low mode, T = tau x + s y with s = tau sigma/2, into work.best: objective, tau, s, A.

    A is searched interval by interval between the sizes n and (n + 1)/2 at which a point changes its piece.
    """
    points, prefix, suffix, best = work.points, work.prefix, work.suffix, work.best
    # L0: every point flat.
    v0, z0, last = suffix[0, FLAT_V], suffix[0, FLAT_Z], points[m - 1, N]
    offer(m, work, z0 * z0 / v0, z0 / v0, 0.0, 1.0, False)
    # L1: every point in piece 1, where the lowest A, n_M, stands for the whole range; and there sigma = 0.
    zx, xx = prefix[m, ZX], prefix[m, XX]
    offer(m, work, zx * zx / xx, zx / xx / last, 0.0, last, False)
    P, s, gain, is_determined = hyperbola(prefix, m)
    if is_determined and s >= 0.0 and 2.0 * s * last <= P:
        offer(m, work, gain, P / last, s, last, False)
    for j in range(1, m + 1):
        if least_error(j, work) > best[F] + best[TOLERANCE]:
            continue
        # L3: sigma = 1, the first j points sloped and A free.
        tau, plateau, gain, is_inside = unit_variance_ray(j, m, work)
        if is_inside:
            offer(m, work, gain, tau, 0.5 * tau, 0.5 * (plateau + 1.0), False)
        # L2: sigma = 0, likewise.
        if j < m:
            zx, xx, z0, v0 = prefix[j, ZX], prefix[j, XX], suffix[j, FLAT_Z], suffix[j, FLAT_V]
            A = zx / xx * v0 / z0
            if points[j - 1, N] <= A <= points[j, N]:
                offer(m, work, zx * zx / xx + z0 * z0 / v0, z0 / v0, 0.0, A, False)
    # L4 and L5: every interval of A between breakpoints, its upper end and its interior. Points before n_sloped lie in
    # piece 1, those before n_unflat in piece 2, the rest on the plateau.
    lo, n_sloped, n_unflat = 1.0, 0, 0
    while n_sloped < m:
        hi = points[n_sloped, N]
        if n_unflat < m:
            hi = min(hi, 0.5 * (points[n_unflat, N] + 1.0))
        if hi > lo:
            if n_unflat > 0:
                search_interval(lo, hi, n_sloped, n_unflat, m, work)
            lo = hi
        while n_unflat < m and 0.5 * (points[n_unflat, N] + 1.0) <= lo:
            n_unflat += 1
        while n_sloped < m and points[n_sloped, N] <= lo:
            n_sloped += 1


@kernel
def search_high(m: int, work: Workspace) -> None:
    """The optimum over all of the high mode, T = a + b/min(n, N*), into work.best: objective, a, b, N*."""
    points, prefix, suffix, best = work.points, work.prefix, work.suffix, work.best
    # H0: every point flat.
    v0, z0 = suffix[0, FLAT_V], suffix[0, FLAT_Z]
    offer(m, work, z0 * z0 / v0, z0 / v0, 0.0, 1.0, True)
    # H1: every point sloped: linear speedup, and with the earliest bend for the whole range.
    zx, xx = prefix[m, ZX], prefix[m, XX]
    offer(m, work, zx * zx / xx, 0.0, zx / xx, np.inf, True)
    P, a, gain, is_determined = hyperbola(prefix, m)
    if is_determined and 0.0 < a < P:
        offer(m, work, gain, a, P - a, max(points[m - 1, N], (P - a) / a), True)
    # H4: sigma = 1, the first j points sloped and N* free.
    for j in range(1, m + 1):
        if least_error(j, work) > best[F] + best[TOLERANCE]:
            continue
        tau, plateau, gain, is_inside = unit_variance_ray(j, m, work)
        if is_inside:
            offer(m, work, gain, 0.5 * tau, 0.5 * tau * plateau, plateau, True)
    for k in range(2, m + 1):
        least = least_error(k, work)
        # H2: the bend free between sizes k and k + 1, slope and plateau fitted apart.
        if k < m and least <= best[F] + best[TOLERANCE]:
            P, a, _, is_determined = hyperbola(prefix, k)
            b, flat = P - a, suffix[k, FLAT_Z] / suffix[k, FLAT_V]
            is_inside = a + b / points[k, N] <= flat <= a + b / points[k - 1, N]
            if is_determined and b > 0.0 and is_inside and a < flat <= 2.0 * a:
                offer(m, work, prefix[m, SW] - least, a, b, b / (flat - a), True)
        # H3: the bend at size k, sigma kept at 1 where it would fall below.
        if min(least_error(k - 1, work), least) <= best[F] + best[TOLERANCE]:
            plateau, v, z = points[k - 1, N], suffix[k, FLAT_V], suffix[k, FLAT_Z]
            x, y = 1.0 / plateau, 1.0 - 1.0 / plateau
            xx, xy, yy = prefix[k, XX] + v * x * x, prefix[k, XY] + v * x * y, prefix[k, YY] + v * y * y
            zx, zy = prefix[k, ZX] + z * x, prefix[k, ZY] + z * y
            a, P, gain, is_determined = solve(yy, xy, xx, zy, zx)
            if is_determined and a < P and P - a <= a * plateau:
                offer(m, work, gain, a, P - a, plateau, True)
            elif is_determined and a < P:
                # sigma = 1: T = tau/2 (y + (1 + N*) x), in the same sums
                slope, edge = zy + (1.0 + plateau) * zx, yy + (1.0 + plateau) * (2.0 * xy + (1.0 + plateau) * xx)
                a = slope / edge
                offer(m, work, slope * a, a, a * plateau, plateau, True)


@kernel
def curve(n: float, p1: float, p2: float, p3: float, is_high: bool) -> float:
    """T(n) from (a, b, N*) in the high mode, from (tau, s, A) in the low one."""
    if is_high:
        return p1 + p2 * max(1.0 / n, 1.0 / p3)
    if n <= p3:
        return p1 * p3 / n + p2 * (1.0 - 1.0 / n)
    if n < 2.0 * p3 - 1.0:
        return p1 + p2 * ((2.0 * p3 - 1.0) / n - 1.0)
    return p1


@kernel
def offer(m: int, work: Workspace, gain: float, p1: float, p2: float, p3: float, is_high: bool) -> None:
    """Keep a candidate if it beats the best: screened by the squares it explains, decided by residuals.

    In the low mode separate curves may fit equally well, such as two through the same two sizes before a plateau: of
    those the one with the lowest A is kept, and the highest A remembered.
    """
    best = work.best
    if not work.prefix[m, SW] - gain <= best[F] + best[TOLERANCE]:
        return
    f = 0.0
    for i in range(m):
        error = 1.0 - curve(work.points[i, N], p1, p2, p3, is_high) * work.points[i, RATE]
        f += work.points[i, WEIGHT] * error * error
    rounding = 0.0 if is_high else TIE * best[F] + best[ROUNDING]
    if not f <= best[F] + rounding or (is_high and f == best[F]):
        return
    is_tie = f >= best[F] - rounding
    best[HIGHEST] = max(best[HIGHEST], p3) if is_tie else p3
    if not (is_tie and best[P3] <= p3):
        best[F], best[P1], best[P2], best[P3] = f, p1, p2, p3


@kernel
def prepare(n: Floats, t: Floats, w: Floats, work: Workspace) -> None:
    """Fill the points and sums of a usable series, its runtimes divided by the first."""
    m, points, prefix, suffix = len(n), work.points, work.prefix, work.suffix
    prefix[0, :], suffix[m, :] = 0.0, 0.0
    for i in range(m):
        rate, x, y = t[0] / t[i], 1.0 / n[i], 1.0 - 1.0 / n[i]
        points[i, N], points[i, RATE], points[i, WEIGHT] = n[i], rate, w[i]
        z, v = w[i] * rate, w[i] * rate * rate
        prefix[i + 1, SW] = prefix[i, SW] + w[i]
        prefix[i + 1, XX] = prefix[i, XX] + v * x * x
        prefix[i + 1, XY] = prefix[i, XY] + v * x * y
        prefix[i + 1, YY] = prefix[i, YY] + v * y * y
        prefix[i + 1, ZX] = prefix[i, ZX] + z * x
        prefix[i + 1, ZY] = prefix[i, ZY] + z * y
        prefix[i + 1, SSE] = 0.0
        if i >= 2:
            _, _, gain, is_determined = hyperbola(prefix, i + 1)
            prefix[i + 1, SSE] = max(prefix[i + 1, SW] - gain, 0.0) if is_determined else 0.0
    for i in range(m - 1, -1, -1):
        z = w[i] * points[i, RATE]
        suffix[i, FLAT_W] = suffix[i + 1, FLAT_W] + w[i]
        suffix[i, FLAT_V] = suffix[i + 1, FLAT_V] + z * points[i, RATE]
        suffix[i, FLAT_Z] = suffix[i + 1, FLAT_Z] + z
        suffix[i, FLAT_SSE] = max(suffix[i, FLAT_W] - suffix[i, FLAT_Z] * suffix[i, FLAT_Z] / suffix[i, FLAT_V], 0.0)
    total = prefix[m, SW]
    # Where runtimes are too far apart for arithmetic nothing is found.
    work.best[:] = np.nan
    work.best[F], work.best[TOLERANCE], work.best[ROUNDING] = 2.0 * total, SCREENING_LOSS * total, TIE_SHARE * total


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
def least_error(j: int, work: Workspace) -> float:
    """No curve that is a hyperbola up to size j and flat from j + 1 on does better."""
    least: float = work.prefix[j, SSE] + work.suffix[j, FLAT_SSE]
    return least


@kernel
def unit_variance_ray(j: int, m: int, work: Workspace) -> tuple[float, float, float, bool]:
    """sigma = 1 with the plateau free between sizes j and j + 1 (L3 and H4): tau/2 + b/n, then tau.

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
    return tau, plateau, gain, plateau >= points[j - 1, N] and (j == m or plateau <= points[j, N])


@kernel
def search_interval(lo: float, hi: float, n_sloped: int, n_unflat: int, m: int, work: Workspace) -> None:
    """Offer the best of A between two breakpoints, the lower one excepted, as A = lo + h u with u up to 1.

    With A given, (tau, s) are least squares of sums that are polynomials of u. They explain N(u)/D(u), both of degree
    4; it is largest at u = 1 or where N'D - ND', of degree 6, falls through zero.
    """
    # Sums over piece 2, added up afresh: differences of prefixes would lose digits.
    w, v0, v1, v2, z0, z1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n_sloped, n_unflat):
        x, z = 1.0 / work.points[i, N], work.points[i, WEIGHT] * work.points[i, RATE]
        v = z * work.points[i, RATE]
        w, v0, v1, v2, z0, z1 = w + work.points[i, WEIGHT], v0 + v, v1 + v * x, v2 + v * x * x, z0 + z, z1 + z * x
    # No curve of the law does better than a hyperbola, a free line in 1/n and a constant.
    bound = work.prefix[n_sloped, SSE] + work.suffix[n_unflat, FLAT_SSE]
    if n_unflat - n_sloped > 2:
        _, _, gain, is_determined = solve(v0, v1, v2, z0, z1)
        bound += max(w - gain, 0.0) if is_determined else 0.0
    if bound > work.best[F] + work.best[TOLERANCE]:
        return
    h, bend, g, p = hi - lo, 2.0 * lo - 1.0, work.gram, work.prefix[n_sloped]
    g[G11, 0] = lo * lo * p[XX] + v0 + work.suffix[n_unflat, FLAT_V]
    g[G11, 1], g[G11, 2] = 2.0 * lo * h * p[XX], h * h * p[XX]
    g[G12, 0], g[G12, 1] = lo * p[XY] + bend * v1 - v0, h * (p[XY] + 2.0 * v1)
    g[G22, 0] = p[YY] + bend * (bend * v2 - 2.0 * v1) + v0
    g[G22, 1], g[G22, 2] = 4.0 * h * (bend * v2 - v1), 4.0 * h * h * v2
    g[G1, 0], g[G1, 1] = lo * p[ZX] + z0 + work.suffix[n_unflat, FLAT_Z], h * p[ZX]
    g[G2, 0], g[G2, 1] = p[ZY] + bend * z1 - z0, 2.0 * h * z1
    offer_clamped(1.0, hi, m, work)
    if n_unflat == 1 or (n_sloped == 0 and n_unflat == m):
        return
    # N = g1^2 G22 - 2 g1 g2 G12 + g2^2 G11 and D = G11 G22 - G12^2
    explained, whole, slope = work.explained, work.whole, work.slopes[0]
    explained[:], whole[:], slope[:] = 0.0, 0.0, 0.0
    for one, other, third, factor in ((G1, G1, G22, 1.0), (G1, G2, G12, -2.0), (G2, G2, G11, 1.0)):
        work.pair[:] = 0.0
        add_product(g[one], g[other], factor, work.pair)
        add_product(work.pair, g[third], 1.0, explained)
    add_product(g[G11], g[G22], 1.0, whole)
    add_product(g[G12], g[G12], -1.0, whole)
    for i in range(5):
        for j in range(5):
            if i != j:
                slope[i + j - 1] += (i - j) * explained[i] * whole[j]
    for k in range(falling_roots(work.slopes, work.roots)):
        offer_clamped(work.roots[k], lo + h * work.roots[k], m, work)


@kernel
def offer_clamped(u: float, A: float, m: int, work: Workspace) -> None:
    """Least squares in (tau, s) at one A, kept in the cone 0 <= s <= tau/2: its better edge where it is left."""
    g = work.gram
    g11, g22 = g[G11, 0] + u * (g[G11, 1] + u * g[G11, 2]), g[G22, 0] + u * (g[G22, 1] + u * g[G22, 2])
    g12, g1, g2 = g[G12, 0] + u * g[G12, 1], g[G1, 0] + u * g[G1, 1], g[G2, 0] + u * g[G2, 1]
    tau, s, gain, is_determined = solve(g11, g12, g22, g1, g2)
    if not (is_determined and tau > 0.0 and 0.0 <= s <= 0.5 * tau):
        edge, slope = g11 + g12 + 0.25 * g22, g1 + 0.5 * g2
        tau, s, gain = g1 / g11, 0.0, g1 * g1 / g11
        if slope * slope / edge > gain:
            tau, gain = slope / edge, slope * slope / edge
            s = 0.5 * tau
    offer(m, work, gain, tau, s, A, False)


@kernel
def add_product(one: Floats, other: Floats, factor: float, total: Floats) -> None:
    """Add the product of two polynomials of degree 2, coefficients from the constant term up."""
    for i in range(3):
        for j in range(3):
            total[i + j] += factor * one[i] * other[j]


@kernel
def falling_roots(slopes: Floats, roots: Floats) -> int:
    """Fill roots with those in (0, 1] where the polynomial slopes[0] falls through zero, in order; how many.

    Between neighbouring roots of its derivative a polynomial is monotone: the roots of each derivative in turn, from
    the straight line on, bracket those of the one before it.
    """
    for d in range(1, DEGREE + 1):
        for i in range(DEGREE + 1 - d):
            slopes[d, i] = (i + 1) * slopes[d - 1, i + 1]
    count = 0
    for d in range(DEGREE - 1, -1, -1):
        lo, is_positive, found = 0.0, slopes[d, 0] > 0.0, 0
        for k in range(count + 1):
            hi = roots[k] if k < count else 1.0
            value, _ = at(slopes[d], DEGREE - d, hi)
            # Zero counts as negative.
            if (value > 0.0) != is_positive:
                if d > 0 or is_positive:
                    roots[found] = root_between(slopes[d], DEGREE - d, lo, hi, is_positive)
                    found += 1
                is_positive = not is_positive
            lo = hi
        count = found
    return count


@kernel
def root_between(p: Floats, degree: int, lo: float, hi: float, is_falling: bool) -> float:
    """The one root of a polynomial that is monotone in between, by Newton's method kept in its bracket."""
    u = 0.5 * (lo + hi)
    for _ in range(NEWTON_STEPS):
        value, slope = at(p, degree, u)
        if (value > 0.0) == is_falling:
            lo = u
        else:
            hi = u
        following = u - value / slope
        if not (lo < following < hi):
            following = 0.5 * (lo + hi)
        if abs(following - u) <= 4e-16 * following:
            return following
        u = following
    return u


@kernel
def at(p: Floats, degree: int, u: float) -> tuple[float, float]:
    """A polynomial and its slope."""
    value, slope = p[degree], 0.0
    for i in range(degree - 1, -1, -1):
        slope = slope * u + value
        value = value * u + p[i]
    return value, slope


def fit_exactly(law: str, batch: SeriesBatch, chosen: Ints) -> dict[str, Floats | Codes]:
    """Columns of FITS and status codes of the chosen series: parameters in seconds, the range of A where it is open.

    What is open is read off the curve's shape over the sizes observed, not off the candidate that won: equal fits tie
    up to rounding, and an unidentified answer must never pass for a determined one. Of equal fits the one with the
    lowest A is reported.
    """
    found, is_high = np.full((batch.n_series, HIGHEST + 1), np.nan), law == Solver.DOWNEY_HIGH
    exact_batch(chosen, batch.offsets, batch.procs, batch.runtime_s, batch.weights, found, is_high)
    best, first, last = found[chosen], batch.offsets[chosen], batch.offsets[chosen + 1] - 1
    best[:, P1 : P2 + 1] *= batch.runtime_s[first][:, None]
    ends = batch.procs[first], batch.procs[np.minimum(first + 1, last)], batch.procs[last]
    with np.errstate(all="ignore"):
        cases = (_high_cases if is_high else _low_cases)(best, *ends)
        # Of each series the first case that holds.
        holds, words, *values = zip(*cases, strict=True)
        status = np.select(holds, [STATUS_CODE[word] for word in words])
        t1_s, A, sigma, highest = (np.select(holds, one, np.nan) for one in values)
        return {
            "wssre": best[:, F], "t1_s": t1_s, "tinf_s": t1_s / A, "avg_parallelism": A, "sigma": sigma,
            "avg_parallelism_lo": np.where(np.isnan(highest), np.nan, A), "avg_parallelism_hi": np.maximum(A, highest),
            "status": status,
        }  # fmt: skip


Case = tuple[Bools, FitStatus, Floats, Floats | float, Floats | float, Floats | float]
"""Where it holds: status, T(1) in s, the A reported, sigma; the highest A that fits as well, NaN for no other."""


def _low_cases(best: Floats, first: Floats, second: Floats, last: Floats) -> list[Case]:
    """From (tau, s, A)."""
    tau, s, A = best[:, P1], best[:, P2], best[:, P3]
    s = np.where(s <= SAME * SAME * tau, 0.0, s)
    sigma = np.minimum(2.0 * s / tau, 1.0)
    useful = np.where(s == 0.0, A, 2.0 * A - 1.0)
    # L1: T(1) and s are determined, A is not: from n_M to T(1)/2s, where sigma = 1.
    t1_s, is_tail = tau * A, _reaches(A, last)
    tail_highest = np.where(s > 0.0, t1_s / (2.0 * s), np.inf)
    # One size off the plateau: with r = T(n_1)/T(inf), A falls as sigma rises; n_1 r - (n_1 - 1)/2 at sigma = 1.
    ratio = downey_low_s(first, A, A, 2.0 * s / tau)
    lone = first * ratio - 0.5 * (first - 1.0)
    lone_highest = np.where(_reaches(second, first * ratio), first * ratio, 0.5 * (second + 1.0))
    is_lone = _reaches(second, useful) & _reaches(second, 2.0 * lone - 1.0)
    # Every size in piece 2, T = level + b/n with level = tau - s, b = s (2A - 1): two numbers, three unknowns.
    level, b = tau - s, s * (2.0 * A - 1.0)
    bent = np.maximum(0.5 * (last + 1.0), 0.5 * (b / level + 1.0))
    s_bent = b / (2.0 * bent - 1.0)
    tau_bent = level + s_bent
    bends = ~_reaches(second, useful) & _reaches(first, A) & _reaches(2.0 * A - 1.0, last) & ~_reaches(bent, first)
    sigma_bent = np.minimum(2.0 * s_bent / tau_bent, 1.0)
    is_bound = (sigma <= SAME) | _reaches(sigma, 1.0)
    return [
        *_flat(_reaches(first, useful), tau, first, first, 0.0),
        (is_tail & _reaches(last, tail_highest), FitStatus.AT_BOUND, t1_s, A, 1.0, np.nan),
        (is_tail, FitStatus.TAIL_UNIDENTIFIED, t1_s, last, 2.0 * s * last / t1_s, tail_highest),
        (is_lone, FitStatus.HEAD_UNIDENTIFIED, tau * lone, lone, 1.0, lone_highest),
        (bends, FitStatus.HEAD_UNIDENTIFIED, tau_bent * bent, bent, sigma_bent, first),
        (best[:, HIGHEST] > A * (1.0 + APART), FitStatus.RUNNER_UP, t1_s, A, sigma, best[:, HIGHEST]),
        (is_bound, FitStatus.AT_BOUND, t1_s, A, sigma, np.nan),
        (~is_bound, FitStatus.OK, t1_s, A, sigma, np.nan),
    ]


def _high_cases(best: Floats, first: Floats, second: Floats, last: Floats) -> list[Case]:
    """From (a, b, N*)."""
    a, b, plateau = best[:, P1], best[:, P2], best[:, P3]
    flat = a + b / plateau
    # H1: a and b are determined, N* is not: from the larger of n_M and b/a (sigma = 1) to infinity, Amdahl's law.
    is_tail, earliest = _reaches(plateau, last), np.maximum(last, b / a)
    sigma_tail = np.maximum(a * earliest / b, 1.0)
    # One size off the plateau: any N* from n_1 (2r - 1), where sigma = 1, to n_2, with r = T(n_1)/T(inf).
    ratio = (a + b / first) / flat
    is_lone = _reaches(second, plateau) & ~_reaches(first * (2.0 * ratio - 1.0), second)
    step = flat * (ratio - 1.0) / (second / first - 1.0)
    t1_s = flat + step * (second - 1.0)
    lone_highest = first * ratio - 0.5 * (first - 1.0)
    sigma = np.maximum(a * plateau / b, 1.0)
    is_bound = _reaches(1.0, sigma)
    return [
        *_flat((b <= SAME * SAME * a) | _reaches(first, plateau), flat, first, 0.5 * (first + 1.0), 1.0),
        (is_tail & (a <= SAME * SAME * b), FitStatus.TAIL_UNIDENTIFIED, a + b, np.inf, 1.0, np.inf),
        (is_tail, FitStatus.TAIL_UNIDENTIFIED, a + b, (a + b) / (a + b / earliest), sigma_tail, (a + b) / a),
        (is_lone, FitStatus.HEAD_UNIDENTIFIED, t1_s, t1_s / flat, (flat - step) / step, lone_highest),
        (is_bound, FitStatus.AT_BOUND, a + b, (a + b) / flat, sigma, np.nan),
        (~is_bound, FitStatus.OK, a + b, (a + b) / flat, sigma, np.nan),
    ]


def _flat(holds: Bools, t_s: Floats, first: Floats, highest: Floats, sigma: float) -> list[Case]:
    """A constant: A = 1, or anything up to `highest` where one processor was not observed."""
    return [
        (holds & _reaches(1.0, first), FitStatus.AT_BOUND, t_s, 1.0, sigma, np.nan),
        (holds, FitStatus.HEAD_UNIDENTIFIED, t_s, 1.0, sigma, highest),
    ]


def _reaches(value: Floats | float, limit: Floats | float) -> Bools:
    """value >= limit, up to rounding."""
    return np.asarray(value >= limit * (1.0 - SAME))
