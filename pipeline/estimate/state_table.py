"""A State as a table: one row per array, with its values as a list. No code is stored, only numbers and texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, list_values, lists
from pipeline.errors import InputError
from pipeline.estimate.blend import Errors
from pipeline.estimate.chains import Chain, linked
from pipeline.estimate.estimate_rules import AGAIN, EstimateRules, rules_of, rules_text
from pipeline.estimate.group_record import Evidence
from pipeline.estimate.keys import Keys
from pipeline.estimate.law_curves import LawCurves
from pipeline.estimate.nightly.rows import Rows
from pipeline.estimate.similar_jobs import Memory
from pipeline.estimate.state import LEARNT, NAMED, OVER, Learnt, Outputs, Over, Record, State, no_outputs
from pipeline.estimate.submits import Jobs, LastSubmits, Use, derived
from pipeline.tables import STATE

FORMAT = 15
"""Raised when the arrays change their meaning: a State of another format is refused, and learnt again."""

VALUE_KINDS = {"floats": "f", "integers": "i", "flags": "b", "texts": "O"}
"""Which of numpy's kinds of values a column holds."""

DERIVED = ("log_request", "log_size")
"""Columns of the jobs that follow from others."""


PARTS: dict[str, Any] = {
    "requests": Keys, "groups": Keys, "sizes": Keys, "jobs": Jobs, "rows": Rows, "last_submits": LastSubmits,
    "use": Use, "memory": Memory, "evidence": Evidence, "laws": LawCurves, "record": Record, "over": Over,
    "arrays": Over,
}  # fmt: skip
"""The named tuples of a State."""


def state_table(state: State, settings: EstimateRules) -> pa.Table:
    """STATE: the State, and the settings it was learnt with; the same ones give the same rows."""
    return arrays_table(arrays_of(state) | {"settings": texts([rules_text(settings)])})


def arrays_table(arrays: Mapping[str, Array]) -> pa.Table:
    """STATE of these arrays."""
    return STATE.build(
        array=list(arrays),
        shape=lists([np.array(values.shape, np.int64) for values in arrays.values()], pa.int64()),
        **{name: _column(arrays.values(), name) for name in VALUE_KINDS},
    )


def _column(arrays: Iterable[Array], name: str) -> pa.Array:
    """The values of the arrays that stand in a column, one row an array."""
    values = [array.ravel() if array.dtype.kind == VALUE_KINDS[name] else None for array in arrays]
    return lists(values, STATE.schema().field(name).type.value_type)


def loaded_state(table: pa.Table, where: str, *, goes_on: bool = True) -> tuple[State, EstimateRules]:
    """The State and the settings of a STATE; InputError, which names the table as `where`, for another format.

    One that does not go on only answers questions: its arrays are those of the table and cannot be written.

    Parameters
    ----------
    table : pa.Table
        STATE.
    where : str
        Name of the table in error messages.
    goes_on : bool
        Whether the State will be updated; it then has its own copies of the arrays.

    Returns
    -------
    state : State
        The estimator's state.
    settings : EstimateRules
        The settings it was learnt with.

    Raises
    ------
    InputError
        If the STATE has another format, lacks an array, or has settings of another version.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> state, forecast = loaded_state(tables["state"], "the sample's state")
    >>> len(state.jobs.submit_s) == len(state.ids), forecast == ESTIMATE_RULES
    (True, True)
    """
    return state_in(arrays_in(table), where, goes_on=goes_on)


def state_in(arrays: Mapping[str, Array], where: str, *, goes_on: bool = True) -> tuple[State, EstimateRules]:
    """The same of the arrays of a STATE; a State that goes on has copies of its own."""
    try:
        found = arrays["format"].tolist()
        if found != [FORMAT]:
            raise InputError(where, f"a state of format {found[0]}", f"format {FORMAT}", AGAIN)
        own = {name: values.copy() for name, values in arrays.items()} if goes_on else arrays
        return state_of(own, goes_on=goes_on), rules_of(arrays["settings"][0], where)
    except KeyError as missing:
        raise InputError(where, f"a state without {missing.args[0]}", f"one of format {FORMAT}", AGAIN) from None


def settings_of(arrays: Mapping[str, Array]) -> EstimateRules:
    """The settings that a State was learnt with."""
    return rules_of(arrays["settings"][0], "the state")


def arrays_in(table: pa.Table) -> dict[str, Array]:
    """The arrays of a STATE by name."""
    names = table.column("array").to_pylist()
    shapes = list_values(table.column("shape"))
    by_kind = zip(*(list_values(table.column(name)) for name in VALUE_KINDS), strict=True)
    held = [next(values for values in row if values is not None) for row in by_kind]
    return {name: values.reshape(shape) for name, shape, values in zip(names, shapes, held, strict=True)}


def arrays_of(state: State) -> dict[str, Array]:
    """Every array and text of a State by its name, as in `beliefs.who_log`, without what follows from others."""
    is_open, chain = state.progress != OVER, state.chain
    parts = {name: getattr(state, name) for name in PARTS} | {"chain.keys": chain.keys}
    found = {f"{name}.{key}": value for name, part in parts.items() for key, value in part._asdict().items()}
    for name, one in ((name, getattr(state, name)) for name in LEARNT):
        found |= {f"{name}.errors.{key}": value for key, value in one.errors._asdict().items()}
        # They are of no use once their job is over.
        found |= {f"{name}.outputs.{key}": value[is_open] for key, value in one.outputs._asdict().items()}
        found[f"{name}.rungs"] = one.rungs
    derivable = {f"jobs.{name}" for name in DERIVED}
    return {name: value for name, value in found.items() if name not in derivable} | {
        "format": np.array([FORMAT]), "as_of_s": np.array([state.as_of_s]), "n_submits": np.array([state.n_submits]),
        "site.facts": texts(state.site.keys()), "site.values": texts(state.site.values()),
        **{f"names.{name}": texts(state.names[name]) for name in NAMED},
        "ids": texts(name for name, keeps in zip(state.ids, is_open, strict=True) if keeps), "progress": state.progress,
        "chain.session": chain.session, "chain.level": chain.level,
        "chain.n_entries": chain.latest.n_entries, "chain.runtime_s": chain.latest.runtime_s,
        "chain.is_stopped": np.isinf(chain.latest.bound_s),
    }  # fmt: skip


def state_of(arrays: Mapping[str, Array], *, goes_on: bool = True) -> State:
    """The State of `arrays_of`; one that does not go on has no outputs and ids. KeyError where an array is missing."""
    parts = {name: _part(kind, arrays, name) for name, kind in PARTS.items() if kind is not Jobs}
    parts |= {name: _learnt(arrays, name, goes_on=goes_on) for name in LEARNT}
    return State(
        names={name: {text: code for code, text in enumerate(arrays[f"names.{name}"])} for name in NAMED},
        jobs=_jobs(arrays), ids=_ids(arrays) if goes_on else [], progress=arrays["progress"],
        chain=_chain(arrays),
        n_submits=int(arrays["n_submits"][0]), as_of_s=float(arrays["as_of_s"][0]),
        site=dict(zip(arrays["site.facts"], arrays["site.values"], strict=True)), **parts,
    )  # fmt: skip


def texts(values: Any) -> Array:
    """Texts as an array of objects."""
    listed = list(values)
    found = np.empty(len(listed), object)
    found[:] = listed
    return found


def _part(part: Any, arrays: Mapping[str, Array], name: str) -> Any:
    return part(*(arrays[f"{name}.{key}"] for key in part._fields))


def _jobs(arrays: Mapping[str, Array]) -> Jobs:
    known: dict[str, Any] = {name: arrays[f"jobs.{name}"] for name in Jobs._fields if name not in DERIVED}
    return Jobs(**(known | derived(known["requested_s"], known["procs"], known["gpus"])))


def _ids(arrays: Mapping[str, Array]) -> list[str]:
    open_ids = iter(arrays["ids"])
    return ["" if progress == OVER else next(open_ids) for progress in arrays["progress"].tolist()]


def _chain(arrays: Mapping[str, Array]) -> Chain:
    level, runtime_s = arrays["chain.level"], arrays["chain.runtime_s"]
    bound_s = np.where(arrays["chain.is_stopped"], np.inf, runtime_s)
    # The estimator asks no question about shares of requests.
    share = np.full(len(runtime_s), np.nan)
    latest = linked(arrays["chain.n_entries"], level, runtime_s, bound_s, share)
    return Chain(_part(Keys, arrays, "chain.keys"), level, arrays["chain.session"], latest)


def _learnt(arrays: Mapping[str, Array], name: str, *, goes_on: bool) -> Learnt:
    outputs = _outputs(arrays, f"{name}.outputs", goes_on=goes_on)
    return Learnt(_part(Errors, arrays, f"{name}.errors"), arrays[f"{name}.rungs"], outputs)


def _outputs(arrays: Mapping[str, Array], part: str, *, goes_on: bool) -> Outputs:
    progress = arrays["progress"]
    widths = (arrays[f"{part}.{name}"].shape[1] for name in Outputs._fields)
    found = no_outputs(len(progress) if goes_on else 0, widths)
    if goes_on:
        for name, column in found._asdict().items():
            column[progress != OVER] = arrays[f"{part}.{name}"]
    return found
