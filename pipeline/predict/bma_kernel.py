"""The model average of many series, compiled: what each believes of the shapes, and what that predicts."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.predict.bma_posterior import (
    Kindred,
    Shapes,
    filtered,
    kept_shapes,
    posterior,
    table_place,
    told_by_siblings,
)
from pipeline.predict.bma_quantiles import MAX_FREEDOM, N_BINS, binned, mixture_quantiles, shapes_variance


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


class Room(NamedTuple):
    """What is written over for each series: per size and shape, per size, and per shape."""

    ahead: Floats
    back: Floats
    ahead_spread: Floats
    back_spread: Floats
    misfit: Floats
    weight: Floats
    other: Floats
    kept: Ints
    bins: Floats


@kernel
def empty_room(offsets: Ints, n_shapes: int) -> Room:
    """Room for the longest series."""
    most = max(1, np.diff(offsets).max()) if offsets.size > 1 else 1
    return Room(
        np.empty((most, n_shapes)), np.empty((most, n_shapes)), np.empty(most), np.empty(most), np.empty(n_shapes),
        np.empty(n_shapes), np.empty(n_shapes), np.empty(n_shapes, np.int64), np.empty((3, N_BINS)),
    )  # fmt: skip


@kernel
def weighed(i: int, series: Columns, shapes: Shapes, freedom0: int, room: Room) -> None:
    """Fills weight, misfit, ahead and ahead_spread of every shape, from series i alone."""
    a, b = series.offsets[i], series.offsets[i + 1]
    x, y, v = series.log2_x[a:b], series.log_t[a:b], series.variance[a:b]
    every = np.arange(shapes.prior.size)
    filtered(x, y, v, series.rate[i], every, shapes, room.ahead, room.misfit, room.ahead_spread)
    posterior(room.misfit, shapes.prior, b - a, freedom0, room.weight, room.other)


@kernel
def seen_from_behind(i: int, series: Columns, shapes: Shapes, n: int, freedom0: int, room: Room) -> None:
    """Fills back and back_spread of the n shapes kept; misfit becomes the shapes' factor on every variance."""
    a, b = series.offsets[i], series.offsets[i + 1]
    x, y, v = series.log2_x[a:b][::-1], series.log_t[a:b][::-1], series.variance[a:b][::-1]
    filtered(x, y, v, series.rate[i], room.kept[:n], shapes, room.back, room.other, room.back_spread)
    for k in range(n):
        room.misfit[k] = (freedom0 + room.misfit[k]) / (freedom0 + b - a - 1)


@kernel
def seen_from_both_sides(at: float, log2_x: Floats, rate: float, n: int, room: Room, loc: Floats) -> float:
    """Fills loc with each shape's level at `at`, from the sizes on either side; its variance."""
    m = log2_x.size
    ahead, back, ahead_spread, back_spread = room.ahead, room.back, room.ahead_spread, room.back_spread
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


@entry_kernel
def tell(series: Columns, shapes: Shapes, application: Ints, tells: Bools, freedom0: int, told: Floats) -> None:
    """Adds to told[application, shape] the weights that each series which tells gives the shapes by itself."""
    room = empty_room(series.offsets, shapes.prior.size)
    for i in range(series.offsets.size - 1):
        if tells[i]:
            weighed(i, series, shapes, freedom0, room)
            own = told[application[i]]
            for g in range(own.size):
                own[g] += room.weight[g]


@kernel
def predicted(
    at: float, new_variance: float, i: int, series: Columns, shapes: Shapes, n: int, logits: Floats, freedom: int,
    cdf: Floats, room: Room, out: Floats,
) -> float:  # fmt: skip
    """Fills out with log runtimes at `at` by the n shapes kept; how far these disagree there."""
    a, b = series.offsets[i], series.offsets[i + 1]
    loc, weight, kept = room.other, room.weight, room.kept
    own = seen_from_both_sides(at, series.log2_x[a:b], series.rate[i], n, room, loc)
    row, share = table_place(at, shapes)
    below, above = shapes.log_shape[row], shapes.log_shape[row + 1]
    within = 0.0
    for k in range(n):
        loc[k] += below[kept[k]] + share * (above[kept[k]] - below[kept[k]])
        within += weight[k] * room.misfit[k]
    n_bins = binned(loc, room.misfit, own + new_variance, weight, n, room.bins)
    mixture_quantiles(logits, n_bins, room.bins, cdf, freedom, out)
    return float(shapes_variance(loc, weight, n) / (within * (own + new_variance)))


@entry_kernel
def mixtures(
    series: Columns, shapes: Shapes, kin: Kindred, targets: Targets, logits: Floats, freedom0: int, cdfs: Floats,
    log_s: Floats, split: Floats, log_bayes: Floats,
) -> None:  # fmt: skip
    """Fills log_s[target, quantile], split[target] and log_bayes[series]; see average.Averaged."""
    room = empty_room(series.offsets, shapes.prior.size)
    for i in range(series.offsets.size - 1):
        m, first, last = series.offsets[i + 1] - series.offsets[i], targets.offsets[i], targets.offsets[i + 1]
        if m == 0 or first == last:
            continue
        weighed(i, series, shapes, freedom0, room)
        log_bayes[i] = told_by_siblings(i, room.weight, shapes.prior, kin)
        n = kept_shapes(room.weight, room.misfit, room.ahead, m, room.kept)
        seen_from_behind(i, series, shapes, n, freedom0, room)
        freedom = min(freedom0 + m - 1, MAX_FREEDOM)
        for t in range(first, last):
            split[t] = predicted(targets.log2_x[t], targets.new_variance[t], i, series, shapes, n, logits, freedom,
                                 cdfs[freedom], room, log_s[t])  # fmt: skip
