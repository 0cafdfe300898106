"""ADEPT as A. Deshmeh's thesis has it (University of Windsor 2013, chapter 3 and Appendix A), to reproduce and compare.

Per target: weights by distance to it, the envelope of what the observations allow, and two passes over Downey instances
inside it. The first goes through a fixed point: for each A, sigma is what takes the curve through one observation, by
up to four branches. The second looks at every instance of a grid about the best of them. What both make small is the
WSSRE. The thesis's runtimes come in units of tau; with the scale free, which is ours, the envelope is derived for many
scales, and every instance of the second pass takes the scale that suits it best. Faster and never above: the exact fit
(downey.py).
"""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.laws import LAWS, FitStatus
from pipeline.scaling.downey import curve
from pipeline.scaling.series import SeriesBatch

# Values of A that the first pass tries where the scale is pinned.
N_FIRST = 100_000
# ... and at each of the scales where it is free.
N_PER_SCALE = 200
# Values of A, and of sigma, in the second: 250,000 instances, as the thesis has.
GRID = 501
# Share of A and sigma to either side that the second pass covers; absolute where sigma is 0.
WINDOW = 0.15
# Share of the weights that differences of sums lose.
ROUNDING = 1e-12
N_BRANCHES = 4
LARGEST_SIGMA = 1e9

# An instance, as the search finds it; a box of the envelope has the ends of the last three.
ERROR, TAU, AVG, SIGMA, IS_HIGH = range(5)


# Initial relative half-width of the envelope, and the step by which it grows.
DELTA = 0.05
# Weight of an observation: so many times the largest distance to the target, minus its own.
Q = 2.0
# With a free scale, T(inf) is searched down to the shortest runtime divided by REACH; ratio of neighbouring scales.
REACH, SCALE_STEP = 64.0, 1.05


def runtime_s(found: Floats, procs: Floats) -> Floats:
    """Runtime (s) of the instances that `find` gives, at a processor count each."""
    _, tau_s, A, sigma, is_high = found.T
    law = {"t1_s": tau_s * A * (1.0 + is_high * sigma), "avg_parallelism": A, "sigma": sigma}
    low_s, high_s = (LAWS[name].runtime_s(law, procs) for name in ("downey_low", "downey_high"))
    return np.where(is_high == 1.0, high_s, low_s)


def find(batch: SeriesBatch, series: Ints, targets: Floats, *, is_unit: bool = False) -> Floats:
    """The better instance of both modes for each target; 3 sizes are needed, 2 where tau = 1, as in the thesis.

    float64[target, 5], by ERROR, TAU (s), AVG, SIGMA and IS_HIGH (1: of the high mode); NaN where there is none.

    `is_unit` says that T(inf) = 1 in the low mode. delta grows by DELTA until no observation is further from the best
    instance than delta.
    """
    found = np.full((len(series), 5), np.nan)
    for k in np.flatnonzero(batch.refusals(2 if is_unit else 3)[series] == FitStatus.OK):
        own, best, delta = slice(*batch.offsets[series[k] : series[k] + 2]), np.empty(5), DELTA
        n, t = batch.procs[own], batch.runtime_s[own]
        w = distance_weights(n, batch.weights[own], targets[k])
        n_scales = 1 + int(np.log(2.0 * REACH) / np.log(SCALE_STEP))
        scales = np.ones(1) if is_unit else 2.0 * t.min() / SCALE_STEP ** np.arange(n_scales)
        # In no instance T(n) rises or n T(n) falls: a delta that does not make up for where they do cannot hold.
        for rising in (t, (n * t)[::-1]):
            lowest = np.minimum.accumulate(rising)
            while delta < ((rising - lowest) / (rising + lowest)).max():
                delta += DELTA
        while delta < 1.0 and np.isnan(found[k, ERROR]):
            boxes = envelope(n, t / scales[:, None], delta)
            first_pass(n, t, w, scales, delta, N_FIRST if is_unit else N_PER_SCALE, *boxes, best)
            if np.isfinite(best[ERROR]) and _largest_error(n, t, best) <= delta:
                second_pass(n, t, w, is_unit, best)
                if _largest_error(n, t, best) <= delta:
                    found[k] = best
            delta += DELTA
    return found


def _largest_error(n: Floats, t: Floats, best: Floats) -> float:
    return float(np.abs(1.0 - runtime_s(best, n) / t).max())


def distance_weights(n: Floats, given: Floats, target: float) -> Floats:
    """The weights given times Q max|d| - |d|, d an observation's distance to the target; times 1 where all are 0."""
    apart = np.abs(n - target)
    near = Q * apart.max() - apart
    return given * (near if near.max() > 0.0 else 1.0)


def envelope(n: Floats, t: Floats, delta: float) -> tuple[Ints, Floats, Floats]:
    """Boxes of (A, sigma, mode) that two observations allow, each off by a relative error of delta (Appendix A).

    `t` has runtimes in units of tau, a row for each scale: T(inf) = 1 in the low mode, sigma + 1 in the high one. Boxes
    of scale k are rows offsets[k] to offsets[k + 1] of the lower and of the upper ends. Two observations n_i < n_j give
    both parameters in five cases, by the pieces they lie on. Each gives a range of sigma, its ends sorted and clipped
    to the mode, and the range of A over all corners of sigma's range and t_i's.
    """
    i, j = np.triu_indices(len(n), 1)
    ni, nj, off = n[i], n[j], 1.0 + delta * np.array([-1.0, 1.0])[:, None, None]
    t_ends = t[:, i] * off
    ti, tj = np.repeat(t_ends, 2, axis=0), np.tile(t[:, j] * off, (2, 1, 1))
    with np.errstate(all="ignore"):
        slope = (nj * tj - ni * ti) / (nj - ni)
        # With n_i on the slope and n_j behind the bend, sigma is a root of
        # (n_i - 1)/2 sigma^2 - (n_i t_i - (n_j + 1)/2) sigma + n_j (t_j - 1). Where the roots are not real, no sigma
        # meets both points of this corner; the nearest is where they part.
        square, linear, level = 0.5 * (ni - 1.0), ni * ti - 0.5 * (nj + 1.0), nj * (tj - 1.0)
        spread = np.sqrt(np.maximum(linear * linear - 4.0 * square * level, 0.0))
        total = np.where(linear >= 0.0, linear + spread, linear - spread)
        small = np.where(total != 0.0, 2.0 * level / total, 0.0)
        large = np.where(square > 0.0, 0.5 * total / square, np.inf)
        bent = 2.0 * (ni * (ti - 1.0) - nj * (tj - 1.0)) / (nj - ni)
        # By case, corner, scale and pair: both on the first slope, one behind the bend (two roots), both behind it; in
        # the high mode both on the slope, and one on the plateau.
        sigma = np.stack([2.0 * slope, small, large, bent, slope, tj - 1.0])
        is_high = np.arange(6)[:, None, None] >= 4
        s_lo = np.maximum(sigma.min(axis=1), np.where(is_high, 1.0, 0.0))
        s_hi = np.minimum(sigma.max(axis=1), np.where(is_high, LARGEST_SIGMA, 1.0))
        ends, t_ends = np.stack([s_lo, s_hi], axis=1)[:, :, None], t_ends[None]
        on_slope = ni * t_ends - 0.5 * ends[:3] * (ni - 1.0)
        # Flat at T(inf) whatever A, where sigma is 0.
        on_bend = np.where(
            ends[3:4] > 0.0, 0.5 * (1.0 + ni) + ni * (t_ends - 1.0) / ends[3:4], np.where(t_ends > 1.0, np.inf, -np.inf)
        )
        in_high = (ni * (t_ends - ends[4:]) + ends[4:]) / (1.0 + ends[4:])
        corners = np.concatenate([on_slope, on_bend, in_high])
        # Kept to where the case places its two sizes.
        behind, at_plateau = np.maximum(ni, 0.5 * (nj + 1.0)), ((nj, s_hi[4]), (ni, s_hi[5]), (nj, s_lo[5]))
        *from_plateau, to_plateau = [(count + s) / (1.0 + s) for count, s in at_plateau]
        least = nj, behind, behind, 0.5 * (nj + 1.0), *from_plateau
        most = np.inf, nj, nj, ni, np.inf, to_plateau
        A_lo = np.maximum(corners.min(axis=(1, 2)), np.maximum(np.stack(np.broadcast_arrays(*least)), 1.0))
        A_hi = np.minimum(corners.max(axis=(1, 2)), np.stack(np.broadcast_arrays(*most)))
        is_box = (s_lo <= s_hi) & (A_lo <= A_hi)
    # By scale and pair, then case.
    mode = np.broadcast_to(is_high, s_lo.shape)
    lo, hi = (np.moveaxis(np.stack(one, axis=-1), 0, 2) for one in ((A_lo, s_lo, mode), (A_hi, s_hi, mode)))
    is_box = np.moveaxis(is_box, 0, 2)
    counts = is_box.reshape(len(t), -1).sum(axis=1)
    return np.append(0, np.cumsum(counts)), lo[is_box], hi[is_box]


@kernel
def downey(n: float, A: float, sigma: float, is_high: bool) -> float:
    """T(n) in units of tau."""
    if is_high:
        return curve(n, 1.0 + sigma, 1.0, 0.5 * (A + A * sigma - sigma + 1.0), True)
    return curve(n, 1.0, 0.5 * sigma, A, False)


@kernel
def offer(n: Floats, t: Floats, w: Floats, tau: float, A: float, sigma: float, is_high: bool, best: Floats) -> None:
    """Keep the instance in best if its sum of w (1 - T/t)^2 is less."""
    error = 0.0
    for i in range(len(n)):
        off = 1.0 - tau * downey(n[i], A, sigma, is_high) / t[i]
        error += w[i] * off * off
        if error >= best[ERROR]:
            return
    best[ERROR], best[TAU], best[AVG], best[SIGMA], best[IS_HIGH] = error, tau, A, sigma, 1.0 if is_high else 0.0


@kernel
def branch_sigma(branch: int, n: float, t: float, A: float) -> float:
    """sigma of the curve of this A through (n, t), by the piece the point lies on; NaN where it does not lie there."""
    if branch == 0:
        return 2.0 * (n * t - A) / (n - 1.0) if n <= A and n > 1.0 else np.nan
    if branch == 1:
        width = A - 0.5 - 0.5 * n
        return n * (t - 1.0) / width if n > A and width > 0.0 else np.nan
    sigma = (n * t - A) / (n + A - 1.0) if branch == 2 else t - 1.0
    return sigma if (n <= A + A * sigma - sigma) == (branch == 2) else np.nan


@entry_kernel
def first_pass(
    n: Floats, t: Floats, w: Floats, scales: Floats, delta: float, n_values: int, offsets: Ints, lows: Floats,
    highs: Floats, best: Floats,
) -> None:  # fmt: skip
    """Fill best with the best of the curves through each observation in turn that the envelope of a scale holds.

    Every observation serves as the fixed point in turn: one on the low mode's plateau does not determine sigma.
    """
    best[:] = np.inf
    for scale, tau in enumerate(scales):
        start, stop = offsets[scale], offsets[scale + 1]
        if start == stop:
            continue
        lo, hi = lows[start:stop, 0].min(), min(highs[start:stop, 0].max(), (n * t).max() * (1.0 + delta) / tau)
        for k in range(n_values if lo <= hi else 0):
            A = lo * (hi / lo) ** (k / (n_values - 1.0))
            for fixed in range(len(n)):
                for branch in range(N_BRANCHES):
                    is_high = branch >= 2
                    sigma = branch_sigma(branch, n[fixed], t[fixed] / tau, A)
                    box = start
                    while box < stop and not (
                        (highs[box, 2] == 1.0) == is_high
                        and lows[box, 0] <= A <= highs[box, 0]
                        and lows[box, 1] <= sigma <= highs[box, 1]
                    ):
                        box += 1
                    if box < stop:
                        offer(n, t, w, tau, A, sigma, is_high, best)


@entry_kernel
def second_pass(n: Floats, t: Floats, w: Floats, is_unit: bool, best: Floats) -> None:
    """Improve best by a grid about it: 15% to either side, sigma by 0.15 where it is 0.

    With a free scale every instance takes the tau of weighted least squares of relative errors.
    """
    tau, middle, centre, whole = best[TAU], best[AVG], best[SIGMA], w.sum()
    width = WINDOW * centre if centre > 0.0 else WINDOW
    for k in range(GRID):
        A = max(middle * (1.0 + WINDOW * (2.0 * k / (GRID - 1.0) - 1.0)), 1.0)
        for j in range(GRID):
            sigma = max(centre + width * (2.0 * j / (GRID - 1.0) - 1.0), 0.0)
            is_high = sigma > 1.0
            first, second = 0.0, 0.0
            for i in range(len(n)):
                x = downey(n[i], A, sigma, is_high) / t[i]
                first += w[i] * x
                second += w[i] * x * x
            if not is_unit:
                tau = first / second
            # Of those near the least of the sums, whose last digits are lost, the residuals decide.
            if whole - tau * (2.0 * first - tau * second) < best[ERROR] + ROUNDING * whole:
                offer(n, t, w, tau, A, sigma, is_high, best)
