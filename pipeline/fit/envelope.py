"""ADEPT's envelope: which (A, sigma) two observations allow, each off by a relative error of delta at most.

A. Deshmeh, University of Windsor 2013 (ADEPT), Appendix A: T(inf) = 1 in the low mode and sigma + 1 in the high one, so
runtimes come in units of tau. Two observations n_i < n_j give both parameters in five cases, by the pieces they lie
on. Each gives a range of sigma, its ends sorted and clipped to the mode, and the range of A over all corners of
sigma's range and t_i's.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.compiled import kernel

LOW, HIGH, BOTH = 1, 2, 3
"""Modes, as bits."""

A_FROM, A_TO, SIGMA_FROM, SIGMA_TO, IS_HIGH = range(5)
SLOPE_SLOPE, SLOPE_BEND, BEND_BEND, HIGH_SLOPE_SLOPE, HIGH_SLOPE_FLAT = range(5)
N_CASES = 5
LARGEST_SIGMA = 1e9


@kernel
def most_boxes(m: int) -> int:
    """How many boxes m observations give at most: case 2 gives two for its two roots."""
    return m * (m - 1) // 2 * (N_CASES + 1)


@kernel
def derive(n: Floats, t: Floats, delta: float, modes: int, boxes: Floats) -> int:
    """Fill boxes with the ranges every pair and case allows, redundant ones dropped; how many are left."""
    count = 0
    for i in range(len(n)):
        for j in range(i + 1, len(n)):
            for case in range(N_CASES):
                if modes & (HIGH if case >= HIGH_SLOPE_SLOPE else LOW):
                    count = _add_case(case, n[i], n[j], t[i], t[j], delta, boxes, count)
    return _without_redundant(boxes, count)


@kernel
def contains(boxes: Floats, count: int, A: float, sigma: float, is_high: bool) -> bool:
    """Whether any box of that mode holds the instance."""
    for k in range(count):
        if (boxes[k, IS_HIGH] == 1.0) != is_high:
            continue
        if boxes[k, A_FROM] <= A <= boxes[k, A_TO] and boxes[k, SIGMA_FROM] <= sigma <= boxes[k, SIGMA_TO]:
            return True
    return False


@kernel
def _add_case(
    case: int, ni: float, nj: float, ti: float, tj: float, delta: float, boxes: Floats, count: int
) -> int:  # fmt: skip
    """The box of one pair in one case, or two for the roots of SLOPE_BEND; the new count."""
    for root in range(2 if case == SLOPE_BEND else 1):
        lo, hi = np.inf, -np.inf
        for corner in range(4):
            a = ti * (1.0 + (delta if corner & 1 else -delta))
            b = tj * (1.0 + (delta if corner & 2 else -delta))
            sigma = _sigma(case, root, ni, nj, a, b)
            lo, hi = min(lo, sigma), max(hi, sigma)
        is_high = case >= HIGH_SLOPE_SLOPE
        lo, hi = max(lo, 1.0 if is_high else 0.0), min(hi, LARGEST_SIGMA if is_high else 1.0)
        if lo <= hi:
            count = _add_box(case, ni, nj, ti * (1.0 - delta), ti * (1.0 + delta), lo, hi, boxes, count)
    return count


@kernel
def _sigma(case: int, root: int, ni: float, nj: float, ti: float, tj: float) -> float:
    """sigma of the curve through both points in this case."""
    if case == SLOPE_BEND:
        return _root(root, ni, nj, ti, tj)
    if case == HIGH_SLOPE_FLAT:
        return tj - 1.0
    if case == BEND_BEND:
        return 2.0 * (ni * (ti - 1.0) - nj * (tj - 1.0)) / (nj - ni)
    slope: float = (nj * tj - ni * ti) / (nj - ni)
    return 2.0 * slope if case == SLOPE_SLOPE else slope


@kernel
def _root(root: int, ni: float, nj: float, ti: float, tj: float) -> float:
    """A root of (n_i - 1)/2 sigma^2 - (n_i t_i - (n_j + 1)/2) sigma + n_j (t_j - 1)."""
    square, linear, level = 0.5 * (ni - 1.0), ni * ti - 0.5 * (nj + 1.0), nj * (tj - 1.0)
    # Where the roots are not real, no sigma meets both points of this corner; the nearest is where they part.
    spread = np.sqrt(max(linear * linear - 4.0 * square * level, 0.0))
    total: float = linear + spread if linear >= 0.0 else linear - spread
    if root == 0:
        return 2.0 * level / total if total != 0.0 else 0.0
    return 0.5 * total / square if square > 0.0 else np.inf


@kernel
def _add_box(
    case: int, ni: float, nj: float, t_lo: float, t_hi: float, s_lo: float, s_hi: float, boxes: Floats, count: int
) -> int:  # fmt: skip
    """The range of A over the corners of sigma's range and t_i's, kept to where the case places its two sizes."""
    lo, hi = np.inf, -np.inf
    for corner in range(4):
        A = _parallelism(case, ni, t_hi if corner & 1 else t_lo, s_hi if corner & 2 else s_lo)
        lo, hi = min(lo, A), max(hi, A)
    least, most = 1.0, np.inf
    if case == SLOPE_SLOPE:
        least = nj
    elif case == SLOPE_BEND:
        least, most = max(ni, 0.5 * (nj + 1.0)), nj
    elif case == BEND_BEND:
        least, most = 0.5 * (nj + 1.0), ni
    elif case == HIGH_SLOPE_SLOPE:
        least = (nj + s_hi) / (1.0 + s_hi)
    else:
        least, most = (ni + s_hi) / (1.0 + s_hi), (nj + s_lo) / (1.0 + s_lo)
    lo, hi = max(lo, least), min(hi, most)
    if not lo <= hi:
        return count
    row = boxes[count]
    row[A_FROM], row[A_TO], row[SIGMA_FROM], row[SIGMA_TO] = lo, hi, s_lo, s_hi
    row[IS_HIGH] = 1.0 if case >= HIGH_SLOPE_SLOPE else 0.0
    return count + 1


@kernel
def _parallelism(case: int, n: float, t: float, sigma: float) -> float:
    """A of the curve of this sigma through the first point."""
    if case in (SLOPE_SLOPE, SLOPE_BEND):
        return n * t - 0.5 * sigma * (n - 1.0)
    if case == BEND_BEND:
        # Flat at T(inf) whatever A
        return 0.5 * (1.0 + n) + n * (t - 1.0) / sigma if sigma > 0.0 else (np.inf if t > 1.0 else -np.inf)
    return (n * (t - sigma) + sigma) / (1.0 + sigma)


@kernel
def _without_redundant(boxes: Floats, count: int) -> int:
    """Boxes inside another one dropped; of equal ones the first stays."""
    kept = 0
    for k in range(count):
        is_inside = False
        for j in range(count):
            is_inside = is_inside or (j != k and _is_within(boxes, k, j))
        # Those dropped are marked by an empty range, so that the others are still compared with them
        boxes[k, IS_HIGH] += 2.0 if is_inside else 0.0
    for k in range(count):
        if boxes[k, IS_HIGH] < 2.0:
            for c in range(N_CASES):
                boxes[kept, c] = boxes[k, c]
            kept += 1
    return kept


@kernel
def _is_within(boxes: Floats, k: int, j: int) -> bool:
    one, other = boxes[k], boxes[j]
    if (one[IS_HIGH] % 2.0) != (other[IS_HIGH] % 2.0):
        return False
    if one[A_FROM] < other[A_FROM] or one[A_TO] > other[A_TO]:
        return False
    if one[SIGMA_FROM] < other[SIGMA_FROM] or one[SIGMA_TO] > other[SIGMA_TO]:
        return False
    is_equal = one[A_FROM] == other[A_FROM] and one[A_TO] == other[A_TO]
    is_equal = is_equal and one[SIGMA_FROM] == other[SIGMA_FROM] and one[SIGMA_TO] == other[SIGMA_TO]
    return not is_equal or j < k
