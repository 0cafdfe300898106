"""Per series: the weight of every shape, and quantiles of the mixture they predict."""

import numpy as np
from scipy.special import stdtr

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel

NEGLIGIBLE_LOG = 10.0
"""A shape e^10 times less likely than the best takes no part in a quantile."""

N_BINS = 48
T_STEPS = 1024
MAX_FREEDOM = 40


def student_table() -> Floats:
    """P(T <= z) per degrees of freedom (row, 0 unused), on 1024 even steps of z / sqrt(freedom + z^2) from -1 to 1."""
    s = np.linspace(-1.0, 1.0, T_STEPS + 1)
    with np.errstate(divide="ignore"):
        z = s / np.sqrt(np.maximum(1.0 - s * s, 0.0))
    freedom = np.arange(1, MAX_FREEDOM + 1)[:, None]
    rows = stdtr(freedom, z * np.sqrt(freedom))
    return np.vstack([np.zeros(T_STEPS + 1), rows])


@kernel
def table_place(log2_x, n_rows, least, per_octave):  # type: ignore[no-untyped-def]
    """Row below log2_x and how far towards the next."""
    at = (log2_x - least) * per_octave
    row = min(max(int(np.floor(at)), 0), n_rows - 2)
    return row, at - row


@kernel
def shape_weights(log2_x, log_t, precision, grid, log_prior, freedom0, least, per_octave, level, misfit, weight):  # type: ignore[no-untyped-def]
    """Fills per shape the log scale that fits best, the weighted squared misfit, and the posterior weight (sum 1)."""
    n_shapes = grid.shape[1]
    total = precision.sum()
    centre = (precision * log_t).sum() / total
    level[:] = 0.0
    misfit[:] = 0.0
    for j in range(log2_x.size):
        row, share = table_place(log2_x[j], grid.shape[0], least, per_octave)
        below, above, y, p = grid[row], grid[row + 1], log_t[j] - centre, precision[j]
        for g in range(n_shapes):
            e = y - (below[g] + share * (above[g] - below[g]))
            level[g] += p * e
            misfit[g] += p * e * e
    half = 0.5 * (freedom0 + log2_x.size - 1)
    best = -np.inf
    for g in range(n_shapes):
        mean = level[g] / total
        misfit[g] = max(misfit[g] - mean * level[g], 0.0)
        level[g] = mean + centre
        weight[g] = log_prior[g] - half * np.log(freedom0 + misfit[g])
        best = max(best, weight[g])
    whole = 0.0
    for g in range(n_shapes):
        weight[g] = np.exp(weight[g] - best) if weight[g] > best - NEGLIGIBLE_LOG else 0.0
        whole += weight[g]
    for g in range(n_shapes):
        weight[g] /= whole


@kernel
def mixture_below(at, n, w, loc, scale, cdf, freedom):  # type: ignore[no-untyped-def]
    """Share of a mixture of Student-t below `at`."""
    share = 0.0
    for b in range(n):
        z = (at - loc[b]) / scale[b]
        place = (z / np.sqrt(freedom + z * z) + 1.0) * (0.5 * T_STEPS)
        cell = min(int(place), T_STEPS - 1)
        share += w[b] * (cdf[cell] + (place - cell) * (cdf[cell + 1] - cdf[cell]))
    return share


@kernel
def mixture_quantile(q, low, high, n, w, loc, scale, cdf, freedom):  # type: ignore[no-untyped-def]
    """Where a share q of the mixture lies below, by the Illinois rule on a bracket widened until it holds."""
    width = high - low
    f_low = mixture_below(low, n, w, loc, scale, cdf, freedom) - q
    while f_low > 0.0:
        low, width = low - width, 2.0 * width
        f_low = mixture_below(low, n, w, loc, scale, cdf, freedom) - q
    f_high = mixture_below(high, n, w, loc, scale, cdf, freedom) - q
    while f_high < 0.0:
        high, width = high + width, 2.0 * width
        f_high = mixture_below(high, n, w, loc, scale, cdf, freedom) - q
    side = 0
    at = low
    for _ in range(60):
        if f_high - f_low <= 0.0:
            break
        at = (low * f_high - high * f_low) / (f_high - f_low)
        f = mixture_below(at, n, w, loc, scale, cdf, freedom) - q
        if abs(f) < 2e-4 * min(q, 1.0 - q) * 10 or high - low < 1e-6:
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
def binned(
    kept, n_kept, log2_x, spread, drift, freedom, level, misfit, weight, grid, least, per_octave, freedom0, loc, bins
):  # type: ignore[no-untyped-def]  # noqa: E501
    """The shapes' predictions gathered by place into at most N_BINS Student-t terms; how many."""
    row, share = table_place(log2_x, grid.shape[0], least, per_octave)
    low, high, least_sd = np.inf, -np.inf, np.inf
    for k in range(n_kept):
        g = kept[k]
        loc[k] = level[g] + grid[row, g] + share * (grid[row + 1, g] - grid[row, g])
        low, high = min(low, loc[k]), max(high, loc[k])
        least_sd = min(least_sd, misfit[g])
    least_sd = np.sqrt((freedom0 + least_sd) / freedom * spread + drift)
    step = max((high - low) / (N_BINS - 1), 0.2 * least_sd)
    bins[:, :] = 0.0
    for k in range(n_kept):
        g = kept[k]
        b, w = int((loc[k] - low) / step), weight[g]
        bins[0, b] += w
        bins[1, b] += w * (loc[k] - low)
        bins[2, b] += w * (loc[k] - low) ** 2
        bins[3, b] += w * ((freedom0 + misfit[g]) / freedom * spread + drift)
    n = 0
    for b in range(N_BINS):
        w = bins[0, b]
        if w > 1e-7:
            mean = bins[1, b] / w
            within = max(bins[2, b] / w - mean * mean, 0.0)
            bins[0, n], bins[1, n] = w, mean + low
            bins[2, n] = np.sqrt(bins[3, b] / w + within)
            n += 1
    return n


@entry_kernel
def predict_series(offsets, log2_x, log_t, point_sd, target_offsets, target_log2_x, new_sd, drift_sd, quantiles,
                   grid, log_prior, family_prior, freedom0, least, per_octave, cdfs, out):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Fills out[target, quantile] with log runtimes: see bma.bma_log_quantiles."""
    n_shapes = grid.shape[1]
    level, misfit, weight = np.empty(n_shapes), np.empty(n_shapes), np.empty(n_shapes)
    kept, loc, bins = np.empty(n_shapes, np.int64), np.empty(n_shapes), np.empty((4, N_BINS))
    for i in range(offsets.size - 1):
        a, b = offsets[i], offsets[i + 1]
        if b == a:
            out[target_offsets[i] : target_offsets[i + 1], :] = np.nan
            continue
        precision = 1.0 / point_sd[a:b] ** 2
        prior = family_prior[i] if family_prior.shape[0] else log_prior
        shape_weights(
            log2_x[a:b], log_t[a:b], precision, grid, prior, freedom0, least, per_octave, level, misfit, weight
        )  # noqa: E501
        n_kept = 0
        for g in range(n_shapes):
            if weight[g] > 0.0:
                kept[n_kept] = g
                n_kept += 1
        freedom = freedom0 + b - a - 1
        cdf = cdfs[min(int(freedom), MAX_FREEDOM)]
        for j in range(target_offsets[i], target_offsets[i + 1]):
            spread = 1.0 / precision.sum() + new_sd[i] ** 2
            n = binned(kept, n_kept, target_log2_x[j], spread, drift_sd[j] ** 2, freedom, level, misfit, weight, grid,
                       least, per_octave, freedom0, loc, bins)  # fmt: skip
            low, high = bins[1, 0] - 3.0 * bins[2, 0], bins[1, n - 1] + 3.0 * bins[2, n - 1]
            for k in range(quantiles.size):
                at = mixture_quantile(
                    quantiles[k], low, high, n, bins[0], bins[1], bins[2], cdf, min(freedom, MAX_FREEDOM)
                )  # noqa: E501
                out[j, k] = at
