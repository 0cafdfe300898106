"""Exact least relative squares of Downey's two modes; docs/explanations/exact-downey-fit.md derives them.

Runtime is linear in two numbers once A is given: T = F x + s y with F = T(inf), y = bend/n - 1 before the bend at
2A - 1 and 0 from there on, x = 1. In the low mode sizes up to A have x = A/n and y = 1 - 1/n instead; in the high
one A stands for (N* + 1)/2, that of sigma = 1. In both 0 <= s <= F/2, where sigma is 2s/F or F/s - 1. A is searched
interval by interval, and what the data leave open is read off the curve that wins.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.kernels import kernel, uncounted_kernel
from pipeline.laws import FitStatus, downey_low_s

# Entries of Search.best: the objective, the curve, the highest A that ties, the sum of the weights.
ERROR, FLAT, BENT, AVG, HIGHEST, TOTAL = range(6)
# Columns of sums, with v = w/t^2, z = w/t, x = 1/n, y = 1 - x: of w, vxx, vxy, vyy, zx, zy; the least that they leave.
# A piece is X x + Y y: its terms are positive, and less correlated than a level and a fall.
W, XX, XY, YY, ZX, ZY, LEFT = range(7)
# Rows of Search.gram.
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


class Search(NamedTuple):
    """A series by sizes: n, 1/runtime, weight, terms of sums; and what its search fills.

    Row k of prefix sums the first k sizes, row k of suffix those from k on, middle those of the second piece; gram has
    the sums of (F, s) by powers of u. Of many series end to end: all their sizes, and room for the longest.
    """

    n: Floats
    rate: Floats
    w: Floats
    terms: Floats
    prefix: Floats
    suffix: Floats
    middle: Floats
    gram: Floats
    products: Floats
    slopes: Floats
    roots: Floats
    best: Floats


# With references counted it takes twice as long.
@uncounted_kernel
def search_all(offsets: Ints, every: Search, is_high: bool) -> None:
    """Improve a row of best per series, which begins with an ERROR that any curve is below, and TOTAL.

    A minimum over an interval of A and the cone of (F, s) lies in the interior of both, on an edge of the cone, or at
    an end of the interval. Ends are where a size changes its piece: at the sizes, in the low mode alone, and at half of
    the next.
    """
    for i in range(len(offsets) - 1):
        part, m = slice(offsets[i], offsets[i + 1]), offsets[i + 1] - offsets[i]
        one = Search(
            every.n[part], every.rate[part], every.w[part], every.terms, every.prefix,
            every.suffix[len(every.suffix) - 1 - m :], every.middle, every.gram, every.products, every.slopes,
            every.roots, every.best[i],
        )  # fmt: skip
        add_up(one)
        # Edges and ends first, the steepest curves before all: after them most intervals need no search.
        for is_inside in (False, True):
            # Sizes before n_early are at most A, those before n_bent are before the bend. The first interval has no
            # end: all sizes lie on the slope. In the last one none does.
            hi, n_early, n_bent = np.inf, 0 if is_high else m, m
            while hi > 0.0:
                lo = 1.0
                if n_bent > 0:
                    lo = max(lo, 0.5 * (one.n[n_bent - 1] + 1.0))
                if n_early > 0:
                    lo = max(lo, one.n[n_early - 1])
                # One size off the plateau, or all in the second piece, do not tell an A inside.
                if not is_inside or not (hi == np.inf or n_bent <= 1 or (n_early == 0 and n_bent == m)):
                    search_interval(one, lo, hi, n_early, n_bent, is_high, is_inside)
                hi = lo if n_bent > 0 else 0.0
                while n_early > 0 and one.n[n_early - 1] >= hi:
                    n_early -= 1
                while n_bent > 0 and 0.5 * (one.n[n_bent - 1] + 1.0) >= hi:
                    n_bent -= 1


@kernel
def add_up(one: Search) -> None:
    """Fill terms, prefix and suffix, and what a hyperbola leaves of each prefix and a constant of each suffix."""
    m, term = len(one.n), one.terms
    for i in range(m):
        x, z = 1.0 / one.n[i], one.w[i] * one.rate[i]
        y, v = 1.0 - x, z * one.rate[i]
        term[i, W], term[i, ZX], term[i, ZY] = one.w[i], z * x, z * y
        term[i, XX], term[i, XY], term[i, YY] = v * x * x, v * x * y, v * y * y
        for k in range(LEFT):
            one.prefix[i + 1, k] = one.prefix[i, k] + one.terms[i, k]
        one.prefix[i + 1, LEFT] = left_by_hyperbola(one.prefix[i + 1])
    for i in range(m - 1, -1, -1):
        for k in range(LEFT):
            one.suffix[i, k] = one.suffix[i + 1, k] + one.terms[i, k]
        flat = one.suffix[i]
        one.suffix[i, LEFT] = max(flat[W] - (flat[ZX] + flat[ZY]) ** 2 / (flat[XX] + 2.0 * flat[XY] + flat[YY]), 0.0)


@kernel
def left_by_hyperbola(sums: Floats) -> float:
    """What the best hyperbola X x + Y y leaves of the squares."""
    _, _, gain, is_determined = solve(sums[YY], sums[XY], sums[XX], sums[ZY], sums[ZX])
    return max(sums[W] - gain, 0.0) if is_determined else 0.0


@kernel
def search_interval(
    one: Search, lo: float, hi: float, n_early: int, n_bent: int, is_high: bool, is_inside: bool
) -> None:
    """Offer the best of A between two breakpoints, inside or else at the upper one and on the edges of the cone.

    With A = lo + h u given, (F, s) are least squares of sums that are polynomials of u.
    """
    early, bent, flat, g, is_last = one.prefix[n_early], one.middle, one.suffix[n_bent], one.gram, hi == np.inf
    # No curve does better than a hyperbola on each piece before the bend, and a constant behind it. The second piece is
    # added up afresh: differences of prefixes would lose digits.
    most = one.best[ERROR] + SCREENING_LOSS * one.best[TOTAL] - flat[LEFT]
    if early[LEFT] > most:
        return
    if n_early == 0:
        bent = one.prefix[n_bent]
    else:
        bent[:] = 0.0
        for i in range(n_early, n_bent):
            for k in range(LEFT):
                bent[k] += one.terms[i, k]
        bent[LEFT] = left_by_hyperbola(bent) if n_bent - n_early > 2 else 0.0
    if early[LEFT] + bent[LEFT] > most:
        return
    flat_v, flat_z = flat[XX] + 2.0 * flat[XY] + flat[YY], flat[ZX] + flat[ZY]
    if n_bent == 0:
        offer(one, flat_z * flat_z / flat_v, flat_z / flat_v, 0.0, 1.0, is_high)
        return
    # In x = 1/n and y = 1 - x the F of the second piece is F (x + y), and its s is s ((2A - 2) x - y).
    h, c = lo if is_last else hi - lo, 2.0 * lo - 2.0
    bent_vx, bent_vy = bent[XX] + bent[XY], bent[XY] + bent[YY]
    g[G11, 0], g[G11, 1] = lo * lo * early[XX] + bent_vx + bent_vy + flat_v, 2.0 * lo * h * early[XX]
    g[G11, 2] = h * h * early[XX]
    g[G12, 0], g[G12, 1] = lo * early[XY] + c * bent_vx - bent_vy, h * (early[XY] + 2.0 * bent_vx)
    g[G22, 0] = early[YY] + c * (c * bent[XX] - 2.0 * bent[XY]) + bent[YY]
    g[G22, 1], g[G22, 2] = 4.0 * h * (c * bent[XX] - bent[XY]), 4.0 * h * h * bent[XX]
    g[G1, 0], g[G1, 1] = lo * early[ZX] + bent[ZX] + bent[ZY] + flat_z, h * early[ZX]
    g[G2, 0], g[G2, 1] = early[ZY] + c * bent[ZX] - bent[ZY], 2.0 * h * bent[ZX]
    if is_inside and n_early > 0:
        search_inside(one, lo, h, is_high)
    elif is_inside:
        # Without the first piece: a hyperbola before the bend, and a constant behind it.
        level, t1_s, _, is_determined = solve(bent[YY], bent[XY], bent[XX], bent[ZY], bent[ZX])
        u = (0.5 * ((t1_s - level) / (flat_z / flat_v - level) + 1.0) - lo) / h
        if is_determined and 0.0 < u < 1.0:
            offer_clamped(one, u, lo + h * u, is_high)
    else:
        search_edges(one, lo, hi, h, is_high)


@kernel
def search_edges(one: Search, lo: float, hi: float, h: float, is_high: bool) -> None:
    """Offer the upper end, and the best A on the edges of the cone.

    There T = F (x + edge y), and what F explains is largest at one u.
    """
    g, is_last = one.gram, hi == np.inf
    for edge in (0.0, 0.5):
        z, dz = g[G1, 0] + edge * g[G2, 0], g[G1, 1] + edge * g[G2, 1]
        v = g[G11, 0] + edge * (2.0 * g[G12, 0] + edge * g[G22, 0])
        dv = g[G11, 1] + edge * (2.0 * g[G12, 1] + edge * g[G22, 1])
        u = (z * dv - 2.0 * dz * v) / (dz * dv - 2.0 * z * (g[G11, 2] + edge * edge * g[G22, 2]))
        if u > 0.0 and (u <= 1.0 or is_last):
            offer_clamped(one, u, lo + h * u, is_high)
    if not is_last:
        offer_clamped(one, 1.0, hi, is_high)
    elif is_high:
        # The limit, linear speedup.
        zx, xx = one.prefix[len(one.n), ZX], one.prefix[len(one.n), XX]
        offer(one, zx * zx / xx, 0.0, zx / xx, np.inf, True)


@kernel
def search_inside(one: Search, lo: float, h: float, is_high: bool) -> None:
    """Offer what lies inside the interval and the cone.

    F and s explain N/D with N = g1^2 G22 - 2 g1 g2 G12 + g2^2 G11 and D = G11 G22 - G12^2, both of degree 4. It is
    largest where N'D - ND', of degree 6, falls through zero.
    """
    g, explained, whole, pair, slope = one.gram, one.products[0], one.products[1], one.products[2], one.slopes[0]
    explained[:], whole[:], slope[:] = 0.0, 0.0, 0.0
    for first, second, third, factor in ((G1, G1, G22, 1.0), (G1, G2, G12, -2.0), (G2, G2, G11, 1.0)):
        pair[:] = 0.0
        add_product(g[first], g[second], factor, pair)
        add_product(pair, g[third], 1.0, explained)
    add_product(g[G11], g[G22], 1.0, whole)
    add_product(g[G12], g[G12], -1.0, whole)
    for i in range(5):
        for j in range(5):
            if i != j:
                slope[i + j - 1] += (i - j) * explained[i] * whole[j]
    for k in range(falling_roots(one.slopes, one.roots)):
        offer_clamped(one, one.roots[k], lo + h * one.roots[k], is_high)


@kernel
def offer_clamped(one: Search, u: float, A: float, is_high: bool) -> None:
    """Least squares in (F, s) at one A, kept in the cone 0 <= s <= F/2: its better edge where it is left."""
    g = one.gram
    g11, g22 = g[G11, 0] + u * (g[G11, 1] + u * g[G11, 2]), g[G22, 0] + u * (g[G22, 1] + u * g[G22, 2])
    g12, g1, g2 = g[G12, 0] + u * g[G12, 1], g[G1, 0] + u * g[G1, 1], g[G2, 0] + u * g[G2, 1]
    flat, s, gain, is_determined = solve(g11, g12, g22, g1, g2)
    if not (is_determined and flat > 0.0 and 0.0 <= s <= 0.5 * flat):
        edge, slope = g11 + g12 + 0.25 * g22, g1 + 0.5 * g2
        flat, s, gain = g1 / g11, 0.0, g1 * g1 / g11
        if slope * slope / edge > gain:
            flat, gain = slope / edge, slope * slope / edge
            s = 0.5 * flat
    offer(one, gain, flat, s, A, is_high)


@kernel
def offer(one: Search, gain: float, flat: float, s: float, A: float, is_high: bool) -> None:
    """Keep a candidate if it beats the best: screened by the squares it explains, decided by residuals.

    Separate curves may fit equally well, such as two through the same two sizes before a plateau: of those the one with
    the lowest A is kept, and the highest A remembered.
    """
    best = one.best
    if not best[TOTAL] - gain <= best[ERROR] + SCREENING_LOSS * best[TOTAL]:
        return
    f = 0.0
    for i in range(len(one.n)):
        error = 1.0 - curve(one.n[i], flat, s, A, is_high) * one.rate[i]
        f += one.w[i] * error * error
    rounding = TIE * best[ERROR] + TIE_SHARE * best[TOTAL]
    if not f <= best[ERROR] + rounding:
        return
    is_tie = f >= best[ERROR] - rounding
    best[HIGHEST] = max(best[HIGHEST], A) if is_tie else A
    if not (is_tie and best[AVG] <= A):
        best[ERROR], best[FLAT], best[BENT], best[AVG] = f, flat, s, A


@kernel
def curve(n: float, flat: float, s: float, A: float, is_high: bool) -> float:
    """T(n) = F x + s y; linear speedup, the limit of an infinite A, has T(1) in the place of s."""
    if np.inf == A:
        return s / n
    if n <= A and not is_high:
        return flat * A / n + s * (1.0 - 1.0 / n)
    return flat + s * max((2.0 * A - 1.0) / n - 1.0, 0.0)


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
    return (g1 - second * g12) / g11, second, g1 * g1 / g11 + second * rest, True


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


def fit_exactly(
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, is_high: bool
) -> dict[str, Floats | Array]:
    """Columns of FITS of series of three or more sizes: parameters in seconds, the range of A where it is open.

    Equal fits tie up to rounding, and an unidentified answer must never pass for a determined one: so what is open is
    read off the curve's shape over the sizes observed, not off the candidate that won. Of equal fits the one with the
    lowest A is reported.
    """
    first, last = offsets[:-1], offsets[1:] - 1
    unit = runtime_s[first]
    found = np.full((first.size, TOTAL + 1), np.nan)
    found[:, TOTAL] = np.add.reduceat(weights, first)
    found[:, ERROR] = 2.0 * found[:, TOTAL]
    n_points = np.diff(offsets)
    terms, prefix, suffix = np.zeros((3, n_points.max() + 1, LEFT + 1))
    every = Search(
        procs, np.repeat(unit, n_points) / runtime_s, weights, terms, prefix, suffix, np.zeros(LEFT + 1),
        np.zeros((5, 3)), np.zeros((3, 5)), np.zeros((DEGREE + 1, DEGREE + 1)), np.zeros(DEGREE), found,
    )  # fmt: skip
    search_all(offsets, every, is_high)
    best, ends = found.T.copy(), (procs[first], procs[first + 1], procs[last])
    best[FLAT : BENT + 1] *= unit
    cases = (_high_cases if is_high else _low_cases)(*(*best[FLAT:TOTAL], *ends))
    # Of each series the first case that holds.
    holds, words, *values = zip(*cases, strict=True)
    t1_s, A, sigma, highest = (np.select(holds, one, np.nan) for one in values)
    return {
        "wssre": best[ERROR], "t1_s": t1_s, "tinf_s": t1_s / A, "avg_parallelism": A, "sigma": sigma,
        "avg_parallelism_lo": np.where(np.isnan(highest), np.nan, A), "avg_parallelism_hi": np.maximum(A, highest),
        "status": np.select(holds, words, FitStatus.BAD_VALUES),
    }  # fmt: skip


# Where it holds: status, T(1) in s, the A reported, sigma; the highest A that fits as well, NaN for no other.
Case = tuple[Bools, FitStatus, Floats, Floats | float, Floats | float, Floats | float]


def _low_cases(
    flat: Floats, s: Floats, A: Floats, highest: Floats, first: Floats, second: Floats, last: Floats
) -> list[Case]:
    """The first, second and last size tell which pieces have sizes."""
    s = np.where(s <= SAME * SAME * flat, 0.0, s)
    t1_s, sigma, bend = flat * A, np.minimum(2.0 * s / flat, 1.0), np.where(s == 0.0, A, 2.0 * A - 1.0)
    # On the slope T(1) and s are determined, A is not: from n_M to T(1)/2s, where sigma = 1.
    is_tail, tail_highest = _reaches(A, last), np.where(s > 0.0, t1_s / (2.0 * s), np.inf)
    # One size off the plateau: with r = T(n_1)/T(inf), A falls as sigma rises; n_1 r - (n_1 - 1)/2 at sigma = 1.
    reach = first * downey_low_s(first, A, A, 2.0 * s / flat)
    lone = reach - 0.5 * (first - 1.0)
    lone_highest = np.where(_reaches(second, reach), reach, 0.5 * (second + 1.0))
    is_lone = _reaches(second, bend) & _reaches(second, 2.0 * lone - 1.0)
    # Every size in piece 2, T = level + b/n with level = F - s, b = s (2A - 1): two numbers, three unknowns.
    level, b = flat - s, s * (2.0 * A - 1.0)
    bent = np.maximum(0.5 * (last + 1.0), 0.5 * (b / level + 1.0))
    s_bent = b / (2.0 * bent - 1.0)
    flat_bent = level + s_bent
    sigma_bent = np.minimum(2.0 * s_bent / flat_bent, 1.0)
    is_bent = ~_reaches(second, bend) & _reaches(first, A) & _reaches(2.0 * A - 1.0, last) & ~_reaches(bent, first)
    return [
        *_flat(_reaches(first, bend), flat, first, first, 0.0),
        (is_tail & _reaches(last, tail_highest), FitStatus.AT_BOUND, t1_s, A, 1.0, np.nan),
        (is_tail, FitStatus.TAIL_UNIDENTIFIED, t1_s, last, 2.0 * s * last / t1_s, tail_highest),
        (is_lone, FitStatus.HEAD_UNIDENTIFIED, flat * lone, lone, 1.0, lone_highest),
        (is_bent, FitStatus.HEAD_UNIDENTIFIED, flat_bent * bent, bent, sigma_bent, first),
        (highest > A * (1.0 + APART), FitStatus.RUNNER_UP, t1_s, A, sigma, highest),
        *_determined((sigma <= SAME) | _reaches(sigma, 1.0), t1_s, A, sigma),
    ]


def _high_cases(
    flat: Floats, s: Floats, A: Floats, _: Floats, first: Floats, second: Floats, last: Floats
) -> list[Case]:
    """As T = a + b/min(n, N*)."""
    plateau = 2.0 * A - 1.0
    a, b = np.where(np.isinf(A), 0.0, flat - s), np.where(np.isinf(A), s, s * plateau)
    t1_s, sigma = a + b, np.maximum(a * plateau / b, 1.0)
    # On the slope a and b are determined, N* is not: from the larger of n_M and b/a (sigma = 1) to Amdahl's law.
    is_tail, earliest = _reaches(plateau, last), np.maximum(last, b / a)
    sigma_tail = np.maximum(a * earliest / b, 1.0)
    # One size off the plateau: any N* from n_1 (2r - 1), where sigma = 1, to n_2, with r = T(n_1)/T(inf).
    reach = first * (a + b / first) / flat
    is_lone = _reaches(second, plateau) & ~_reaches(2.0 * reach - first, second)
    step = flat * (reach / first - 1.0) / (second / first - 1.0)
    lone_s, lone_highest = flat + step * (second - 1.0), reach - 0.5 * (first - 1.0)
    return [
        *_flat((b <= SAME * SAME * a) | _reaches(first, plateau), flat, first, 0.5 * (first + 1.0), 1.0),
        (is_tail & (a <= TIE * b), FitStatus.TAIL_UNIDENTIFIED, t1_s, np.inf, 1.0, np.inf),
        (is_tail, FitStatus.TAIL_UNIDENTIFIED, t1_s, t1_s / (a + b / earliest), sigma_tail, t1_s / a),
        (is_lone, FitStatus.HEAD_UNIDENTIFIED, lone_s, lone_s / flat, (flat - step) / step, lone_highest),
        *_determined(_reaches(1.0, sigma), t1_s, t1_s / flat, sigma),
    ]


def _flat(holds: Bools, t_s: Floats, first: Floats, highest: Floats, sigma: float) -> list[Case]:
    """A constant: A = 1, or anything up to `highest` where one processor was not observed."""
    return [
        (holds & _reaches(1.0, first), FitStatus.AT_BOUND, t_s, 1.0, sigma, np.nan),
        (holds, FitStatus.HEAD_UNIDENTIFIED, t_s, 1.0, sigma, highest),
    ]


def _determined(is_bound: Bools, t1_s: Floats, A: Floats, sigma: Floats) -> list[Case]:
    return [
        (is_bound, FitStatus.AT_BOUND, t1_s, A, sigma, np.nan),
        (~is_bound, FitStatus.OK, t1_s, A, sigma, np.nan),
    ]


def _reaches(value: Floats | float, limit: Floats | float) -> Bools:
    """value >= limit, up to rounding."""
    return np.asarray(value >= limit * (1.0 - SAME))
