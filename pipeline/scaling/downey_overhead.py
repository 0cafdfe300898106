"""Downey's law with an overhead, exactly: every A where least squares can be least (exact-fit.md, one function more).

With both of Downey's modes written over one scale A, T(n) is a non-negative combination of x1 = max(A/n, 1), where
sigma = 0, x2 = max((A - 1/2)/n + 1/2, 1), where sigma = 1, and the overhead in the low mode; of 1, x2 and the overhead
in the high one. Between two values of A at which a size changes its piece both are linear in A. The overhead is not a
function of A: projected out of the runtimes and of x1 and x2, it leaves a Gram matrix that is quadratic in A, and least
squares W - N/D with N and D of degree 4, as without it. The least squares under the constraints have a continuous slope
there, so that they are least at an end, or where those of one support have a minimum: both of x1 and x2 (a root of
degree 6), or one of them (in closed form), with the overhead or without.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import called_kernel, entry_kernel, kernel
from pipeline.scaling.downey_rows import AT_BOUND, OK, Ends, Row
from pipeline.scaling.downey_sums import DEPTH, MOST, SCREENING_LOSS, TARGET, best_support
from pipeline.scaling.rational import (
    Gram,
    determinant_along,
    explained_along,
    fill_slope,
    gram_at,
    next_falling_root,
    stays_below,
    to_bernstein,
)

FAR = 1e6
"""Times the largest size: a plateau there is none."""
SOUND = 1e-9
"""A determinant below this share of its diagonal's product says nothing about what is pruned."""
BETTER, NOTHING = 1e-9, 1e-20
"""A later A must leave less by this share; squares below that share of all are rounding."""

# columns of points: size, 1/size, root of the weight over the runtime, root of the weight, overhead in that unit
N, X, SCALE, ROOT, GROWN = range(5)
# entries of found: least squares left, its A, 1 in the high mode, all squares, those beside the overhead
LEAST, BEST_A, IS_HIGH, WHOLE, BESIDE = range(5)


class OverheadWork(NamedTuple):
    """What one series after another is searched in: its points; x1 and x2 at an interval's start and along it."""

    points: Floats
    along: Floats
    beside: Floats
    found: Floats
    rows: Floats
    q: Floats
    r: Floats
    x: Floats
    answer: Floats
    slope: Floats
    bernstein: Floats
    span: Floats


@kernel
def overhead_workspace(longest: int) -> OverheadWork:
    """A workspace for series of up to `longest` sizes."""
    return OverheadWork(
        np.zeros((longest, 5)), np.zeros((5, longest)), np.zeros(longest), np.zeros(5), np.zeros((longest, MOST + 1)),
        np.zeros((longest, MOST + 1)), np.zeros((MOST, MOST + 1)), np.zeros(MOST), np.zeros(MOST), np.zeros(7),
        np.zeros((DEPTH + 2, 7)), np.zeros((DEPTH + 2, 2)),
    )  # fmt: skip


@kernel
def fill_point(k: int, n: float, t: float, w: float, grown: float, work: OverheadWork) -> None:
    """One size, its runtime in units of the first, its weight, and the overhead there."""
    point, root = work.points[k], np.sqrt(w)
    point[N], point[X], point[SCALE], point[ROOT], point[GROWN] = n, 1.0 / n, root / t, root, grown * root / t


@called_kernel
def left_at(A: float, is_high: bool, m: int, work: OverheadWork) -> float:
    """The least squares left at one A, every support tried; its coefficients in work.answer."""
    for k in range(m):
        x, scale = work.points[k, X], work.points[k, SCALE]
        work.rows[k, 0] = (1.0 if is_high else max(A * x, 1.0)) * scale
        work.rows[k, 1] = max((A - 0.5) * x + 0.5, 1.0) * scale
        work.rows[k, 2], work.rows[k, TARGET] = work.points[k, GROWN], work.points[k, ROOT]
    return float(best_support(work.rows, m, MOST, work.q, work.r, work.x, work.answer))


@called_kernel
def search(m: int, work: OverheadWork) -> None:
    """Fills found: the least A of least squares, the low mode's where both leave the same."""
    _project_runtimes(m, work)
    work.found[LEAST], last = np.inf, work.points[m - 1, N]
    for high in range(2):
        is_high = high == 1
        if not is_high:
            _offer(1.0, is_high, m, work)
        lo, n_sloped, n_unflat = 1.0, 0, 0
        end = FAR * last if is_high else last
        while lo < end:
            while n_unflat < m and 0.5 * (work.points[n_unflat, N] + 1.0) <= lo:
                n_unflat += 1
            while not is_high and n_sloped < m and work.points[n_sloped, N] <= lo:
                n_sloped += 1
            hi = 0.5 * (work.points[n_unflat, N] + 1.0) if n_unflat < m else end
            if not is_high:
                hi = min(hi, work.points[n_sloped, N])
            if n_unflat > 0:
                _search_interval(lo, hi, is_high, n_sloped, n_unflat, m, work)
            lo = hi


@kernel
def _project_runtimes(m: int, work: OverheadWork) -> None:
    """Fills beside, the runtimes without what the overhead explains, and the sums of squares with and without it."""
    grown, share, whole, left = 0.0, 0.0, 0.0, 0.0
    for k in range(m):
        grown += work.points[k, GROWN] * work.points[k, GROWN]
        share += work.points[k, GROWN] * work.points[k, ROOT]
        whole += work.points[k, ROOT] * work.points[k, ROOT]
    for k in range(m):
        work.beside[k] = work.points[k, ROOT] - share / grown * work.points[k, GROWN]
        left += work.beside[k] * work.beside[k]
    work.found[WHOLE], work.found[BESIDE] = whole, left


@kernel
def _offer(A: float, is_high: bool, m: int, work: OverheadWork) -> None:
    left = left_at(A, is_high, m, work)
    if left < work.found[LEAST] * (1.0 - BETTER) - NOTHING * work.found[WHOLE] or work.found[LEAST] == np.inf:
        work.found[LEAST], work.found[BEST_A], work.found[IS_HIGH] = left, A, 1.0 if is_high else 0.0


@kernel
def _fill_along(lo: float, h: float, is_high: bool, n_sloped: int, n_unflat: int, m: int, work: OverheadWork) -> None:
    """Rows of along: x1 at lo and its gain over the interval, likewise 2 (x2 - x1), over runtimes; then the target."""
    for k in range(m):
        x, scale = work.points[k, X], work.points[k, SCALE]
        is_sloped = not is_high and k < n_sloped
        work.along[0, k], work.along[1, k] = (lo * x * scale, h * x * scale) if is_sloped else (scale, 0.0)
        if is_sloped:
            work.along[2, k], work.along[3, k] = (1.0 - x) * scale, 0.0
        elif k < n_unflat:
            work.along[2, k], work.along[3, k] = ((2.0 * lo - 1.0) * x - 1.0) * scale, 2.0 * h * x * scale
        else:
            work.along[2, k], work.along[3, k] = 0.0, 0.0
        work.along[4, k] = work.points[k, ROOT]


@kernel
def _project_along(m: int, work: OverheadWork) -> None:
    """Takes from the rows of along what the overhead explains of them."""
    grown = 0.0
    for k in range(m):
        grown += work.points[k, GROWN] * work.points[k, GROWN]
    for row in range(4):
        share = 0.0
        for k in range(m):
            share += work.points[k, GROWN] * work.along[row, k]
        share /= grown
        for k in range(m):
            work.along[row, k] -= share * work.points[k, GROWN]
    for k in range(m):
        work.along[4, k] = work.beside[k]


@kernel
def _gram(m: int, along: Floats) -> Gram:
    """The Gram terms of the two functions of A whose rows stand in along."""
    a0, a1, a2, b0, b1, b2, c0, c1, c2, p0, p1, q0, q1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(m):
        u0, u1, v0, v1, y = along[0, k], along[1, k], along[2, k], along[3, k], along[4, k]
        a0, a1, a2 = a0 + u0 * u0, a1 + 2.0 * u0 * u1, a2 + u1 * u1
        b0, b1, b2 = b0 + u0 * v0, b1 + (u0 * v1 + u1 * v0), b2 + u1 * v1
        c0, c1, c2 = c0 + v0 * v0, c1 + 2.0 * v0 * v1, c2 + v1 * v1
        p0, p1, q0, q1 = p0 + u0 * y, p1 + u1 * y, q0 + v0 * y, q1 + v1 * y
    return Gram(a0, a1, a2, b0, b1, b2, c0, c1, c2, p0, p1, q0, q1)


@called_kernel
def _search_interval(
    lo: float, hi: float, is_high: bool, n_sloped: int, n_unflat: int, m: int, work: OverheadWork
) -> None:
    """Offers minima inside the interval and its upper end; points before n_unflat fall with A beyond them."""
    h, tolerance = hi - lo, SCREENING_LOSS * work.found[WHOLE]
    # Two functions of A that span the same curves throughout: what is left depends on the signs alone.
    may_win_at_end = True
    is_same = n_unflat == 1 or (n_sloped == 0 and n_unflat == m)
    for is_beside in (True, False):
        _fill_along(lo, h, is_high, n_sloped, n_unflat, m, work)
        if is_beside:
            _project_along(m, work)
        whole, gram = work.found[BESIDE if is_beside else WHOLE], _gram(m, work.along)
        explained, determinant = explained_along(gram), determinant_along(gram)
        g11, _, g22, _, _ = gram_at(1.0, gram)
        at_end = determinant[0] + determinant[1] + determinant[2] + determinant[3] + determinant[4]
        is_sound = determinant[0] > SOUND * gram.a0 * gram.c0 and at_end > SOUND * g11 * g22
        # With the overhead of either sign no support leaves less: nothing here can win.
        if is_sound and stays_below(explained, determinant, whole - work.found[LEAST] - tolerance):
            if is_beside:
                return
            continue
        if is_beside and at_end > SOUND * g11 * g22:
            n0, n1, n2, n3, n4 = explained
            may_win_at_end = whole - (n0 + n1 + n2 + n3 + n4) / at_end <= work.found[LEAST] + tolerance
        _offer_single(gram.a0, gram.a1, gram.a2, gram.p0, gram.p1, whole, lo, h, is_high, m, work)
        _offer_single(
            gram.a0 + gram.b0 + 0.25 * gram.c0, gram.a1 + gram.b1 + 0.25 * gram.c1, gram.a2 + gram.b2 + 0.25 * gram.c2,
            gram.p0 + 0.5 * gram.q0, gram.p1 + 0.5 * gram.q1, whole, lo, h, is_high, m, work,
        )  # fmt: skip
        if not is_same:
            fill_slope(explained, determinant, work.slope)
            _offer_roots(gram, whole, lo, h, is_high, m, work)
    if may_win_at_end:
        _offer(hi, is_high, m, work)


@kernel
def _offer_single(
    a0: float, a1: float, a2: float, p0: float, p1: float, whole: float, lo: float, h: float, is_high: bool, m: int,
    work: OverheadWork,
) -> None:  # fmt: skip
    """Where one function alone, of squares a and product p with the target, explains most inside the interval."""
    u = (2.0 * p1 * a0 - p0 * a1) / (2.0 * p0 * a2 - p1 * a1)
    if not 0.0 < u < 1.0:
        return
    product = p0 + p1 * u
    left = whole - product * product / (a0 + u * (a1 + u * a2))
    if product > 0.0 and left <= work.found[LEAST] + SCREENING_LOSS * work.found[WHOLE]:
        _offer(lo + h * u, is_high, m, work)


@kernel
def _offer_roots(gram: Gram, whole: float, lo: float, h: float, is_high: bool, m: int, work: OverheadWork) -> None:
    """Where both functions together explain most inside the interval."""
    to_bernstein(work.slope, work.bernstein[0])
    work.span[0, 0], work.span[0, 1] = 0.0, 1.0
    top = 1
    while True:
        u, top = next_falling_root(work.slope, work.bernstein, work.span, top)
        if u < 0.0:
            return
        g11, g12, g22, g1, g2 = gram_at(u, gram)
        left = whole - (g1 * g1 * g22 - 2.0 * g1 * g2 * g12 + g2 * g2 * g11) / (g11 * g22 - g12 * g12)
        if not left > work.found[LEAST] + SCREENING_LOSS * work.found[WHOLE]:
            _offer(lo + h * u, is_high, m, work)


LINEAR, LOGARITHMIC = 0, 1


@kernel
def overhead(n: float, kind: int) -> float:
    """n - 1, or log2 n."""
    return n - 1.0 if kind == LINEAR else np.log2(n)


@entry_kernel
def downey_overhead_batch(
    chosen: Ints, offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, found: Floats, kind: int
) -> None:
    """Downey's law of either mode with an overhead: the squares left, the three coefficients, A, and the mode."""
    work = overhead_workspace(np.diff(offsets).max())
    for i in chosen:
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        for k in range(len(n)):
            fill_point(k, n[k], t[k] / t[0], w[k], overhead(n[k], kind), work)
        search(len(n), work)
        A, is_high = work.found[BEST_A], work.found[IS_HIGH] > 0.0
        found[i, 0] = left_at(A, is_high, len(n), work)
        found[i, 1 : MOST + 1] = work.answer
        found[i, MOST + 1], found[i, MOST + 2] = A, work.found[IS_HIGH]


def downey_overhead_row(found: Floats, ends: Ends) -> Row:
    """From p, s and c, A and the mode; at_bound where the overhead or sigma is."""
    p, s, c = found[:, 1:4].T * ends.scale_s
    A, is_high, is_nothing = found[:, 4], found[:, 5] > 0.0, p + s <= 0.0
    with np.errstate(all="ignore"):
        t1_s = np.where(is_high, p + s * A, p * A + s * A)
        parallelism = np.where(is_high, t1_s / (p + s), A)
        sigma = np.where(is_high, np.where(s > 0.0, 1.0 + 2.0 * p / s, 1.0), s / (p + s))
        tinf_s = np.where(is_nothing | (c > 0.0), np.nan, t1_s / parallelism)
    columns = {
        "wssre": found[:, 0], "t1_s": np.where(is_nothing, 0.0, t1_s), "tinf_s": tinf_s, "overhead_s": c,
        "avg_parallelism": np.where(is_nothing, 1.0, parallelism), "sigma": np.where(is_nothing, 0.0, sigma),
    }  # fmt: skip
    is_ok = ~is_nothing & (c > 0.0) & (s > 0.0) & (p > 0.0) & (A > 1.0)
    return columns, np.where(is_ok, OK, AT_BOUND).astype(np.int8)
