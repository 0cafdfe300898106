"""Every law fitted to a series' sizes with equal weights and followed to other sizes, as a predictor; and ADEPT."""

from functools import partial

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.prediction_task import PredictionTask, Predictor
from pipeline.fit import adept
from pipeline.fit.fitters import fit_law
from pipeline.fit.results import BatchFit
from pipeline.fit.series import SeriesBatch
from pipeline.laws import LAWS


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


PREDICTORS: dict[str, Predictor] = {
    **{law: partial(_curve, law) for law in LAWS},
    "downey": _downey,
    "adept": adept.predict,
}
