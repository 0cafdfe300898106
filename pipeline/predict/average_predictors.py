"""Predictors that average over laws, by name; those of single laws are in pipeline.fit.law_predictors."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.prediction_task import PredictionTask, Predictor
from pipeline.core.settings import PredictSettings
from pipeline.predict.noise import log_wide_sd, pooled_log_sd, repeats, run_log_sd
from pipeline.predict.observed_series import ObservedSeries


def _average(asked: PredictionTask) -> Floats:
    """The model average of each series alone."""
    return _median(asked, np.full(asked.offsets.size - 1, -1))


def _walltime(asked: PredictionTask) -> Floats:
    """Walltime's default: the model average, informed by the other series of the application that are asked about."""
    return _median(asked, asked.application)


def _median(asked: PredictionTask, application: Ints) -> Floats:
    settings = PredictSettings()
    freedom, spread = repeats(asked.offsets, asked.n_runs), pooled_log_sd(asked.offsets, asked.n_runs, asked.log_sd)
    run_sd = run_log_sd(freedom, spread, log_wide_sd(freedom, spread, settings.run_log_sd))
    columns = (asked.offsets, asked.procs, asked.runtime_s, asked.n_runs, np.ones(asked.procs.size))
    observed = ObservedSeries.build(*columns, run_sd, application, settings)
    return np.exp(observed.curve(asked.target_series, asked.target_procs).log_s[:, 2])


PREDICTORS: dict[str, Predictor] = {
    "average": _average,
    "walltime": _walltime,
}
