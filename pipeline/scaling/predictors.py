"""Predictors by name: the model average, every law fitted with equal weights and followed to other sizes, and ADEPT."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.laws import LAWS
from pipeline.scaling.adept import find
from pipeline.scaling.calibration import log_wide_sd, pooled_log_sd, repeats, run_log_sd
from pipeline.scaling.curves import ObservedSeries
from pipeline.scaling.fit_law import fit_law
from pipeline.scaling.rules import AdeptRules, PredictRules
from pipeline.scaling.series import BatchFit, SeriesBatch


@dataclass(frozen=True, slots=True)
class PredictionTask:
    """k concatenated series, each sorted by distinct procs: series i is the slice offsets[i]:offsets[i + 1].

    Per series: `application`, an integer that series of one application share. Per size: `procs`, `runtime_s` (median
    of the runs), `n_runs`, and `log_sd`, the standard deviation of repeats (log s, NaN for a single run). Per target,
    in any order: `target_series` (0 to k - 1) and `target_procs`.
    """

    offsets: Ints
    application: Ints
    procs: Floats
    runtime_s: Floats
    n_runs: Floats
    log_sd: Floats
    target_series: Ints
    target_procs: Floats


Predictor = Callable[[PredictionTask], Floats]
"""Predicted runtime (s) per target, float64; NaN where the predictor has no answer."""


def _curve(law: str, asked: PredictionTask) -> Floats:
    """The law's least relative squares."""
    return _followed(law, fit_law(law, _batch(asked)), asked.target_series, asked.target_procs)


def _downey(asked: PredictionTask) -> Floats:
    """The better of Downey's two modes, series by series."""
    batch, targets = _batch(asked), (asked.target_series, asked.target_procs)
    low, high = (fit_law(law, batch) for law in ("downey_low", "downey_high"))
    is_high = (high.wssre < low.wssre)[asked.target_series]
    return np.where(is_high, _followed("downey_high", high, *targets), _followed("downey_low", low, *targets))


def _batch(asked: PredictionTask) -> SeriesBatch:
    return SeriesBatch(asked.offsets, asked.procs, asked.runtime_s, np.ones(asked.procs.size))


def _followed(law: str, fitted: BatchFit, series: Ints, procs: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return LAWS[law].runtime_s(fitted.parameters_of(series), procs)


def _average(asked: PredictionTask) -> Floats:
    """The model average of each series alone."""
    return _median(asked, np.full(asked.offsets.size - 1, -1))


def _walltime(asked: PredictionTask) -> Floats:
    """Walltime's default: the model average, informed by the other series of the application that are asked about."""
    return _median(asked, asked.application)


def _median(asked: PredictionTask, application: Ints) -> Floats:
    rules = PredictRules()
    freedom, spread = repeats(asked.offsets, asked.n_runs), pooled_log_sd(asked.offsets, asked.n_runs, asked.log_sd)
    run_sd = run_log_sd(freedom, spread, log_wide_sd(freedom, spread, rules.run_log_sd))
    columns = (asked.offsets, asked.procs, asked.runtime_s, asked.n_runs, np.ones(asked.procs.size))
    observed = ObservedSeries.build(*columns, run_sd, application, rules)
    return np.exp(observed.curve(asked.target_series, asked.target_procs).log_s[:, 2])


def _adept(asked: PredictionTask) -> Floats:
    """ADEPT: each target by its own instance, every size of the series counted alike but for its distance."""
    found = find(_batch(asked), asked.target_series, asked.target_procs, AdeptRules())
    return found.runtime_s(asked.target_procs)


PREDICTORS: dict[str, Predictor] = {
    "average": _average,
    "walltime": _walltime,
    **{law: partial(_curve, law) for law in LAWS},
    "downey": _downey,
    "adept": _adept,
}
