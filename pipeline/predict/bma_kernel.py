"""Per series: the weight of every shape, and quantiles of the mixture of Student-t that they predict.

Log runtimes are shape + level + drift + noise. The level's prior is flat, the drift from the shape is a Brownian motion
in log2 of processors, the noise independent; all variances share one unknown factor with a scaled-inverse-chi-square
prior. Given a shape this is a local-level model, filtered exactly in one pass over the sizes (Durbin and Koopman, Time
Series Analysis by State Space Methods, chapter 2), and its gains are the same for every shape.
"""

import numpy as np
from scipy.special import stdtr

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel

NEGLIGIBLE_LOG = 9.0
"""A shape e^9 times less likely than the best takes no part in a quantile."""

HOPELESS_LOG = 18.0
"""Nor can siblings make one of it that is e^18 times less likely."""

N_BINS = 48
T_STEPS = 1024
MAX_FREEDOM = 60
TOLERANCE = 0.002
"""How far the share below a quantile may be off, in shares of the smaller tail."""


def student_table() -> Floats:
    """P(T <= z) per degrees of freedom (row, 0 unused), on 1024 even steps of z / sqrt(freedom + z^2) from -1 to 1."""
    s = np.linspace(-1.0, 1.0, T_STEPS + 1)
    with np.errstate(divide="ignore"):
        z = s / np.sqrt(np.maximum(1.0 - s * s, 0.0))
    freedom = np.arange(1, MAX_FREEDOM + 1)[:, None]
    return np.vstack([np.zeros(T_STEPS + 1), stdtr(freedom, z * np.sqrt(freedom))])


@kernel
def table_place(log2_x: float, n_rows: int, least: float, per_octave: float) -> tuple[int, float]:
    """Row of the grid's table below log2_x, and how far towards the next."""
    at = (log2_x - least) * per_octave
    row = min(max(int(np.floor(at)), 0), n_rows - 2)
    return row, at - row


@kernel
def filtered(
    log2_x: Floats,
    log_t: Floats,
    variance: Floats,
    rate: float,
    places: Ints,
    grid: Floats,
    least: float,
    per_octave: float,
    level: Floats,
    misfit: Floats,
    spread: Floats,
) -> None:
    """Fills level[size, k], where shape places[k] stands given the sizes up to this one, misfit[k] and spread[size]."""
    n_sizes, n_shapes = log2_x.size, places.size
    for j in range(n_sizes):
        row, share = table_place(log2_x[j], grid.shape[0], least, per_octave)
        below, above, y = grid[row], grid[row + 1], log_t[j]
        if j == 0:
            spread[0] = variance[0]
            for k in range(n_shapes):
                g = places[k]
                level[0, k] = y - (below[g] + share * (above[g] - below[g]))
                misfit[k] = 0.0
            continue
        ahead = spread[j - 1] + rate * abs(log2_x[j] - log2_x[j - 1])
        whole = ahead + variance[j]
        gain, spread[j] = ahead / whole, ahead * variance[j] / whole
        before, after = level[j - 1], level[j]
        for k in range(n_shapes):
            g = places[k]
            off = y - (below[g] + share * (above[g] - below[g])) - before[k]
            misfit[k] += off * off / whole
            after[k] = before[k] + gain * off


@kernel
def filtered_all(
    log2_x: Floats,
    log_t: Floats,
    variance: Floats,
    rate: float,
    grid: Floats,
    least: float,
    per_octave: float,
    level: Floats,
    misfit: Floats,
    spread: Floats,
) -> None:
    """As filtered, for every shape in turn: half of the time goes here, and so nothing is looked up."""
    n_sizes, n_shapes = log2_x.size, grid.shape[1]
    for j in range(n_sizes):
        row, share = table_place(log2_x[j], grid.shape[0], least, per_octave)
        below, above, y = grid[row], grid[row + 1], log_t[j]
        if j == 0:
            spread[0] = variance[0]
            for k in range(n_shapes):
                level[0, k] = y - (below[k] + share * (above[k] - below[k]))
                misfit[k] = 0.0
            continue
        ahead = spread[j - 1] + rate * abs(log2_x[j] - log2_x[j - 1])
        whole = ahead + variance[j]
        gain, spread[j] = ahead / whole, ahead * variance[j] / whole
        before, after = level[j - 1], level[j]
        for k in range(n_shapes):
            off = y - (below[k] + share * (above[k] - below[k])) - before[k]
            misfit[k] += off * off / whole
            after[k] = before[k] + gain * off


@kernel
def posterior(misfit: Floats, prior: Floats, n_sizes: int, freedom0: int, weight: Floats, power: Floats) -> None:
    """Fills the weight of every shape, prior (freedom0 + misfit)^-(freedom0 + sizes - 1)/2, sum 1; the hopeless get 0.

    The power is whole in the root, so that squaring does what logarithms take five times as long for.
    """
    least = freedom0 + misfit.min()
    for g in range(misfit.size):
        power[g] = np.sqrt(least / (freedom0 + misfit[g]))
        weight[g] = prior[g]
    exponent = freedom0 + n_sizes - 1
    while exponent > 0:
        if exponent % 2 == 1:
            for g in range(misfit.size):
                weight[g] *= power[g]
        for g in range(misfit.size):
            power[g] *= power[g]
        exponent //= 2
    hopeless, whole = weight.max() * np.exp(-HOPELESS_LOG), 0.0
    for g in range(misfit.size):
        weight[g] = weight[g] if weight[g] > hopeless else 0.0
        whole += weight[g]
    for g in range(misfit.size):
        weight[g] /= whole


@kernel
def told_by_siblings(
    weight: Floats, prior: Floats, told: Floats, n_told: float, is_told_of: bool, worth: float
) -> float:
    """Moves a posterior under `prior` to that under the prior that its siblings inform; their log Bayes factor.

    `told` sums n_told posteriors, this one's own among them where is_told_of.
    """
    own = 1.0 if is_told_of else 0.0
    n_siblings = n_told - own
    if n_siblings <= 0.0:
        return 0.0
    share, foretold, whole = n_siblings * worth / (1.0 + n_siblings * worth), 0.0, 0.0
    for g in range(weight.size):
        if weight[g] > 0.0:
            odds = max(told[g] - own * weight[g], 0.0) / (n_siblings * prior[g])
            foretold += weight[g] * odds
            weight[g] *= 1.0 - share + share * odds
            whole += weight[g]
    for g in range(weight.size):
        weight[g] /= whole
    return float(np.log(max(foretold, 1e-300)))


@kernel
def mixture_below(at: float, n: int, bins: Floats, cdf: Floats, freedom: int) -> float:
    """Share of a mixture of Student-t below `at`."""
    share = 0.0
    for b in range(n):
        z = (at - bins[1, b]) / bins[2, b]
        place = (z / np.sqrt(freedom + z * z) + 1.0) * (0.5 * T_STEPS)
        cell = min(int(place), T_STEPS - 1)
        share += bins[0, b] * (cdf[cell] + (place - cell) * (cdf[cell + 1] - cdf[cell]))
    return share


@kernel
def mixture_quantile(q: float, low: float, high: float, n: int, bins: Floats, cdf: Floats, freedom: int) -> float:
    """Where a share q of the mixture lies below, by the Illinois rule on a bracket widened until it holds."""
    width = high - low
    f_low = mixture_below(low, n, bins, cdf, freedom) - q
    while f_low > 0.0:
        low, width = low - width, 2.0 * width
        f_low = mixture_below(low, n, bins, cdf, freedom) - q
    f_high = mixture_below(high, n, bins, cdf, freedom) - q
    while f_high < 0.0:
        high, width = high + width, 2.0 * width
        f_high = mixture_below(high, n, bins, cdf, freedom) - q
    side, at = 0, low
    for _ in range(60):
        if f_high - f_low <= 0.0:
            break
        at = (low * f_high - high * f_low) / (f_high - f_low)
        f = mixture_below(at, n, bins, cdf, freedom) - q
        if abs(f) < TOLERANCE * min(q, 1.0 - q) or high - low < 1e-7:
            break
        if f < 0.0:
            low, f_low = at, f
            f_high = 0.5 * f_high if side == 1 else f_high
            side = 1
        else:
            high, f_high = at, f
            f_low = 0.5 * f_low if side == 2 else f_low
            side = 2
    return at


@kernel
def binned(loc: Floats, scale: Floats, weight: Floats, n: int, bins: Floats) -> int:
    """n Student-t terms gathered by place into at most N_BINS; how many. The terms' spread within a bin is kept."""
    low, high, least = np.inf, -np.inf, np.inf
    for k in range(n):
        low, high, least = min(low, loc[k]), max(high, loc[k]), min(least, scale[k])
    step = max((high - low) / (N_BINS - 1), 0.2 * least)
    bins[:, :] = 0.0
    for k in range(n):
        off = loc[k] - low
        b, w = int(off / step), weight[k]
        bins[0, b] += w
        bins[1, b] += w * off
        bins[2, b] += w * (scale[k] * scale[k] + off * off)
    n_bins = 0
    for b in range(N_BINS):
        w = bins[0, b]
        if w > 1e-7:
            mean = bins[1, b] / w
            variance = bins[2, b] / w - mean * mean
            bins[0, n_bins], bins[1, n_bins], bins[2, n_bins] = w, mean + low, np.sqrt(variance)
            n_bins += 1
    return n_bins


@kernel
def seen_from_both_sides(
    at: float,
    log2_x: Floats,
    ahead: Floats,
    ahead_spread: Floats,
    back: Floats,
    back_spread: Floats,
    rate: float,
    n: int,
    loc: Floats,
) -> float:
    """Fills loc with each shape's level at `at`, from the sizes on either side; its variance."""
    m = log2_x.size
    right = np.searchsorted(log2_x, at)
    if right == m:
        loc[:n] = ahead[m - 1, :n]
        return float(ahead_spread[m - 1] + rate * (at - log2_x[m - 1]))
    there = back_spread[m - 1 - right] + rate * (log2_x[right] - at)
    if right == 0:
        loc[:n] = back[m - 1, :n]
        return float(there)
    here = ahead_spread[right - 1] + rate * (at - log2_x[right - 1])
    share = there / (here + there)
    for k in range(n):
        loc[k] = share * ahead[right - 1, k] + (1.0 - share) * back[m - 1 - right, k]
    return float(here * share)


@kernel
def kept_shapes(weight: Floats, misfit: Floats, ahead: Floats, n_sizes: int, kept: Ints) -> int:
    """Moves the shapes that are not negligible to the front of weight, misfit and ahead, and names them; how many."""
    n, whole, least = 0, 0.0, weight.max() * np.exp(-NEGLIGIBLE_LOG)
    for g in range(weight.size):
        if weight[g] > least:
            kept[n], weight[n], misfit[n] = g, weight[g], misfit[g]
            whole += weight[g]
            for j in range(n_sizes):
                ahead[j, n] = ahead[j, g]
            n += 1
    for k in range(n):
        weight[k] /= whole
    return n


@kernel
def split_share(loc: Floats, scale: Floats, weight: Floats, n: int) -> float:
    """How far the shapes disagree: the variance between their predictions over the variance within each."""
    mean, square, within = 0.0, 0.0, 0.0
    for k in range(n):
        off = loc[k] - loc[0]
        mean += weight[k] * off
        square += weight[k] * off * off
        within += weight[k] * scale[k] * scale[k]
    return max(square - mean * mean, 0.0) / within


@entry_kernel
def posteriors(
    offsets: Ints,
    log2_x: Floats,
    log_t: Floats,
    variance: Floats,
    rate: Floats,
    grid: Floats,
    prior: Floats,
    freedom0: int,
    least: float,
    per_octave: float,
    out: Floats,
) -> None:
    """Fills out[series, shape] with posterior weights under the general prior."""
    n_shapes = grid.shape[1]
    misfit, power = np.empty(n_shapes), np.empty(n_shapes)
    for i in range(offsets.size - 1):
        a, b = offsets[i], offsets[i + 1]
        if b > a:
            level, spread = np.empty((b - a, n_shapes)), np.empty(b - a)
            filtered_all(log2_x[a:b], log_t[a:b], variance[a:b], rate[i], grid, least, per_octave, level, misfit,
                     spread)  # fmt: skip
        else:
            misfit[:] = 0.0
        posterior(misfit, prior, b - a, freedom0, out[i], power)


@entry_kernel
def mixtures(
    offsets: Ints,
    log2_x: Floats,
    log_t: Floats,
    variance: Floats,
    rate: Floats,
    target_offsets: Ints,
    target_log2_x: Floats,
    new_variance: Floats,
    quantiles: Floats,
    grid: Floats,
    prior: Floats,
    application: Ints,
    tells: Bools,
    told: Floats,
    n_told: Floats,
    worth: float,
    freedom0: int,
    least: float,
    per_octave: float,
    cdfs: Floats,
    out: Floats,
    split: Floats,
    log_bayes: Floats,
) -> None:
    """Fills out[target, quantile] with log runtimes and split[target]; see average.average.

    Targets of series i are target_offsets[i]:target_offsets[i + 1]. log_bayes[series]: see told_by_siblings.
    """
    n_shapes, most = grid.shape[1], max(1, np.diff(offsets).max()) if offsets.size > 1 else 1
    ahead, back = np.empty((most, n_shapes)), np.empty((most, n_shapes))
    ahead_spread, back_spread = np.empty(most), np.empty(most)
    misfit, weight, unused = np.empty(n_shapes), np.empty(n_shapes), np.empty(n_shapes)
    power, kept = np.empty(n_shapes), np.empty(n_shapes, np.int64)
    loc, scale, bins = np.empty(n_shapes), np.empty(n_shapes), np.empty((3, N_BINS))
    for i in range(offsets.size - 1):
        a, b, m = offsets[i], offsets[i + 1], offsets[i + 1] - offsets[i]
        if m == 0 or target_offsets[i] == target_offsets[i + 1]:
            continue
        x, y, v = log2_x[a:b], log_t[a:b], variance[a:b]
        filtered_all(x, y, v, rate[i], grid, least, per_octave, ahead, misfit, ahead_spread)
        posterior(misfit, prior, m, freedom0, weight, power)
        of = application[i]
        if of >= 0:
            log_bayes[i] = told_by_siblings(weight, prior, told[of], n_told[of], tells[i], worth)
        n = kept_shapes(weight, misfit, ahead, m, kept)
        filtered(x[::-1], y[::-1], v[::-1], rate[i], kept[:n], grid, least, per_octave, back, unused, back_spread)
        freedom = min(int(freedom0 + m - 1), MAX_FREEDOM)
        for t in range(target_offsets[i], target_offsets[i + 1]):
            at = target_log2_x[t]
            own = seen_from_both_sides(at, x, ahead, ahead_spread, back, back_spread, rate[i], n, loc)
            row, share = table_place(at, grid.shape[0], least, per_octave)
            for k in range(n):
                g = kept[k]
                loc[k] += grid[row, g] + share * (grid[row + 1, g] - grid[row, g])
                scale[k] = np.sqrt((freedom0 + misfit[k]) / (freedom0 + m - 1) * (own + new_variance[t]))
            split[t] = split_share(loc, scale, weight, n)
            n_bins = binned(loc, scale, weight, n, bins)
            low, high = bins[1, 0] - 3.0 * bins[2, 0], bins[1, n_bins - 1] + 3.0 * bins[2, n_bins - 1]
            for k in range(quantiles.size):
                out[t, k] = mixture_quantile(quantiles[k], low, high, n_bins, bins, cdfs[freedom], freedom)
