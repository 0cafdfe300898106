"""ADEPT's envelope: which (A, sigma) two observations allow, each off by a relative error of delta at most.

A. Deshmeh, University of Windsor 2013 (ADEPT), Appendix A: T(inf) = 1 in the low mode and sigma + 1 in the high one, so
runtimes come in units of tau. Two observations n_i < n_j give both parameters in five cases, by the pieces they lie
on. Each gives a range of sigma, its ends sorted and clipped to the mode, and the range of A over all corners of
sigma's range and t_i's.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.scaling.rules import AdeptRules

LOW, HIGH, BOTH = 1, 2, 3
"""Modes, as bits."""

A_FROM, A_TO, SIGMA_FROM, SIGMA_TO, IS_HIGH = range(5)
SLOPE_SLOPE, SLOPE_BEND, BEND_BEND, HIGH_SLOPE_SLOPE, HIGH_SLOPE_FLAT = range(5)
N_CASES = 5
LARGEST_SIGMA = 1e9


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
    if case == HIGH_SLOPE_FLAT:
        return tj - 1.0
    if case == BEND_BEND:
        return 2.0 * (ni * (ti - 1.0) - nj * (tj - 1.0)) / (nj - ni)
    if case != SLOPE_BEND:
        slope: float = (nj * tj - ni * ti) / (nj - ni)
        return 2.0 * slope if case == SLOPE_SLOPE else slope
    # A root of (n_i - 1)/2 sigma^2 - (n_i t_i - (n_j + 1)/2) sigma + n_j (t_j - 1)
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
    is_kept = np.ones(count, np.bool_)
    for k in range(count):
        for j in range(count):
            one, other = boxes[k], boxes[j]
            is_within = one[IS_HIGH] == other[IS_HIGH] and one[A_FROM] >= other[A_FROM] and one[A_TO] <= other[A_TO]
            is_within = is_within and one[SIGMA_FROM] >= other[SIGMA_FROM] and one[SIGMA_TO] <= other[SIGMA_TO]
            if is_within and (j < k or (one != other).any()):
                is_kept[k] = False
    kept = 0
    for k in range(count):
        if is_kept[k]:
            boxes[kept] = boxes[k]
            kept += 1
    return kept


MIN_POINTS = 3
"""As the search: fewer leave every envelope open."""

PER_SIDE = 25
"""Values of A, and of sigma, tried in each box."""

MOST_PAIRED = 8
"""Sizes whose pairs give boxes, evenly spread: a curve that holds at every size lies in every pair's boxes anyway."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The least and the largest runtime (s) at each count asked for, and the relative error that it took."""

    lo_s: Floats
    hi_s: Floats
    delta: float


def outline(procs: Floats, runtime_s: Floats, at: Floats, rules: AdeptRules | None = None) -> Outline | None:
    """Of one series, by rising procs; None where it has too few sizes, or no curve comes within half of every one."""
    rules = rules or AdeptRules()
    if len(procs) < MIN_POINTS:
        return None
    lo_s, hi_s = np.full(len(at), np.inf), np.zeros(len(at))
    paired = np.unique(np.linspace(0, len(procs) - 1, MOST_PAIRED).astype(np.int64))
    boxes = np.empty((most_boxes(len(paired)), 5))
    for delta in rules.delta * np.arange(1, int(np.ceil(0.5 / rules.delta)) + 1):
        # Fine enough that an edge is off by an eighth of delta.
        step = 1.0 + delta / 4.0
        n_scales = 1 + int(np.log(2.0 * rules.reach) / np.log(step)) if rules.scale == "free" else 1
        highest = 2.0 * float(runtime_s.min()) if rules.scale == "free" else 1.0
        if spanned(procs, runtime_s, paired, float(delta), highest, n_scales, step, at, lo_s, hi_s, boxes):
            return Outline(lo_s, hi_s, float(delta))
    return None


@entry_kernel
def spanned(
    n: Floats, t: Floats, paired: Ints, delta: float, highest: float, n_scales: int, scale_step: float, at: Floats,
    lo_s: Floats, hi_s: Floats, boxes: Floats,
) -> bool:  # fmt: skip
    """Widen lo_s and hi_s to every curve of the envelope's boxes, at every scale, that holds; whether one does."""
    is_found, tau = False, highest
    for _ in range(n_scales):
        count = derive(n[paired], t[paired] / tau, delta, BOTH, boxes)
        for k in range(count):
            lo, hi = boxes[k, A_FROM], min(boxes[k, A_TO], (n * t).max() * (1.0 + delta) / tau)
            is_high = boxes[k, IS_HIGH] == 1.0
            for i in range(PER_SIDE * PER_SIDE if lo <= hi else 0):
                A = lo * (hi / lo) ** (i // PER_SIDE / (PER_SIDE - 1.0))
                share = i % PER_SIDE / (PER_SIDE - 1.0)
                sigma = boxes[k, SIGMA_FROM] * (1.0 - share) + boxes[k, SIGMA_TO] * share
                p = 0
                while p < len(n) and abs(1.0 - tau * downey(n[p], A, sigma, is_high) / t[p]) <= delta:
                    p += 1
                if p < len(n):
                    continue
                is_found = True
                for p in range(len(at)):
                    curve_s = tau * downey(at[p], A, sigma, is_high)
                    lo_s[p], hi_s[p] = min(lo_s[p], curve_s), max(hi_s[p], curve_s)
        tau /= scale_step
    return is_found
