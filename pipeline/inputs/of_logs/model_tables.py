"""INPUT_MODELS: a log's models as rows of a table, and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Array, Floats
from pipeline.core.errors import InputError
from pipeline.core.input_settings import LogInputSettings
from pipeline.core.report import Report, Tally
from pipeline.core.submitted_runs import SubmittedRuns
from pipeline.core.tables import INPUT_MODELS
from pipeline.inputs.answers import predict
from pipeline.inputs.model import InputModel
from pipeline.inputs.model_files import model_of, plain_model
from pipeline.inputs.of_logs.application_runs import points_table
from pipeline.inputs.of_logs.as_of import ApplicationModel, application_models
from pipeline.inputs.of_logs.quantiles import quantiles_of


def publish_models(runs: SubmittedRuns, settings: LogInputSettings, site: str, run_id: str) -> tuple[pa.Table, Report]:
    """INPUT_MODELS, a row for each application with enough jobs whose texts name inputs; models that lost are null.

    Parameters
    ----------
    runs : SubmittedRuns
        A log's jobs.
    settings : LogInputSettings
        Settings of the models.
    site : str
        Name of the site, written to every row.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    table : pa.Table
        INPUT_MODELS; errors in s.
    report : Report
        Jobs with inputs, and those of applications without a model.
    """
    found = application_models(runs, settings)
    rows = [_row(one) for one in found]
    names = ("application", "input_names", "n_jobs", "n_scored", "model_mae_s", "last_two_mae_s", "request_mae_s",
             "walltime_mae_s", "is_published", "model", "model_arrays")  # fmt: skip
    columns = {name: [row[name] for row in rows] for name in names}
    columns["model_arrays"] = pa.array(columns["model_arrays"], pa.list_(pa.field("element", pa.float64())))
    table = INPUT_MODELS.build(site=[site] * len(rows), run_id=[run_id] * len(rows), **columns)
    n_named = int((runs.inputs >= 0).sum())
    n_modelled = sum(len(one.group.places) for one in found)
    set_aside = {"no_inputs": Tally(len(runs.inputs) - n_named), "too_few_runs": Tally(n_named - n_modelled)}
    facts = {"models_published": sum(one.is_published for one in found), "models_that_lost": len(found) - sum(
        one.is_published for one in found)}  # fmt: skip
    left = {name: tally for name, tally in set_aside.items() if tally.rows}
    return table, Report("inputs", "job", Tally(len(runs.inputs)), Tally(n_modelled), left, facts).check()


def _row(one: ApplicationModel) -> dict[str, object]:
    published = one.model if one.is_published else None
    arrays = {} if published is None else {name: published.arrays[name] for name in sorted(published.arrays)}
    return {
        "application": one.group.application, "input_names": "+".join(one.group.names), "n_jobs": len(one.group.places),
        "n_scored": one.rivalry.n_scored, "model_mae_s": one.rivalry.model_s, "last_two_mae_s": one.rivalry.last_two_s,
        "request_mae_s": one.rivalry.request_s, "walltime_mae_s": one.rivalry.usual_s, "is_published": one.is_published,
        "model": None if published is None else _text(published, arrays),
        "model_arrays": None if published is None else _flat(arrays),
    }  # fmt: skip


def _text(model: InputModel, arrays: Mapping[str, Array]) -> str:
    shapes = {name: list(np.shape(values)) for name, values in arrays.items()}
    return json.dumps(plain_model(model) | {"shapes": shapes}, sort_keys=True, ensure_ascii=False)


def _flat(arrays: Mapping[str, Array]) -> Floats:
    return np.concatenate([np.ascontiguousarray(values, np.float64).reshape(-1) for values in arrays.values()])


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

    @classmethod
    def of_texts(cls, application: str, inputs: str, procs: float, user: str | None, requested_s: float) -> Self:
        """The question of a job whose inputs are given as in the column `inputs` of JOBS."""
        return cls(application, json.loads(inputs), procs, user, requested_s)


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
        points = points_table(names, [q.inputs for q in own], [q.procs for q in own], [q.user for q in own], settings)
        yield places, predict(_model(by_key[key]), points)


def _model(row: Mapping[str, object]) -> InputModel:
    try:
        plain = json.loads(str(row["model"]))
        values, arrays, start = np.array(row["model_arrays"], np.float64), {}, 0
        for name, shape in plain.pop("shapes").items():
            stop = start + int(np.prod(shape))
            arrays[name] = values[start:stop].reshape(shape)
            start = stop
        return model_of(plain, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"a damaged model ({error})"
        raise InputError("table input_models", found, "one that a run wrote", "run again") from None
