"""Saves a model as model.json and arrays.parquet, and loads it. Nothing in these files is executed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from pipeline.core.arrays import Array
from pipeline.core.column import Column, list_of, text
from pipeline.core.errors import InputError
from pipeline.core.input_settings import InputSettings
from pipeline.core.report import Report
from pipeline.core.store import read_table, write_table, write_text
from pipeline.core.table_kind import TableKind
from pipeline.core.text import printable
from pipeline.inputs.declaration import Declaration
from pipeline.inputs.model import ErrorEstimate, InputModel
from pipeline.inputs.registry import METHODS

ARRAYS = TableKind(
    "INPUT_ARRAYS",
    (
        text("name", "name of the array", required=True),
        list_of("shape", pa.int64(), "its dimensions"),
        Column("values", pa.list_(pa.field("element", pa.float64())), "its values, last dimension fastest"),
    ),
    ("name",),
    "The arrays of a model over inputs.",
)
FORMAT = 1
"""Version of the files; others are refused."""


def save(model: InputModel, folder: Path) -> Path:
    """Write model.json and arrays.parquet into a folder, each atomically; returns the folder.

    Parameters
    ----------
    model : InputModel
        What `learn` gave.
    folder : Path
        Made where it is missing.

    Returns
    -------
    Path
        The folder. The same model gives the same bytes.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from pipeline.inputs import Declaration, Input, learn
    >>> runs = pa.table({"n": list(range(1, 31)), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = learn(runs, Declaration(inputs=(Input(name="n", type="log_number"),)), InputSettings())
    >>> with TemporaryDirectory() as folder:
    ...     sorted(file.name for file in save(model, Path(folder)).iterdir())
    ['arrays.parquet', 'model.json']
    """
    names = sorted(model.arrays)
    arrays = [np.ascontiguousarray(model.arrays[name], np.float64) for name in names]
    # Fortran order in an array of LAPACK would otherwise be lost in the values.
    shapes, values = [list(one.shape) for one in arrays], [one.reshape(-1) for one in arrays]
    table = ARRAYS.build(name=names, shape=shapes, values=pa.array(values, pa.list_(pa.float64())))
    write_table(folder / "arrays.parquet", table, ARRAYS)
    plain = plain_model(model)
    write_text(folder / "model.json", json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return folder


def load(folder: Path) -> InputModel:
    """The model of a folder.

    Parameters
    ----------
    folder : Path
        Where `save` wrote.

    Returns
    -------
    InputModel
        It predicts to the digit what the saved one predicts.

    Raises
    ------
    InputError
        If the files are missing, damaged, or of another version.

    Examples
    --------
    >>> load(Path("no_such_folder"))
    Traceback (most recent call last):
    pipeline.core.errors.InputError: ...
    """
    where = printable(str(folder / "model.json"))
    try:
        plain = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(where, "no such file", "a model", "run walltime learn first") from None
    except ValueError as error:
        raise InputError(where, f"no JSON ({printable(str(error), 80)})", "a model", "learn it again") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT or plain.get("method") not in METHODS:
        raise InputError(where, "a file of another version or kind", f"a model of version {FORMAT}", "learn it again")
    table = read_table(folder / "arrays.parquet", ARRAYS)
    try:
        return model_of(plain, _arrays(table))
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        found = f"a damaged model ({printable(str(error).splitlines()[0], 80)})"
        raise InputError(where, found, "what walltime learn wrote", "learn it again") from None


def plain_model(model: InputModel) -> dict[str, Any]:
    """All of a model but its arrays, for JSON."""
    return {
        "format": FORMAT, "method": model.method, "declaration": model.declaration.model_dump(mode="json"),
        "settings": model.settings.model_dump(mode="json"), "error": asdict(model.error),
        "report": model.report.as_dict(), "facts": model.facts,
    }  # fmt: skip


def model_of(plain: dict[str, Any], arrays: dict[str, Array]) -> InputModel:
    """The inverse of `plain_model`; KeyError, TypeError or ValueError where it is damaged."""
    return InputModel(
        Declaration.model_validate(plain["declaration"]), InputSettings.model_validate(plain["settings"]),
        plain["method"], ErrorEstimate(**plain["error"]), Report.from_dict(plain["report"]), arrays, plain["facts"],
    )  # fmt: skip


def _arrays(table: pa.Table) -> dict[str, Array]:
    rows = zip(*(table.column(name) for name in ("name", "shape", "values")), strict=True)
    return {
        name.as_py(): values.values.to_numpy(zero_copy_only=False).reshape(shape.as_py())
        for name, shape, values in rows
    }
