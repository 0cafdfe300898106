"""Estimates by models over inputs as of each submit, and the models that beat the rivals.

At a job's submit, a model has learnt from the application's jobs that had ended by then. It is learnt anew each time
that half as many jobs more have ended. It answers only while it is better, beyond chance, than the user's last two
jobs, than the request, and than the estimator that would answer instead, on the jobs that it could answer and that had
ended by then. That also decides whether it is published.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.errors import InputError
from pipeline.core.input_settings import LogInputSettings
from pipeline.core.submitted_runs import SubmittedRuns
from pipeline.inputs.answers import predict
from pipeline.inputs.learning import learn
from pipeline.inputs.model import InputModel
from pipeline.inputs.of_logs.application_runs import ApplicationRuns, application_runs, declaration_of
from pipeline.inputs.of_logs.quantiles import quantiles_of

CHANCE = 0.05
"""Largest chance that a model which is no better than a rival is ever taken for a winner."""
GROWTH = 1.5
"""A model is learnt anew when this many times as many jobs have ended."""


@dataclass(frozen=True, slots=True)
class Rivalry:
    """Mean absolute errors (s) of a model and its rivals on the jobs that the model could answer; null: no such job."""

    n_scored: int
    model_s: float | None = None
    last_two_s: float | None = None
    request_s: float | None = None
    usual_s: float | None = None


@dataclass(frozen=True, slots=True)
class ApplicationModel:
    """An application's model for the next job after the log, its error against the rivals', and whether it won.

    `quantiles_s` (jobs, 6): what the models said at each submit, s; `is_used` (jobs,): where they were the answer.
    """

    group: ApplicationRuns
    model: InputModel | None
    rivalry: Rivalry
    is_published: bool
    quantiles_s: Floats
    is_used: Bools


def application_models(runs: SubmittedRuns, settings: LogInputSettings) -> list[ApplicationModel]:
    """Every application's model as of the end of the log, with the estimates on the way."""
    return [_of_application(group, runs, settings) for group in application_runs(runs, settings)]


def as_of_quantiles(runs: SubmittedRuns, settings: LogInputSettings) -> Floats:
    """(jobs, 6) quantiles, s, as of each submit; NaN where no published model answered."""
    found = np.full((len(runs.submit_s), 6), np.nan)
    for one in application_models(runs, settings):
        found[one.group.places[one.is_used]] = one.quantiles_s[one.is_used]
    return found


def _of_application(group: ApplicationRuns, runs: SubmittedRuns, settings: LogInputSettings) -> ApplicationModel:
    by_end, n_known = _ended(group.places, runs)
    quantiles_s = np.full((len(group.places), 6), np.nan)
    model: InputModel | None = None
    starts = _starts(n_known, settings)
    for start, stop in pairwise([*starts, len(group.places)]):
        model = _learnt(group, by_end[: n_known[start]], settings)
        if model is not None:
            part = np.arange(start, stop)
            answers = predict(model, group.table.take(pa.array(part)))
            quantiles_s[part] = quantiles_of(answers, runs.requested_s[group.places[part]])
    wins = wins_after(group.places, runs, quantiles_s, by_end, settings.least_scored)
    is_used = wins[n_known] & ~np.isnan(quantiles_s[:, 1])
    rivalry = rivalry_of(group.places, runs, quantiles_s, by_end)
    if starts and len(by_end) >= _next_start(int(n_known[starts[-1]])):
        model = _learnt(group, by_end, settings)
    is_published = model is not None and bool(wins[-1])
    return ApplicationModel(group, model, rivalry, is_published, quantiles_s, is_used)


def _ended(places: Ints, runs: SubmittedRuns) -> tuple[Ints, Ints]:
    """Numbers of the application's jobs in order of end, and for each job how many of them were known at its submit."""
    own = np.flatnonzero(np.isfinite(runs.end_s[places]) & (runs.runtime_s[places] > 0) & runs.is_learnt[places])
    by_end = own[np.argsort(runs.end_s[places][own], kind="stable")]
    ends = runs.end_s[places][by_end]
    return by_end.astype(np.int64), np.searchsorted(ends, runs.known_s[places], side="right").astype(np.int64)


def _starts(n_known: Ints, settings: LogInputSettings) -> list[int]:
    """The jobs at whose submit a model is learnt: enough have ended, then half as many more each time."""
    found: list[int] = []
    wanted = settings.least_runs
    for job in range(len(n_known)):
        if n_known[job] >= wanted:
            found.append(job)
            wanted = _next_start(int(n_known[job]))
    return found


def _next_start(n_known: int) -> int:
    """How many jobs have ended when the model of so many is learnt anew."""
    return int(np.ceil(GROWTH * n_known))


def _learnt(group: ApplicationRuns, known: Ints, settings: LogInputSettings) -> InputModel | None:
    """A model of the latest ended jobs; None where they do not suffice, as where no input varies."""
    rows = np.sort(known[-settings.most_runs :])
    try:
        return learn(group.table.take(pa.array(rows)), declaration_of(group, settings), settings.learning)
    except InputError:
        return None


def rivalry_of(places: Ints, runs: SubmittedRuns, quantiles_s: Floats, jobs: Ints) -> Rivalry:
    """The errors of models and rivals on those of these jobs that a model answered."""
    scored = jobs[~np.isnan(quantiles_s[jobs, 1])]
    if not len(scored):
        return Rivalry(0)
    runtime_s = runs.runtime_s[places][scored]
    rivals = [rival_s[scored] for rival_s in rivals_of(places, runs)]
    means = [
        float(np.nanmean(np.abs(values - runtime_s))) if not np.isnan(values).all() else None
        for values in (quantiles_s[scored, 1], *rivals)
    ]
    return Rivalry(len(scored), *means)


def rivals_of(places: Ints, runs: SubmittedRuns) -> tuple[Floats, Floats, Floats]:
    """(jobs,) each, s: the user's last two jobs, the request, and the estimator that answers without a model."""
    return runs.last_two_s[places], runs.requested_s[places], runs.usual_s[places]


def wins_after(places: Ints, runs: SubmittedRuns, quantiles_s: Floats, by_end: Ints, least_scored: int) -> Bools:
    """(ended jobs + 1,) whether the models win on the first 0, 1, 2, ... ended jobs that they answered.

    They win against a rival if their error is smaller by more than the mean difference could be by chance at any time:
    the comparison is made again after every job. An unknown request is no rival.
    """
    runtime_s = runs.runtime_s[places][by_end]
    error_s = np.abs(quantiles_s[by_end, 1] - runtime_s)
    wins = _up_to((~np.isnan(error_s)).astype(np.float64)) >= least_scored
    for rival_s in rivals_of(places, runs):
        gain_s = np.abs(rival_s[by_end] - runtime_s) - error_s
        known = ~np.isnan(gain_s)
        n = _up_to(known.astype(np.float64))
        mean = _up_to(np.where(known, gain_s, 0.0)) / np.maximum(n, 1.0)
        spread = np.maximum(_up_to(np.where(known, gain_s**2, 0.0)) / np.maximum(n, 1.0) - mean**2, 0.0)
        wins &= (n == 0) | (mean > standard_errors_needed(n, least_scored) * np.sqrt(spread / np.maximum(n - 1.0, 1.0)))
    found: Bools = wins
    return found


def standard_errors_needed(n: Floats, first: int) -> Floats:
    """Standard errors that a mean of n differences without a gain exceeds at some n with the chance CHANCE at most.

    The one-sided normal mixture of Howard, Ramdas, McAuliffe and Sekhon (2021), section 3.2, closest about `first`.
    """
    counted = np.maximum(n, 1.0)
    bound: Floats = np.sqrt((counted + first) / counted * np.log((counted + first) / (4 * CHANCE**2 * first) + 1))
    return bound


def _up_to(values: Floats) -> Floats:
    """Sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])
