"""How far a method can be trusted: errors on held folds, scores that make intervals, and tests outside the runs.

Scores: normalised split conformal prediction, J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman,
"Distribution-free predictive inference for regression", JASA 113, 2018, section 5.2. For runs that come in batches:
Y. Lee, R. F. Barber and R. Willett, "Distribution-free inference with hierarchical data", 2023, with the effective
number of runs of L. Kish, "Survey Sampling", Wiley 1965, section 5.4. Runs that were stopped: J. Buckley and I. James,
"Linear regression with censored data", Biometrika 66, 1979.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erfcx

from pipeline.arrays import Bools, Floats, Ints
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.declaration import InputType
from pipeline.inputs.encoding import Training
from pipeline.inputs.gaussian_process import Fitted

LEVELS = {"80": 0.80, "95": 0.95}
Test = dict[str, float]
"""What a test outside the runs says: error_pct, the scores 80 and 95 that intervals need there, and the distance."""


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """Errors on runs that the predicting member had not seen. Per cent of the runtime; shares from 0 to 1."""

    mean_pct: float
    sd_pct: float
    median_pct: float
    fold_sd_pct: float
    """Standard deviation of the folds' mean errors."""
    share_in_80: float
    share_in_95: float
    folds_by: str
    """batch, time or random."""
    n_folds: int
    n_runs: int


def validated(
    training: Training, fitted: Fitted, group: Ints, known: Bools, folds_by: str
) -> tuple[ErrorEstimate, dict[str, Any]]:
    """The errors of held runs whose runtime is known, and the facts by which a model judges its answers.

    `group` numbers the runs that were made together, `known` is false for lower bounds.
    """
    # Errors on held folds, and the scores that make intervals: absolute errors in scales.
    error = fitted.held_mean - training.y
    errors = 100.0 * _relative(error)[known]
    scores = (np.abs(error) / fitted.held_sd)[known]
    # The shares in intervals that are made from the other folds' scores.
    fold, own = training.fold[known], group[known]
    inside = {name: np.zeros(len(scores), bool) for name in LEVELS}
    outs = [fold == k for k in np.unique(fold)]
    for out in outs:
        for name, limit in quantiles(scores[~out], own[~out]).items():
            inside[name][out] = scores[out] <= limit
    estimate = ErrorEstimate(
        float(errors.mean()), float(errors.std()), float(np.median(errors)),
        float(np.std([errors[out].mean() for out in outs])),
        float(inside["80"].mean()), float(inside["95"].mean()), folds_by, len(outs), len(errors),
    )  # fmt: skip
    # Outside the runs the scores do not hold: there, tests leave runs out.
    left_out = left_out_tests(training, fitted, group, known)
    return estimate, {"quantiles": quantiles(scores, own), "mean_score": float(scores.mean()), "left_out": left_out}


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


ROUNDS = 3


def fit_with_bounds(training: Training, censored: Bools) -> tuple[Training, Fitted]:
    """The runs that were learnt from, in which lower bounds are replaced by expected runtimes, and the processes.

    A stopped run is given the runtime that is expected beyond its bound, by what the other folds predict of it, and
    processes learn again.
    """
    if not censored.any():
        return training, process.fit(training)
    bounds = training.y.copy()
    first = process.fit(training.rows(np.flatnonzero(~censored)))
    mean, sd = process.predict(first.arrays, training.x)
    for _ in range(ROUNDS):
        y = np.where(censored, expected_beyond(bounds, mean, sd), bounds)
        training = replace(training, y=y)
        fitted = process.fit(training)
        mean, sd = fitted.held_mean, fitted.held_sd
    return training, fitted


def expected_beyond(bounds: Floats, mean: Floats, sd: Floats) -> Floats:
    """The mean of a normal variable given that it exceeds its bound; never below the bound."""
    z = (bounds - mean) / sd
    # phi(z)/(1 - Phi(z)), in a form that neither overflows nor divides zero by zero.
    hazard = np.sqrt(2.0 / np.pi) / erfcx(np.clip(z, -25.0, 1e6) / np.sqrt(2.0))
    found: Floats = np.maximum(mean + sd * hazard, bounds)
    return found


TESTED_ROWS = 500
"""Runs that the tests use at most; each test learns anew."""
LEAST_LEFT_OUT, LEAST_LEFT = 5, 10
SHARE_LEFT_OUT = 0.15
LEAST_LEVELS = 8
"""Values or batches that a test needs: the next one is worse than the worst of n with a chance of 1/(n + 1)."""
LEVEL_MARGIN = 2.0
"""The error announced for a new value or batch, over the worst of those left out."""


def left_out_tests(training: Training, fitted: Fitted, group: Ints, known: Bools) -> dict[str, Any]:
    """Errors of the tests: `categories` {name: test}, `ranges` {name: {"low" or "high": test}}, `combinations` test.

    A test has error_pct, and the scores 80 and 95 that intervals need there; those of ranges and combinations also have
    the distance tested. A test for which there are too few runs is missing. `group` numbers the runs that were made
    together, `known` is false for lower bounds.
    """
    refuses = training.rules.outside == "refuse"
    combinations = None if refuses else _test_combinations(training, fitted, group, known)
    some = training.some(training.rng(4), TESTED_ROWS)
    names = [name for name, levels in training.encoding.levels.items() if len(levels) >= LEAST_LEVELS]
    categories = {name: _test_levels(some, fitted, name) for name in names}
    ranges = {
        one.name: _test_ends(some, fitted, j)
        for j, one in enumerate(training.encoding.features)
        if one.type in (InputType.NUMBER, InputType.LOG_NUMBER) and not refuses
    }
    passed = {name: test for name, test in categories.items() if test}
    return {"categories": passed, "ranges": ranges, "combinations": combinations}


def _test_levels(training: Training, fitted: Fitted, name: str) -> Test | None:
    columns = [j for j, one in enumerate(training.encoding.features) if one.name == name and one.level is not None]
    outs = [training.x[:, j] > 0 for j in columns]
    tests = [_test(training, fitted, out) for out in outs if out.any() and (~out).sum() >= LEAST_LEFT]
    if len(tests) < LEAST_LEVELS:
        return None
    worst = {key: max(test[key] for test in tests) for key in ("error_pct", "80", "95")}
    return {**worst, "error_pct": LEVEL_MARGIN * worst["error_pct"], "n_values": float(len(tests))}


def _test_ends(training: Training, fitted: Fitted, feature: int) -> dict[str, Test]:
    found = {}
    for side, sign in (("low", -1.0), ("high", 1.0)):
        values = sign * training.x[:, feature]
        edge = _edge(values)
        if edge is not None:
            test = _test(training, fitted, values > edge)
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


def _test(training: Training, fitted: Fitted, out: Bools) -> Test:
    """The mean error of the runs left out, and the quantiles of their scores."""
    mean, sd = process.once(training.rows(np.flatnonzero(~out)), fitted, training.x[out])
    error = mean - training.y[out]
    return {"error_pct": float(100.0 * _relative(error).mean()), **quantiles(np.abs(error) / sd, np.arange(len(sd)))}


def _test_combinations(training: Training, fitted: Fitted, group: Ints, known: Bools) -> Test | None:
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
    percent = 100.0 * _relative(error)
    worst = max(float(percent[group[far] == one].mean()) for one in groups) * LEVEL_MARGIN
    announced = worst if has_batches else float(percent.mean())
    limits = quantiles(np.abs(error) / fitted.held_sd[far], group[far])
    return {"error_pct": announced, **limits, "distance": float(ratio.max())}


def _relative(error: Floats) -> Floats:
    """Absolute errors of log runtimes as shares of the runtime."""
    return np.abs(np.expm1(np.clip(error, -50.0, 50.0)))


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
