"""ADEPT as A. Deshmeh's thesis has it (University of Windsor 2013, chapter 3 and Appendix A), to reproduce and compare.

Per target: weights by distance to it, the envelope of what the observations allow (envelope.py), and two passes over
Downey instances inside it. The first goes through a fixed point: for each A, sigma is what takes the curve through one
observation, by up to four branches. The second looks at every instance of a grid about the best of them. What both make
small is the WSSRE. The thesis's runtimes come in units of tau; with the scale free, which is ours, the envelope is
derived for a ladder of scales, and every instance of the second pass takes the scale that suits it best. Faster and
never above: the exact fit (downey.py).
"""

from dataclasses import dataclass
from itertools import accumulate
from operator import truediv

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.laws import LAWS
from pipeline.scaling.downey_rows import OK
from pipeline.scaling.envelope import A_FROM, A_TO, BOTH, HIGH, LOW, contains, derive, downey, most_boxes
from pipeline.scaling.rules import AdeptRules
from pipeline.scaling.series import SeriesBatch, refusals


@dataclass(frozen=True, slots=True)
class Instances:
    """Per target the Downey instance found: tau (s), A, sigma, whether of the high mode; NaN where there is none."""

    tau_s: Floats
    avg_parallelism: Floats
    sigma: Floats
    is_high: Bools

    def parameters(self) -> dict[str, Floats]:
        """Those the laws read."""
        t1_s = self.tau_s * self.avg_parallelism * np.where(self.is_high, 1.0 + self.sigma, 1.0)
        return {"t1_s": t1_s, "avg_parallelism": self.avg_parallelism, "sigma": self.sigma}

    def runtime_s(self, procs: Floats) -> Floats:
        """Runtime at a processor count per target (s)."""
        curves = [LAWS[law].runtime_s(self.parameters(), procs) for law in ("downey_low", "downey_high")]
        return np.where(self.is_high, curves[1], curves[0])


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


@entry_kernel
def first_pass(
    n: Floats, t: Floats, w: Floats, tau: float, delta: float, modes: int, n_values: int, boxes: Floats, best: Floats
) -> None:
    """Improve best by the curves through each observation in turn that the envelope of this scale holds.

    Every observation serves as the fixed point in turn: one on the low mode's plateau does not determine sigma.
    """
    scaled = t / tau
    most = (n * scaled * (1.0 + delta)).max()
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


def _curve(n: float | Floats, A: Floats | float, sigma: Floats | float, is_high: Bools | bool) -> Floats:
    """T(n) in units of tau; as envelope.downey, over arrays."""
    plateau = A + A * sigma - sigma
    high = np.where(n < plateau, sigma + plateau / n, sigma + 1.0)
    bending = np.where(n < 2.0 * A - 1.0, sigma * (A - 0.5) / n + 1.0 - 0.5 * sigma, 1.0)
    return np.where(is_high, high, np.where(n <= A, (A - 0.5 * sigma) / n + 0.5 * sigma, bending))


def second_pass(n: Floats, t: Floats, w: Floats, is_unit: bool, modes: int, best: Floats) -> None:
    """Improve best by a grid about it: 15% to either side, sigma by 0.15 where it is 0.

    With a free scale every instance takes the tau of weighted least squares of relative errors.
    """
    A1, sigma1 = best[AVG], best[SIGMA]
    steps = 2.0 * np.arange(GRID) / (GRID - 1.0) - 1.0
    A = np.maximum(A1 * (1.0 + WINDOW * steps), 1.0)[:, None]
    sigma = np.maximum(sigma1 + (WINDOW * sigma1 if sigma1 > 0.0 else WINDOW) * steps, 0.0)[None, :]
    is_high = sigma > 1.0 if modes == BOTH else np.full(sigma.shape, modes == HIGH)
    sigma = np.where(is_high, np.maximum(sigma, 1.0), np.minimum(sigma, 1.0))
    tau, zx, xx = np.full((GRID, GRID), best[TAU]), np.zeros((GRID, GRID)), np.zeros((GRID, GRID))
    if not is_unit:
        for size, runtime_s, weight in zip(n, t, w, strict=True):
            x = _curve(size, A, sigma, is_high) / runtime_s
            zx, xx = zx + weight * x, xx + weight * x * x
        tau = zx / xx
    left = np.zeros((GRID, GRID))
    for size, runtime_s, weight in zip(n, t, w, strict=True):
        error = 1.0 - tau * _curve(size, A, sigma, is_high) / runtime_s
        left = left + weight * error * error
    k, j = np.unravel_index(left.argmin(), left.shape)
    if left[k, j] < best[ERROR]:
        best[:] = left[k, j], tau[k, j], A[k, 0], sigma[0, j], is_high[0, j]


def largest_error(n: Floats, t: Floats, best: Floats) -> float:
    """Largest relative error of the best instance."""
    curve = _curve(n, best[AVG], best[SIGMA], bool(best[HIGH_MODE] == 1.0))
    return float(np.abs(1.0 - best[TAU] * curve / t).max())


def distance_weights(n: Floats, given: Floats, target: float, q: float) -> Floats:
    """The weights given times q max|d| - |d|, d an observation's distance to the target; times 1 where all are 0."""
    apart = np.abs(n - target)
    near = q * apart.max() - apart
    weights: Floats = given * (near if near.max() > 0.0 else 1.0)
    return weights


def search(n: Floats, t: Floats, given: Floats, target: float, rules: AdeptRules, modes: int) -> Floats | None:
    """The instance that ADEPT finds for one target: the WSSRE, tau, A, sigma, mode; None where there is none.

    delta grows by its step until no observation is further from the best instance than delta.
    """
    w, boxes = distance_weights(n, given, target, rules.q), np.empty((most_boxes(len(n)), 5))
    is_unit, scales = rules.scale == "unit", [1.0]
    if not is_unit:
        n_scales = 1 + int(np.log(2.0 * rules.reach) / np.log(rules.scale_step))
        scales = list(accumulate([2.0 * t.min(), *[rules.scale_step] * (n_scales - 1)], truediv))
    n_values, delta = N_FIRST if is_unit else N_PER_SCALE, rules.delta
    known = scales[0], len(scales), rules.scale_step, modes
    hopeless = min(1.0, *(hopeless_delta(n, t, fixed, *known) for fixed in range(len(n))))
    while delta < hopeless:
        delta += rules.delta
    while delta < 1.0:
        best = np.full(5, np.inf)
        for tau in scales:
            first_pass(n, t, w, tau, delta, modes, n_values, boxes, best)
        if np.isfinite(best[ERROR]) and largest_error(n, t, best) <= delta:
            second_pass(n, t, w, is_unit, modes, best)
            if largest_error(n, t, best) <= delta:
                return best
        delta += rules.delta
    return None


def find(batch: SeriesBatch, series: Ints, targets: Floats, rules: AdeptRules, modes: int = BOTH) -> Instances:
    """The instance for each target, of one mode or the better of both; 3 sizes are needed, 2 where tau = 1."""
    is_usable = refusals(batch, 2 if rules.scale == "unit" else 3)[series] == OK
    found = np.full((len(series), 5), np.nan)
    for k in np.flatnonzero(is_usable):
        part = slice(batch.offsets[series[k]], batch.offsets[series[k] + 1])
        best = search(batch.procs[part], batch.runtime_s[part], batch.weights[part], targets[k], rules, modes)
        found[k] = np.nan if best is None else best
    return Instances(found[:, TAU], found[:, AVG], found[:, SIGMA], found[:, HIGH_MODE] == 1.0)
