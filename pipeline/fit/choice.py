"""Which law answers for a group: the simplest whose leave-one-out error is near the best."""

from collections.abc import Mapping

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.settings import FitSettings
from pipeline.core.status import STATUS_CODE, FitStatus
from pipeline.fit.fitters import FITTERS
from pipeline.fit.results import BatchFit
from pipeline.fit.series import SeriesBatch
from pipeline.laws import LAWS

MIN_POINTS = 3
"""Sizes leave-one-out needs: with two, one point would have to tell a slope."""

_UNUSABLE = (STATUS_CODE[FitStatus.TOO_FEW_POINTS], STATUS_CODE[FitStatus.BAD_VALUES])


def leave_one_out(law: str, batch: SeriesBatch) -> Floats:
    """Per series, the weighted root mean square of log errors at each size predicted from the others (log s).

    NaN where the series has fewer than three sizes, or the others are too few for the law.
    """
    n_points = batch.n_points
    mean_square = np.full(len(n_points), np.nan)
    for count in np.unique(n_points[n_points >= max(MIN_POINTS, LAWS[law].n_parameters + 1)]):
        series = np.flatnonzero(n_points == count)
        rows = batch.offsets[series][:, None] + np.arange(count)
        error = _held_out_log_error(law, batch, rows)
        mean_square[series] = (batch.weights[rows] * error**2).mean(axis=1)
    root: Floats = np.sqrt(mean_square)
    return root


def _held_out_log_error(law: str, batch: SeriesBatch, rows: Ints) -> Floats:
    """log(predicted/observed) with the shape of rows (series, sizes), each size predicted from the rest of its row."""
    n_series, count = rows.shape
    others = np.array([[k for k in range(count) if k != held] for held in range(count)])
    kept = rows[:, others].reshape(-1)
    offsets = np.arange(0, n_series * count * (count - 1) + 1, count - 1)
    held = rows.reshape(-1)
    part = SeriesBatch(offsets, batch.procs[kept], batch.runtime_s[kept], batch.weights[kept])
    predicted_s = LAWS[law].runtime_s(FITTERS[law](part).parameters, batch.procs[held])
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Floats = np.log(predicted_s / batch.runtime_s[held]).reshape(rows.shape)
    return error


def choose(
    fits: Mapping[str, BatchFit],
    loo: Mapping[str, Floats],
    batch: SeriesBatch,
    core_log_sd: Floats,
    settings: FitSettings,
) -> dict[str, Bools]:
    """Per law, whether it answers for each series; at most one law does.

    Of Downey's two modes only the one that fits better can be chosen. Three sizes or more: of the laws whose
    leave-one-out error is within `choice_margin` of the least, the one with the fewest parameters. Fewer: the constant,
    unless two sizes differ by more than their noise explains.
    """
    names = sorted(fits, key=lambda name: LAWS[name].n_parameters)
    usable = np.column_stack([~np.isin(fits[name].status, _UNUSABLE) & _best_of_family(name, fits) for name in names])
    errors = np.where(usable, np.column_stack([loo[name] for name in names]), np.nan)
    errors = np.where(np.isnan(errors), np.inf, errors)
    near = errors <= errors.min(axis=1, keepdims=True) * (1 + settings.choice_margin)
    near &= np.isfinite(errors)
    few = ~near.any(axis=1)
    near[few] = (usable & _simple_enough(names, batch, core_log_sd, settings))[few]
    first = near.argmax(axis=1)
    return {name: near.any(axis=1) & (first == place) for place, name in enumerate(names)}


def _best_of_family(name: str, fits: Mapping[str, BatchFit]) -> Bools:
    """Whether no other branch of the law's family fits better; of branches that tie, the first by name."""
    best = np.ones(len(fits[name].wssre), np.bool_)
    for other in fits:
        if other != name and LAWS[other].family == LAWS[name].family:
            ours, theirs = fits[name].wssre, np.nan_to_num(fits[other].wssre, nan=np.inf)
            best &= ours <= theirs if name < other else ours < theirs
    return best


def _simple_enough(names: list[str], batch: SeriesBatch, core_log_sd: Floats, settings: FitSettings) -> Bools:
    """Laws allowed where leave-one-out cannot judge: two parameters only where the runtimes clearly differ."""
    differs = _log_range(batch) > 2 * np.sqrt(2) * np.fmax(core_log_sd, settings.noise_floor)
    two_sizes = batch.n_points == 2
    columns = [~(two_sizes & differs) if LAWS[name].n_parameters == 1 else two_sizes & differs for name in names]
    return np.column_stack(columns)


def _log_range(batch: SeriesBatch) -> Floats:
    if len(batch.offsets) < 2:
        return np.empty(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(batch.runtime_s)
    ends = batch.offsets[1:] - 1
    spread: Floats = logs[batch.offsets[:-1]] - logs[ends]
    return spread
