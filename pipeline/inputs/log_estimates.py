"""Estimates by models over the inputs that a log's texts name, as of each submit, and the models that beat the rivals.

At a job's submit, a model has learnt from the application's jobs that had ended by then. It is learnt anew each time
that half as many jobs more have ended. It answers only while it is better, beyond chance, than the user's last two
jobs, than the request, and than the estimator that would answer instead, on the jobs that it could answer and that had
ended by then. That also decides whether it is published.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.errors import InputError
from pipeline.inputs.answers import predict, quantiles_of
from pipeline.inputs.declaration import Declaration, Input, InputType, LearnRules
from pipeline.inputs.input_model import InputModel
from pipeline.inputs.learning import learn
from pipeline.settings import LogInputSettings
from pipeline.tables import SubmittedRuns

TARGET, ORDER, STOPPED = "runtime_s", "order", "is_lower_bound"
PROCS, USER = "procs", "user"
"""Inputs that every model of a log has beside those of the rules: processors, and who submitted the job."""
Types = Mapping[str, str]
"""The declared types of inputs by name; others are log_number."""


FIVE_FOLDS = LearnRules(folds=5)
"""A log learns many models, most of them from few jobs."""


@dataclass(frozen=True, slots=True)
class LogModelRules:
    """When models of a log's jobs are learnt and published."""

    least_runs: int = 30
    """Ended jobs of an application with which a model is first learnt."""
    most_runs: int = 300
    """Latest ended jobs that a model learns from."""
    least_scored: int = 20
    """Answered and ended jobs on which a model must have beaten the rivals to be published."""
    most_groups: int = 100
    """Applications with a model, the first to have enough jobs."""
    learning: LearnRules = FIVE_FOLDS


LOG_RULES = LogModelRules()


@dataclass(frozen=True, slots=True)
class ApplicationRuns:
    """The jobs of an application whose texts name the same inputs: their places in order of submit, and a row for each.

    `declaration` has the inputs, processors and the submitter; folds follow the submits.
    """

    application: str
    names: tuple[str, ...]
    places: Ints
    table: pa.Table
    declaration: Declaration


def application_runs(
    runs: SubmittedRuns, settings: LogInputSettings, rules: LogModelRules = LOG_RULES
) -> list[ApplicationRuns]:
    """The applications with inputs and enough jobs, in the order in which they had them; later jobs change none."""
    if not settings.rules:
        return []
    parsed = [json.loads(text) for text in runs.inputs_texts]
    named = np.flatnonzero(runs.inputs >= 0)
    places: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for place in named.tolist():
        code = int(runs.application[place])
        application = runs.applications[code] if code >= 0 else ""
        places.setdefault((application, tuple(sorted(parsed[runs.inputs[place]]))), []).append(place)
    enough = {key: own for key, own in places.items() if len(own) >= rules.least_runs}
    chosen = sorted(enough, key=lambda key: enough[key][rules.least_runs - 1])[: rules.most_groups]
    return [_runs(runs, parsed, key, np.array(enough[key], np.int64), settings.types) for key in chosen]


def _runs(
    runs: SubmittedRuns, parsed: Sequence[Mapping[str, str]], key: tuple[str, tuple[str, ...]], places: Ints,
    types: Types,
) -> ApplicationRuns:  # fmt: skip
    texts = [parsed[code] for code in runs.inputs[places].tolist()]
    users = [runs.users[code] if code >= 0 else None for code in runs.user[places].tolist()]
    table = points_table(key[1], texts, runs.procs[places].tolist(), users, types)
    table = table.append_column(TARGET, pa.array(runs.runtime_s[places], pa.float64(), from_pandas=True))
    table = table.append_column(ORDER, pa.array(places.astype(np.float64)))
    table = table.append_column(STOPPED, pa.array(runs.is_lower_bound[places]))
    return ApplicationRuns(*key, places, table, _declaration(key[1], types))


def points_table(
    names: Sequence[str], texts: Sequence[Mapping[str, str]], procs: Sequence[float], users: Sequence[str | None],
    types: Types,
) -> pa.Table:  # fmt: skip
    """A row for each job: its inputs as texts or numbers, its processors and its submitter."""
    columns = {column_name(name): _column([one.get(name) for one in texts], types.get(name)) for name in names}
    return pa.table(columns | {PROCS: pa.array(procs, pa.float64()), USER: pa.array(users, pa.string())})


def column_name(name: str) -> str:
    """The column of an input, which cannot be that of the processors, the user or the runtime."""
    return f"input.{name}"


def _column(texts: Sequence[str | None], kind: str | None) -> pa.Array:
    """Texts of a declared category, else numbers, null where a text is none: what later jobs have changes no type."""
    if kind in (InputType.CATEGORY, InputType.BOOLEAN):
        return pa.array(texts, pa.string())
    return pa.array([None if text is None else _number(text) for text in texts], pa.float64())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _declaration(names: Sequence[str], types: Types) -> Declaration:
    own = tuple(Input(column_name(name), InputType(types.get(name, InputType.LOG_NUMBER))) for name in names)
    always = (Input(PROCS, InputType.LOG_NUMBER), Input(USER, InputType.CATEGORY))
    return Declaration((*own, *always), target=TARGET, procs=PROCS, time=ORDER, censored=STOPPED)


CHANCE = 0.05
"""Largest chance that a model which is no better than a rival is ever taken for a winner."""
GROWTH = 1.5
"""A model is learnt anew when this many times as many jobs have ended."""


@dataclass(frozen=True, slots=True)
class ApplicationModel:
    """An application's model for the next job after the log, its error against the rivals', and whether it won.

    `rivalry` are n_scored, the jobs that the model could answer, and the mean absolute errors (s) of the model and its
    rivals on them, as columns of INPUT_MODELS; null: no such job. `quantiles_s` (jobs, 6): what the models said at each
    submit, s; `is_used` (jobs,): where they were the answer.
    """

    group: ApplicationRuns
    model: InputModel | None
    rivalry: Mapping[str, float | None]
    is_published: bool
    quantiles_s: Floats
    is_used: Bools


def application_models(
    runs: SubmittedRuns, settings: LogInputSettings, rules: LogModelRules = LOG_RULES
) -> list[ApplicationModel]:
    """Every application's model as of the end of the log, with the estimates on the way."""
    return [_of_application(group, runs, rules) for group in application_runs(runs, settings, rules)]


def as_of_quantiles(runs: SubmittedRuns, settings: LogInputSettings, rules: LogModelRules = LOG_RULES) -> Floats:
    """(jobs, 6) quantiles, s, as of each submit; NaN where no published model answered."""
    found = np.full((len(runs.submit_s), 6), np.nan)
    for one in application_models(runs, settings, rules):
        found[one.group.places[one.is_used]] = one.quantiles_s[one.is_used]
    return found


def _of_application(group: ApplicationRuns, runs: SubmittedRuns, rules: LogModelRules) -> ApplicationModel:
    by_end, n_known = _ended(group.places, runs)
    quantiles_s = np.full((len(group.places), 6), np.nan)
    model: InputModel | None = None
    starts = _starts(n_known, rules.least_runs)
    for start, stop in pairwise([*starts, len(group.places)]):
        model = _learnt(group, by_end[: n_known[start]], rules)
        if model is not None:
            part = np.arange(start, stop)
            answers = predict(model, group.table.take(pa.array(part)))
            quantiles_s[part] = quantiles_of(answers, runs.requested_s[group.places[part]])
    wins = wins_after(group.places, runs, quantiles_s, by_end, rules.least_scored)
    is_used = wins[n_known] & ~np.isnan(quantiles_s[:, 1])
    rivalry = rivalry_of(group.places, runs, quantiles_s, by_end)
    if starts and len(by_end) >= _next_start(int(n_known[starts[-1]])):
        model = _learnt(group, by_end, rules)
    is_published = model is not None and bool(wins[-1])
    return ApplicationModel(group, model, rivalry, is_published, quantiles_s, is_used)


def _ended(places: Ints, runs: SubmittedRuns) -> tuple[Ints, Ints]:
    """Numbers of the application's jobs in order of end, and for each job how many of them were known at its submit."""
    own = np.flatnonzero(np.isfinite(runs.end_s[places]) & (runs.runtime_s[places] > 0) & runs.is_learnt[places])
    by_end = own[np.argsort(runs.end_s[places][own], kind="stable")]
    ends = runs.end_s[places][by_end]
    return by_end.astype(np.int64), np.searchsorted(ends, runs.known_s[places], side="right").astype(np.int64)


def _starts(n_known: Ints, least_runs: int) -> list[int]:
    """The jobs at whose submit a model is learnt: enough have ended, then half as many more each time."""
    found: list[int] = []
    wanted = least_runs
    for job in range(len(n_known)):
        if n_known[job] >= wanted:
            found.append(job)
            wanted = _next_start(int(n_known[job]))
    return found


def _next_start(n_known: int) -> int:
    """How many jobs have ended when the model of so many is learnt anew."""
    return int(np.ceil(GROWTH * n_known))


def _learnt(group: ApplicationRuns, known: Ints, rules: LogModelRules) -> InputModel | None:
    """A model of the latest ended jobs; None where they do not suffice, as where no input varies."""
    rows = np.sort(known[-rules.most_runs :])
    try:
        return learn(group.table.take(pa.array(rows)), group.declaration, rules.learning)
    except InputError:
        return None


def rivalry_of(places: Ints, runs: SubmittedRuns, quantiles_s: Floats, jobs: Ints) -> dict[str, float | None]:
    """The errors of models and rivals on those of these jobs that a model answered."""
    scored = jobs[~np.isnan(quantiles_s[jobs, 1])]
    found: dict[str, float | None] = {"n_scored": len(scored)}
    for name, estimate_s in ({"model": quantiles_s[:, 1]} | rivals_of(places, runs)).items():
        error_s = np.abs(estimate_s[scored] - runs.runtime_s[places][scored])
        found[f"{name}_mae_s"] = None if np.isnan(error_s).all() else float(np.nanmean(error_s))
    return found


def rivals_of(places: Ints, runs: SubmittedRuns) -> dict[str, Floats]:
    """(jobs,) each, s: the user's last two jobs, the request, and the estimator that answers without a model."""
    rivals = {"last_two": runs.last_two_s, "request": runs.requested_s, "walltime": runs.usual_s}
    return {name: values[places] for name, values in rivals.items()}


def wins_after(places: Ints, runs: SubmittedRuns, quantiles_s: Floats, by_end: Ints, least_scored: int) -> Bools:
    """(ended jobs + 1,) whether the models win on the first 0, 1, 2, ... ended jobs that they answered.

    They win against a rival if their error is smaller by more than the mean difference could be by chance at any time:
    the comparison is made again after every job. An unknown request is no rival.
    """
    runtime_s = runs.runtime_s[places][by_end]
    error_s = np.abs(quantiles_s[by_end, 1] - runtime_s)
    wins = _up_to((~np.isnan(error_s)).astype(np.float64)) >= least_scored
    for rival_s in rivals_of(places, runs).values():
        gain_s = np.abs(rival_s[by_end] - runtime_s) - error_s
        known = ~np.isnan(gain_s)
        n = _up_to(known.astype(np.float64))
        mean = _up_to(np.where(known, gain_s, 0.0)) / np.maximum(n, 1.0)
        spread = np.maximum(_up_to(np.where(known, gain_s**2, 0.0)) / np.maximum(n, 1.0) - mean**2, 0.0)
        wins &= (n == 0) | (mean > standard_errors_needed(n, least_scored) * np.sqrt(spread / np.maximum(n - 1.0, 1.0)))
    return wins


def standard_errors_needed(n: Floats, first: int) -> Floats:
    """Standard errors that a mean of n differences without a gain exceeds at some n with the chance CHANCE at most.

    The one-sided normal mixture of Howard, Ramdas, McAuliffe and Sekhon (2021), section 3.2, closest about `first`.
    """
    counted = np.maximum(n, 1.0)
    return np.sqrt((counted + first) / counted * np.log((counted + first) / (4 * CHANCE**2 * first) + 1))


def _up_to(values: Floats) -> Floats:
    """Sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])
