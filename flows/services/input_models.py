"""What the commands on inputs do: runs and points as a person gives them to a declaration, a model and its answers.

A model's folder has model.json, arrays.parquet, and the runs in runs.parquet.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import naming_path
from flows.services.quantities import check_lengths, number_of, text_table, words
from pipeline import inputs
from pipeline.errors import InputError, did_you_mean, printable
from pipeline.ingest.formats.table import UNKNOWN_CELLS
from pipeline.inputs.answers import new_combinations
from pipeline.inputs.declaration import parsed_formula
from pipeline.inputs.encoding import numbers_of
from pipeline.storage import write_atomically

UNKNOWN = {word.lower() for word in UNKNOWN_CELLS}
"""Cells that say that a number is unknown, in lower case."""
NUMBERS = (inputs.InputType.NUMBER, inputs.InputType.LOG_NUMBER)


def read_runs(path: Path) -> pa.Table:
    """A column for each name in the first line: float64 where every known cell is a number, else texts.

    InputError names file, line, what was found and what was expected.
    """
    expected = "a CSV with names of columns in its first line"
    where, every = text_table(path, expected)
    rows = [(line, row) for line, row in every if any(row)]
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


def asked_points(model: inputs.InputModel, at: Sequence[str], path: Path | None) -> pa.Table:
    """The points of the options --at, or of a file; InputError where there is neither, both, or an unknown input."""
    if bool(at) == bool(path):
        found = "both --at and --points" if at else "no point"
        raise InputError("walltime inputs predict", found, "either --at NAME=VALUE,... or --points FILE.csv")
    kinds = {one.name: one.type for one in model.declaration.inputs}
    points = read_runs(path) if path else points_at(kinds, at)
    if missing := sorted(kinds.keys() - set(points.column_names)):
        raise _no_value(printable(str(path)), missing[0], kinds)
    return with_processors(points, model.declaration)


def points_at(kinds: Mapping[str, inputs.InputType], texts: Sequence[str]) -> pa.Table:
    """One row for each text NAME=VALUE,NAME=VALUE; values have the declared types, unknown ones are null."""
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
        if missing := [name for name in kinds if name not in row]:
            raise _no_value(where, missing[0], kinds)
        rows.append(row)
    return pa.table({n: column_of_cells([row[n] for row in rows], kind in NUMBERS) for n, kind in kinds.items()})


def _no_value(where: str, name: str, names: Iterable[str]) -> InputError:
    return InputError(where, f"no {printable(name, 60)}", f"a value of each of {', '.join(names)}")


RUNS_FILE = "runs.parquet"
_NAMED_FORMULA = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")


def declaration_of(
    runs: pa.Table, target: str, named: str | None = None, types: Sequence[str] = (), derived: Sequence[str] = (), *,
    procs: str | None = None, batch: str | None = None, time: str | None = None, censored: str | None = None,
) -> inputs.Declaration:  # fmt: skip
    """What a person said about the columns of a table of runs, by the options of `walltime inputs learn`.

    Without `named` every column without another role is an input. InputError for an unknown name.

    A type that is not given is inferred from the column's values, and `learn` may find that it is a code; not the
    factors of the processors, which are counts.
    """
    roles = {"target": target, "batch": batch, "time": time, "censored": censored}
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
    return inputs.Declaration(declared, tuple(map(_derived, derived)), target, procs, batch, time, censored)


def check_known(where: str, found: str, name: str, known: Sequence[str], expected: str = "one of ") -> None:
    """InputError, with the nearest known word, where a name is none of the known ones."""
    if name not in known:
        raise InputError(where, found, f"{expected}{printable(', '.join(known), 300)}", did_you_mean(name, known))


def _derived(text: str) -> inputs.DerivedInput:
    """`name=formula`, or a formula that is its own name."""
    named = _NAMED_FORMULA.fullmatch(text)
    name, formula = (named[1], named[2].strip()) if named else (text.strip(), text.strip())
    if not formula:
        raise InputError(f"--derive {printable(text, 60)}", "no formula", "one as in P*Q or local=N/P")
    return inputs.DerivedInput(name, formula)


def write_model(model: inputs.InputModel, runs: pa.Table, folder: Path) -> list[Path]:
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
        inputs.save(model, folder)
    return [folder / name for name in ("model.json", "arrays.parquet", RUNS_FILE)]


def read_model(folder: Path) -> inputs.InputModel:
    """The model of a folder; InputError where it is missing, damaged, or of another version."""
    with naming_path(folder):
        return inputs.load(folder)


def read_learnt_runs(folder: Path) -> pa.Table:
    """The runs that the model of a folder learnt from; InputError where their file is missing or damaged."""
    path, expected = folder / RUNS_FILE, "the runs of a model"
    try:
        return pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        is_missing = isinstance(error, FileNotFoundError)
        found = "no such file" if is_missing else f"no Parquet file ({printable(str(error), 80)})"
        raise InputError(printable(str(path)), found, expected, "run walltime inputs learn again") from None


def learn_from_csv(path: Path, rules: inputs.LearnRules, folder: Path, **said: Any) -> dict[str, Any]:
    """Learn a model from the runs of a CSV file, and write it; its method, inputs, errors and files in plain values.

    `said` is what `declaration_of` takes. InputError where the file or an option cannot be used.
    """
    runs = read_runs(path)
    declaration = declaration_of(runs, **said)
    runs = with_processors(runs, declaration)
    model = inputs.learn(runs, declaration, rules)
    files, declared = write_model(model, runs, folder), asdict(model.declaration)
    return {
        "method": model.method, **{name: declared[name] for name in ("target", "inputs", "derived", "procs")},
        "error": asdict(model.error),
        "set_aside": {name: tally.rows for name, tally in model.report.set_aside.items()},
        "notes": list(model.report.notes),
        "files": [str(path) for path in files],
    }  # fmt: skip


def answered_points(model: inputs.InputModel, points: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """ANSWERS, and for each point its inputs and its answer; InputError where the points cannot be read."""
    answers = inputs.predict(model, points)
    return answers, _with_inputs(model, points, answers)


def _with_inputs(model: inputs.InputModel, points: pa.Table, table: pa.Table) -> list[dict[str, Any]]:
    asked = points.select([one.name for one in model.declaration.inputs]).to_pylist()
    return [{"inputs": own, **row} for own, row in zip(asked, table.to_pylist(), strict=True)]


def suggested_runs(
    model: inputs.InputModel, folder: Path, candidates: Path | None, cost: inputs.Cost
) -> dict[str, Any]:
    """The runs in plain values, how many candidates there were, and what they cost.

    `error_pct` is the model's error on held runs. Without `candidates` there may be no combination left to run; a file
    without a row is an InputError.
    """
    if cost.budget is not None and not 0 < cost.budget < math.inf:
        raise InputError("--budget", f"{cost.budget:g}", "a positive number")
    found = read_runs(candidates) if candidates else new_combinations(model, read_learnt_runs(folder))
    possible = with_processors(found, model.declaration)
    table = inputs.suggest(model, possible, cost)
    rows = _with_inputs(model, possible.take(table.column("candidate")), table)
    return {"unit": str(cost.unit), "budget": cost.budget, "n_candidates": possible.num_rows,
            "error_pct": model.error.mean_pct, "runs": rows}  # fmt: skip
