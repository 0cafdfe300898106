"""Errors on held folds, and the quantiles of scaled errors that make intervals.

Normalised split conformal prediction: J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman,
"Distribution-free predictive inference for regression", JASA 113, 2018, section 5.2. For runs that come in batches:
Y. Lee, R. F. Barber and R. Willett, "Distribution-free inference with hierarchical data", 2023, with the effective
number of runs of L. Kish, "Survey Sampling", Wiley 1965, section 5.4.
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

    Groups count alike, whatever their sizes, and the new run may be worse than all: with n runs of a group each it is
    the ceil((n + 1) level)-th smallest score. With larger groups n is the effective number of runs: as many as the
    groups where those of a group fail together, and as many as the runs where they fail independently.
    """
    codes = np.unique(group, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(codes)
    order = np.argsort(found, kind="stable")
    reached = np.cumsum(1.0 / sizes[codes[order]])

    def limit(needed: float) -> float:
        place = min(int(np.searchsorted(reached, needed - 1e-9)), len(found) - 1)
        return float(found[order[place]])

    limits = {}
    for name, level in LEVELS.items():
        beyond = np.bincount(codes, found > limit(level * len(sizes))) / sizes
        limits[name] = limit(level * len(sizes) * (1.0 + 1.0 / effective_number(beyond, level, len(found))))
    return limits


def effective_number(beyond: Floats, level: float, n_runs: int) -> float:
    """The independent runs that would tell a share of `1 - level` as exactly as these groups do.

    `beyond` (groups,) is each group's share of scores beyond the limit. From the number of groups to that of the runs.
    """
    n_groups = len(beyond)
    variance = float(beyond.var(ddof=1)) / n_groups if n_groups > 1 else np.inf
    found = level * (1.0 - level) / max(variance, np.finfo(float).tiny)
    return float(np.clip(found, n_groups, n_runs))


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
