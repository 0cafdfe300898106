"""From an optimum to the columns of FITS: parameters in seconds, status, the range of A where the data leave it open.

What is open is read off the curve's shape over the sizes observed, not off the candidate that won: equal fits tie up
to rounding, and an unidentified answer must never pass for a determined one. Of equal fits the one with the lowest A
is reported; derivations in each case are in terms of exact-fit.md, L1 and H1.
"""

import numpy as np

from pipeline.arrays import Floats
from pipeline.kernels import kernel
from pipeline.scaling.solvers.series import STATUS_CODE, FitStatus
from pipeline.scaling.solvers.sums import HIGHEST, P1, P2, P3, SAME, F, N, Workspace


@kernel
def downey(n: float, A: float, sigma: float, is_high: bool) -> float:
    """T(n) in units of tau."""
    if is_high:
        plateau = A + A * sigma - sigma
        return sigma + plateau / n if n < plateau else sigma + 1.0
    if n <= A:
        return (A - 0.5 * sigma) / n + 0.5 * sigma
    if n < 2.0 * A - 1.0:
        return sigma * (A - 0.5) / n + 1.0 - 0.5 * sigma
    return 1.0


@kernel
def low_value(n: float, x: float, tau: float, s: float, A: float) -> float:
    """T(n) in low mode, x = 1/n."""
    if n <= A:
        return tau * A * x + s * (1.0 - x)
    if n < 2.0 * A - 1.0:
        return tau + s * ((2.0 * A - 1.0) * x - 1.0)
    return tau


OK = STATUS_CODE[FitStatus.OK]
TOO_FEW_POINTS = STATUS_CODE[FitStatus.TOO_FEW_POINTS]
TAIL_UNIDENTIFIED = STATUS_CODE[FitStatus.TAIL_UNIDENTIFIED]
HEAD_UNIDENTIFIED = STATUS_CODE[FitStatus.HEAD_UNIDENTIFIED]
AT_BOUND = STATUS_CODE[FitStatus.AT_BOUND]
BAD_VALUES = STATUS_CODE[FitStatus.BAD_VALUES]
RUNNER_UP = STATUS_CODE[FitStatus.RUNNER_UP]
NO_INSTANCE = STATUS_CODE[FitStatus.NO_INSTANCE]

# How far apart, relatively, two A that fit equally well make two curves.
APART = 1e-6

T1, TINF, A_, A_LO, A_HI, SIGMA, SERIAL, WSSRE, OVERHEAD, EXPONENT = range(10)


@kernel
def reaches(value: float, limit: float) -> bool:
    """value >= limit, up to rounding."""
    return value >= limit * (1.0 - SAME)


@kernel
def write(row: Floats, t1: float, A: float, sigma: float) -> None:
    """The three parameters of a Downey law and T(inf) = T(1)/A."""
    row[T1], row[TINF], row[A_], row[SIGMA] = t1, t1 / A, A, sigma


@kernel
def write_open(row: Floats, status: int, t1: float, lo: float, hi: float, sigma: float) -> int:
    """The same at the lowest A of a range, with the range; the status given."""
    write(row, t1, lo, sigma)
    row[A_LO], row[A_HI] = lo, max(lo, hi)
    return status


@kernel
def write_flat(row: Floats, t: float, first: float, hi: float, sigma: float) -> int:
    """A constant: A = 1, or anything up to hi where one processor was not observed."""
    if reaches(1.0, first):
        write(row, t, 1.0, sigma)
        return AT_BOUND
    return write_open(row, HEAD_UNIDENTIFIED, t, 1.0, hi, sigma)


@kernel
def read_low(m: int, work: Workspace, scale: float, row: Floats) -> int:
    """Fill a row from (tau, s, A) of search_low; the status's code."""
    tau, s, A = work.best[P1] * scale, work.best[P2] * scale, work.best[P3]
    row[WSSRE] = work.best[F]
    if s <= SAME * SAME * tau:
        s = 0.0
    sigma = min(2.0 * s / tau, 1.0)
    first, second, last = work.points[0, N], work.points[1, N], work.points[m - 1, N]
    useful = A if s == 0.0 else 2.0 * A - 1.0
    if reaches(first, useful):
        return write_flat(row, tau, first, first, 0.0)
    if reaches(A, last):
        return _low_open_tail(tau * A, s, A, last, row)
    if reaches(second, useful):
        status = _low_one_before_plateau(tau, s, A, first, second, row)
    elif reaches(first, A) and reaches(2.0 * A - 1.0, last):
        status = _low_only_bending(tau, s, A, first, last, row)
    else:
        status = OK
    if status != OK:
        return status
    if work.best[HIGHEST] > A * (1.0 + APART):
        return write_open(row, RUNNER_UP, tau * A, A, work.best[HIGHEST], sigma)
    write(row, tau * A, A, sigma)
    return AT_BOUND if sigma <= SAME or reaches(sigma, 1.0) else OK


@kernel
def _low_open_tail(t1: float, s: float, A: float, last: float, row: Floats) -> int:
    """L1: T(1) and s are determined, A is not: from n_M to T(1)/2s, where sigma = 1."""
    hi = t1 / (2.0 * s) if s > 0.0 else np.inf
    if reaches(last, hi):
        write(row, t1, A, 1.0)
        return AT_BOUND
    return write_open(row, TAIL_UNIDENTIFIED, t1, last, hi, 2.0 * s * last / t1)


@kernel
def _low_one_before_plateau(tau: float, s: float, A: float, first: float, second: float, row: Floats) -> int:
    """One size off the plateau: with r = T(n_1)/T(inf), A falls as sigma rises; n_1 r - (n_1 - 1)/2 at sigma = 1."""
    ratio = low_value(first, 1.0 / first, tau, s, A) / tau
    lo = first * ratio - 0.5 * (first - 1.0)
    if not reaches(second, 2.0 * lo - 1.0):
        return OK
    hi = first * ratio if reaches(second, first * ratio) else 0.5 * (second + 1.0)
    return write_open(row, HEAD_UNIDENTIFIED, tau * lo, lo, hi, 1.0)


@kernel
def _low_only_bending(tau: float, s: float, A: float, first: float, last: float, row: Floats) -> int:
    """Every size in piece 2, T = level + b/n with level = tau - s, b = s (2A - 1): two numbers for three unknowns."""
    level, b = tau - s, s * (2.0 * A - 1.0)
    lo = max(0.5 * (last + 1.0), 0.5 * (b / level + 1.0))
    if reaches(lo, first):
        return OK
    s_lo = b / (2.0 * lo - 1.0)
    tau_lo = level + s_lo
    return write_open(row, HEAD_UNIDENTIFIED, tau_lo * lo, lo, first, min(2.0 * s_lo / tau_lo, 1.0))


@kernel
def read_high(m: int, work: Workspace, scale: float, row: Floats) -> int:
    """Fill a row from (a, b, N*) of search_high; the status's code."""
    a, b, plateau = work.best[P1] * scale, work.best[P2] * scale, work.best[P3]
    row[WSSRE] = work.best[F]
    first, second, last = work.points[0, N], work.points[1, N], work.points[m - 1, N]
    if b <= SAME * SAME * a or reaches(first, plateau):
        return write_flat(row, a + b / plateau, first, 0.5 * (first + 1.0), 1.0)
    if reaches(plateau, last):
        return _high_open_tail(a, b, last, row)
    if reaches(second, plateau):
        status = _high_one_before_plateau(a, b, plateau, first, second, row)
        if status != OK:
            return status
    sigma = max(a * plateau / b, 1.0)
    write(row, a + b, (a + b) / (a + b / plateau), sigma)
    return AT_BOUND if reaches(1.0, sigma) else OK


@kernel
def _high_open_tail(a: float, b: float, last: float, row: Floats) -> int:
    """H1: a and b are determined, N* is not: from the larger of n_M and b/a (sigma = 1) to infinity, Amdahl's law."""
    if a <= SAME * SAME * b:
        return write_open(row, TAIL_UNIDENTIFIED, a + b, np.inf, np.inf, 1.0)
    plateau = max(last, b / a)
    lo, hi = (a + b) / (a + b / plateau), (a + b) / a
    return write_open(row, TAIL_UNIDENTIFIED, a + b, lo, hi, max(a * plateau / b, 1.0))


@kernel
def _high_one_before_plateau(a: float, b: float, plateau: float, first: float, second: float, row: Floats) -> int:
    """One size off the plateau: any N* from n_1 (2r - 1), where sigma = 1, to n_2, with r = T(n_1)/T(inf)."""
    flat = a + b / plateau
    ratio = (a + b / first) / flat
    if reaches(first * (2.0 * ratio - 1.0), second):
        return OK
    step = flat * (ratio - 1.0) / (second / first - 1.0)
    t1 = flat + step * (second - 1.0)
    hi = first * ratio - 0.5 * (first - 1.0)
    return write_open(row, HEAD_UNIDENTIFIED, t1, t1 / flat, hi, (flat - step) / step)
