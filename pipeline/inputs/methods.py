"""Every method by its name, which one `auto` means, and the two that need no file of their own: trees and the control.

A new method is a file like network.py, or a function here, and a name in METHODS. The trees: G. Ke et al., "LightGBM: a
highly efficient gradient boosting decision tree", NIPS 2017.
"""

from typing import Any

import numpy as np

from pipeline.arrays import Floats
from pipeline.inputs.declaration import LearnRules, MethodName
from pipeline.inputs.gaussian_process import GP
from pipeline.inputs.network import NETWORK
from pipeline.inputs.product_laws import LAWS_METHOD
from pipeline.inputs.training import Arrays, Facts, Fitted, Method, Prediction, Training, method_of_means

MOST_MEMBERS = 5
"""Members cost three fits each; folds beyond five are joined."""
MEAN_TREES, QUANTILE_TREES = 250, 60
"""Few enough that 10,000 points take less than a second."""
QUANTILES = (0.1, 0.9)
SDS_BETWEEN = 2.563
"""The distance of these quantiles of a normal distribution, in standard deviations."""


def _fit_trees(training: Training) -> Fitted:
    """Three models for each member, as LightGBM's text."""
    fold = training.fold % MOST_MEMBERS
    held_mean, held_sd = np.empty(len(fold)), np.empty(len(fold))
    texts: list[list[str]] = []
    for member in range(int(fold.max()) + 1):
        out = fold == member
        boosters = _boosters(training.x[~out], training.y[~out], training.rules.seed)
        held_mean[out], held_sd[out] = _predicted(boosters, training.x[out])
        texts.append([booster.model_to_string() for booster in boosters])
    floor = max(float(np.median(np.abs(held_mean - training.y))), 1e-6)
    return Fitted(held_mean, np.hypot(held_sd, floor), {}, {"models": texts, "floor": floor})


def _predict_trees(arrays: Arrays, facts: Facts, x: Floats) -> Prediction:  # noqa: ARG001  (a Method's signature)
    """Means over the members of their means and scales."""
    found = np.array([_predicted([_booster(text) for text in texts], x) for texts in facts["models"]])
    return found[:, 0].mean(axis=0), np.hypot(found[:, 1].mean(axis=0), facts["floor"])


def _members_of_trees(arrays: Arrays, facts: Facts, x: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    """(members, points) log runtimes."""
    return np.array([_values(_booster(texts[0]), x) for texts in facts["models"]])


def _trees_once(training: Training, fitted: Fitted, x: Floats) -> Prediction:
    """One set of three models."""
    mean, sd = _predicted(_boosters(training.x, training.y, training.rules.seed), x)
    return mean, np.hypot(sd, fitted.facts["floor"])


def _boosters(x: Floats, y: Floats, seed: int) -> list[Any]:
    import lightgbm  # noqa: PLC0415  (half a second)

    least = int(np.clip(len(y) // 100, 2, 20))
    common = {
        "learning_rate": 0.08, "num_leaves": 31, "min_data_in_leaf": least, "min_data_in_bin": 1, "seed": seed,
        "num_threads": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1,
    }  # fmt: skip
    tasks: list[tuple[dict[str, Any], int]] = [({"objective": "regression"}, MEAN_TREES)]
    tasks += [({"objective": "quantile", "alpha": alpha}, QUANTILE_TREES) for alpha in QUANTILES]
    return [lightgbm.train({**common, **task}, lightgbm.Dataset(x, y), n_trees) for task, n_trees in tasks]


def _predicted(boosters: list[Any], x: Floats) -> tuple[Floats, Floats]:
    mean, low, high = (_values(booster, x) for booster in boosters)
    return mean, np.maximum((high - low) / SDS_BETWEEN, 1e-3)


def _values(booster: Any, x: Floats) -> Floats:
    return booster.predict(x, num_threads=1) if len(x) else np.empty(0)


def _booster(text: str) -> Any:
    import lightgbm  # noqa: PLC0415  (half a second)

    return lightgbm.Booster(model_str=text)


TREES = Method("trees", _fit_trees, _predict_trees, _members_of_trees, _trees_once)
"""Boosted trees on log runtimes: the mean, and the 10% and 90% quantiles, whose distance is the scale."""

NEIGHBOURS = 3
CHUNK = 512


def _learnt(training: Training) -> tuple[Arrays, Facts]:
    return {"x": training.x, "y": training.y}, {}


def _neighbours_of(arrays: Arrays, facts: Facts, points: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    """(neighbours, points) log runtimes of the nearest runs."""
    x, y = arrays["x"], arrays["y"]
    found = np.empty((min(NEIGHBOURS, len(y)), len(points)))
    for start in range(0, len(points), CHUNK):
        part = points[start : start + CHUNK]
        squares = (part**2).sum(axis=1)[:, None] + (x**2).sum(axis=1) - 2 * part @ x.T
        # A stable sort, so that ties fall alike everywhere.
        found[:, start : start + CHUNK] = y[np.argsort(squares, axis=1, kind="stable")[:, : len(found)]].T
    return found


NEAREST = method_of_means("nearest", _learnt, _neighbours_of)
"""The control: the mean log runtime of the three nearest runs, in standardised inputs."""
METHODS: dict[str, Method] = {one.name: one for one in (GP, TREES, NETWORK, LAWS_METHOD, NEAREST)}


MOST_GP_RUNS = 10_000
"""Above, a process on `gp_rows` of the runs uses too few of them to be worth its minutes."""


def candidate_methods(rules: LearnRules, n_runs: int) -> tuple[MethodName, ...]:
    """The method of the rules; auto: gp up to `gp_rows` runs, gp and trees up to 10,000, trees above."""
    if rules.method != "auto":
        return (rules.method,)
    if n_runs <= rules.gp_rows:
        return ("gp",)
    return ("gp", "trees") if n_runs <= MOST_GP_RUNS else ("trees",)
