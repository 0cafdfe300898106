"""What a method of `pipeline.inputs.methods` is given and what it gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipeline.core.arrays import Array, Floats, Ints
from pipeline.core.input_settings import InputSettings
from pipeline.inputs.encoding import Encoding


@dataclass(frozen=True, slots=True)
class Training:
    """Runs to learn from: x (runs, features) standardised, y log runtimes (log s), the fold of each run.

    `batch` numbers the runs' batches, where a column of batches is declared.
    """

    x: Floats
    y: Floats
    fold: Ints
    batch: Ints | None
    encoding: Encoding
    settings: InputSettings

    @property
    def n_folds(self) -> int:
        """How many folds there are; every one of them has runs."""
        return int(self.fold.max()) + 1

    def rows(self, chosen: Ints) -> "Training":
        """Some of the runs; their folds are numbered anew where one has no run left."""
        fold = np.unique(self.fold[chosen], return_inverse=True)[1].astype(np.int64)
        batch = None if self.batch is None else self.batch[chosen]
        return replace(self, x=self.x[chosen], y=self.y[chosen], fold=fold, batch=batch)

    def rng(self, purpose: int) -> np.random.Generator:
        """Random numbers that depend on the seed and the purpose alone."""
        return np.random.default_rng([self.settings.seed, purpose])


@dataclass(frozen=True, slots=True)
class Fitted:
    """A learnt method. `held_mean` and `held_sd` (runs,) predict each run from the other folds (log s)."""

    held_mean: Floats
    held_sd: Floats
    arrays: Mapping[str, Array] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


Arrays = Mapping[str, Array]
Facts = Mapping[str, Any]
Prediction = tuple[Floats, Floats]
"""Means and scales of log runtimes, (points,) each; intervals are multiples of the scale."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method: `fit` learns, `predict` and `members` read what it learnt, `once` learns without folds.

    `members` gives (members, points) log runtimes. `once(training, x)` predicts x from all runs of a training set, with
    what it can take over from an earlier fit of more runs; it serves the tests that leave values out, and is null where
    they would take too long.
    """

    name: str
    fit: Callable[[Training], Fitted]
    predict: Callable[[Arrays, Facts, Floats], Prediction]
    members: Callable[[Arrays, Facts, Floats], Floats]
    once: Callable[[Training, Fitted, Floats], Prediction] | None
