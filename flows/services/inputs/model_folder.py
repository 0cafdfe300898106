"""The folder of a model: model.json and arrays.parquet (pipeline.inputs), and runs.parquet, the runs it learnt from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import naming_path
from pipeline.core.errors import InputError
from pipeline.core.store import write_atomically
from pipeline.core.text import printable
from pipeline.inputs import InputModel, load, save

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
        raise InputError(printable(str(path)), "no such file", expected, "run walltime learn again") from None
    except (pa.ArrowInvalid, OSError) as error:
        found = f"no Parquet file ({printable(str(error), 80)})"
        raise InputError(printable(str(path)), found, expected, "run walltime learn again") from None


def model_summary(model: InputModel, files: Sequence[Path] = ()) -> dict[str, Any]:
    """Plain values of a model: method, inputs with types, errors, and the runs that were set aside."""
    declared, error = model.declaration, model.error
    return {
        "method": model.method,
        "target": declared.target,
        "inputs": [{"name": one.name, "type": str(one.type)} for one in declared.inputs],
        "derived": [{"name": one.name, "formula": one.formula} for one in declared.derived],
        "procs": declared.procs,
        "error": {
            "mean_pct": error.mean_pct, "sd_pct": error.sd_pct, "median_pct": error.median_pct,
            "fold_sd_pct": error.fold_sd_pct, "share_in_80": error.share_in_80, "share_in_95": error.share_in_95,
            "folds_by": error.folds_by, "n_folds": error.n_folds, "n_runs": error.n_runs,
        },
        "set_aside": {name: tally.rows for name, tally in model.report.set_aside.items()},
        "files": [str(path) for path in files],
    }  # fmt: skip
