"""The objective of Downey's law along one interval of A, as the rational function W - N(u)/D(u) (exact-fit.md, L5).

A = lo + h u. G11 and G22 are quadratic in u, g1, g2 and G12 linear; N and D are of degree 4. Minima lie where
p = N'D - ND', of degree 6, falls through zero.
"""

from typing import NamedTuple

from pipeline.arrays import Floats
from pipeline.kernels import kernel
from pipeline.scaling.downey_sums import DEPTH, FLAT_V, FLAT_Z, XX, XY, YY, ZX, ZY

Quartic = tuple[float, float, float, float, float]


class Gram(NamedTuple):
    """Coefficients in u: a of G11, b of G12, c of G22, p of g1, q of g2, each from the constant term up."""

    a0: float
    a1: float
    a2: float
    b0: float
    b1: float
    c0: float
    c1: float
    c2: float
    p0: float
    p1: float
    q0: float
    q1: float


@kernel
def gram_along(
    lo: float,
    h: float,
    n_sloped: int,
    n_unflat: int,
    middle: tuple[float, float, float, float, float, float],
    prefix: Floats,
    suffix: Floats,
) -> Gram:
    """The Gram terms of (tau, s) on an interval of A from lo to lo + h; middle: the sums over piece 2."""
    _, v0, v1, v2, z0, z1 = middle
    xx, xy, yy = prefix[n_sloped, XX], prefix[n_sloped, XY], prefix[n_sloped, YY]
    zx, zy = prefix[n_sloped, ZX], prefix[n_sloped, ZY]
    bend = 2.0 * lo - 1.0
    return Gram(
        lo * lo * xx + v0 + suffix[n_unflat, FLAT_V],
        2.0 * lo * h * xx,
        h * h * xx,
        lo * xy + bend * v1 - v0,
        h * (xy + 2.0 * v1),
        yy + bend * (bend * v2 - 2.0 * v1) + v0,
        4.0 * h * (bend * v2 - v1),
        4.0 * h * h * v2,
        lo * zx + z0 + suffix[n_unflat, FLAT_Z],
        h * zx,
        zy + bend * z1 - z0,
        2.0 * h * z1,
    )


@kernel
def gram_at(u: float, g: Gram) -> Quartic:
    """G11, G12, G22, g1, g2 at one u."""
    return (
        g.a0 + u * (g.a1 + u * g.a2),
        g.b0 + u * g.b1,
        g.c0 + u * (g.c1 + u * g.c2),
        g.p0 + u * g.p1,
        g.q0 + u * g.q1,
    )


@kernel
def explained_along(g: Gram) -> Quartic:
    """N = g1^2 G22 - 2 g1 g2 G12 + g2^2 G11, from the constant term up."""
    pp0, pp1, pp2 = g.p0 * g.p0, 2.0 * g.p0 * g.p1, g.p1 * g.p1
    qq0, qq1, qq2 = g.q0 * g.q0, 2.0 * g.q0 * g.q1, g.q1 * g.q1
    r0, r1, r2 = -2.0 * g.p0 * g.q0, -2.0 * (g.p0 * g.q1 + g.p1 * g.q0), -2.0 * g.p1 * g.q1
    return (
        pp0 * g.c0 + r0 * g.b0 + qq0 * g.a0,
        pp0 * g.c1 + pp1 * g.c0 + r0 * g.b1 + r1 * g.b0 + qq0 * g.a1 + qq1 * g.a0,
        pp0 * g.c2 + pp1 * g.c1 + pp2 * g.c0 + r1 * g.b1 + r2 * g.b0 + qq0 * g.a2 + qq1 * g.a1 + qq2 * g.a0,
        pp1 * g.c2 + pp2 * g.c1 + r2 * g.b1 + qq1 * g.a2 + qq2 * g.a1,
        pp2 * g.c2 + qq2 * g.a2,
    )


@kernel
def determinant_along(g: Gram) -> Quartic:
    """D = G11 G22 - G12^2, from the constant term up."""
    return (
        g.a0 * g.c0 - g.b0 * g.b0,
        g.a0 * g.c1 + g.a1 * g.c0 - 2.0 * g.b0 * g.b1,
        g.a0 * g.c2 + g.a1 * g.c1 + g.a2 * g.c0 - g.b1 * g.b1,
        g.a1 * g.c2 + g.a2 * g.c1,
        g.a2 * g.c2,
    )


@kernel
def stays_below(explained: Quartic, determinant: Quartic, limit: float) -> bool:
    """Whether N/D < limit on all of [0, 1], by the Bernstein coefficients of limit D - N; False where unsure."""
    n0, n1, n2, n3, n4 = explained
    d0, d1, d2, d3, d4 = determinant
    b0, b1, b2 = limit * d0 - n0, (limit * d1 - n1) / 4.0, (limit * d2 - n2) / 6.0
    b3, b4 = (limit * d3 - n3) / 4.0, limit * d4 - n4
    b4 += 4.0 * (b3 + b1) + 6.0 * b2 + b0
    b3 += 3.0 * (b2 + b1) + b0
    b2 += 2.0 * b1 + b0
    b1 += b0
    return b0 > 0.0 and b1 > 0.0 and b2 > 0.0 and b3 > 0.0 and b4 > 0.0


@kernel
def fill_slope(explained: Quartic, determinant: Quartic, slope: Floats) -> None:
    """Coefficients of p = N'D - ND' (the u^7 terms cancel), the sign of -df/du."""
    n0, n1, n2, n3, n4 = explained
    d0, d1, d2, d3, d4 = determinant
    slope[0] = n1 * d0 - n0 * d1
    slope[1] = 2.0 * (n2 * d0 - n0 * d2)
    slope[2] = 3.0 * (n3 * d0 - n0 * d3) + (n2 * d1 - n1 * d2)
    slope[3] = 4.0 * (n4 * d0 - n0 * d4) + 2.0 * (n3 * d1 - n1 * d3)
    slope[4] = 3.0 * (n4 * d1 - n1 * d4) + (n3 * d2 - n2 * d3)
    slope[5] = 2.0 * (n4 * d2 - n2 * d4)
    slope[6] = n4 * d3 - n3 * d4


DEGREE = 6
NEWTON_STEPS = 60


@kernel
def to_bernstein(p: Floats, b: Floats) -> None:
    """Coefficients b on [0, 1] of the polynomial sum p[i] u^i: differences p[i]/C(6, i), summed up."""
    b[0], b[1], b[2], b[3] = p[0], p[1] / 6.0, p[2] / 15.0, p[3] / 20.0
    b[4], b[5], b[6] = p[4] / 15.0, p[5] / 6.0, p[6]
    for k in range(DEGREE):
        for i in range(DEGREE, k, -1):
            b[i] += b[i - 1]


@kernel
def sign_changes(b: Floats) -> int:
    """Sign changes along the coefficients: at least the number of roots inside.

    Zero counts as negative, so that a root exactly where an interval was split falls to one of its halves.
    """
    changes = 0
    for i in range(DEGREE):
        changes += (b[i] > 0.0) != (b[i + 1] > 0.0)
    return changes


@kernel
def split(stack: Floats, row: int) -> None:
    """De Casteljau at one half: the left half goes to row + 1, the right half stays in row."""
    for k in range(DEGREE):
        stack[row + 1, k] = stack[row, 0]
        for i in range(DEGREE - k):
            stack[row, i] = 0.5 * (stack[row, i] + stack[row, i + 1])
    stack[row + 1, DEGREE] = stack[row, 0]


@kernel
def falling_root(p: Floats, lo: float, hi: float) -> float:
    """The root in [lo, hi] where the polynomial falls through zero, by Newton's method kept in its bracket."""
    u = 0.5 * (lo + hi)
    for _ in range(NEWTON_STEPS):
        value: float = p[DEGREE]
        slope = 0.0
        for i in range(DEGREE - 1, -1, -1):
            slope = slope * u + value
            value = value * u + p[i]
        if value > 0.0:
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
def next_falling_root(p: Floats, stack: Floats, span: Floats, top: int) -> tuple[float, int]:
    """The next root where p falls through zero, from a stack of subintervals; the stack's new height; -1 at the end.

    stack[i] holds Bernstein coefficients on span[i] = (lo, hi); begin with the whole of [0, 1] in row 0 and top = 1.
    """
    while top > 0:
        row = top - 1
        changes = sign_changes(stack[row])
        lo, hi = span[row, 0], span[row, 1]
        if changes == 0 or (changes == 1 and not stack[row, 0] > 0.0):
            top -= 1
        elif changes == 1:
            return falling_root(p, lo, hi), top - 1
        elif top > DEPTH:
            return 0.5 * (lo + hi), top - 1
        else:
            split(stack, row)
            middle = 0.5 * (lo + hi)
            span[row + 1, 0], span[row + 1, 1] = lo, middle
            span[row, 0] = middle
            top += 1
    return -1.0, 0
