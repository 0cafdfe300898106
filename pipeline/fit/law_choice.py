"""Which law answers for a group: the simplest whose leave-one-out error is near the best."""

from collections.abc import Mapping

import numpy as np

from pipeline.core.adept_settings import AdeptSettings
from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.settings import FitSettings
from pipeline.core.status import STATUS_CODE, FitStatus
from pipeline.fit.loss import Loss, fit_batch, misfit
from pipeline.fit.results import BatchFit
from pipeline.fit.series import SeriesBatch
from pipeline.laws import LAWS

MIN_POINTS = 3
"""Sizes leave-one-out needs: with two, one point would have to give a slope."""

_UNUSABLE = (STATUS_CODE[FitStatus.TOO_FEW_POINTS], STATUS_CODE[FitStatus.BAD_VALUES])


def leave_one_out(law: str, batch: SeriesBatch, loss: Loss, search: AdeptSettings | None = None) -> Floats:
    """Per series, the weighted root mean square of log errors at each size predicted from the others (log s).

    NaN where the series has fewer than three sizes, or the others are too few for the law.
    """
    n_points = batch.n_points
    mean_square = np.full(len(n_points), np.nan)
    for count in np.unique(n_points[n_points >= max(MIN_POINTS, LAWS[law].n_parameters + 1)]):
        series = np.flatnonzero(n_points == count)
        rows = batch.offsets[series][:, None] + np.arange(count)
        error = _held_out_log_error(law, batch, rows, loss, search)
        mean_square[series] = (batch.weights[rows] * error**2).mean(axis=1)
    root: Floats = np.sqrt(mean_square)
    return root


def _held_out_log_error(law: str, batch: SeriesBatch, rows: Ints, loss: Loss, search: AdeptSettings | None) -> Floats:
    """log(predicted/observed) with the shape of rows (series, sizes), each size predicted from the rest of its row."""
    n_series, count = rows.shape
    others = np.array([[k for k in range(count) if k != held] for held in range(count)])
    kept = rows[:, others].reshape(-1)
    offsets = np.arange(0, n_series * count * (count - 1) + 1, count - 1)
    held = rows.reshape(-1)
    part = SeriesBatch(offsets, batch.procs[kept], batch.runtime_s[kept], batch.weights[kept])
    predicted_s = LAWS[law].runtime_s(fit_batch(law, part, loss, search).parameters, batch.procs[held])
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Floats = np.log(predicted_s / batch.runtime_s[held]).reshape(rows.shape)
    return error


def choose(
    fits: Mapping[str, BatchFit],
    loo: Mapping[str, Floats],
    batch: SeriesBatch,
    n_jobs: Floats,
    core_log_sd: Floats,
    settings: FitSettings,
) -> dict[str, Bools]:
    """Per law, whether it answers for each series; at most one law does.

    Of Downey's two modes only the one that fits better can be chosen. Three sizes or more: of the laws whose
    leave-one-out error is within `choice_margin` of the least, the one with the fewest parameters. Fewer: the constant,
    unless two sizes with repeats differ by more than noise explains and by no more than processors do.
    """
    names = sorted(fits, key=lambda name: LAWS[name].n_parameters)
    misfits = {name: misfit(name, fits[name], batch, settings.loss) for name in names}
    usable = np.column_stack(
        [~np.isin(fits[name].status, _UNUSABLE) & _best_of_family(name, misfits) for name in names]
    )
    errors = np.where(usable, np.column_stack([loo[name] for name in names]), np.nan)
    errors = np.where(np.isnan(errors), np.inf, errors)
    near = errors <= errors.min(axis=1, keepdims=True) * (1 + settings.choice_margin)
    near &= np.isfinite(errors)
    few = ~near.any(axis=1)
    near[few] = (usable & _simple_enough(names, batch, n_jobs, core_log_sd, settings))[few]
    first = near.argmax(axis=1)
    return {name: near.any(axis=1) & (first == place) for place, name in enumerate(names)}


def _best_of_family(name: str, misfits: Mapping[str, Floats]) -> Bools:
    """Whether no other branch of the law's family fits better; of branches that tie, the first by name."""
    best = np.ones(len(misfits[name]), np.bool_)
    for other in misfits:
        if other != name and LAWS[other].family == LAWS[name].family:
            ours, theirs = misfits[name], np.nan_to_num(misfits[other], nan=np.inf)
            best &= ours <= theirs if name < other else ours < theirs
    return best


def _simple_enough(
    names: list[str], batch: SeriesBatch, n_jobs: Floats, core_log_sd: Floats, settings: FitSettings
) -> Bools:
    """Laws allowed where leave-one-out cannot judge: two parameters only where two sizes with repeats clearly scale."""
    if not batch.n_series:
        return np.empty((0, len(names)), np.bool_)
    first, last = batch.offsets[:-1], batch.offsets[1:] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = np.log(batch.runtime_s[first] / batch.runtime_s[last])
    noise = 2 * np.sqrt(2) * np.fmax(core_log_sd, settings.noise_floor)
    linear = np.log(batch.procs[last] / batch.procs[first])
    repeated = np.minimum(n_jobs[first], n_jobs[last]) > 1
    scales = (batch.n_points == 2) & repeated & (fall > noise) & (fall < linear + noise)
    return np.column_stack([~scales if LAWS[name].n_parameters == 1 else scales for name in names])
