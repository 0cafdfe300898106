"""A State as a table: one row per array, with its values as a list. No code is stored, only numbers and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, list_values, lists
from pipeline.errors import InputError
from pipeline.estimator.answer import Answers, Jobs, Keys, Memory, Ring, Rings
from pipeline.estimator.jobs import Names
from pipeline.estimator.keys import Numbered, texts
from pipeline.estimator.state import Age, Record, State
from pipeline.tables import STATE

FORMAT = 16
"""Raised when the arrays change their meaning: a State of another format is refused, and the next run learns it anew."""
AGAIN = "run again: a run learns the state from its logs"
VALUE_KINDS = {"floats": "f", "integers": "i", "flags": "b", "texts": "O"}
"""Which of numpy's kinds of values a column holds."""

PARTS: dict[Any, dict[str, Any]] = {
    State: {"jobs": Jobs, "record": Record}, Jobs: {"keys": Keys},
    Age: {"memory": Memory, "answers": Answers}, Memory: {"rings": Rings}, Rings: dict.fromkeys(Rings._fields, Ring),
}  # fmt: skip
"""By tuple, those of its fields that are tuples themselves."""
PLAIN = ("array", "ids", "last", "over", "over_s")


def state_table(state: State) -> pa.Table:
    """STATE: equal States give equal rows."""
    arrays = dict(_arrays(state))
    return STATE.build(
        array=list(arrays),
        shape=lists([np.array(values.shape, np.int64) for values in arrays.values()], pa.int64()),
        **{name: _column(arrays.values(), name) for name in VALUE_KINDS},
    )


def loaded_state(table: pa.Table, where: str) -> State:
    """The State of a STATE; InputError, which names the table as `where`, for another format."""
    names, shapes = table.column("array").to_pylist(), list_values(table.column("shape"))
    by_kind = zip(*(list_values(table.column(name)) for name in VALUE_KINDS), strict=True)
    held = [next(values for values in row if values is not None) for row in by_kind]
    arrays = {name: one.reshape(shape).copy() for name, shape, one in zip(names, shapes, held, strict=True)}
    try:
        found = arrays["format"].tolist()
        if found != [FORMAT]:
            raise InputError(where, f"a state of format {found[0]}", f"format {FORMAT}", AGAIN)
        return _state(arrays)
    except KeyError as missing:
        raise InputError(where, f"a state without {missing.args[0]}", f"one of format {FORMAT}", AGAIN) from None


def _arrays(state: State) -> Iterator[tuple[str, Array]]:
    yield "format", np.array([FORMAT])
    yield "as_of_s", np.array([state.as_of_s])
    yield "n_submits", np.array([state.names.n_submits])
    yield from (("site.facts", texts(state.site)), ("site.values", texts(state.site.values())))
    yield from ((f"names.{name}", texts(known)) for name, known in state.names.texts.items())
    for name, numbered in state.names.keys.items():
        yield from ((f"keys.{name}.{part}", values) for part, values in numbered._asdict().items())
    yield from ((name, getattr(state, name)) for name in PLAIN)
    yield from _flat("jobs", state.jobs)
    yield from _flat("record", state.record)
    yield "ages_s", np.array(list(state.ages))
    for nth, age in enumerate(state.ages.values()):
        yield from _flat(f"age{nth}", age)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(value, tuple):
        for key, one in value._asdict().items():  # type: ignore[attr-defined]
            yield from _flat(f"{name}.{key}", one)
    else:
        yield name, value


def _state(arrays: Mapping[str, Array]) -> State:
    keys = dict.fromkeys(name.split(".")[1] for name in arrays if name.startswith("keys."))
    known = {name[6:]: {text: code for code, text in enumerate(arrays[name])} for name in arrays if name[:6] == "names."}
    numbered = {name: _tuple(Numbered, f"keys.{name}", arrays) for name in keys}
    return State(
        names=Names(known, numbered, int(arrays["n_submits"][0])),
        ages={age_s: _tuple(Age, f"age{nth}", arrays) for nth, age_s in enumerate(arrays["ages_s"].tolist())},
        as_of_s=float(arrays["as_of_s"][0]),
        site=dict(zip(arrays["site.facts"], arrays["site.values"], strict=True)),
        **{name: _tuple(kind, name, arrays) for name, kind in PARTS[State].items()},
        **{name: arrays[name] for name in PLAIN},
    )


def _tuple(kind: Any, name: str, arrays: Mapping[str, Array]) -> Any:
    inner = PARTS.get(kind, {})
    return kind(*(
        _tuple(inner[key], f"{name}.{key}", arrays) if key in inner else arrays[f"{name}.{key}"] for key in kind._fields
    ))  # fmt: skip


def _column(arrays: Iterable[Array], name: str) -> pa.Array:
    """The values of the arrays that stand in a column, one row an array."""
    values = [array.ravel() if array.dtype.kind == VALUE_KINDS[name] else None for array in arrays]
    return lists(values, STATE.schema().field(name).type.value_type)

