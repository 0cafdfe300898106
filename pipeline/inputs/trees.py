"""Boosted trees on what the processes leave: steps, and effects that depend on several inputs.

J. H. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29, 2001. All nodes
of a level split at the same border, as in L. Prokhorenkova, G. Gusev, A. Vorobev, A. V. Dorogush and A. Gulin,
"CatBoost: unbiased boosting with categorical features", NeurIPS 2018: each tree is a table of 2^DEPTH values.
"""

from dataclasses import replace

import numpy as np

from pipeline.arrays import Floats
from pipeline.inputs.encoding import Training
from pipeline.inputs.gaussian_process import Arrays, Fitted

ROUNDS, DEPTH, RATE = 150, 5, 0.2
RIDGE = 3.0
"""Runs without an error that each value of a tree is averaged with."""
MOST_BORDERS = 31
LEAST_RUNS = 100
"""Runs below which no trees are tried."""
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the trees' sum that are tried."""
LEAST_GAIN = 0.02
"""Least relative fall of the mean error on held folds by which trees are taken."""
GROUPS = 5


def with_trees(training: Training, fitted: Fitted) -> Fitted:
    """What was learnt, and trees for the errors on held folds, where these lower the errors on held folds.

    The trees that correct a run are learnt without its fold.
    """
    error = training.y - fitted.held_mean
    if len(error) < LEAST_RUNS:
        return fitted
    held, n_groups = np.empty(len(error)), min(GROUPS, training.n_folds)
    for group in range(n_groups):
        out = training.fold % n_groups == group
        held[out] = correction(grown(training.x[~out], error[~out]), training.x[out])
    found = [np.abs(np.expm1(np.minimum(share * held - error, 50.0))).mean() for share in (0.0, *SHARES)]
    best = int(np.argmin(found))
    if found[best] > (1.0 - LEAST_GAIN) * found[0]:
        return fitted
    share = (0.0, *SHARES)[best]
    trees = grown(training.x, error)
    arrays = {**fitted.arrays, **trees, "value": share * trees["value"]}
    return replace(fitted, held_mean=fitted.held_mean + share * held, arrays=arrays)


def grown(x: Floats, y: Floats) -> dict[str, Floats]:
    """Each tree's features and borders (rounds, DEPTH), and its values (rounds, 2^DEPTH)."""
    n, n_features = x.shape
    borders = np.full((n_features, MOST_BORDERS + 1), np.inf)
    for own, column in zip(borders, x.T, strict=True):
        distinct = np.unique(column)
        between = (distinct[1:] + distinct[:-1]) / 2
        if len(between) > MOST_BORDERS:
            between = np.unique(np.quantile(column, np.arange(1, MOST_BORDERS + 1) / (MOST_BORDERS + 1)))
        own[: len(between)] = between
    n_bins = borders.shape[1]
    bins = np.stack([np.searchsorted(own, column) for own, column in zip(borders, x.T, strict=True)], axis=1)
    bins += np.arange(n_features) * n_bins
    features, cuts = np.zeros((2, ROUNDS, DEPTH))
    values, left = np.zeros((ROUNDS, 2**DEPTH)), y.copy()
    for tree in range(ROUNDS):
        node = np.zeros(n, np.int64)
        for level in range(DEPTH):
            # Numbers and sums of the runs of each node below each border of each feature.
            places = (node[:, None] * (n_features * n_bins) + bins).reshape(-1)
            shape = (2**level, n_features, n_bins)
            count, total = (
                np.bincount(places, weights, np.prod(shape)).reshape(shape).cumsum(axis=2)
                for weights in (None, np.repeat(left, n_features))
            )
            beyond, rest = count[:, :, -1:] - count, total[:, :, -1:] - total
            gain = (total**2 / (count + RIDGE) + rest**2 / (beyond + RIDGE)).sum(axis=0)
            feature, cut = divmod(int(np.argmax(gain)), n_bins)
            features[tree, level], cuts[tree, level] = feature, borders[feature, cut]
            node = 2 * node + (x[:, feature] > borders[feature, cut])
        sums, counts = np.bincount(node, left, 2**DEPTH), np.bincount(node, minlength=2**DEPTH)
        values[tree] = RATE * sums / (counts + RIDGE)
        left -= values[tree][node]
    return {"feature": features, "border": cuts, "value": values}


def correction(arrays: Arrays, x: Floats) -> Floats:
    """(points,) the sum of the trees' values; zero where a model has none."""
    found = np.zeros(len(x))
    for feature, border, value in zip(*(arrays.get(name, ()) for name in ("feature", "border", "value")), strict=True):
        bits = x[:, feature.astype(np.int64)] > border
        found += value[bits @ (1 << np.arange(DEPTH)[::-1])]
    return found
