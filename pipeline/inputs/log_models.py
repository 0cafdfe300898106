"""Models over the inputs that a log's texts name: estimates as of each submit, and INPUT_MODELS.

At a job's submit, a model has learnt from the application's jobs that had ended by then. It is learnt anew each time
that half as many jobs more have ended. It answers only while it is better, beyond chance, than the user's last two
jobs, than the request, and than the estimator that would answer instead, on the jobs that it could answer and that had
ended by then. That also decides whether it is published.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.errors import InputError
from pipeline.inputs.answers import predict
from pipeline.inputs.declaration import Declaration, Input, InputType, LearnRules
from pipeline.inputs.learning import InputModel, learn, packed_model, unpacked_model
from pipeline.report import Report, Tally
from pipeline.settings import LogInputSettings
from pipeline.tables import INPUT_MODELS, SubmittedRuns

TARGET, ORDER, STOPPED = "runtime_s", "order", "is_lower_bound"
PROCS, USER = "procs", "user"
"""Inputs that every model of a log has beside those of the rules: processors, and who submitted the job."""
CHANCE = 0.05
"""Largest chance that a model which is no better than a rival is ever taken for a winner."""
GROWTH = 1.5
"""A model is learnt anew when this many times as many jobs have ended."""
LEAST_RUNS = 30
"""Ended jobs of an application with which a model is first learnt."""
MOST_RUNS = 300
"""Latest ended jobs that a model learns from."""
LEAST_SCORED = 20
"""Answered and ended jobs on which a model must have beaten the rivals to be published."""
MOST_APPLICATIONS = 100
"""Applications with a model, the first to have enough jobs."""
RULES = LearnRules(method="gp", folds=5)
"""A log learns many models, most of them from few jobs."""


@dataclass(frozen=True, slots=True)
class ApplicationModel:
    """An application's model for the next job after the log, its error against the rivals', and whether it won.

    Its jobs are those whose texts name the same inputs: `places` in order of submit. `rivalry` are n_scored, the jobs
    that the model could answer, and the mean absolute errors (s) of the model and its rivals on them, as columns of
    INPUT_MODELS; null: no such job. `quantiles_s` (jobs, 6): what the models answered at each submit, s; `is_used`
    (jobs,): where that was the estimate.
    """

    application: str
    names: tuple[str, ...]
    places: Ints
    model: InputModel | None
    rivalry: Mapping[str, float | None]
    is_published: bool
    quantiles_s: Floats
    is_used: Bools


def publish_models(runs: SubmittedRuns, settings: LogInputSettings, site: str, run_id: str) -> tuple[pa.Table, Report]:
    """INPUT_MODELS, a row for each application with enough jobs whose texts name inputs; models that lost are null.

    The Report counts jobs with inputs, and those of applications without a model.
    """
    found = application_models(runs, settings)
    rows = []
    for one in found:
        row: dict[str, Any] = {"application": one.application, "input_names": "+".join(one.names), **one.rivalry}
        row |= {"n_jobs": len(one.places), "is_published": one.is_published, "site": site, "run_id": run_id}
        if one.model is not None and one.is_published:
            row["model"], row["model_arrays"] = packed_model(one.model)
        rows.append(row)
    table = INPUT_MODELS.check(pa.Table.from_pylist(rows, INPUT_MODELS.schema()))
    n, n_named, n_modelled = len(runs.inputs), int((runs.inputs >= 0).sum()), sum(len(one.places) for one in found)
    reasons = {"no_inputs": n - n_named, "too_few_runs": n_named - n_modelled}
    n_published = sum(one.is_published for one in found)
    facts = {"models_published": n_published, "models_that_lost": len(found) - n_published}
    left = {name: Tally(n_left) for name, n_left in reasons.items() if n_left}
    return table, Report("inputs", "job", Tally(n), Tally(n_modelled), left, facts).check()


def as_of_quantiles(runs: SubmittedRuns, settings: LogInputSettings) -> Floats:
    """(jobs, 6) quantiles, s, as of each submit; NaN where no published model answered."""
    found = np.full((len(runs.submit_s), 6), np.nan)
    for one in application_models(runs, settings):
        found[one.places[one.is_used]] = one.quantiles_s[one.is_used]
    return found


def application_models(runs: SubmittedRuns, settings: LogInputSettings) -> list[ApplicationModel]:
    """Every application's model as of the end of the log, with the estimates on the way.

    Applications with inputs and enough jobs, in the order in which they had them: later jobs change none.
    """
    if not settings.rules:
        return []
    parsed = [json.loads(one) for one in runs.inputs_texts]
    places: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for place in np.flatnonzero(runs.inputs >= 0).tolist():
        code = int(runs.application[place])
        application = runs.applications[code] if code >= 0 else ""
        places.setdefault((application, tuple(sorted(parsed[runs.inputs[place]]))), []).append(place)
    enough = {key: own for key, own in places.items() if len(own) >= LEAST_RUNS}
    chosen = sorted(enough, key=lambda key: enough[key][LEAST_RUNS - 1])[:MOST_APPLICATIONS]
    return [_application_model(runs, parsed, key, np.array(enough[key]), settings.types) for key in chosen]


def _application_model(
    runs: SubmittedRuns, parsed: Sequence[Mapping[str, str]], key: tuple[str, tuple[str, ...]], places: Ints,
    types: Mapping[str, str],
) -> ApplicationModel:  # fmt: skip
    # A row for each job: its inputs, processors and submitter; folds follow the submits.
    jobs = [
        Question(
            key[0], parsed[runs.inputs[place]], float(runs.procs[place]),
            runs.users[runs.user[place]] if runs.user[place] >= 0 else None, float(runs.requested_s[place]),
        )
        for place in places.tolist()
    ]  # fmt: skip
    table = points_table(key[1], jobs, types)
    table = table.append_column(TARGET, pa.array(runs.runtime_s[places], pa.float64(), from_pandas=True))
    table = table.append_column(ORDER, pa.array(places.astype(np.float64)))
    table = table.append_column(STOPPED, pa.array(runs.is_lower_bound[places]))
    own = [Input(column_name(name), InputType(types.get(name, InputType.LOG_NUMBER))) for name in key[1]]
    always = [Input(PROCS, InputType.LOG_NUMBER), Input(USER, InputType.CATEGORY)]
    declaration = Declaration((*own, *always), target=TARGET, procs=PROCS, time=ORDER, censored=STOPPED)

    def learnt(known: Ints) -> InputModel | None:
        """A model of the latest ended jobs; None where they do not suffice, as where no input varies."""
        try:
            return learn(table.take(pa.array(np.sort(known[-MOST_RUNS:]))), declaration, RULES)
        except InputError:
            return None

    # The jobs in order of end, and how many of them were known at the submit of each.
    is_learnt = np.isfinite(runs.end_s[places]) & (runs.runtime_s[places] > 0) & runs.is_learnt[places]
    by_end = np.flatnonzero(is_learnt)
    by_end = by_end[np.argsort(runs.end_s[places][by_end], kind="stable")]
    n_known = np.searchsorted(runs.end_s[places][by_end], runs.known_s[places], side="right")
    # A model is learnt at the submit of a job by which enough have ended, then by which half as many more have.
    starts: list[int] = []
    wanted = LEAST_RUNS
    for job, n in enumerate(n_known.tolist()):
        if n >= wanted:
            starts.append(job)
            wanted = int(np.ceil(GROWTH * n))
    quantiles_s, model = np.full((len(places), 6), np.nan), None
    for start, stop in pairwise([*starts, len(places)]):
        model = learnt(by_end[: n_known[start]])
        if model is not None:
            answers = predict(model, table.slice(start, stop - start))
            quantiles_s[start:stop] = quantiles_of(answers, runs.requested_s[places[start:stop]])
    if starts and len(by_end) >= wanted:
        model = learnt(by_end)
    # Against the user's last two jobs, the request, and the estimator that answers without a model.
    rivals = {"last_two": runs.last_two_s, "request": runs.requested_s, "walltime": runs.usual_s}
    runtime_s, answer_s = runs.runtime_s[places][by_end], quantiles_s[by_end, 1]
    errors = {name: np.abs(values[places][by_end] - runtime_s) for name, values in rivals.items()}
    wins = wins_after(np.abs(answer_s - runtime_s), errors)
    scored = ~np.isnan(answer_s)
    rivalry: dict[str, float | None] = {"n_scored": int(scored.sum())}
    for name, error in ({"model": np.abs(answer_s - runtime_s)} | errors).items():
        known = error[scored][~np.isnan(error[scored])]
        rivalry[f"{name}_mae_s"] = float(known.mean()) if len(known) else None
    is_used = wins[n_known] & ~np.isnan(quantiles_s[:, 1])
    is_published = model is not None and bool(wins[-1])
    return ApplicationModel(*key, places, model, rivalry, is_published, quantiles_s, is_used)


def points_table(names: Sequence[str], jobs: Sequence["Question"], types: Mapping[str, str]) -> pa.Table:
    """A row for each job: its inputs as texts or numbers, its processors and its submitter.

    Texts of a declared category, else numbers, null where a text is none: what later jobs have changes no type.
    """
    procs, users = [one.procs for one in jobs], [one.user for one in jobs]
    columns = {PROCS: pa.array(procs, pa.float64()), USER: pa.array(users, pa.string())}
    for name in names:
        values: list[Any] = [one.inputs.get(name) for one in jobs]
        if types.get(name) in (InputType.CATEGORY, InputType.BOOLEAN):
            columns[column_name(name)] = pa.array(values, pa.string())
        else:
            columns[column_name(name)] = pa.array([_number(value) for value in values], pa.float64())
    return pa.table(columns)


def column_name(name: str) -> str:
    """The column of an input, which cannot be that of the processors, the user or the runtime."""
    return f"input.{name}"


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def wins_after(error_s: Floats, rivals: Mapping[str, Floats]) -> Bools:
    """(ended jobs + 1,) whether the models win on the first 0, 1, 2, ... ended jobs that they answered.

    They win against a rival if their error is smaller by more than the mean difference could be by chance at any time:
    the comparison is made again after every job. An unknown request is no rival.
    """
    wins = _up_to((~np.isnan(error_s)).astype(np.float64)) >= LEAST_SCORED
    for rival_s in rivals.values():
        gain_s = rival_s - error_s
        known = ~np.isnan(gain_s)
        n = _up_to(known.astype(np.float64))
        mean = _up_to(np.where(known, gain_s, 0.0)) / np.maximum(n, 1.0)
        spread = np.maximum(_up_to(np.where(known, gain_s**2, 0.0)) / np.maximum(n, 1.0) - mean**2, 0.0)
        wins &= (n == 0) | (mean > standard_errors_needed(n, LEAST_SCORED) * np.sqrt(spread / np.maximum(n - 1.0, 1.0)))
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


@dataclass(frozen=True, slots=True)
class Question:
    """A hypothetical job: its application, inputs as texts by name, processors, submitter, request (s; NaN: none)."""

    application: str
    inputs: Mapping[str, str]
    procs: float
    user: str | None
    requested_s: float


def answer_questions(models: pa.Table, questions: Sequence[Question], settings: LogInputSettings) -> Floats:
    """(questions, 6) quantiles, s, of the published models; NaN where there is none or it refuses to answer."""
    found = np.full((len(questions), 6), np.nan)
    for row in models.to_pylist():
        key = row["application"], row["input_names"]
        places = [
            place for place, one in enumerate(questions)
            if row["is_published"] and (one.application, "+".join(sorted(one.inputs))) == key
        ]  # fmt: skip
        if not places:
            continue
        asked = [questions[place] for place in places]
        model = unpacked_model("table input_models", row["model"], np.array(row["model_arrays"], np.float64))
        answers = predict(model, points_table(sorted(asked[0].inputs), asked, settings.types))
        found[places] = quantiles_of(answers, np.array([one.requested_s for one in asked]))
    return found


Z80, Z90, Z95, Z975, Z99 = 0.8416212, 1.2815516, 1.6448536, 1.9599640, 2.3263479
"""Quantiles of the normal distribution, by which log runtimes are interpolated between the ends of intervals."""


def quantiles_of(answers: pa.Table, requested_s: Floats) -> Floats:
    """(points, 6) runtimes at 10, 50, 80, 90, 95 and 99%, s; NaN where there is no answer.

    10, 50 and 90% are the model's own; the others lie between its 80% and 95% intervals as those of a normal
    distribution would. The median is at most the request.
    """
    middle, low, high = (np.log(answers.column(name).to_numpy()) for name in ("median_s", "low80_s", "high80_s"))
    wide = np.maximum(np.log(answers.column("high95_s").to_numpy()), high)
    near, far = high - middle, wide - middle
    beyond = near + (far - near) * (Z95 - Z90) / (Z975 - Z90)
    found: Floats = np.exp(np.column_stack([
        low, middle, middle + near * Z80 / Z90, high, middle + beyond, middle + np.maximum(far * Z99 / Z975, beyond),
    ]))  # fmt: skip
    found[:, 1] = np.where(requested_s > 0, np.fmin(found[:, 1], requested_s), found[:, 1])
    found[:, 0] = np.fmin(found[:, 0], found[:, 1])
    # Rounding may leave a quantile a digit below the one before it.
    ascending = np.maximum.accumulate(found, axis=1)
    # With few runs the 95% interval has no upper end: the request is one, and without a request there is no answer.
    asked_s = np.where(requested_s > 0, requested_s, np.nan)
    ends = np.maximum(asked_s, ascending[:, 3])[:, None]
    ascending[:, 4:] = np.where(np.isnan(ascending[:, 4:]), ends, ascending[:, 4:])
    return np.where(np.isnan(ascending).any(axis=1, keepdims=True), np.nan, ascending)
