"""In which errors a law is fitted: relative ones, as the exact solver does, or log ones, by reweighting it.

Relative errors are bounded at -1 below and not above, so where sizes disagree by factors their optimum falls to the
smallest runtime. Log errors treat twice and half alike. To first order the two agree.
"""

import dataclasses
from typing import Literal

import numpy as np

from pipeline.core.adept_settings import AdeptSettings
from pipeline.core.arrays import Bools, Floats
from pipeline.fit.adept import MODES, fit_adept
from pipeline.fit.fitters import fit_law
from pipeline.fit.results import BatchFit
from pipeline.fit.series import SeriesBatch
from pipeline.laws import LAWS

Loss = Literal["log", "relative"]

ROUNDS = 8
"""Reweightings; each series keeps its best, so one too many costs time only."""


def fit_batch(law: str, batch: SeriesBatch, loss: Loss, search: AdeptSettings | None = None) -> BatchFit:
    """One law fitted to every series; wssre is in the batch's own weights whatever the loss.

    Given ADEPT's settings, Downey's laws are fitted by its search of relative errors.
    """
    if search and law in MODES:
        return fit_adept(law, batch, search)
    best = fit_law(law, batch)
    if loss == "relative" or not batch.n_series:
        return best
    runtime_s = np.repeat(_geometric_mean_s(batch), batch.n_points)
    least = misfit(law, best, batch, loss)
    for _ in range(ROUNDS):
        reweighted = dataclasses.replace(batch, weights=batch.weights * _log_to_relative(runtime_s / batch.runtime_s))
        fitted = fit_law(law, reweighted)
        reached = misfit(law, fitted, batch, loss)
        best, least = _better(best, fitted, reached < least), np.fmin(reached, least)
        runtime_s = np.sqrt(runtime_s * curve_s(law, fitted, batch))
    return dataclasses.replace(best, wssre=np.where(np.isnan(best.wssre), np.nan, misfit(law, best, batch, "relative")))


def misfit(law: str, fitted: BatchFit, batch: SeriesBatch, loss: Loss) -> Floats:
    """Per series, the weighted sum of squared errors of the loss; NaN where nothing was fitted."""
    if not batch.n_series:
        return np.empty(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = curve_s(law, fitted, batch) / batch.runtime_s
        error = np.log(ratio) if loss == "log" else 1 - ratio
    squares: Floats = np.add.reduceat(np.append(batch.weights * error**2, 0.0), batch.offsets[:-1])
    return np.where(batch.n_points > 0, squares, np.nan)


def curve_s(law: str, fitted: BatchFit, batch: SeriesBatch) -> Floats:
    """Each series' fitted runtime at its own sizes (s)."""
    rows = np.repeat(np.arange(batch.n_series), batch.n_points)
    return LAWS[law].runtime_s(fitted.parameters_of(rows), np.maximum(batch.procs, 1.0))


def _log_to_relative(ratio: Floats) -> Floats:
    """What a squared relative error must weigh to have the slope of a squared log error, at predicted/observed."""
    x = np.clip(np.where(np.isfinite(ratio), ratio, 1.0), 1e-6, 1e6)
    is_near = np.abs(x - 1) < 1e-6
    return np.where(is_near, 1.0, np.log(x) / (x * np.where(is_near, 1.0, x - 1)))


def _better(one: BatchFit, other: BatchFit, is_better: Bools) -> BatchFit:
    columns = [field.name for field in dataclasses.fields(one)]
    return BatchFit(**{name: np.where(is_better, getattr(other, name), getattr(one, name)) for name in columns})


def _geometric_mean_s(batch: SeriesBatch) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(batch.runtime_s)
    sums = np.add.reduceat(np.append(batch.weights * logs, 0.0), batch.offsets[:-1])
    weights = np.add.reduceat(np.append(batch.weights, 0.0), batch.offsets[:-1])
    mean: Floats = np.exp(sums / weights)
    return mean
