"""What processes and trees are given and what they give: runs in folds, predictions of held runs, and arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

from pipeline.arrays import Array, Floats, Ints
from pipeline.inputs.declaration import LearnRules
from pipeline.inputs.encoding import Encoding

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Arrays = Mapping[str, Array]
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

    def some(self, rng: np.random.Generator, most: int) -> "Training":
        """At most so many of the runs, drawn; all folds keep their numbers."""
        if len(self.y) <= most:
            return self
        rows = np.sort(rng.choice(len(self.y), most, replace=False))
        return replace(self.rows(rows), fold=self.fold[rows])

    def rng(self, purpose: int) -> np.random.Generator:
        """Random numbers that depend on the seed and the purpose alone."""
        return np.random.default_rng([self.rules.seed, purpose])


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was learnt. `held_mean` and `held_sd` (runs,) predict each run from the other folds (log s)."""

    held_mean: Floats
    held_sd: Floats
    arrays: Arrays = field(default_factory=dict)


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
