"""The method `inputs` of a backtest: models over inputs where they are published, else the estimator `walltime`."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.settings import RunSettings
from pipeline.estimate.history import History
from pipeline.estimate.runs_with_inputs import submitted_runs
from pipeline.estimate.walltime import walltime
from pipeline.inputs.of_logs.as_of import as_of_quantiles


def inputs_else_walltime(past: History, settings: RunSettings) -> Floats:
    """(jobs, 6) quantiles, s, as of each submit: what a query would answer from tables of that moment.

    Without rules of inputs, or where no model has beaten its rivals, these are the quantiles of `walltime`.
    """
    instead = walltime(past, settings.forecast)
    found = as_of_quantiles(submitted_runs(past, settings.forecast, instead[:, 1]), settings.inputs)
    return np.where(np.isnan(found[:, 1:2]), instead, found)
