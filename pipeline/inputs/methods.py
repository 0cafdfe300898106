"""Every method by its name, which one `auto` means, and the control. A new method is a file and a name here."""

import numpy as np

from pipeline.arrays import Floats
from pipeline.inputs.boosted_trees import TREES
from pipeline.inputs.declaration import LearnRules, MethodName
from pipeline.inputs.gp import GP
from pipeline.inputs.network import NETWORK
from pipeline.inputs.product_laws import LAWS_METHOD
from pipeline.inputs.training import Arrays, Facts, Method, Training, method_of_means

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


def chosen_method(rules: LearnRules, n_runs: int) -> MethodName:
    """The method of the rules; auto: gp up to `gp_rows` runs, trees above."""
    if rules.method != "auto":
        return rules.method
    return "gp" if n_runs <= rules.gp_rows else "trees"
