"""Errors on held folds, and the quantiles of scaled errors that make intervals.

Normalised split conformal prediction: J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman,
"Distribution-free predictive inference for regression", JASA 113, 2018, section 5.2. For runs that come in batches:
Y. Lee, R. F. Barber and R. Willett, "Distribution-free inference with hierarchical data", 2023.
"""

from collections.abc import Mapping

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.inputs.model import ErrorEstimate
from pipeline.inputs.training import Fitted

LEVELS = {"80": 0.80, "95": 0.95}


def scores(y: Floats, fitted: Fitted) -> Floats:
    """(runs,) absolute errors on held folds, in scales."""
    found: Floats = np.abs(fitted.held_mean - y) / fitted.held_sd
    return found


def quantiles(found: Floats, group: Ints) -> dict[str, float]:
    """The score that each level's interval reaches for a run of a new group; at most the largest score.

    Groups count alike, whatever their sizes, and the new group may be worse than all: with n groups of one run each it
    is the ceil((n + 1) level)-th smallest score.
    """
    codes = np.unique(group, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(codes)
    order = np.argsort(found, kind="stable")
    reached = np.cumsum(1.0 / sizes[codes[order]])
    needed = {name: level * (len(sizes) + 1) - 1e-9 for name, level in LEVELS.items()}
    places = {name: min(int(np.searchsorted(reached, one)), len(found) - 1) for name, one in needed.items()}
    return {name: float(found[order[place]]) for name, place in places.items()}


def error_estimate(y: Floats, fitted: Fitted, fold: Ints, group: Ints, known: Bools, folds_by: str) -> ErrorEstimate:
    """The errors of the runs whose runtime is known; shares in intervals made from the other folds' scores."""
    errors = 100.0 * np.abs(np.expm1(fitted.held_mean - y))[known]
    found, fold = scores(y, fitted)[known], fold[known]
    inside = _shares_inside(found, fold, group[known])
    per_fold = np.array([errors[fold == k].mean() for k in np.unique(fold)])
    return ErrorEstimate(
        float(errors.mean()), float(errors.std()), float(np.median(errors)), float(per_fold.std()),
        inside["80"], inside["95"], folds_by, len(per_fold), len(errors),
    )  # fmt: skip


def _shares_inside(found: Floats, fold: Ints, group: Ints) -> Mapping[str, float]:
    inside = {name: np.zeros(len(found), bool) for name in LEVELS}
    for k in np.unique(fold):
        for name, limit in quantiles(found[fold != k], group[fold != k]).items():
            inside[name][fold == k] = found[fold == k] <= limit
    return {name: float(where.mean()) for name, where in inside.items()}
