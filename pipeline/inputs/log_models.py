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
from pipeline.inputs.log_estimates import (
    LOG_MODEL_RULES,
    ApplicationModel,
    LogModelRules,
    application_models,
    points_table,
)
from pipeline.report import Report, Tally
from pipeline.settings import LogInputSettings
from pipeline.tables import INPUT_MODELS, PREDICTIONS, SubmittedRuns


def publish_models(
    runs: SubmittedRuns, settings: LogInputSettings, site: str, run_id: str, rules: LogModelRules = LOG_MODEL_RULES
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
    rows = [_row(one) for one in found]
    names = ("application", "input_names", "n_jobs", "n_scored", "model_mae_s", "last_two_mae_s", "request_mae_s",
             "walltime_mae_s", "is_published", "model", "model_arrays")  # fmt: skip
    columns = {name: [row[name] for row in rows] for name in names}
    columns["model_arrays"] = pa.array(columns["model_arrays"], pa.list_(pa.field("element", pa.float64())))
    table = INPUT_MODELS.build(site=[site] * len(rows), run_id=[run_id] * len(rows), **columns)
    n_named = int((runs.inputs >= 0).sum())
    n_modelled = sum(len(one.group.places) for one in found)
    set_aside = {"no_inputs": Tally(len(runs.inputs) - n_named), "too_few_runs": Tally(n_named - n_modelled)}
    n_published = sum(one.is_published for one in found)
    facts = {"models_published": n_published, "models_that_lost": len(found) - n_published}
    left = {name: tally for name, tally in set_aside.items() if tally.rows}
    return table, Report("inputs", "job", Tally(len(runs.inputs)), Tally(n_modelled), left, facts).check()


def _row(one: ApplicationModel) -> dict[str, object]:
    published = one.model if one.is_published else None
    plain, values = (None, None) if published is None else packed_model(published)
    return {
        "application": one.group.application, "input_names": "+".join(one.group.names), "n_jobs": len(one.group.places),
        "n_scored": one.rivalry.n_scored, "model_mae_s": one.rivalry.model_s, "last_two_mae_s": one.rivalry.last_two_s,
        "request_mae_s": one.rivalry.request_s, "walltime_mae_s": one.rivalry.usual_s, "is_published": one.is_published,
        "model": None if plain is None else json.dumps(plain, sort_keys=True, ensure_ascii=False),
        "model_arrays": values,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """A hypothetical job: its application, inputs as texts by name, processors, submitter, request (s; NaN: none)."""

    application: str
    inputs: Mapping[str, str]
    procs: float
    user: str | None
    requested_s: float

    @property
    def key(self) -> tuple[str, str]:
        """The key of the model's row."""
        return self.application, "+".join(sorted(self.inputs))


def answer_questions(models: pa.Table, questions: Sequence[Question], settings: LogInputSettings) -> Floats:
    """(questions, 6) quantiles, s, of the published models; NaN where there is none or it refuses to answer."""
    found = np.full((len(questions), 6), np.nan)
    for places, answers in _answers(models, questions, settings):
        found[places] = quantiles_of(answers, np.array([questions[place].requested_s for place in places]))
    return found


def answered_questions(
    models: pa.Table, questions: Sequence[Question], settings: LogInputSettings
) -> list[dict[str, Any] | None]:
    """For each question its row of ANSWERS; None where no model is published. Refused answers have nulls."""
    found: list[dict[str, Any] | None] = [None] * len(questions)
    for places, answers in _answers(models, questions, settings):
        for place, row in zip(places, answers.to_pylist(), strict=True):
            found[place] = row
    return found


def _answers(
    models: pa.Table, questions: Sequence[Question], settings: LogInputSettings
) -> Iterator[tuple[list[int], pa.Table]]:
    """The places of each published model's questions, and its ANSWERS to them."""
    by_key = {(row["application"], row["input_names"]): row for row in models.to_pylist() if row["is_published"]}
    for key in dict.fromkeys(one.key for one in questions):
        if key not in by_key:
            continue
        places = [place for place, one in enumerate(questions) if one.key == key]
        own = [questions[place] for place in places]
        names = tuple(sorted(own[0].inputs))
        texts, procs, users = [q.inputs for q in own], [q.procs for q in own], [q.user for q in own]
        points = points_table(names, texts, procs, users, settings.types)
        yield places, predict(_model(by_key[key]), points)


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
    published = {(row["application"], row["input_names"]): row for row in models.to_pylist() if row["is_published"]}
    asked = _group_questions(runs, groups.to_pylist(), published) if published else {}
    rows = predictions.to_pylist() if asked else []
    places = [place for place, row in enumerate(rows) if row["group_id"] in asked and row["reliability"] != "ok"]
    if not places:
        return predictions, 0
    # The answers on one processor follow those on the rows' own counts, for the speedups.
    counts = [rows[place]["procs"] for place in places] + [1] * len(places)
    questions = [
        replace(asked[rows[place]["group_id"]], procs=float(procs))
        for place, procs in zip(places * 2, counts, strict=True)
    ]
    found = answered_questions(models, questions, settings)
    n_changed = 0
    for place, own, alone in zip(places, found, found[len(places) :], strict=False):
        if own is not None and all(own[name] is not None for name in RUNTIMES.values()):
            rows[place] |= _changed(rows[place], own, alone, published[asked[rows[place]["group_id"]].key])
            n_changed += 1
    return PREDICTIONS.build(**{name: [row[name] for row in rows] for name in predictions.column_names}), n_changed


def _group_questions(
    runs: SubmittedRuns, groups: Sequence[str | None], published: Mapping[tuple[str, str], Any]
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
    row: Mapping[str, Any], own: Mapping[str, Any], alone: Mapping[str, Any] | None, model: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of a row that a model answers."""
    on_one_s = None if alone is None else alone["median_s"]
    speedup = None if on_one_s is None else on_one_s / own["median_s"]
    names = model["input_names"].replace("+", ", ")
    return {name: own[answer] for name, answer in RUNTIMES.items()} | {
        "speedup": speedup, "efficiency": None if speedup is None else speedup / row["procs"],
        "reliability": RELIABILITY, "near_share": None, "holds_until_s": None, "method": METHOD,
        "advice": f"A model over the inputs {names} answers, which predicted {model['n_scored']:,} jobs of the "
                  "application better than the user's last two jobs, the request and the method walltime.",
    }  # fmt: skip
