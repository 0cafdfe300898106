"""Laws with an overhead: Amdahl's in closed form, Downey's by a search over A of what is closed form in three numbers.

With both of Downey's modes written over one scale A, T(n) is a non-negative combination of x1 = max(A/n, 1), where
sigma = 0, x2 = max((A - 1/2)/n + 1/2, 1), where sigma = 1, and the overhead in the low mode; of 1, x2 and the overhead
in the high one.
"""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.fit.exact import Codes, checked, refusal
from pipeline.fit.nonneg import MOST, TARGET, best_support
from pipeline.fit.readout import A_, AT_BOUND, OK, OVERHEAD, SERIAL, SIGMA, T1, TINF, WSSRE
from pipeline.fit.sums import longest_series

LINEAR, LOGARITHMIC = 0, 1
PER_INTERVAL = 8
"""Values of A tried between two sizes at which a point changes its piece."""
FAR = 1e6
"""Times the largest size: a plateau there is none."""
GOLDEN = 0.6180339887498949
STEPS = 34
WORTH = 1.5
"""A low point of the grid is searched around if its squares are at most this many times the least."""


@kernel
def overhead(n: float, kind: int) -> float:
    """n - 1, or log2 n."""
    return n - 1.0 if kind == LINEAR else np.log2(n)


@kernel
def fill_row(rows: Floats, i: int, t: float, w: float, first: float, second: float, third: float) -> None:
    """One size of the least-squares problem: three functions over the runtime, weighted."""
    root = np.sqrt(w)
    rows[i, 0], rows[i, 1], rows[i, 2] = first * root / t, second * root / t, third * root / t
    rows[i, TARGET] = root


@entry_kernel
def amdahl_overhead_batch(
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes, kind: int
) -> None:
    """T = a/n + b + c g(n) with a, b, c >= 0, 3 parameters; at_bound where one of them is zero."""
    longest = longest_series(offsets)
    rows, q, r = np.zeros((longest, MOST + 1)), np.zeros((longest, MOST + 1)), np.zeros((MOST, MOST + 1))
    x, best = np.zeros(MOST), np.zeros(MOST)
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 3)
        if codes[i] != OK:
            continue
        for k in range(len(n)):
            fill_row(rows, k, t[k] / t[0], w[k], 1.0 / n[k], 1.0, overhead(n[k], kind))
        row = out[i]
        row[WSSRE] = best_support(rows, len(n), MOST, q, r, x, best)
        a, b, c = best[0] * t[0], best[1] * t[0], best[2] * t[0]
        row[T1], row[OVERHEAD] = a + b, c
        row[SERIAL] = b / (a + b) if a + b > 0.0 else 1.0
        codes[i] = checked(row, OK if a > 0.0 and b > 0.0 and c > 0.0 else AT_BOUND)


@entry_kernel
def downey_overhead_batch(
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, out: Floats, codes: Codes, kind: int
) -> None:
    """Downey's law of either mode with an overhead, 4 parameters; at_bound where the overhead or sigma is."""
    longest = longest_series(offsets)
    rows, q, r = np.zeros((longest, MOST + 1)), np.zeros((longest, MOST + 1)), np.zeros((MOST, MOST + 1))
    x, best, answer, marks = np.zeros(MOST), np.zeros(MOST), np.zeros(MOST), np.zeros(2 * longest + 3)
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 4)
        if codes[i] != OK:
            continue
        n_marks = _marks(n, marks)
        least, A, is_high = np.inf, 1.0, False
        for high in range(2):
            at, left = _search(high == 1, n, t, w, kind, marks[:n_marks], rows, q, r, x, best)
            if left < least * (1.0 - 1e-9):
                least, A, is_high = left, at, high == 1
        out[i, WSSRE] = _objective(A, is_high, n, t, w, kind, rows, q, r, x, answer)
        codes[i] = checked(out[i], _read(A, is_high, answer, t[0], out[i]))


@kernel
def _marks(n: Floats, marks: Floats) -> int:
    """Sorted distinct A at which a point changes its piece, from 1 to far beyond the largest size; how many."""
    m = len(n)
    for k in range(m):
        marks[k], marks[m + k] = n[k], 0.5 * (n[k] + 1.0)
    marks[2 * m], marks[2 * m + 1], marks[2 * m + 2] = 1.0, 2.0 * n[m - 1], FAR * n[m - 1]
    marks[: 2 * m + 3] = np.sort(marks[: 2 * m + 3])
    kept = 1
    for k in range(1, 2 * m + 3):
        if marks[k] > marks[kept - 1]:
            marks[kept] = marks[k]
            kept += 1
    return kept


@kernel
def _objective(
    A: float, is_high: bool, n: Floats, t: Floats, w: Floats, kind: int,
    rows: Floats, q: Floats, r: Floats, x: Floats, best: Floats,
) -> float:  # fmt: skip
    """The least squares left at one A, every support tried; its coefficients in best."""
    for k in range(len(n)):
        first = 1.0 if is_high else max(A / n[k], 1.0)
        second = max((A - 0.5) / n[k] + 0.5, 1.0)
        fill_row(rows, k, t[k] / t[0], w[k], first, second, overhead(n[k], kind))
    return best_support(rows, len(n), MOST, q, r, x, best)


# Not inlined: each copy of the objective would be compiled again.
@entry_kernel
def _search(
    is_high: bool, n: Floats, t: Floats, w: Floats, kind: int, marks: Floats,
    rows: Floats, q: Floats, r: Floats, x: Floats, best: Floats,
) -> tuple[float, float]:  # fmt: skip
    """The best A and the squares left: a grid between the marks, then golden section around each low point of it."""
    count = (len(marks) - 1) * PER_INTERVAL + 1
    lefts, A, least = np.empty(count), marks[0], np.inf
    for k in range(count):
        lefts[k] = _objective(_grid(marks, k), is_high, n, t, w, kind, rows, q, r, x, best)
        if lefts[k] < least * (1.0 - 1e-9):
            A, least = _grid(marks, k), lefts[k]
    promising = WORTH * least
    for k in range(count):
        is_low_point = lefts[k] <= lefts[max(k - 1, 0)] and lefts[k] <= lefts[min(k + 1, count - 1)]
        if not (is_low_point and lefts[k] <= promising):
            continue
        for side in range(2):
            lo, hi = _grid(marks, max(k - 1 + side, 0)), _grid(marks, min(k + side, count - 1))
            one, other = hi - GOLDEN * (hi - lo), lo + GOLDEN * (hi - lo)
            left_one = _objective(one, is_high, n, t, w, kind, rows, q, r, x, best)
            left_other = _objective(other, is_high, n, t, w, kind, rows, q, r, x, best)
            for _ in range(STEPS):
                if min(left_one, left_other) < least * (1.0 - 1e-9):
                    least, A = min(left_one, left_other), one if left_one <= left_other else other
                if left_one <= left_other:
                    hi, other, left_other = other, one, left_one
                    one = hi - GOLDEN * (hi - lo)
                    left_one = _objective(one, is_high, n, t, w, kind, rows, q, r, x, best)
                else:
                    lo, one, left_one = one, other, left_other
                    other = lo + GOLDEN * (hi - lo)
                    left_other = _objective(other, is_high, n, t, w, kind, rows, q, r, x, best)
    return A, least


@kernel
def _grid(marks: Floats, k: int) -> float:
    at, step = k // PER_INTERVAL, k % PER_INTERVAL
    if step == 0:
        return float(marks[at])
    return float(marks[at] * (marks[at + 1] / marks[at]) ** (step / PER_INTERVAL))


@kernel
def _read(A: float, is_high: bool, answer: Floats, scale: float, row: Floats) -> int:
    p, s, c = answer[0] * scale, answer[1] * scale, answer[2] * scale
    row[OVERHEAD] = c
    if p + s <= 0.0:
        row[T1], row[A_], row[SIGMA] = 0.0, 1.0, 0.0
        return AT_BOUND
    if not is_high:
        row[T1] = p * A + s * A
        row[A_], row[SIGMA] = A, s / (p + s)
    else:
        flat = p + s
        row[T1], row[A_] = p + s * A, (p + s * A) / flat
        row[SIGMA] = 1.0 + 2.0 * p / s if s > 0.0 else 1.0
    row[TINF] = np.nan if c > 0.0 else row[T1] / row[A_]
    return OK if c > 0.0 and s > 0.0 and p > 0.0 and A > 1.0 else AT_BOUND
