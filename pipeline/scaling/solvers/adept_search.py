"""ADEPT's two passes over Downey instances inside an envelope (A. Deshmeh, University of Windsor 2013, chapter 3).

The first goes through the fixed point: for each A, sigma is what takes the curve through one observation, by up to four
branches. The second looks at every instance of a grid about the best of them. What both make small is the WSSRE.
"""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.scaling.solvers.downey import Codes, refusal
from pipeline.scaling.solvers.downey_rows import NO_INSTANCE, OK, downey
from pipeline.scaling.solvers.envelope import A_FROM, A_TO, BOTH, HIGH, LOW, contains, derive, most_boxes

N_FIRST = 100_000
"""Values of A that the first pass tries where the scale is pinned."""
N_PER_SCALE = 200
"""... and at each of the scales where it is free."""
GRID = 501
"""Values of A, and of sigma, in the second: 250,000 instances, as the thesis has."""
WINDOW = 0.15
"""Share of A and sigma to either side that the second pass covers; absolute where sigma is 0."""
N_COARSE = 100
"""Values of A per scale in the look ahead that excludes deltas that cannot hold."""
N_BRANCHES = 4
ERROR, TAU, AVG, SIGMA, HIGH_MODE = range(5)


@kernel
def wssre(n: Floats, t: Floats, w: Floats, tau: float, A: float, sigma: float, is_high: bool, most: float) -> float:
    """Sum of w (1 - T/t)^2; infinite once it passes most."""
    total = 0.0
    for i in range(len(n)):
        error = 1.0 - tau * downey(n[i], A, sigma, is_high) / t[i]
        total += w[i] * error * error
        if total >= most:
            return np.inf
    return total


@kernel
def best_scale(n: Floats, t: Floats, w: Floats, A: float, sigma: float, is_high: bool) -> float:
    """tau by weighted least squares of relative errors, for one shape."""
    zx, xx = 0.0, 0.0
    for i in range(len(n)):
        x = downey(n[i], A, sigma, is_high) / t[i]
        zx += w[i] * x
        xx += w[i] * x * x
    return zx / xx


@kernel
def branch_sigma(branch: int, n: float, t: float, A: float) -> float:
    """sigma of the curve of this A through (n, t), by the piece the point lies on; NaN where it does not lie there."""
    if branch == 0:
        sigma = 2.0 * (n * t - A) / (n - 1.0) if n <= A and n > 1.0 else np.nan
    elif branch == 1:
        width = A - 0.5 - 0.5 * n
        sigma = n * (t - 1.0) / width if n > A and width > 0.0 else np.nan
    elif branch == 2:
        sigma = (n * t - A) / (n + A - 1.0)
        return sigma if n <= A + A * sigma - sigma else np.nan
    else:
        sigma = t - 1.0
        return sigma if n >= A + A * sigma - sigma else np.nan
    return sigma


# Not inlined: it is called once per scale, and would be compiled into each caller again.
@entry_kernel
def first_pass(
    n: Floats, t: Floats, w: Floats, tau: float, delta: float, modes: int, n_values: int, scaled: Floats,
    boxes: Floats, best: Floats,
) -> None:  # fmt: skip
    """Improve best by the curves through each observation in turn that the envelope of this scale holds."""
    most = 0.0
    for i in range(len(n)):
        scaled[i] = t[i] / tau
        most = max(most, n[i] * scaled[i] * (1.0 + delta))
    count = derive(n, scaled, delta, modes, boxes)
    if count == 0:
        return
    lo, hi = boxes[:count, A_FROM].min(), min(boxes[:count, A_TO].max(), most)
    for k in range(n_values if lo <= hi else 0):
        A = lo * (hi / lo) ** (k / (n_values - 1.0))
        for fixed in range(len(n)):
            for branch in range(N_BRANCHES):
                is_high = branch >= 2
                sigma = branch_sigma(branch, n[fixed], scaled[fixed], A)
                if not contains(boxes, count, A, sigma, is_high):
                    continue
                error = wssre(n, t, w, tau, A, sigma, is_high, best[ERROR])
                if error < best[ERROR]:
                    best[ERROR], best[TAU], best[AVG], best[SIGMA] = error, tau, A, sigma
                    best[HIGH_MODE] = 1.0 if is_high else 0.0


@entry_kernel
def second_pass(n: Floats, t: Floats, w: Floats, is_unit: bool, modes: int, best: Floats) -> None:
    """Improve best by a grid about it: 15% to either side, sigma by 0.15 where it is 0."""
    A1, sigma1 = best[AVG], best[SIGMA]
    half = WINDOW * sigma1 if sigma1 > 0.0 else WINDOW
    for k in range(GRID):
        A = max(A1 * (1.0 + WINDOW * (2.0 * k / (GRID - 1.0) - 1.0)), 1.0)
        for j in range(GRID):
            sigma = max(sigma1 + half * (2.0 * j / (GRID - 1.0) - 1.0), 0.0)
            is_high = modes == HIGH or (modes == BOTH and sigma > 1.0)
            sigma = max(sigma, 1.0) if is_high else min(sigma, 1.0)
            tau = best[TAU] if is_unit else best_scale(n, t, w, A, sigma, is_high)
            error = wssre(n, t, w, tau, A, sigma, is_high, best[ERROR])
            if error < best[ERROR]:
                best[ERROR], best[TAU], best[AVG], best[SIGMA] = error, tau, A, sigma
                best[HIGH_MODE] = 1.0 if is_high else 0.0


@kernel
def largest_error(n: Floats, t: Floats, best: Floats) -> float:
    """Largest relative error of the best instance."""
    most = 0.0
    for i in range(len(n)):
        most = max(most, abs(1.0 - best[TAU] * downey(n[i], best[AVG], best[SIGMA], best[HIGH_MODE] == 1.0) / t[i]))
    return most


@kernel
def hopeless_delta(n: Floats, t: Floats, fixed: int, tau: float, n_scales: int, scale_step: float, modes: int) -> float:
    """A quarter of the least of the largest relative errors over a coarse grid of curves through the fixed point.

    A delta below it cannot hold and need not be tried. Whether a larger one holds is found by the search.
    """
    least = np.inf
    for _ in range(n_scales):
        for k in range(N_COARSE):
            A = (n.max() * t.max() / tau) ** (k / (N_COARSE - 1.0))
            for branch in range(N_BRANCHES):
                is_high = branch >= 2
                sigma = branch_sigma(branch, n[fixed], t[fixed] / tau, A)
                if not (modes & (HIGH if is_high else LOW) and (sigma >= 1.0 if is_high else 0.0 <= sigma <= 1.0)):
                    continue
                most = 0.0
                for i in range(len(n)):
                    most = max(most, abs(1.0 - tau * downey(n[i], A, sigma, is_high) / t[i]))
                    if most >= least:
                        break
                least = min(least, most)
        tau /= scale_step
    return 0.25 * least


@kernel
def fill_weights(n: Floats, given: Floats, target: float, q: float, w: Floats) -> None:
    """The weights given times q max|d| - |d|, d an observation's distance to the target; times 1 where all are 0."""
    most, largest = 0.0, 0.0
    for i in range(len(n)):
        most = max(most, abs(n[i] - target))
    for i in range(len(n)):
        w[i] = q * most - abs(n[i] - target)
        largest = max(largest, w[i])
    for i in range(len(n)):
        w[i] = given[i] * (w[i] if largest > 0.0 else 1.0)


@entry_kernel
def search(
    n: Floats, t: Floats, given: Floats, target: float, q: float, step: float, reach: float, scale_step: float,
    modes: int, best: Floats,
) -> bool:  # fmt: skip
    """The instance that ADEPT finds for one target into best: the WSSRE, tau, A, sigma, mode; whether there is one.

    delta grows from `step` by `step` until no observation is further from the best instance than delta. Every
    observation serves as the fixed point in turn: one on the low mode's plateau does not determine sigma. A reach of 0
    pins the scale, tau = 1.
    """
    w, scaled, boxes = np.empty(len(n)), np.empty(len(n)), np.empty((most_boxes(len(n)), 5))
    fill_weights(n, given, target, q, w)
    is_unit = reach == 0.0
    n_scales = 1 if is_unit else 1 + int(np.log(2.0 * reach) / np.log(scale_step))
    n_values = N_FIRST if is_unit else N_PER_SCALE
    highest, hopeless, delta = 1.0 if is_unit else 2.0 * t.min(), 1.0, step
    for fixed in range(len(n)):
        hopeless = min(hopeless, hopeless_delta(n, t, fixed, highest, n_scales, scale_step, modes))
    while delta < hopeless:
        delta += step
    while delta < 1.0:
        best[:] = np.inf
        tau = highest
        for _ in range(n_scales):
            first_pass(n, t, w, tau, delta, modes, n_values, scaled, boxes, best)
            tau /= scale_step
        if np.isfinite(best[ERROR]) and largest_error(n, t, best) <= delta:
            second_pass(n, t, w, is_unit, modes, best)
            if largest_error(n, t, best) <= delta:
                return True
        delta += step
    return False


@entry_kernel
def search_batch(
    offsets: Ints, procs: Floats, runtime_s: Floats, weights: Floats, target_series: Ints, target_procs: Floats,
    q: float, step: float, reach: float, scale_step: float, modes: int, out: Floats, codes: Codes,
) -> None:  # fmt: skip
    """A row of out and a status code per target: search for each; its series must have 3 sizes, 2 where tau = 1."""
    least = 2 if reach == 0.0 else 3
    for k in range(len(target_series)):
        part = slice(offsets[target_series[k]], offsets[target_series[k] + 1])
        n, t, w = procs[part], runtime_s[part], weights[part]
        codes[k] = refusal(n, t, w, least)
        if codes[k] == OK and not search(n, t, w, target_procs[k], q, step, reach, scale_step, modes, out[k]):
            codes[k] = NO_INSTANCE
        if codes[k] != OK:
            out[k] = np.nan
