"""learn: runs and a declaration of inputs to a model with an error estimate."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.input_settings import InputSettings
from pipeline.inputs.censored_runs import fit_with_bounds
from pipeline.inputs.declaration import Declaration
from pipeline.inputs.encoding import encoding_of
from pipeline.inputs.fold_scores import error_estimate, quantiles, scores
from pipeline.inputs.left_out import left_out_tests, leverage_of
from pipeline.inputs.model import InputModel
from pipeline.inputs.one_thread import on_one_thread
from pipeline.inputs.registry import METHODS, chosen_method
from pipeline.inputs.training import Training
from pipeline.inputs.training_rows import TrainingRows, training_rows


@on_one_thread
def learn(runs: pa.Table, declaration: Declaration, settings: InputSettings) -> InputModel:
    """A model of the runtime over inputs; the same for the same runs in any order.

    Parameters
    ----------
    runs : pa.Table
        One row a run, with the columns that the declaration names.
    declaration : Declaration
        Inputs, derived inputs, and columns with a role: target (s), procs, batch, time, censored.
    settings : InputSettings
        Method, folds, seed, and what to do outside the runs.

    Returns
    -------
    InputModel
        The learnt model; `error` is its error on held folds, `report` counts the runs set aside.

    Raises
    ------
    InputError
        If a column is missing or has another type, a formula does not parse, fewer than 10 runs are usable, or no input
        varies.

    Examples
    --------
    >>> from pipeline.inputs.declaration import Input, InputType
    >>> runs = pa.table({"n": list(range(1, 31)), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = learn(runs, Declaration(inputs=(Input(name="n", type=InputType.LOG_NUMBER),)), InputSettings())
    >>> model.method, model.error.n_runs, model.error.mean_pct < 5
    ('gp', 30, True)
    """
    rows = training_rows(runs, declaration, settings)
    training = training_of(rows, settings)
    name = chosen_method(settings, len(rows.y))
    training, fitted = fit_with_bounds(METHODS[name], training, rows.censored)
    known = ~rows.censored
    found = scores(training.y, fitted)[known]
    error = error_estimate(training.y, fitted, rows.fold, rows.group, known, rows.folds_by)
    scatter, largest = leverage_of(training.x)
    facts: dict[str, Any] = {
        "encoding": training.encoding.as_dict(), "method": dict(fitted.facts),
        "quantiles": quantiles(found, rows.group[known]), "mean_score": float(found.mean()),
        "largest_leverage": largest,
        "left_out": left_out_tests(METHODS[name], training, fitted, rows.group, known),
    }  # fmt: skip
    return InputModel(declaration, settings, name, error, rows.report, {**fitted.arrays, "scatter": scatter}, facts)


def training_of(rows: TrainingRows, settings: InputSettings) -> Training:
    """The rows encoded; InputError where no input varies, or too few runtimes are known."""
    encoding = encoding_of(rows.raw, rows.types)
    if not encoding.features:
        raise InputError("inputs", "the same values in all runs", "an input that varies", "declare other inputs")
    if rows.censored.mean() > 0.5 or (~rows.censored).sum() < np.unique(rows.fold).size:
        found = f"{int(rows.censored.sum())} of {len(rows.y)} runtimes that are lower bounds"
        raise InputError("runs", found, "at most half", "give more runs that ended by themselves")
    return Training(encoding.encode(rows.raw), rows.y, rows.fold, rows.batch, encoding, settings)
