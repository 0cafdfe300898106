"""Errors on held folds, and the quantiles of scaled errors that make intervals.

Normalised split conformal prediction: J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman,
"Distribution-free predictive inference for regression", JASA 113, 2018, section 5.2.
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


def quantiles(found: Floats) -> dict[str, float]:
    """The score that each level's interval reaches: the ceil((n + 1) level)-th smallest of n, at most the largest."""
    ordered = np.sort(found)
    ranks = {name: min(int(np.ceil((len(found) + 1) * level)), len(found)) for name, level in LEVELS.items()}
    return {name: float(ordered[rank - 1]) for name, rank in ranks.items()}


def error_estimate(y: Floats, fitted: Fitted, fold: Ints, known: Bools, folds_by: str) -> ErrorEstimate:
    """The errors of the runs whose runtime is known; shares in intervals made from the other folds' scores."""
    errors = 100.0 * np.abs(np.expm1(fitted.held_mean - y))[known]
    found, fold = scores(y, fitted)[known], fold[known]
    inside = _shares_inside(found, fold)
    per_fold = np.array([errors[fold == k].mean() for k in np.unique(fold)])
    return ErrorEstimate(
        float(errors.mean()), float(errors.std()), float(np.median(errors)), float(per_fold.std()),
        inside["80"], inside["95"], folds_by, len(per_fold), len(errors),
    )  # fmt: skip


def _shares_inside(found: Floats, fold: Ints) -> Mapping[str, float]:
    inside = {name: np.zeros(len(found), bool) for name in LEVELS}
    for k in np.unique(fold):
        limits = quantiles(found[fold != k]) if (fold != k).any() else quantiles(found)
        for name, limit in limits.items():
            inside[name][fold == k] = found[fold == k] <= limit
    return {name: float(where.mean()) for name, where in inside.items()}
