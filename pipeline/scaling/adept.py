"""ADEPT as A. Deshmeh's thesis has it (University of Windsor 2013, chapter 3 and Appendix A), to reproduce and compare.

Per target: weights by distance to it, the envelope of what the observations allow (envelope.py), and two passes over
Downey instances inside it. The first goes through a fixed point: for each A, sigma is what takes the curve through one
observation, by up to four branches. The second looks at every instance of a grid about the best of them. What both make
small is the WSSRE. The thesis's runtimes come in units of tau; with the scale free, which is ours, the envelope is
derived for a ladder of scales, and every instance of the second pass takes the scale that suits it best. Faster and
never above: the exact fit (downey.py).
"""

from dataclasses import dataclass

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
ROUNDING = 1e-12
"""Share of the weights that differences of sums lose."""
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
    n: Floats, t: Floats, w: Floats, scales: Floats, delta: float, modes: int, n_values: int, boxes: Floats,
    best: Floats,
) -> None:  # fmt: skip
    """Fill best with the best of the curves through each observation in turn that the envelope of a scale holds.

    Every observation serves as the fixed point in turn: one on the low mode's plateau does not determine sigma.
    """
    best[:] = np.inf
    for tau in scales:
        scaled = t / tau
        most = (n * scaled * (1.0 + delta)).max()
        count = derive(n, scaled, delta, modes, boxes)
        if count == 0:
            continue
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


@kernel
def add_instances(n: float, t: float, w: float, A: float, sigma: Floats, n_low: int, sums: Floats) -> None:
    """Add one size's w x and w x^2 of every sigma to the rows of sums; x is T(n)/t, and the first n_low are low."""
    # T is linear in sigma on each piece of the low mode, and a maximum in the high one: such loops need no branch.
    level, slope = 1.0, 0.0
    if n <= A:
        level, slope = A / n, 0.5 - 0.5 / n
    elif n < 2.0 * A - 1.0:
        slope = (A - 0.5) / n - 0.5
    for j in range(n_low):
        x = (level + slope * sigma[j]) / t
        sums[0, j] += w * x
        sums[1, j] += w * x * x
    for j in range(n_low, sigma.size):
        x = (sigma[j] + max((A + A * sigma[j] - sigma[j]) / n, 1.0)) / t
        sums[0, j] += w * x
        sums[1, j] += w * x * x


@entry_kernel
def second_pass(n: Floats, t: Floats, w: Floats, is_unit: bool, modes: int, best: Floats) -> None:
    """Improve best by a grid about it: 15% to either side, sigma by 0.15 where it is 0.

    With a free scale every instance takes the tau of weighted least squares of relative errors.
    """
    first, sigma, sums, whole = best.copy(), np.empty(GRID), np.empty((2, GRID)), w.sum()
    width = WINDOW * first[SIGMA] if first[SIGMA] > 0.0 else WINDOW
    n_low, least = 0, np.inf
    for j in range(GRID):
        sigma[j] = max(first[SIGMA] + width * (2.0 * j / (GRID - 1.0) - 1.0), 0.0)
        is_high = sigma[j] > 1.0 if modes == BOTH else modes == HIGH
        sigma[j] = max(sigma[j], 1.0) if is_high else min(sigma[j], 1.0)
        n_low += 0 if is_high else 1
    for k in range(GRID):
        A = max(first[AVG] * (1.0 + WINDOW * (2.0 * k / (GRID - 1.0) - 1.0)), 1.0)
        sums[:] = 0.0
        for i in range(len(n)):
            add_instances(n[i], t[i], w[i], A, sigma, n_low, sums)
        for j in range(GRID):
            tau = first[TAU] if is_unit else sums[0, j] / sums[1, j]
            left = whole - tau * (2.0 * sums[0, j] - tau * sums[1, j])
            if left < least:
                # Of those near the least of the sums, whose last digits are lost, the residuals decide.
                least = left + ROUNDING * whole
                error = wssre(n, t, w, tau, A, sigma[j], j >= n_low, best[ERROR])
                if error < best[ERROR]:
                    best[ERROR], best[TAU], best[AVG], best[SIGMA] = error, tau, A, sigma[j]
                    best[HIGH_MODE] = 1.0 if j >= n_low else 0.0


@entry_kernel
def largest_error(n: Floats, t: Floats, best: Floats) -> float:
    """Largest relative error of the best instance."""
    most = 0.0
    for i in range(len(n)):
        runtime_s = best[TAU] * downey(n[i], best[AVG], best[SIGMA], best[HIGH_MODE] == 1.0)
        most = max(most, abs(1.0 - runtime_s / t[i]))
    return float(most)


def distance_weights(n: Floats, given: Floats, target: float, q: float) -> Floats:
    """The weights given times q max|d| - |d|, d an observation's distance to the target; times 1 where all are 0."""
    apart = np.abs(n - target)
    near = q * apart.max() - apart
    return given * (near if near.max() > 0.0 else 1.0)


def scales_of(t: Floats, rules: AdeptRules) -> Floats:
    """The ladder of scales that are tried; 1 alone where the scale is pinned."""
    if rules.scale == "unit":
        return np.ones(1)
    n_scales = 1 + int(np.log(2.0 * rules.reach) / np.log(rules.scale_step))
    scales: Floats = 2.0 * t.min() / rules.scale_step ** np.arange(n_scales)
    return scales


def first_delta(n: Floats, t: Floats, rules: AdeptRules, modes: int) -> float:
    """The least delta that the search of any target begins with."""
    scales, delta = scales_of(t, rules), rules.delta
    known = float(scales[0]), len(scales), rules.scale_step, modes
    hopeless = min(1.0, *(hopeless_delta(n, t, fixed, *known) for fixed in range(len(n))))
    while delta < hopeless:
        delta += rules.delta
    return delta


def search(
    n: Floats, t: Floats, given: Floats, target: float, delta: float, rules: AdeptRules, modes: int
) -> Floats | None:
    """The instance that ADEPT finds for one target: the WSSRE, tau, A, sigma, mode; None where there is none.

    delta grows by its step until no observation is further from the best instance than delta.
    """
    w, boxes, best = distance_weights(n, given, target, rules.q), np.empty((most_boxes(len(n)), 5)), np.empty(5)
    is_unit, scales = rules.scale == "unit", scales_of(t, rules)
    n_values = N_FIRST if is_unit else N_PER_SCALE
    while delta < 1.0:
        first_pass(n, t, w, scales, delta, modes, n_values, boxes, best)
        if np.isfinite(best[ERROR]) and largest_error(n, t, best) <= delta:
            second_pass(n, t, w, is_unit, modes, best)
            if largest_error(n, t, best) <= delta:
                return best
        delta += rules.delta
    return None


def find(batch: SeriesBatch, series: Ints, targets: Floats, rules: AdeptRules, modes: int = BOTH) -> Instances:
    """The instance for each target, of one mode or the better of both; 3 sizes are needed, 2 where tau = 1."""
    is_usable = refusals(batch, 2 if rules.scale == "unit" else 3)[series] == OK
    found, deltas = np.full((len(series), 5), np.nan), dict[int, float]()
    for k in np.flatnonzero(is_usable):
        i = int(series[k])
        n, t, w = (
            one[batch.offsets[i] : batch.offsets[i + 1]] for one in (batch.procs, batch.runtime_s, batch.weights)
        )
        deltas[i] = deltas[i] if i in deltas else first_delta(n, t, rules, modes)
        best = search(n, t, w, targets[k], deltas[i], rules, modes)
        found[k] = np.nan if best is None else best
    return Instances(found[:, TAU], found[:, AVG], found[:, SIGMA], found[:, HIGH_MODE] == 1.0)
