"""The control: the mean log runtime of the three nearest runs, in standardised inputs."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.inputs.training import Arrays, Facts, Fitted, Method, Prediction, Training

NEIGHBOURS = 3
CHUNK = 512


def fit(training: Training) -> Fitted:
    """The runs themselves, and the root mean square of the errors on held folds as the scale."""
    held = np.empty(len(training.y))
    for fold in range(training.n_folds):
        out = training.fold == fold
        held[out] = _neighbours(training.x[~out], training.y[~out], training.x[out]).mean(axis=0)
    sd = max(float(np.sqrt(np.mean((held - training.y) ** 2))), 1e-6)
    return Fitted(held, np.full(len(held), sd), {"x": training.x, "y": training.y}, {"sd": sd})


def predict(arrays: Arrays, facts: Facts, x: Floats) -> Prediction:
    """Means over the neighbours, and one scale for all points."""
    return members(arrays, facts, x).mean(axis=0), np.full(len(x), facts["sd"])


def members(arrays: Arrays, facts: Facts, x: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    """(neighbours, points) log runtimes of the neighbours."""
    return _neighbours(arrays["x"], arrays["y"], x)


def once(training: Training, fitted: Fitted, x: Floats) -> Prediction:
    """The same from these runs."""
    return _neighbours(training.x, training.y, x).mean(axis=0), np.full(len(x), fitted.facts["sd"])


def _neighbours(x: Floats, y: Floats, points: Floats) -> Floats:
    found = np.empty((min(NEIGHBOURS, len(y)), len(points)))
    for start in range(0, len(points), CHUNK):
        part = points[start : start + CHUNK]
        squares = (part**2).sum(axis=1)[:, None] + (x**2).sum(axis=1) - 2 * part @ x.T
        # A stable sort, so that ties fall alike everywhere.
        found[:, start : start + CHUNK] = y[np.argsort(squares, axis=1, kind="stable")[:, : len(found)]].T
    return found


NEAREST = Method("nearest", fit, predict, members, once)
