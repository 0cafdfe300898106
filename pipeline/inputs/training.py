"""What a method of `pipeline.inputs.methods` is given and what it gives, and what all methods share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from pipeline.arrays import Array, Floats, Ints
from pipeline.inputs.declaration import LearnRules
from pipeline.inputs.encoding import Encoding

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


Arrays = Mapping[str, Array]
Facts = Mapping[str, Any]
Prediction = tuple[Floats, Floats]
"""Means and scales of log runtimes, (points,) each; intervals are multiples of the scale."""
P = ParamSpec("P")
R = TypeVar("R")


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
    rules: LearnRules

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
        return np.random.default_rng([self.rules.seed, purpose])


@dataclass(frozen=True, slots=True)
class Fitted:
    """A learnt method. `held_mean` and `held_sd` (runs,) predict each run from the other folds (log s)."""

    held_mean: Floats
    held_sd: Floats
    arrays: Mapping[str, Array] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Method:
    """A method: `fit` learns, `predict` reads what it learnt, `once` learns without folds.

    `once(training, fitted, x)` predicts x from all runs of a training set, with what it can take over from an earlier
    fit of more runs. It serves the tests that leave values out, and is null where they would take too long.
    """

    name: str
    fit: Callable[[Training], Fitted]
    predict: Callable[[Arrays, Facts, Floats], Prediction]
    once: Callable[[Training, Fitted, Floats], Prediction] | None


def method_of_means(
    name: str, learn: Callable[[Training], tuple[Arrays, Facts]], means: Callable[[Arrays, Facts, Floats], Floats]
) -> Method:
    """The method of means (points,) of log runtimes, with one scale: the RMS of the errors on held folds."""

    def fit(training: Training) -> Fitted:
        held = np.empty(len(training.y))
        for fold in range(training.n_folds):
            out = training.fold == fold
            held[out] = means(*learn(training.rows(np.flatnonzero(~out))), training.x[out])
        sd = max(float(np.sqrt(np.mean((held - training.y) ** 2))), 1e-6)
        arrays, facts = learn(training)
        return Fitted(held, np.full(len(held), sd), arrays, {**facts, "sd": sd})

    def predict(arrays: Arrays, facts: Facts, x: Floats) -> Prediction:
        return means(arrays, facts, x), np.full(len(x), facts["sd"])

    def once(training: Training, fitted: Fitted, x: Floats) -> Prediction:
        return means(*learn(training), x), np.full(len(x), fitted.facts["sd"])

    return Method(name, fit, predict, once)


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function, during which BLAS has one thread; afterwards it has as many as before."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited


@cache
def _libraries() -> "ThreadpoolController":
    # At first use: threadpoolctl sets a variable of the environment, which an import of Walltime must not do. scipy's
    # own BLAS has to be loaded before the controller looks for libraries.
    import scipy.linalg  # noqa: F401, PLC0415
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    return ThreadpoolController()
