"""The jobs of one application whose texts name the same inputs, as runs to learn from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Ints
from pipeline.core.input_settings import LogInputSettings
from pipeline.core.submitted_runs import SubmittedRuns
from pipeline.inputs.declaration import Declaration, Input, InputType

TARGET, ORDER, STOPPED = "runtime_s", "order", "is_lower_bound"
PROCS, USER = "procs", "user"
"""Inputs that every model of a log has beside those of the rules: processors, and who submitted the job."""


@dataclass(frozen=True, slots=True)
class ApplicationRuns:
    """An application, the names of its inputs, the places of its jobs in order of submit, and a row for each job."""

    application: str
    names: tuple[str, ...]
    places: Ints
    table: pa.Table


def application_runs(runs: SubmittedRuns, settings: LogInputSettings) -> list[ApplicationRuns]:
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
    enough = {key: own for key, own in places.items() if len(own) >= settings.least_runs}
    chosen = sorted(enough, key=lambda key: enough[key][settings.least_runs - 1])[: settings.most_groups]
    return [_runs(runs, parsed, key, np.array(enough[key], np.int64), settings) for key in chosen]


def _runs(
    runs: SubmittedRuns, parsed: Sequence[Mapping[str, str]], key: tuple[str, tuple[str, ...]], places: Ints,
    settings: LogInputSettings,
) -> ApplicationRuns:  # fmt: skip
    texts = [parsed[code] for code in runs.inputs[places].tolist()]
    users = [runs.users[code] if code >= 0 else None for code in runs.user[places].tolist()]
    table = points_table(key[1], texts, runs.procs[places].tolist(), users, settings)
    table = table.append_column(TARGET, pa.array(runs.runtime_s[places], pa.float64(), from_pandas=True))
    table = table.append_column(ORDER, pa.array(places.astype(np.float64)))
    return ApplicationRuns(*key, places, table.append_column(STOPPED, pa.array(runs.is_lower_bound[places])))


def points_table(
    names: Sequence[str], texts: Sequence[Mapping[str, str]], procs: Sequence[float], users: Sequence[str | None],
    settings: LogInputSettings,
) -> pa.Table:  # fmt: skip
    """A row for each job: its inputs as texts or numbers, its processors and its submitter."""
    columns = {column_name(name): _column([one.get(name) for one in texts], settings.types.get(name)) for name in names}
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


def declaration_of(group: ApplicationRuns, settings: LogInputSettings) -> Declaration:
    """The declaration of a model of an application: its inputs, processors and submitter; folds follow the submits."""
    types = {name: InputType(settings.types.get(name, InputType.LOG_NUMBER)) for name in group.names}
    own = tuple(Input(name=column_name(name), type=types[name]) for name in group.names)
    always = (Input(name=PROCS, type=InputType.LOG_NUMBER), Input(name=USER, type=InputType.CATEGORY))
    return Declaration(inputs=(*own, *always), target=TARGET, procs=PROCS, time=ORDER, censored=STOPPED)
