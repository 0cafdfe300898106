"""Minima of a rational function on [0, 1]: roots of a polynomial of degree 6 in Bernstein form."""

from pipeline.core.arrays import Floats
from pipeline.core.compiled import kernel
from pipeline.fit.sums import DEPTH

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
