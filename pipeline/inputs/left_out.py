"""Tests on the runs of what a model does outside them: values of a category, ends of a range, combinations left out."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.inputs.declaration import InputType
from pipeline.inputs.encoding import Encoding, Feature
from pipeline.inputs.fold_scores import quantiles
from pipeline.inputs.training import Fitted, Method, Training

TESTED_ROWS = 500
"""Runs that the tests use at most; each test learns anew."""
LEAST_LEFT_OUT, LEAST_LEFT = 5, 10
SHARE_LEFT_OUT = 0.15
LEAST_LEVELS = 8
"""Values or batches that a test needs: the next one is worse than the worst of n with a chance of 1/(n + 1)."""
LEVEL_MARGIN = 2.0
"""The error announced for a new value or batch, over the worst of those left out."""


def left_out_tests(method: Method, training: Training, fitted: Fitted, group: Ints, known: Bools) -> dict[str, Any]:
    """Errors of the tests: `categories` {name: test}, `ranges` {name: {"low" or "high": test}}, `combinations` test.

    A test has error_pct, and the scores 80 and 95 that intervals need there; those of ranges and combinations also have
    the distance tested. A test for which there are too few runs is missing. `group` numbers the runs that were made
    together, `known` is false for lower bounds.
    """
    refuses = training.settings.outside == "refuse"
    combinations = None if refuses else _test_combinations(training, fitted, group, known)
    if method.once is None:
        return {"categories": {}, "ranges": {}, "combinations": combinations}
    some = _some(training)
    names = [name for name, levels in training.encoding.levels.items() if len(levels) >= LEAST_LEVELS]
    categories = {name: _test_levels(method, some, fitted, name) for name in names}
    ranges = {
        one.name: _test_ends(method, some, fitted, j)
        for j, one in enumerate(training.encoding.features)
        if one.type in (InputType.NUMBER, InputType.LOG_NUMBER) and not refuses
    }
    passed = {name: test for name, test in categories.items() if test}
    return {"categories": passed, "ranges": ranges, "combinations": combinations}


def _some(training: Training) -> Training:
    n = len(training.y)
    return training.rows(np.sort(training.rng(4).choice(n, min(n, TESTED_ROWS), replace=False)))


def _test_levels(method: Method, training: Training, fitted: Fitted, name: str) -> dict[str, float] | None:
    tests = [_test(method, training, fitted, out) for out in _levels_out(training, name)]
    if len(tests) < LEAST_LEVELS:
        return None
    worst = {key: max(test[key] for test in tests) for key in ("error_pct", "80", "95")}
    return {**worst, "error_pct": LEVEL_MARGIN * worst["error_pct"], "n_values": float(len(tests))}


def _levels_out(training: Training, name: str) -> Iterator[Bools]:
    for j, one in enumerate(training.encoding.features):
        if one.name == name and one.level is not None:
            out: Bools = training.x[:, j] > 0
            if out.any() and (~out).sum() >= LEAST_LEFT:
                yield out


def _test_ends(method: Method, training: Training, fitted: Fitted, feature: int) -> dict[str, dict[str, float]]:
    found = {}
    for side, sign in (("low", -1.0), ("high", 1.0)):
        values = sign * training.x[:, feature]
        edge = _edge(values)
        if edge is not None:
            test = _test(method, training, fitted, values > edge)
            found[side] = {**test, "distance": float(values.max() - edge)}
    return found


def _edge(values: Floats) -> float | None:
    """The largest value that stays, so that about 15% of the runs lie beyond it; null where too few would stay."""
    distinct, counts = np.unique(values, return_counts=True)
    beyond = len(values) - np.cumsum(counts)
    enough = np.flatnonzero(beyond >= max(LEAST_LEFT_OUT, SHARE_LEFT_OUT * len(values)))
    if not len(enough) or enough[-1] < 1 or len(values) - beyond[enough[-1]] < LEAST_LEFT:
        return None
    return float(distinct[enough[-1]])


def _test(method: Method, training: Training, fitted: Fitted, out: Bools) -> dict[str, float]:
    """The mean error of the runs left out, and the quantiles of their scores."""
    assert method.once is not None  # nosec B101 # for the type checker
    chosen: Ints = np.flatnonzero(~out)
    mean, sd = method.once(training.rows(chosen), fitted, training.x[out])
    error = mean - training.y[out]
    with np.errstate(over="ignore"):
        percent = float(100.0 * np.abs(np.expm1(np.clip(error, -50.0, 50.0))).mean())
    return {"error_pct": percent, **quantiles(np.abs(error) / sd, np.arange(len(sd)))}


def _test_combinations(training: Training, fitted: Fitted, group: Ints, known: Bools) -> dict[str, float] | None:
    """Errors on held folds of the runs of higher leverage than any run of the other folds.

    With batches each must have been predicted well, as each value of a category; the worst counts. Otherwise all runs
    together count.
    """
    ratio = np.zeros(len(training.y))
    for fold in range(training.n_folds):
        out = training.fold == fold
        scatter, largest = leverage_of(training.x[~out])
        ratio[out] = leverage(training.x[out], scatter) / max(largest, np.finfo(float).tiny)
    far = np.flatnonzero((ratio > 1.0) & known)
    groups = np.unique(group[far])
    has_batches = len(np.unique(group)) < len(group)
    if len(far) < LEAST_LEFT_OUT or (has_batches and len(groups) < LEAST_LEVELS):
        return None
    error = fitted.held_mean[far] - training.y[far]
    percent = 100.0 * np.abs(np.expm1(np.clip(error, -50.0, 50.0)))
    worst = max(float(percent[group[far] == one].mean()) for one in groups) * LEVEL_MARGIN
    announced = worst if has_batches else float(percent.mean())
    limits = quantiles(np.abs(error) / fitted.held_sd[far], group[far])
    return {"error_pct": announced, **limits, "distance": float(ratio.max())}


def leverage(x: Floats, scatter: Floats) -> Floats:
    """(points,) leverages."""
    found: Floats = np.einsum("ij,jk,ik->i", x, scatter, x)
    return found


def leverage_of(x: Floats) -> tuple[Floats, float]:
    """The inverse of the inputs' scatter, and the largest leverage of a run.

    A point of higher leverage lies outside the ellipsoid of the runs: R. D. Cook, "Detection of influential observation
    in linear regression", Technometrics 19, 1977.
    """
    scatter = np.asarray(np.linalg.pinv(x.T @ x, rcond=1e-8, hermitian=True), np.float64)
    return scatter, float(leverage(x, scatter).max())


def places_outside(encoding: Encoding, x: Floats) -> Iterator[tuple[int, Feature, str, Floats]]:
    """For each numeric feature and side: the feature, the side, and how far each point lies beyond the runs."""
    for j, one in enumerate(encoding.features):
        if one.level is None:
            yield j, one, "low", one.low - x[:, j]
            yield j, one, "high", x[:, j] - one.high
