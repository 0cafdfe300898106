"""The model average of many series, compiled: the posterior of each over the shapes, and its predictions."""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel, kernel
from pipeline.scaling.posterior import (
    FREEDOM,
    Kindred,
    Places,
    Shapes,
    filtered,
    informed_by_siblings,
    kept_shapes,
    posterior,
    table_rows,
)
from pipeline.scaling.quantiles import (
    LANES,
    MAX_FREEDOM,
    N_BINS,
    Bins,
    binned,
    gathered,
    mixture_quantiles,
)

JUMP_LOG_SD = 0.3
"""How far the last step may jump off the drift (log s): a node filled, a network's next level, a cache reached."""

JUMP_ODDS = 0.1
"""Prior odds that the last step jumps, per doubling of it."""

JUMP_LEAST_SIZES = 3
"""A series of fewer sizes has no step beside its last to compare that with."""


class Columns(NamedTuple):
    """Series end to end: series i is offsets[i]:offsets[i + 1]; rate is the drift's variance per doubling."""

    offsets: Ints
    log2_x: Floats
    log_t: Floats
    variance: Floats
    rate: Floats


class Targets(NamedTuple):
    """Those of series i are offsets[i]:offsets[i + 1]; new_variance is what an observation there scatters."""

    offsets: Ints
    log2_x: Floats
    new_variance: Floats


class Workspace(NamedTuple):
    """Arrays that one series after another is averaged in.

    By size and shape `level`; by hypothesis (0: the drift as given, 1: a jump at the last step) and shape `misfit` and
    `weight`. Of the kept pairs of hypothesis and shape, end to end: `ahead` and `back` by size, `kept` (the shape),
    `share`, `inner` (the factor on every variance) and `loc`. By hypothesis and size `gap`, `ahead_spread`
    and `back_spread`. `cells` and `bins` as bma_quantiles.binned has them.
    """

    level: Floats
    misfit: Floats
    weight: Floats
    prior: Floats
    jumped: Floats
    gap: Floats
    ahead: Floats
    back: Floats
    ahead_spread: Floats
    back_spread: Floats
    kept: Places
    share: Floats
    inner: Floats
    loc: Floats
    cells: Floats
    bins: Bins


def empty_workspace(offsets: Ints, n_shapes: int) -> Workspace:
    """Workspace for the longest series."""
    most, n = int(np.diff(offsets).max(initial=1)), 2 * n_shapes
    bins = Bins(*(np.empty(2 * N_BINS) for _ in range(4)))
    return Workspace(
        np.empty((most, n_shapes)), np.empty(n), np.empty(n), np.empty(n), np.empty(n_shapes), np.empty((2, most)),
        np.empty((most, n)), np.empty((most, n)), np.empty((2, most)), np.empty((2, most)), np.empty(n, np.uint64),
        np.empty(n), np.empty(n), np.empty(n), np.empty((LANES, N_BINS, 4)), bins,
    )  # fmt: skip


# Not inlined: both kernels below call it once a series, and either would compile it again.
@entry_kernel
def weighed(i: int, series: Columns, shapes: Shapes, work: Workspace) -> None:
    """Fills weight, misfit, level and ahead_spread of every shape, from series i alone.

    The hypotheses share all steps but the last: there the jump's level goes to work.jumped.
    """
    a, b, n = series.offsets[i], series.offsets[i + 1], shapes.prior.size
    x, y, v = series.log2_x[a:b], series.log_t[a:b], series.variance[a:b]
    # The drift's variance between one size and the next, by hypothesis.
    for j in range(x.size - 1):
        work.gap[:, j] = series.rate[i] * (x[j + 1] - x[j])
    if x.size > 1:
        work.gap[1, x.size - 2] += JUMP_LOG_SD**2
    filtered(x, y, v, work.gap[0], shapes, work.level, work.misfit[:n], work.ahead_spread[0])
    m = b - a
    doublings = x[m - 1] - x[m - 2] if m >= JUMP_LEAST_SIZES else 0.0
    odds = min(JUMP_ODDS * doublings, 1.0)
    work.ahead_spread[1, :m] = work.ahead_spread[0, :m]
    work.prior[:n] = shapes.prior
    if odds == 0.0:
        work.misfit[n:], work.prior[n:] = work.misfit[:n], 0.0
        work.jumped[:] = work.level[m - 1]
    else:
        odds *= last_step_jumped(m, v[m - 1], n, work)
        for g in range(n):
            work.prior[n + g] = odds * shapes.prior[g]
    posterior(work.misfit, work.prior, m, work.weight, work.inner)


@kernel
def last_step_jumped(m: int, variance: float, n: int, work: Workspace) -> float:
    """Fills jumped and the jump's misfit and last spread; the ratio of the densities' constants, jump over none.

    The plain filter's last step is taken back: level = before + gain off, misfit = earlier + off^2 / whole.
    """
    ahead = work.ahead_spread[0, m - 2] + work.gap[0, m - 2]
    ahead_jumped = work.ahead_spread[0, m - 2] + work.gap[1, m - 2]
    whole, whole_jumped = ahead + variance, ahead_jumped + variance
    gain, gain_jumped = ahead / whole, ahead_jumped / whole_jumped
    work.ahead_spread[1, m - 1] = ahead_jumped * variance / whole_jumped
    before, after = work.level[m - 2], work.level[m - 1]
    squares, per_gain = 1.0 / whole_jumped - 1.0 / whole, 1.0 / gain
    for g in range(n):
        off = (after[g] - before[g]) * per_gain
        work.misfit[n + g] = max(work.misfit[g] + off * off * squares, 0.0)
        work.jumped[g] = before[g] + gain_jumped * off
    return float(np.sqrt(whole / whole_jumped))


@kernel
def gather(m: int, n_shapes: int, n_plain: int, n_jump: int, work: Workspace) -> None:
    """Fills ahead and inner of the pairs kept, the plain ones first."""
    per_freedom, kept, jumped = 1.0 / (FREEDOM + m - 1), work.kept, work.misfit[n_shapes:]
    for k in range(n_plain):
        work.inner[k] = (FREEDOM + work.misfit[kept[k]]) * per_freedom
    for k in range(n_plain, n_plain + n_jump):
        work.inner[k] = (FREEDOM + jumped[kept[k]]) * per_freedom
    for j in range(m):
        level, ahead = work.level[j], work.ahead[j]
        for k in range(n_plain + n_jump):
            ahead[k] = level[kept[k]]
    for k in range(n_plain, n_plain + n_jump):
        work.ahead[m - 1, k] = work.jumped[kept[k]]


@kernel
def filtered_backwards(i: int, series: Columns, shapes: Shapes, n_plain: int, n_jump: int, work: Workspace) -> None:
    """Fills back and back_spread of the pairs kept, as `filtered` would from the last size to the first."""
    b, m = series.offsets[i + 1], series.offsets[i + 1] - series.offsets[i]
    kept, spread = work.kept, work.back_spread
    for j in range(m):
        row, next_row, share = table_rows(series.log2_x[b - 1 - j], shapes)
        below, above = shapes.log_shape[row], shapes.log_shape[next_row]
        before, after = work.back[max(j - 1, 0)], work.back[j]
        y, variance = series.log_t[b - 1 - j], series.variance[b - 1 - j]
        for h in range(2):
            first, last = (0, n_plain) if h == 0 else (n_plain, n_plain + n_jump)
            gain, spread[h, j] = 1.0, variance
            if j == 0:
                before[first:last] = 0.0
            else:
                ahead = spread[h, j - 1] + work.gap[h, m - 1 - j]
                gain, spread[h, j] = ahead / (ahead + variance), ahead * variance / (ahead + variance)
            for k in range(first, last):
                g = kept[k]
                off = y - (below[g] + share * (above[g] - below[g])) - before[k]
                after[k] = before[k] + gain * off


@kernel
def smoothed_levels(at: float, log2_x: Floats, rate: float, h: int, first: int, last: int, work: Workspace) -> float:
    """Fills loc[first:last], pairs of hypothesis h, with their levels at `at` from the sizes on both sides; variance.

    Between the last two sizes a jump's variance spreads evenly over the step.
    """
    m, loc, ahead, back = log2_x.size, work.loc, work.ahead, work.back
    ahead_spread, back_spread = work.ahead_spread[h], work.back_spread[h]
    right = np.searchsorted(log2_x, at)
    if right == m:
        loc[first:last] = ahead[m - 1, first:last]
        return float(ahead_spread[m - 1] + rate * (at - log2_x[m - 1]))
    if right == 0:
        loc[first:last] = back[m - 1, first:last]
        return float(back_spread[m - 1] + rate * (log2_x[0] - at))
    part = (at - log2_x[right - 1]) / (log2_x[right] - log2_x[right - 1])
    gap = work.gap[h, right - 1]
    there = back_spread[m - 1 - right] + gap * (1.0 - part)
    here = ahead_spread[right - 1] + gap * part
    share = there / (here + there)
    from_left, from_right = ahead[right - 1], back[m - 1 - right]
    for k in range(first, last):
        loc[k] = share * from_left[k] + (1.0 - share) * from_right[k]
    return float(here * share)


@entry_kernel
def add_posteriors(
    series: Columns, shapes: Shapes, application: Ints, is_informative: Bools, sums: Floats,
    work: Workspace,
) -> None:  # fmt: skip
    """Adds to sums[application, shape] the posterior of each informative series over the shapes, by itself."""
    n = shapes.prior.size
    for i in range(series.offsets.size - 1):
        if is_informative[i]:
            weighed(i, series, shapes, work)
            own = sums[application[i]]
            for g in range(n):
                own[g] += work.weight[g] + work.weight[n + g]


@kernel
def predicted(
    at: float, new_variance: float, i: int, series: Columns, shapes: Shapes, n_plain: int, n: int, logits: Floats,
    freedom: int, cdf: Floats, work: Workspace, out: Floats,
) -> float:  # fmt: skip
    """Fills out with log runtimes at `at` by the n pairs kept; how far these disagree there."""
    x, rate = series.log2_x[series.offsets[i] : series.offsets[i + 1]], series.rate[i]
    loc, kept, n_bins, moments = work.loc, work.kept, 0, (0.0, 0.0, 0.0)
    row, next_row, share = table_rows(at, shapes)
    below, above = shapes.log_shape[row], shapes.log_shape[next_row]
    # Pairs of either hypothesis end close together and spread differently: each keeps bins of its own.
    for h in range(2):
        first, last = (0, n_plain) if h == 0 else (n_plain, n)
        if last == first:
            continue
        variance = smoothed_levels(at, x, rate, h, first, last, work) + new_variance
        for k in range(first, last):
            loc[k] += below[kept[k]] + share * (above[kept[k]] - below[kept[k]])
        low = binned(loc[first:last], work.inner[first:last], work.share[first:last], variance, work.cells)
        n_bins, moments = gathered(low, variance, work.cells, n_bins, work.bins, loc[0], moments)
    mixture_quantiles(logits, n_bins, work.bins, cdf, freedom, out)
    mean, square, within = moments
    return float(max(square - mean * mean, 0.0) / within)


@entry_kernel
def mixtures(
    series: Columns, shapes: Shapes, kin: Kindred, targets: Targets, logits: Floats, cdfs: Floats,
    log_s: Floats, split: Floats, log_bayes: Floats, work: Workspace,
) -> None:  # fmt: skip
    """Fills log_s[target, quantile], split[target] and log_bayes[series]; see average.Averaged."""
    n_shapes = shapes.prior.size
    for i in range(series.offsets.size - 1):
        m, first, last = series.offsets[i + 1] - series.offsets[i], targets.offsets[i], targets.offsets[i + 1]
        if m == 0 or first == last:
            continue
        weighed(i, series, shapes, work)
        log_bayes[i] = informed_by_siblings(i, work.weight, shapes.prior, kin, work.inner)
        n_plain, n_jump = kept_shapes(work.weight, n_shapes, work.kept, work.share)
        gather(m, n_shapes, n_plain, n_jump, work)
        filtered_backwards(i, series, shapes, n_plain, n_jump, work)
        freedom = min(FREEDOM + m - 1, MAX_FREEDOM)
        for t in range(first, last):
            split[t] = predicted(targets.log2_x[t], targets.new_variance[t], i, series, shapes, n_plain,
                                 n_plain + n_jump, logits, freedom, cdfs[freedom], work, log_s[t])  # fmt: skip
