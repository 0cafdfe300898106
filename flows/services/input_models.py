"""What the commands on inputs do: runs and points as a person gives them to a declaration, a model and its answers.

A model's folder has model.json, arrays.parquet, and the runs in runs.parquet.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import naming_path
from flows.services.files.table_files import csv_rows
from pipeline.errors import InputError, did_you_mean, printable
from pipeline.ingest.formats.table.text_parts import UNKNOWN_CELLS
from pipeline.inputs import (
    Cost,
    Declaration,
    DerivedInput,
    Input,
    InputModel,
    InputType,
    LearnRules,
    inferred_inputs,
    learn,
    load,
    predict,
    save,
    suggest,
)
from pipeline.inputs.answers import new_combinations
from pipeline.inputs.declaration import parsed_formula
from pipeline.inputs.encoding import numbers_of
from pipeline.storage import write_atomically

UNKNOWN = {word.lower() for word in UNKNOWN_CELLS}
"""Cells that say that a number is unknown, in lower case."""
NUMBERS = (InputType.NUMBER, InputType.LOG_NUMBER)


def read_runs(path: Path) -> pa.Table:
    """A column for each name in the first line: float64 where every known cell is a number, else texts.

    InputError names file, line, what was found and what was expected.
    """
    where, expected = printable(str(path)), "a CSV with names of columns in its first line"
    rows = [(line, row) for line, row in csv_rows(path, expected) if any(row)]
    if len(rows) < 2:
        raise InputError(where, "no rows below a first line", expected)
    names = rows[0][1]
    _check_names(f"{where}, line {rows[0][0]}", names)
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise InputError(f"{where}, line {line}", f"{len(row)} values", f"{len(names)}, as line 1 has columns")
    return pa.table({name: column_of_cells([row[place] for _, row in rows[1:]]) for place, name in enumerate(names)})


def column_of_cells(cells: Sequence[str], is_number: bool | None = None) -> pa.Array:
    """Numbers as float64, or texts; None: numbers where every known cell is one. Unknown cells are null.

    Among texts, words such as none are values like any other.
    """
    numbers = [number_of(cell) for cell in cells]
    if is_number is None:
        others = [cell for cell, number in zip(cells, numbers, strict=True) if number is None]
        is_number = all(cell.lower() in UNKNOWN for cell in others)
    return pa.array(numbers, pa.float64()) if is_number else pa.array([cell or None for cell in cells], pa.string())


def number_of(cell: str) -> float | None:
    """The number of a cell; None where it is none, also for underscores and infinity, which Python would accept."""
    if not cell.isascii() or "_" in cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _check_names(where: str, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        found = f"{names.count(repeated)} columns {printable(repeated, 40) or 'without a name'}"
        raise InputError(where, found, "a name of its own for each column", "rename one")
    if "" in names:
        raise InputError(where, "a column without a name", "a name for each column", "name it or remove it")


def with_processors(table: pa.Table, declaration: Declaration) -> pa.Table:
    """The table with a column of processors; a name that is no column is read as a formula of columns."""
    wanted = declaration.procs
    if wanted is None or wanted in table.column_names:
        return table
    formula = parsed_formula(wanted)
    missing = sorted(formula.names - set(table.column_names))
    if missing:
        found = f"no column {printable(missing[0], 60)}"
        raise InputError(f"processors {printable(wanted, 60)}", found, f"columns as {', '.join(table.column_names)}")
    values = formula.evaluate({name: numbers_of(table, name) for name in formula.names}, table.num_rows)
    return table.append_column(wanted, pa.array(values, pa.float64(), from_pandas=True))


def asked_points(model: InputModel, at: Sequence[str], path: Path | None) -> pa.Table:
    """The points of the options --at, or of a file; InputError where there is neither, both, or an unknown input."""
    if bool(at) == bool(path):
        found = "both --at and --points" if at else "no point"
        raise InputError("walltime inputs predict", found, "either --at NAME=VALUE,... or --points FILE.csv")
    points = read_runs(path) if path else points_at(model.declaration, at)
    names = {one.name for one in model.declaration.inputs}
    missing = sorted(names - set(points.column_names))
    if missing:
        where = printable(str(path)) if path else f"--at {printable(at[0], 60)}"
        raise InputError(where, f"no {printable(missing[0], 60)}", f"a value of each of {', '.join(sorted(names))}")
    return with_processors(points, model.declaration)


def points_at(declaration: Declaration, texts: Sequence[str]) -> pa.Table:
    """One row for each text NAME=VALUE,NAME=VALUE; values have the declared types, unknown ones are null."""
    kinds = {one.name: one.type for one in declaration.inputs}
    rows = [_values(text, kinds) for text in texts]
    return pa.table(
        {name: column_of_cells([row[name] for row in rows], kind in NUMBERS) for name, kind in kinds.items()}
    )


def _values(text: str, kinds: dict[str, InputType]) -> dict[str, str]:
    found: dict[str, str] = {}
    where = f"--at {printable(text, 60)}"
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InputError(where, f"'{printable(part, 40)}'", "NAME=VALUE, joined by commas")
        if name not in kinds:
            known = f"one of {printable(', '.join(kinds))}"
            raise InputError(where, f"no input {printable(name, 40)}", known, did_you_mean(name, kinds))
        if name in found:
            raise InputError(where, f"{printable(name, 40)} twice", "one value of each input")
        if kinds[name] in NUMBERS and value.lower() not in UNKNOWN and number_of(value) is None:
            raise InputError(where, f"{printable(name, 40)} = {printable(value, 40)}", "a number")
        found[name] = value
    if lacking := [name for name in kinds if name not in found]:
        raise InputError(where, f"no {printable(lacking[0], 60)}", f"a value of each of {', '.join(kinds)}")
    return found


RUNS_FILE = "runs.parquet"
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

    A type that is not given is inferred from the column's values, and `learn` may find that it is a code; not the
    factors of the processors, which are counts.
    """
    given = [
        (f"--{role}", getattr(options, role)) for role in ("target", "batch", "time", "censored")
        if getattr(options, role) is not None
    ]  # fmt: skip
    roles = {name for _, name in given}
    if options.inputs is None:
        names = [name for name in runs.column_names if name not in roles]
    else:
        names = list(dict.fromkeys(name.strip() for name in options.inputs.split(",") if name.strip()))
    for option, name in (*given, *(("--inputs", name) for name in names)):
        check_known(f"{option} {printable(name, 60)}", "no such column", name, runs.column_names)
    if not names:
        raise InputError("--inputs", "no column", "at least one input besides the target", "name columns of the file")
    types = _types(options.types, names)
    settled = set(types)
    if options.procs is not None and options.procs not in runs.column_names:
        settled |= parsed_formula(options.procs).names
    inputs = tuple(
        Input(one.name, types.get(one.name, one.type), is_inferred=one.name not in settled)
        for one in inferred_inputs(runs, names)
    )
    derived = tuple(_derived(text) for text in options.derived)
    return Declaration(inputs, derived, options.target, options.procs, options.batch, options.time, options.censored)


def check_known(where: str, found: str, name: str, known: Sequence[str], expected: str = "one of ") -> None:
    """InputError, with the nearest known word, where a name is none of the known ones."""
    if name not in known:
        raise InputError(where, found, f"{expected}{printable(', '.join(known), 300)}", did_you_mean(name, known))


def _types(texts: Sequence[str], names: Sequence[str]) -> Mapping[str, InputType]:
    found: dict[str, InputType] = {}
    for text in texts:
        name, _, kind = (part.strip() for part in text.rpartition("="))
        where = f"--type {printable(text, 60)}"
        check_known(where, f"no type {printable(kind, 40)}", kind, list(InputType), "NAME=TYPE with one of ")
        check_known(where, f"no input {printable(name, 40)}", name, names)
        found[name] = InputType(kind)
    return found


def _derived(text: str) -> DerivedInput:
    """`name=formula`, or a formula that is its own name."""
    named = _NAMED_FORMULA.fullmatch(text)
    name, formula = (named[1], named[2].strip()) if named else (text.strip(), text.strip())
    if not formula:
        raise InputError(f"--derive {printable(text, 60)}", "no formula", "one as in P*Q or local=N/P")
    return DerivedInput(name, formula)


def write_model(model: InputModel, runs: pa.Table, folder: Path) -> list[Path]:
    """Write the three files; the same runs in any order give the same bytes. Returns their paths.

    Of the runs, the columns that the declaration names are kept.

    The model comes last, so that a folder with a model has its runs.
    """
    declared = model.declaration
    roles = (declared.target, declared.procs, declared.batch, declared.time, declared.censored)
    named = {*roles, *(one.name for one in declared.inputs)}
    ordered = runs.select(sorted(name for name in runs.column_names if name in named)).combine_chunks()
    # Sorted under plain names: Arrow reads a name such as ".x" as a path.
    plain = ordered.rename_columns([f"c{place}" for place in range(ordered.num_columns)])
    plain = plain.sort_by([(name, "ascending") for name in plain.column_names])
    ordered = plain.rename_columns(ordered.column_names).replace_schema_metadata(None)
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / RUNS_FILE, lambda sink: pq.write_table(ordered, sink))
        save(model, folder)
    return [folder / name for name in ("model.json", "arrays.parquet", RUNS_FILE)]


def read_model(folder: Path) -> InputModel:
    """The model of a folder; InputError where it is missing, damaged, or of another version."""
    with naming_path(folder):
        return load(folder)


def read_learnt_runs(folder: Path) -> pa.Table:
    """The runs that the model of a folder learnt from; InputError where their file is missing or damaged."""
    path, expected = folder / RUNS_FILE, "the runs of a model"
    try:
        return pq.read_table(path, partitioning=None)
    except FileNotFoundError:
        raise InputError(printable(str(path)), "no such file", expected, "run walltime inputs learn again") from None
    except (pa.ArrowInvalid, OSError) as error:
        found = f"no Parquet file ({printable(str(error), 80)})"
        raise InputError(printable(str(path)), found, expected, "run walltime inputs learn again") from None


def model_summary(model: InputModel, files: Sequence[Path] = ()) -> dict[str, Any]:
    """Plain values of a model: method, inputs with types, errors, and the runs that were set aside."""
    declared = asdict(model.declaration)
    return {
        "method": model.method, **{name: declared[name] for name in ("target", "inputs", "derived", "procs")},
        "error": asdict(model.error),
        "set_aside": {name: tally.rows for name, tally in model.report.set_aside.items()},
        "notes": list(model.report.notes),
        "files": [str(path) for path in files],
    }  # fmt: skip


def learn_from_csv(path: Path, options: InputOptions, rules: LearnRules) -> tuple[InputModel, pa.Table]:
    """A model of the runs of a CSV file, and these runs; InputError where the file or an option cannot be used."""
    runs = read_runs(path)
    declaration = declaration_of(runs, options)
    runs = with_processors(runs, declaration)
    return learn(runs, declaration, rules), runs


def answered_points(model: InputModel, points: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """ANSWERS, and for each point its inputs and its answer; InputError where the points cannot be read."""
    answers = predict(model, points)
    names = [one.name for one in model.declaration.inputs]
    asked = points.select(names).to_pylist()
    rows = [{"inputs": inputs, **answer} for inputs, answer in zip(asked, answers.to_pylist(), strict=True)]
    return answers, rows


def suggested_runs(model: InputModel, folder: Path, candidates: Path | None, cost: Cost) -> dict[str, Any]:
    """The runs in plain values, how many candidates there were, and what they cost.

    `error_pct` is the model's error on held runs. Without `candidates` there may be no combination left to run; a file
    without a row is an InputError.
    """
    if cost.budget is not None and not 0 < cost.budget < float("inf"):
        raise InputError("--budget", f"{cost.budget:g}", "a positive number")
    found = read_runs(candidates) if candidates else new_combinations(model, read_learnt_runs(folder))
    possible = with_processors(found, model.declaration)
    table = suggest(model, possible, cost)
    names = [one.name for one in model.declaration.inputs]
    inputs = possible.select(names).take(table.column("candidate")).to_pylist()
    rows = [{"inputs": own, **row} for own, row in zip(inputs, table.to_pylist(), strict=True)]
    return {"unit": str(cost.unit), "budget": cost.budget, "n_candidates": possible.num_rows,
            "error_pct": model.error.mean_pct, "runs": rows}  # fmt: skip
