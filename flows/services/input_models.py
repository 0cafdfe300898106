"""What the commands on inputs do: runs and points as a person gives them to a declaration, a model and its answers.

A model's folder has model.json, arrays.parquet, and the runs in runs.parquet.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import naming_path
from flows.services.quantities import check_known, check_lengths, number_of, text_table, words
from pipeline import inputs
from pipeline.errors import InputError, printable
from pipeline.ingest.formats.table import UNKNOWN_CELLS
from pipeline.inputs.answers import new_combinations
from pipeline.inputs.declaration import parsed_formula
from pipeline.inputs.encoding import numbers_of
from pipeline.storage import read_metadata, write_atomically

UNKNOWN = {word.lower() for word in UNKNOWN_CELLS}
"""Cells that say that a number is unknown, in lower case."""
NUMBERS = (inputs.InputType.NUMBER, inputs.InputType.LOG_NUMBER)


def read_runs(path: Path) -> pa.Table:
    """A column for each name in the first line: float64 where every known cell is a number, else texts.

    InputError names file, line, what was found and what was expected.
    """
    expected = "a CSV with names of columns in its first line"
    where, rows = text_table(path, expected)
    if len(rows) < 2:
        raise InputError(where, "no rows below a first line", expected)
    (first, names), *rows = rows
    if wrong := [name for name in names if names.count(name) > 1 or not name]:
        found = f"{names.count(wrong[0])} columns {printable(wrong[0], 40) or 'without a name'}"
        raise InputError(f"{where}, line {first}", found, "a name of its own for each column", "rename one")
    check_lengths(where, names, rows)
    return pa.table({name: column_of_cells([row[place] for _, row in rows]) for place, name in enumerate(names)})


def column_of_cells(cells: Sequence[str], is_number: bool | None = None) -> pa.Array:
    """Numbers as float64, or texts; None: numbers where every known cell is one. Unknown cells are null.

    Among texts, words such as none are values like any other.
    """
    numbers = [number_of(cell) for cell in cells]
    if is_number is None:
        is_number = all(
            number is not None or cell.lower() in UNKNOWN for cell, number in zip(cells, numbers, strict=True)
        )
    return pa.array(numbers, pa.float64()) if is_number else pa.array([cell or None for cell in cells], pa.string())


def with_processors(table: pa.Table, declaration: inputs.Declaration) -> pa.Table:
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


def predicted_points(folder: Path, at: Sequence[str], path: Path | None) -> tuple[pa.Table, list[dict[str, Any]]]:
    """ANSWERS at the points of the options --at, or of a file, and for each its inputs and its answer.

    InputError where there is neither, both, or an unknown input.
    """
    if bool(at) == bool(path):
        found = "both --at and --points" if at else "no point"
        raise InputError("walltime inputs predict", found, "either --at NAME=VALUE,... or --points FILE.csv")
    model = read_model(folder)
    kinds = {one.name: one.type for one in model.declaration.inputs}
    points = read_runs(path) if path else points_at(kinds, at)
    if missing := sorted(kinds.keys() - set(points.column_names)):
        where, found = printable(str(path)) if path else "--at", f"no {printable(missing[0], 60)}"
        raise InputError(where, found, f"a value of each of {', '.join(kinds)}")
    answers = inputs.predict(model, points)
    return answers, _with_inputs(model, points, answers)


def points_at(kinds: Mapping[str, inputs.InputType], texts: Sequence[str]) -> pa.Table:
    """One row for each text NAME=VALUE,NAME=VALUE, with the inputs that all of them have.

    Values have the declared types, unknown ones are null.
    """
    rows: list[dict[str, str]] = []
    for text in texts:
        where, row = f"--at {printable(text, 60)}", dict[str, str]()
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals:
                raise InputError(where, f"'{printable(part, 40)}'", "NAME=VALUE, joined by commas")
            check_known(where, f"no input {printable(name, 40)}", name, list(kinds))
            if name in row:
                raise InputError(where, f"{printable(name, 40)} twice", "one value of each input")
            if kinds[name] in NUMBERS and value.lower() not in UNKNOWN and number_of(value) is None:
                raise InputError(where, f"{printable(name, 40)} = {printable(value, 40)}", "a number")
            row[name] = value
        rows.append(row)
    named = {name: kind for name, kind in kinds.items() if all(name in row for row in rows)}
    return pa.table({n: column_of_cells([row[n] for row in rows], kind in NUMBERS) for n, kind in named.items()})


RUNS_FILE = "runs.parquet"


def declaration_of(
    runs: pa.Table, target: str, named: str | None = None, types: Sequence[str] = (), derived: Sequence[str] = (), *,
    procs: str | None = None, batch: str | None = None, time: str | None = None,
) -> inputs.Declaration:  # fmt: skip
    """What a person said about the columns of a table of runs, by the options of `walltime inputs learn`.

    Without `named` every column without another role is an input. InputError for an unknown name.

    A type that is not given is inferred from the column's values, and `learn` may find that it is a code; not the
    factors of the processors, which are counts.
    """
    roles = {"target": target, "batch": batch, "time": time}
    names = list(dict.fromkeys(words(named)))
    if named is None:
        names = [name for name in runs.column_names if name not in roles.values()]
    for option, name in (*roles.items(), *(("inputs", name) for name in names)):
        if name is not None:
            check_known(f"--{option} {printable(name, 60)}", "no such column", name, runs.column_names)
    if not names:
        raise InputError("--inputs", "no column", "at least one input besides the target", "name columns of the file")
    told: dict[str, inputs.InputType] = {}
    for text in types:
        name, _, kind = (part.strip() for part in text.rpartition("="))
        where = f"--type {printable(text, 60)}"
        check_known(where, f"no type {printable(kind, 40)}", kind, list(inputs.InputType), "NAME=TYPE with one of ")
        check_known(where, f"no input {printable(name, 40)}", name, names)
        told[name] = inputs.InputType(kind)
    counts = parsed_formula(procs).names if procs is not None and procs not in runs.column_names else ()
    declared = tuple(
        inputs.Input(one.name, told.get(one.name, one.type), is_inferred=one.name not in {*told, *counts})
        for one in inputs.inferred_inputs(runs, names)
    )
    # `name=formula`, or a formula that is its own name.
    pairs = [(text.partition("=")[0].strip(), text.rpartition("=")[2].strip()) for text in derived]
    if not all(formula for _, formula in pairs):
        raise InputError("--derive", "no formula", "one as in P*Q or local=N/P")
    return inputs.Declaration(declared, tuple(inputs.DerivedInput(*pair) for pair in pairs), target, procs, batch, time)


def read_model(folder: Path) -> inputs.InputModel:
    """The model of a folder; InputError where it is missing, damaged, or of another version."""
    with naming_path(folder):
        return inputs.load(folder)


def learn_from_csv(path: Path, rules: inputs.LearnRules, folder: Path, **said: Any) -> dict[str, Any]:
    """Learn a model from the runs of a CSV file, and write it; its method, inputs, errors and files in plain values.

    `said` is what `declaration_of` takes. InputError where the file or an option cannot be used. The same runs in any
    order give the same bytes. The model comes last, so that a folder with a model has its runs.
    """
    runs = read_runs(path)
    declaration = declaration_of(runs, **said)
    runs = with_processors(runs, declaration)
    model = inputs.learn(runs, declaration, rules)
    declared = asdict(model.declaration)
    roles = (declared[role] for role in ("target", "procs", "batch", "time"))
    named = {*roles, *(one["name"] for one in declared["inputs"])} & set(runs.column_names)
    kept = runs.select(sorted(named))
    ordered = pa.Table.from_pylist(sorted(kept.to_pylist(), key=repr), kept.schema)
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / RUNS_FILE, lambda sink: pq.write_table(ordered, sink))
        inputs.save(model, folder)
    return {
        "method": model.method, **{name: declared[name] for name in ("target", "inputs", "derived", "procs")},
        "error": asdict(model.error),
        "set_aside": {name: tally.rows for name, tally in model.report.set_aside.items()},
        "notes": list(model.report.notes),
        "files": [str(folder / name) for name in ("model.json", "arrays.parquet", RUNS_FILE)],
    }  # fmt: skip


def _with_inputs(model: inputs.InputModel, points: pa.Table, table: pa.Table) -> list[dict[str, Any]]:
    asked = points.select([one.name for one in model.declaration.inputs]).to_pylist()
    return [{"inputs": own, **row} for own, row in zip(asked, table.to_pylist(), strict=True)]


def suggested_runs(folder: Path, candidates: Path | None, cost: inputs.Cost) -> dict[str, Any]:
    """The runs in plain values, how many candidates there were, and what they cost.

    `error_pct` is the model's error on held runs. Without `candidates` there may be no combination left to run; a file
    without a row is an InputError.
    """
    if cost.budget is not None and not 0 < cost.budget < math.inf:
        raise InputError("--budget", f"{cost.budget:g}", "a positive number")
    model, learnt = read_model(folder), folder / RUNS_FILE
    if candidates:
        possible = read_runs(candidates)
    else:
        # It refuses what is no Parquet file.
        read_metadata(learnt, "the runs of a model")
        possible = new_combinations(model, pq.read_table(learnt, partitioning=None))
    possible = with_processors(possible, model.declaration)
    table = inputs.suggest(model, possible, cost)
    rows = _with_inputs(model, possible.take(table.column("candidate")), table)
    return {"unit": str(cost.unit), "budget": cost.budget, "n_candidates": possible.num_rows,
            "error_pct": model.error.mean_pct, "runs": rows}  # fmt: skip
