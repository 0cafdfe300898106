"""Makes a declaration of inputs from the options of `walltime inputs learn`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.errors import InputError, did_you_mean, printable
from pipeline.inputs import Declaration, DerivedInput, Input, InputType, inferred_inputs

_NAMED_FORMULA = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")


@dataclass(frozen=True, slots=True)
class InputOptions:
    """What a person said about the columns of a table of runs; None or nothing where the options were not given."""

    target: str
    inputs: str | None = None
    types: Sequence[str] = ()
    derived: Sequence[str] = ()
    procs: str | None = None
    batch: str | None = None
    time: str | None = None
    censored: str | None = None


def declaration_of(runs: pa.Table, options: InputOptions) -> Declaration:
    """The declaration; without `inputs` every column without another role is an input. InputError for an unknown name.

    A type that is not given is inferred from the column's values.
    """
    given = {
        "--target": options.target,
        "--batch": options.batch,
        "--time": options.time,
        "--censored": options.censored,
    }
    for option, name in given.items():
        _check_column(option, name, runs)
    roles = {name for name in given.values() if name is not None}
    names = _names(options.inputs) if options.inputs is not None else [n for n in runs.column_names if n not in roles]
    for name in names:
        _check_column("--inputs", name, runs)
    if not names:
        raise InputError("--inputs", "no column", "at least one input besides the target", "name columns of the file")
    types = _types(options.types, names)
    inferred = inferred_inputs(runs, names)
    inputs = tuple(Input(name=one.name, type=types.get(one.name, one.type)) for one in inferred)
    derived = tuple(_derived(text) for text in options.derived)
    return Declaration(
        inputs, derived, options.target, options.procs, options.batch, options.time, options.censored
    )


def _check_column(option: str, name: str | None, runs: pa.Table) -> None:
    if name is None or name in runs.column_names:
        return
    known = printable(", ".join(runs.column_names), 300)
    hint = did_you_mean(name, runs.column_names)
    raise InputError(f"{option} {printable(name, 60)}", "no such column", f"one of {known}", hint)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _types(texts: Sequence[str], names: Sequence[str]) -> Mapping[str, InputType]:
    found: dict[str, InputType] = {}
    for text in texts:
        name, _, kind = (part.strip() for part in text.rpartition("="))
        where, kinds = f"--type {printable(text, 60)}", [str(one) for one in InputType]
        if kind not in kinds:
            hint = did_you_mean(kind, kinds)
            raise InputError(where, f"no type {printable(kind, 40)}", f"NAME=TYPE with one of {', '.join(kinds)}", hint)
        if name not in names:
            hint = did_you_mean(name, names)
            raise InputError(where, f"no input {printable(name, 40)}", f"one of {printable(', '.join(names))}", hint)
        found[name] = InputType(kind)
    return found


def _derived(text: str) -> DerivedInput:
    """`name=formula`, or a formula that is its own name."""
    named = _NAMED_FORMULA.fullmatch(text)
    name, formula = (named[1], named[2].strip()) if named else (text.strip(), text.strip())
    if not formula:
        raise InputError(f"--derive {printable(text, 60)}", "no formula", "one as in P*Q or local=N/P")
    return DerivedInput(name, formula)
