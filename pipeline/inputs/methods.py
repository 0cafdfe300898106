"""Every method by its name, and the two that need no file of their own: trees and the control.

A new method is a file like network.py, or a function here, and a name in METHODS.
"""

import numpy as np
from scipy.spatial import KDTree

from pipeline.arrays import Floats, Ints
from pipeline.forest import Forest, grown, leaves
from pipeline.inputs.declaration import LearnRules, MethodName
from pipeline.inputs.gaussian_process import GP, posterior_covariance
from pipeline.inputs.network import NETWORK
from pipeline.inputs.product_laws import LAWS_METHOD
from pipeline.inputs.training import Arrays, Facts, Method, Training, method_of_means

LEAST_LEAF, TRIED_SHARE = 1, 1.0
"""As usual for regression (Geurts, Ernst and Wehenkel 2006, section 2)."""
NEIGHBOURS = 3
MOST_COVARIANCE_RUNS = 2000


def _trees(training: Training) -> tuple[Arrays, Facts]:
    """The nodes of each tree, and the mean log runtime of the runs in each leaf."""
    forest = grown(training.x, training.y, training.rules.seed + 1, LEAST_LEAF, TRIED_SHARE)
    n_nodes, mean = forest.feature.shape[1], float(training.y.mean())
    sums = [
        np.bincount(leaf, training.y - mean, n_nodes) / np.maximum(np.bincount(leaf, minlength=n_nodes), 1)
        for leaf in leaves(forest, training.x)
    ]
    return {**forest._asdict(), "value": np.array(sums) + mean, "x": training.x}, {"variance": float(training.y.var())}


def _leaves(arrays: Arrays, x: Floats) -> Ints:
    feature, below = (arrays[name].astype(np.int64) for name in ("feature", "below"))
    return leaves(Forest(feature, arrays["threshold"], below), x)


def _mean_of_trees(arrays: Arrays, facts: Facts, x: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    found: Floats = np.take_along_axis(arrays["value"], _leaves(arrays, x), axis=1).mean(axis=0)
    return found


def _covariance_of_trees(arrays: Arrays, facts: Facts, x: Floats) -> tuple[Floats, float]:
    """As `posterior_covariance`, of the process whose prior correlation is the share of trees with the same leaf."""
    runs = arrays["x"][:: len(arrays["x"]) // MOST_COVARIANCE_RUNS + 1]
    prior = np.zeros((len(x) + len(runs),) * 2)
    for leaf in _leaves(arrays, np.concatenate([x, runs])):
        prior += np.equal.outer(leaf, leaf) * (facts["variance"] / len(arrays["value"]))
    noise, n = float(facts["sd"]) ** 2, len(x)
    taken = np.linalg.solve(prior[n:, n:] + noise * np.eye(len(runs)), prior[n:, :n])
    return prior[:n, :n] - prior[:n, n:] @ taken, noise


TREES = method_of_means("trees", _trees, _mean_of_trees)
"""Extremely randomised trees on log runtimes: for steps and for many unlike categories."""


def _runs(training: Training) -> tuple[Arrays, Facts]:
    return {"x": training.x, "y": training.y}, {}


def _mean_of_nearest(arrays: Arrays, facts: Facts, x: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    nearest = KDTree(arrays["x"]).query(x, min(NEIGHBOURS, len(arrays["y"])))[1].reshape(len(x), -1)
    found: Floats = arrays["y"][nearest].mean(axis=1)
    return found


NEAREST = method_of_means("nearest", _runs, _mean_of_nearest)
"""The control: the mean log runtime of the three nearest runs, in standardised inputs."""
COVARIANCES = {"gp": posterior_covariance, "trees": _covariance_of_trees}
"""By method: covariances of points given the runs, and the variance of a run, in squares of log seconds."""
METHODS: dict[str, Method] = {one.name: one for one in (GP, TREES, NETWORK, LAWS_METHOD, NEAREST)}


def candidate_methods(rules: LearnRules) -> tuple[MethodName, ...]:
    """The method of the rules; auto: the process and trees."""
    return ("gp", "trees") if rules.method == "auto" else (rules.method,)
