"""Divides runs into folds, so that an error on a fold is the error on runs such as are yet to come."""

import numpy as np

from pipeline.core.arrays import Array, Floats, Ints


def grouped_folds(groups: Ints, n_folds: int, rng: np.random.Generator) -> Ints:
    """A fold for each run; runs of one group share a fold, and folds have about equal numbers of runs.

    Groups are taken from the largest to the smallest, each into the smallest fold so far; ties are drawn.
    """
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    totals, fold_of = np.zeros(min(n_folds, len(sizes)), np.int64), np.zeros(len(sizes), np.int64)
    for group in order:
        fold_of[group] = np.argmin(totals)
        totals[fold_of[group]] += sizes[group]
    found: Ints = fold_of[groups]
    return found


def time_folds(times: Floats, n_folds: int) -> Ints:
    """Blocks of equal numbers of runs in order of time; runs of one instant share a block."""
    values, codes = np.unique(times, return_inverse=True)
    ends = np.cumsum(np.bincount(codes, minlength=len(values)))
    block = np.minimum((ends - 1) * n_folds // len(times), n_folds - 1)
    found: Ints = np.unique(block[codes], return_inverse=True)[1].astype(np.int64)
    return found


def same_inputs(x: Array) -> Ints:
    """A number for each distinct row of inputs: repeats of a run tell nothing about runs of other inputs."""
    return np.unique(x, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
