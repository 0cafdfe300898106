"""INPUT_MODELS: a log's models as rows of a table, their answers to questions, and the PREDICTIONS they replace."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.errors import InputError
from pipeline.inputs.answers import predict, quantiles_of
from pipeline.inputs.input_model import InputModel, packed_model, unpacked_model
from pipeline.inputs.log_estimates import LOG_RULES, ApplicationModel, LogModelRules, application_models, points_table
from pipeline.report import Report, Tally
from pipeline.settings import LogInputSettings
from pipeline.tables import INPUT_MODELS, PREDICTIONS, SubmittedRuns


def publish_models(
    runs: SubmittedRuns, settings: LogInputSettings, site: str, run_id: str, rules: LogModelRules = LOG_RULES
) -> tuple[pa.Table, Report]:
    """INPUT_MODELS, a row for each application with enough jobs whose texts name inputs; models that lost are null.

    Parameters
    ----------
    runs : SubmittedRuns
        A log's jobs.
    settings : LogInputSettings
        The site's rules that read inputs, with their types.
    site : str
        Name of the site, written to every row.
    run_id : str
        Id of the run, written to every row.
    rules : LogModelRules
        When models are learnt and published.

    Returns
    -------
    table : pa.Table
        INPUT_MODELS; errors in s.
    report : Report
        Jobs with inputs, and those of applications without a model.
    """
    found = application_models(runs, settings, rules)
    rows = [_row(one) | {"site": site, "run_id": run_id} for one in found]
    table = INPUT_MODELS.check(pa.Table.from_pylist(rows, INPUT_MODELS.schema()))
    n, n_named = len(runs.inputs), int((runs.inputs >= 0).sum())
    n_modelled = sum(len(one.group.places) for one in found)
    reasons = {"no_inputs": n - n_named, "too_few_runs": n_named - n_modelled}
    n_published = sum(one.is_published for one in found)
    facts = {"models_published": n_published, "models_that_lost": len(found) - n_published}
    left = {name: Tally(n_left) for name, n_left in reasons.items() if n_left}
    return table, Report("inputs", "job", Tally(n), Tally(n_modelled), left, facts).check()


def _row(one: ApplicationModel) -> dict[str, Any]:
    row = {
        "application": one.group.application, "input_names": "+".join(one.group.names), "n_jobs": len(one.group.places),
        **one.rivalry, "is_published": one.is_published,
    }  # fmt: skip
    if one.model is None or not one.is_published:
        return row
    plain, values = packed_model(one.model)
    return row | {"model": json.dumps(plain, sort_keys=True, ensure_ascii=False), "model_arrays": values}


Key = tuple[str, str]
"""What a model belongs to: an application, and the names of its inputs, joined by +."""


@dataclass(frozen=True, slots=True)
class Question:
    """A hypothetical job: its application, inputs as texts by name, processors, submitter, request (s; NaN: none)."""

    application: str
    inputs: Mapping[str, str]
    procs: float
    user: str | None
    requested_s: float

    @property
    def key(self) -> Key:
        """The key of the model's row."""
        return self.application, "+".join(sorted(self.inputs))


def answer_questions(models: pa.Table, questions: Sequence[Question], settings: LogInputSettings) -> Floats:
    """(questions, 6) quantiles, s, of the published models; NaN where there is none or it refuses to answer."""
    found = np.full((len(questions), 6), np.nan)
    for places, answers in _answers(_published(models), questions, settings):
        found[places] = quantiles_of(answers, np.array([questions[place].requested_s for place in places]))
    return found


def _published(models: pa.Table) -> dict[Key, Mapping[str, Any]]:
    return {(row["application"], row["input_names"]): row for row in models.to_pylist() if row["is_published"]}


def _answers(
    published: Mapping[Key, Mapping[str, Any]], questions: Sequence[Question], settings: LogInputSettings
) -> Iterator[tuple[list[int], pa.Table]]:
    """The places of each published model's questions, and its ANSWERS to them."""
    for key in dict.fromkeys(one.key for one in questions if one.key in published):
        places = [place for place, one in enumerate(questions) if one.key == key]
        own = [questions[place] for place in places]
        texts, procs, users = [q.inputs for q in own], [q.procs for q in own], [q.user for q in own]
        points = points_table(sorted(own[0].inputs), texts, procs, users, settings.types)
        yield places, predict(_model(published[key]), points)


def _model(row: Mapping[str, Any]) -> InputModel:
    try:
        return unpacked_model(json.loads(row["model"]), np.array(row["model_arrays"], np.float64))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"a damaged model ({error})"
        raise InputError("table input_models", found, "one that a run wrote", "run again") from None


METHOD, RELIABILITY = "inputs", "from_inputs"
RUNTIMES = {
    "runtime_s": "median_s", "runtime_s_lo80": "low80_s", "runtime_s_hi80": "high80_s",
    "runtime_s_lo95": "low95_s", "runtime_s_hi95": "high95_s",
}  # fmt: skip
"""Columns of PREDICTIONS, and what they are among a model's answers."""


def with_model_rows(
    predictions: pa.Table, models: pa.Table, runs: SubmittedRuns, groups: pa.ChunkedArray,
    settings: LogInputSettings,
) -> tuple[pa.Table, int]:  # fmt: skip
    """PREDICTIONS with the rows that models answer instead, and how many they are.

    A model answers for a group whose jobs all have one application, submitter and combination of inputs, on the counts
    whose row past windows do not confirm. Other rows stay, and so does a row that the model refuses or cannot bound.

    Parameters
    ----------
    predictions : pa.Table
        PREDICTIONS for later jobs.
    models : pa.Table
        INPUT_MODELS of the same log.
    runs : SubmittedRuns
        The log's jobs.
    groups : pa.ChunkedArray
        The similarity group of each of these jobs, null where it has none.
    settings : LogInputSettings
        The site's rules that read inputs, with their types.

    Returns
    -------
    table : pa.Table
        PREDICTIONS with the same rows; runtimes in s.
    n_changed : int
        Rows with `method = inputs`.
    """
    published = _published(models)
    asked = _group_questions(runs, groups.to_pylist(), published) if published else {}
    rows = predictions.to_pylist() if asked else []
    places = [place for place, row in enumerate(rows) if row["group_id"] in asked and row["reliability"] != "ok"]
    if not places:
        return predictions, 0
    # The answers on one processor follow those on the rows' own counts, for the speedups.
    counts = [rows[place]["procs"] for place in places] + [1] * len(places)
    own = [asked[rows[place]["group_id"]] for place in places] * 2
    questions = [replace(one, procs=float(procs)) for one, procs in zip(own, counts, strict=True)]
    found: dict[int, Mapping[str, Any]] = {}
    for answered, answers in _answers(published, questions, settings):
        found |= dict(zip(answered, answers.to_pylist(), strict=True))
    n_changed = 0
    for nth, place in enumerate(places):
        if all(found[nth][name] is not None for name in RUNTIMES.values()):
            alone = found[len(places) + nth]["median_s"]
            rows[place] |= _changed(rows[place], found[nth], alone, published[questions[nth].key])
            n_changed += 1
    return PREDICTIONS.build(**{name: [row[name] for row in rows] for name in predictions.column_names}), n_changed


def _group_questions(
    runs: SubmittedRuns, groups: Sequence[str | None], published: Mapping[Key, Any]
) -> dict[str, Question]:
    """By group the question that all its jobs ask; those whose jobs differ, or have no published model, have none."""
    kinds: dict[str, set[tuple[int, int, int]]] = {}
    keys = zip(runs.application.tolist(), runs.inputs.tolist(), runs.user.tolist(), strict=True)
    for group, key in zip(groups, keys, strict=True):
        if group is not None:
            kinds.setdefault(group, set()).add(key)
    found = {}
    for group, own in kinds.items():
        application, inputs, user = next(iter(own))
        if len(own) == 1 and inputs >= 0:
            name = runs.applications[application] if application >= 0 else ""
            submitter = runs.users[user] if user >= 0 else None
            question = Question(name, json.loads(runs.inputs_texts[inputs]), 1.0, submitter, np.nan)
            if question.key in published:
                found[group] = question
    return found


def _changed(
    row: Mapping[str, Any], own: Mapping[str, Any], on_one_s: float | None, model: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of a row that a model answers."""
    speedup = None if on_one_s is None else on_one_s / own["median_s"]
    names = model["input_names"].replace("+", ", ")
    return {name: own[answer] for name, answer in RUNTIMES.items()} | {
        "speedup": speedup, "efficiency": None if speedup is None else speedup / row["procs"],
        "reliability": RELIABILITY, "near_share": None, "holds_until_s": None, "method": METHOD,
        "advice": f"A model over the inputs {names} answers, which predicted {model['n_scored']:,} jobs of the "
                  "application better than the user's last two jobs, the request and the method walltime.",
    }  # fmt: skip
