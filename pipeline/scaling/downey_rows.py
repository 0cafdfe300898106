"""From an optimum to the columns of FITS: parameters in seconds, status, the range of A where the data leave it open.

What is open is read off the curve's shape over the sizes observed, not off the candidate that won: equal fits tie up
to rounding, and an unidentified answer must never pass for a determined one. Of equal fits the one with the lowest A
is reported; derivations in each case are in terms of exact-fit.md, L1 and H1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Floats
from pipeline.scaling.downey_sums import HIGHEST, P1, P2, P3, SAME, F
from pipeline.scaling.series import STATUS_CODE, Codes, FitStatus

OK = STATUS_CODE[FitStatus.OK]
TAIL_UNIDENTIFIED = STATUS_CODE[FitStatus.TAIL_UNIDENTIFIED]
HEAD_UNIDENTIFIED = STATUS_CODE[FitStatus.HEAD_UNIDENTIFIED]
AT_BOUND = STATUS_CODE[FitStatus.AT_BOUND]
RUNNER_UP = STATUS_CODE[FitStatus.RUNNER_UP]

# How far apart, relatively, two A that fit equally well make two curves.
APART = 1e-6

Row = tuple[dict[str, Floats], Codes]
"""Columns of FITS by name, and status codes, of the series that were fitted."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Of each series the first two sizes and the last, the same where it has one only; the first runtime (s)."""

    first: Floats
    second: Floats
    last: Floats
    scale_s: Floats


@dataclass(frozen=True, slots=True)
class _Case:
    """Where it holds: status, T(1) in s, the A reported, sigma; the highest A that fits as well where A is open."""

    holds: Bools
    status: int
    t1_s: Floats
    A: Floats | float
    sigma: Floats | float
    highest: Floats | float = np.nan


def _row(wssre: Floats, cases: Sequence[_Case]) -> Row:
    """The columns of the first case that holds, series by series."""
    t1_s, A, sigma, highest = np.full((4, wssre.size), np.nan)
    status = np.full(wssre.size, OK, np.int8)
    for case in reversed(cases):
        np.copyto(t1_s, case.t1_s, where=case.holds)
        np.copyto(A, case.A, where=case.holds)
        np.copyto(sigma, case.sigma, where=case.holds)
        np.copyto(highest, case.highest, where=case.holds)
        status[case.holds] = case.status
    columns = {
        "wssre": wssre, "t1_s": t1_s, "tinf_s": t1_s / A, "avg_parallelism": A, "sigma": sigma,
        "avg_parallelism_lo": np.where(np.isnan(highest), np.nan, A), "avg_parallelism_hi": np.maximum(A, highest),
    }  # fmt: skip
    return columns, status


def _reaches(value: Floats | float, limit: Floats | float) -> Bools:
    """value >= limit, up to rounding."""
    return np.asarray(value >= limit * (1.0 - SAME))


def _flat(holds: Bools, t_s: Floats, ends: Ends, highest: Floats, sigma: float) -> list[_Case]:
    """A constant: A = 1, or anything up to `highest` where one processor was not observed."""
    return [
        _Case(holds & _reaches(1.0, ends.first), AT_BOUND, t_s, 1.0, sigma),
        _Case(holds, HEAD_UNIDENTIFIED, t_s, 1.0, sigma, highest),
    ]


def low_row(best: Floats, ends: Ends) -> Row:
    """From (tau, s, A) of search_low."""
    tau, s, A = best[:, P1] * ends.scale_s, best[:, P2] * ends.scale_s, best[:, P3]
    first, second, last = ends.first, ends.second, ends.last
    with np.errstate(all="ignore"):
        s = np.where(s <= SAME * SAME * tau, 0.0, s)
        sigma = np.minimum(2.0 * s / tau, 1.0)
        useful = np.where(s == 0.0, A, 2.0 * A - 1.0)
        # L1: T(1) and s are determined, A is not: from n_M to T(1)/2s, where sigma = 1.
        t1_s, is_tail = tau * A, _reaches(A, last)
        tail_highest = np.where(s > 0.0, t1_s / (2.0 * s), np.inf)
        # One size off the plateau: with r = T(n_1)/T(inf), A falls as sigma rises; n_1 r - (n_1 - 1)/2 at sigma = 1.
        ratio = _low_curve(first, tau, s, A) / tau
        lone = first * ratio - 0.5 * (first - 1.0)
        lone_highest = np.where(_reaches(second, first * ratio), first * ratio, 0.5 * (second + 1.0))
        has_one = _reaches(second, useful)
        # Every size in piece 2, T = level + b/n with level = tau - s, b = s (2A - 1): two numbers, three unknowns.
        level, b = tau - s, s * (2.0 * A - 1.0)
        bent = np.maximum(0.5 * (last + 1.0), 0.5 * (b / level + 1.0))
        s_bent = b / (2.0 * bent - 1.0)
        tau_bent = level + s_bent
        bends = ~has_one & _reaches(first, A) & _reaches(2.0 * A - 1.0, last) & ~_reaches(bent, first)
        sigma_bent = np.minimum(2.0 * s_bent / tau_bent, 1.0)
        is_bound = (sigma <= SAME) | _reaches(sigma, 1.0)
        return _row(
            best[:, F],
            [
                *_flat(_reaches(first, useful), tau, ends, first, 0.0),
                _Case(is_tail & _reaches(last, tail_highest), AT_BOUND, t1_s, A, 1.0),
                _Case(is_tail, TAIL_UNIDENTIFIED, t1_s, last, 2.0 * s * last / t1_s, tail_highest),
                _Case(has_one & _reaches(second, 2.0 * lone - 1.0), HEAD_UNIDENTIFIED, tau * lone, lone, 1.0,
                      lone_highest),
                _Case(bends, HEAD_UNIDENTIFIED, tau_bent * bent, bent, sigma_bent, first),
                _Case(best[:, HIGHEST] > A * (1.0 + APART), RUNNER_UP, t1_s, A, sigma, best[:, HIGHEST]),
                _Case(is_bound, AT_BOUND, t1_s, A, sigma),
                _Case(~is_bound, OK, t1_s, A, sigma),
            ],
        )  # fmt: skip


def _low_curve(n: Floats, tau: Floats, s: Floats, A: Floats) -> Floats:
    """T(n) in low mode."""
    x = 1.0 / n
    bending = np.where(n < 2.0 * A - 1.0, tau + s * ((2.0 * A - 1.0) * x - 1.0), tau)
    return np.where(n <= A, tau * A * x + s * (1.0 - x), bending)


def high_row(best: Floats, ends: Ends) -> Row:
    """From (a, b, N*) of search_high."""
    a, b, plateau = best[:, P1] * ends.scale_s, best[:, P2] * ends.scale_s, best[:, P3]
    first, second, last = ends.first, ends.second, ends.last
    with np.errstate(all="ignore"):
        flat = a + b / plateau
        # H1: a and b are determined, N* is not: from the larger of n_M and b/a (sigma = 1) to infinity, Amdahl's law.
        is_tail, earliest = _reaches(plateau, last), np.maximum(last, b / a)
        sigma_tail = np.maximum(a * earliest / b, 1.0)
        # One size off the plateau: any N* from n_1 (2r - 1), where sigma = 1, to n_2, with r = T(n_1)/T(inf).
        ratio = (a + b / first) / flat
        has_one = _reaches(second, plateau) & ~_reaches(first * (2.0 * ratio - 1.0), second)
        step = flat * (ratio - 1.0) / (second / first - 1.0)
        t1_s = flat + step * (second - 1.0)
        lone_highest = first * ratio - 0.5 * (first - 1.0)
        sigma = np.maximum(a * plateau / b, 1.0)
        is_bound = _reaches(1.0, sigma)
        return _row(
            best[:, F],
            [
                *_flat((b <= SAME * SAME * a) | _reaches(first, plateau), flat, ends, 0.5 * (first + 1.0), 1.0),
                _Case(is_tail & (a <= SAME * SAME * b), TAIL_UNIDENTIFIED, a + b, np.inf, 1.0, np.inf),
                _Case(is_tail, TAIL_UNIDENTIFIED, a + b, (a + b) / (a + b / earliest), sigma_tail, (a + b) / a),
                _Case(has_one, HEAD_UNIDENTIFIED, t1_s, t1_s / flat, (flat - step) / step, lone_highest),
                _Case(is_bound, AT_BOUND, a + b, (a + b) / flat, sigma),
                _Case(~is_bound, OK, a + b, (a + b) / flat, sigma),
            ],
        )
