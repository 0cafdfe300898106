"""Rows of PREDICTIONS that a published model over inputs answers better than a law without a track record."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.core.input_settings import LogInputSettings
from pipeline.core.submitted_runs import SubmittedRuns
from pipeline.core.tables import PREDICTIONS
from pipeline.inputs.of_logs.model_tables import Question, answered_questions

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
        Settings of the models.

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
            question = Question.of_texts(name, runs.inputs_texts[inputs], 1.0, submitter, np.nan)
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
