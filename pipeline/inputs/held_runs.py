"""Every run beside what the model's other folds predict of it."""

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Floats, Ints
from pipeline.core.column import count, number, seconds
from pipeline.core.input_settings import InputSettings
from pipeline.core.table_kind import TableKind
from pipeline.inputs.censored_runs import fit_with_bounds
from pipeline.inputs.declaration import Declaration
from pipeline.inputs.fold_scores import scores
from pipeline.inputs.learning import training_of
from pipeline.inputs.registry import METHODS, chosen_method
from pipeline.inputs.training_rows import training_rows

HELD_RUNS = TableKind(
    "INPUT_HELD_RUNS",
    (
        count("run", "number of the run in the order of the runs' values, from 0", "run", required=True),
        seconds("actual_s", "measured runtime"),
        seconds("predicted_s", "runtime predicted by folds that had not seen the run"),
        number("rank", "share of the other folds' scaled errors that are smaller, from 0 to 1"),
    ),
    ("run",),
    "Runs with known runtimes beside their predictions on held folds.",
)


def held_runs(runs: pa.Table, declaration: Declaration, settings: InputSettings) -> pa.Table:
    """HELD_RUNS of the runs that a model learns from; lower bounds are left out. InputError as in `learn`.

    `rank` is uniform where intervals hold what they say: a share `q` of the runs has a rank of at most `q`.
    """
    rows = training_rows(runs, declaration, settings)
    method = METHODS[chosen_method(settings, len(rows.y))]
    training, fitted = fit_with_bounds(method, training_of(rows, settings), rows.censored)
    known = ~rows.censored
    # What the scalability law says was taken from the log runtimes, and is in both.
    ratio = np.exp(fitted.held_mean - training.y)[known]
    rank = ranks(scores(training.y, fitted)[known], rows.fold[known])
    actual_s = rows.seconds[known]
    return HELD_RUNS.build(run=np.arange(len(actual_s)), actual_s=actual_s, predicted_s=actual_s * ratio, rank=rank)


def ranks(found: Floats, fold: Ints) -> Floats:
    """(runs,) for each score the share of the other folds' scores that are smaller."""
    rank = np.zeros(len(found))
    for k in np.unique(fold):
        others = np.sort(found[fold != k])
        rank[fold == k] = np.searchsorted(others, found[fold == k], side="left") / max(len(others), 1)
    return rank
