"""What the commands on inputs do with a model's folder: model.json, arrays.parquet, and the runs in runs.parquet."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import naming_path
from flows.services.inputs.declared_inputs import InputOptions, declaration_of
from flows.services.inputs.given_runs import read_runs, with_processors
from pipeline.errors import InputError, printable
from pipeline.inputs import Cost, InputModel, LearnRules, SuggestRule, learn, load, predict, save, suggest
from pipeline.inputs.suggestions import new_combinations
from pipeline.storage import write_atomically

RUNS_FILE = "runs.parquet"


def write_model(model: InputModel, runs: pa.Table, folder: Path) -> list[Path]:
    """Write the three files; the same runs in any order give the same bytes. Returns their paths.

    The model comes last, so that a folder with a model has its runs.
    """
    ordered = runs.select(needed_columns(model, runs)).combine_chunks()
    # Sorted under plain names: Arrow reads a name such as ".x" as a path.
    plain = ordered.rename_columns([f"c{place}" for place in range(ordered.num_columns)])
    plain = plain.sort_by([(name, "ascending") for name in plain.column_names])
    ordered = plain.rename_columns(ordered.column_names).replace_schema_metadata(None)
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / RUNS_FILE, lambda sink: pq.write_table(ordered, sink))
        save(model, folder)
    return [folder / name for name in ("model.json", "arrays.parquet", RUNS_FILE)]


def needed_columns(model: InputModel, runs: pa.Table) -> list[str]:
    """The columns that the declaration names, sorted."""
    declared = model.declaration
    names = {one.name for one in declared.inputs} | {declared.target}
    names |= {name for name in (declared.procs, declared.batch, declared.time, declared.censored) if name}
    return sorted(name for name in names if name in runs.column_names)


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
    declared = model.declaration
    return {
        "method": model.method,
        "target": declared.target,
        "inputs": [{"name": one.name, "type": str(one.type)} for one in declared.inputs],
        "derived": [asdict(one) for one in declared.derived],
        "procs": declared.procs,
        "error": asdict(model.error),
        "set_aside": {name: tally.rows for name, tally in model.report.set_aside.items()},
        "files": [str(path) for path in files],
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class LearntModel:
    """A model and the runs it learnt from."""

    model: InputModel
    runs: pa.Table


def learn_from_csv(path: Path, options: InputOptions, rules: LearnRules) -> LearntModel:
    """A model of the runs of a CSV file; InputError where the file or an option cannot be used."""
    runs = read_runs(path)
    declaration = declaration_of(runs, options)
    runs = with_processors(runs, declaration)
    return LearntModel(learn(runs, declaration, rules), runs)


def answered_points(model: InputModel, points: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """ANSWERS, and for each point its inputs and its answer; InputError where the points cannot be read."""
    answers = predict(model, points)
    names = [one.name for one in model.declaration.inputs]
    asked = points.select(names).to_pylist()
    rows = [{"inputs": inputs, **answer} for inputs, answer in zip(asked, answers.to_pylist(), strict=True)]
    return answers, rows


def suggested_runs(
    model: InputModel, folder: Path, candidates: Path | None, cost: Cost, rule: SuggestRule
) -> dict[str, Any]:
    """The runs in plain values, how many candidates there were, and what they cost.

    `error_pct` is the model's error on held runs. Without `candidates` there may be no combination left to run; a file
    without a row is an InputError.
    """
    if cost.budget is not None and not 0 < cost.budget < float("inf"):
        raise InputError("--budget", f"{cost.budget:g}", "a positive number")
    found = read_runs(candidates) if candidates else new_combinations(model, read_learnt_runs(folder))
    possible = with_processors(found, model.declaration)
    table = suggest(model, possible, cost, rule)
    names = [one.name for one in model.declaration.inputs]
    inputs = possible.select(names).take(table.column("candidate")).to_pylist()
    rows = [{"inputs": own, **row} for own, row in zip(inputs, table.to_pylist(), strict=True)]
    return {"unit": str(cost.unit), "budget": cost.budget, "rule": str(rule), "n_candidates": possible.num_rows,
            "error_pct": model.error.mean_pct, "runs": rows}  # fmt: skip
