"""INPUT_MODELS: a log's models as rows of a table, and their answers to questions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from pipeline.tables import INPUT_MODELS, SubmittedRuns


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
