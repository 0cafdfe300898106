"""A State as a table: one row per array, with its values as a list. No code is stored, only numbers and texts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.core.arrays import Array
from pipeline.core.errors import InputError
from pipeline.estimate.alike_kernel import Memory
from pipeline.estimate.blend import Beliefs
from pipeline.estimate.chains import Chain, Latest
from pipeline.estimate.features import Submitters
from pipeline.estimate.keys import Keys
from pipeline.estimate.kinds import Kinds
from pipeline.estimate.sittings import Sittings
from pipeline.estimate.state import NAMED, Outputs, Record, State, needed_outputs, no_outputs
from pipeline.estimate.submits import Jobs
from pipeline.estimate.trees import Forest

FORMAT = 1
"""Raised when the arrays change their meaning: a State of another format is refused, and learnt again."""


def arrays_of(state: State) -> dict[str, Array]:
    """Every array and text of a State by its name, as in `beliefs.who_log`."""
    needed = np.flatnonzero(needed_outputs(state))
    parts: dict[str, Any] = {
        "requests": state.requests, "kind_keys": state.kind_keys, "jobs": state.jobs, "sittings": state.sittings,
        "chain.keys": state.chain.keys, "chain.latest": state.chain.latest, "submitters": state.submitters,
        "kinds": state.kinds, "beliefs": state.beliefs, "record": state.record,
        "outputs": Outputs(*(column[needed] for column in state.outputs)),
        **{f"memories.{name}": memory for name, memory in state.memories.items()},
    }  # fmt: skip
    found = {f"{name}.{key}": value for name, part in parts.items() for key, value in part._asdict().items()}
    forest = state.forest
    return found | {f"names.{name}": texts(state.names[name]) for name in NAMED} | {
        "ids": texts(state.ids), "progress": state.progress, "outputs.rows": needed, "rungs": state.rungs,
        "chain.session": state.chain.session, "chain.level": state.chain.level,
        "forest.models": texts(forest.models), "forest.window": forest.window,
        "forest.counts": np.array([forest.n_ended, forest.n_fitted, state.n_submits, FORMAT]),
        "as_of_s": np.array([state.as_of_s]),
    }  # fmt: skip


def state_of(arrays: Mapping[str, Array]) -> State:
    """The State of `arrays_of`; InputError where it is of another format."""
    counts = arrays["forest.counts"]
    if int(counts[3]) != FORMAT:
        raise InputError("state", f"format {int(counts[3])}", f"format {FORMAT}", "run again to learn it anew")
    memories = {name.split(".")[1] for name in arrays if name.startswith("memories.")}
    jobs = _part(Jobs, arrays, "jobs")
    return State(
        names={name: {text: code for code, text in enumerate(arrays[f"names.{name}"])} for name in NAMED},
        requests=_part(Keys, arrays, "requests"), kind_keys=_part(Keys, arrays, "kind_keys"), jobs=jobs,
        ids=list(arrays["ids"]), progress=arrays["progress"], outputs=_outputs(arrays, len(jobs.who)),
        sittings=_part(Sittings, arrays, "sittings"),
        memories={name: _part(Memory, arrays, f"memories.{name}") for name in sorted(memories)},
        chain=Chain(
            _part(Keys, arrays, "chain.keys"), arrays["chain.level"], arrays["chain.session"],
            _part(Latest, arrays, "chain.latest"),
        ),
        submitters=_part(Submitters, arrays, "submitters"), kinds=_part(Kinds, arrays, "kinds"),
        beliefs=_part(Beliefs, arrays, "beliefs"),
        forest=Forest(tuple(arrays["forest.models"]), int(counts[0]), int(counts[1]), arrays["forest.window"]),
        rungs=arrays["rungs"], record=_part(Record, arrays, "record"), n_submits=int(counts[2]),
        as_of_s=float(arrays["as_of_s"][0]),
    )  # fmt: skip


def texts(values: Any) -> Array:
    """Texts as an array of objects."""
    found = np.empty(len(values), object)
    found[:] = list(values)
    return found


def _part(kind: Any, arrays: Mapping[str, Array], name: str) -> Any:
    return kind(*(arrays[f"{name}.{key}"] for key in kind._fields))


def _outputs(arrays: Mapping[str, Array], n_jobs: int) -> Outputs:
    kept = _part(Outputs, arrays, "outputs")
    found = no_outputs(n_jobs, kept.seen.shape[1], kept.method_s.shape[1], kept.quantiles_s.shape[1])
    for column, values in zip(found, kept, strict=True):
        column[arrays["outputs.rows"]] = values
    return found
