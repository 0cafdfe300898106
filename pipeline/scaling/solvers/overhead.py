"""Laws with an overhead: Amdahl's in closed form, Downey's by the search of overhead_search.py."""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.scaling.solvers.downey_rows import A_, AT_BOUND, OK, OVERHEAD, SERIAL, SIGMA, T1, TINF, WSSRE
from pipeline.scaling.solvers.exact import Codes, checked, refusal
from pipeline.scaling.solvers.nonnegative import MOST, TARGET, best_support
from pipeline.scaling.solvers.overhead_search import BEST_A, IS_HIGH, fill_point, left_at, overhead_workspace, search
from pipeline.scaling.solvers.sums import longest_series

LINEAR, LOGARITHMIC = 0, 1


@kernel
def overhead(n: float, kind: int) -> float:
    """n - 1, or log2 n."""
    return n - 1.0 if kind == LINEAR else np.log2(n)


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
            # Three functions over the runtime, weighted.
            ratio, root = t[k] / t[0], np.sqrt(w[k])
            rows[k, 0], rows[k, 1] = 1.0 / n[k] * root / ratio, 1.0 * root / ratio
            rows[k, 2], rows[k, TARGET] = overhead(n[k], kind) * root / ratio, root
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
    work = overhead_workspace(longest_series(offsets))
    for i in range(len(offsets) - 1):
        part = slice(offsets[i], offsets[i + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[i] = refusal(n, t, w, 4)
        if codes[i] != OK:
            continue
        m = len(n)
        for k in range(m):
            fill_point(k, n[k], t[k] / t[0], w[k], overhead(n[k], kind), work)
        search(m, work)
        A, is_high = work.found[BEST_A], work.found[IS_HIGH] > 0.0
        out[i, WSSRE] = left_at(A, is_high, m, work)
        codes[i] = checked(out[i], _read(A, is_high, work.answer, t[0], out[i]))


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
