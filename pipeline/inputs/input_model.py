"""A learnt model: what `learn` gives, what `predict` and `suggest` read, and its files, which are never executed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.arrays import Array, Floats
from pipeline.errors import InputError, printable
from pipeline.inputs.declaration import Declaration, LearnRules, MethodName
from pipeline.inputs.methods import METHODS
from pipeline.inputs.validation import ErrorEstimate
from pipeline.report import Report, parsed_json
from pipeline.schema import TableKind, count, number, seconds, text
from pipeline.storage import read_table, write_table, write_text


class AnswerStatus(StrEnum):
    """What a prediction rests on. The refused ones have no numbers."""

    OK = "ok"
    OUTSIDE = "outside"
    NEW_CATEGORY = "new_category"
    REFUSED_OUTSIDE = "refused_outside"
    REFUSED_CATEGORY = "refused_category"
    MISSING_INPUT = "missing_input"


ANSWERS = TableKind(
    "INPUT_ANSWERS",
    (
        count("point", "row of the points, from 0", "row", required=True),
        seconds("median_s", "predicted median runtime"),
        seconds("low80_s", "lower end of the 80% interval"),
        seconds("high80_s", "upper end of the 80% interval"),
        seconds("low95_s", "lower end of the 95% interval"),
        seconds("high95_s", "upper end of the 95% interval"),
        number("error_pct", "expected absolute error of the median, per cent of the runtime", "%"),
        text("status", "value of AnswerStatus", required=True),
        text("reason", "one clause: which input has what value; null where status is ok"),
    ),
    ("point",),
    "Predictions of a model over inputs, in the order of the points; figures rounded to 6 digits.",
)

SUGGESTIONS = TableKind(
    "INPUT_SUGGESTIONS",
    (
        count("order", "place of the run, from 1", "run", required=True),
        count("candidate", "row of the candidates, from 0", "row", required=True),
        seconds("median_s", "predicted median runtime"),
        number("cost", "expected cost of the run", "the unit asked for"),
        number("total_cost", "cost of this run and those before it", "the unit asked for"),
        number("error_before_pct", "mean error that `ask` announces over the candidates before the run", "%"),
        number("error_after_pct", "the same after the run, as the model expects it", "%"),
    ),
    ("order",),
    "The runs to make next, best first; figures rounded to 6 digits.",
)


class CostUnit(StrEnum):
    """What a run costs."""

    RUNS = "runs"
    SECONDS = "seconds"
    PROC_SECONDS = "proc-seconds"


@dataclass(frozen=True, slots=True)
class Cost:
    """What runs cost, how much may be spent, and how many runs at most; null: no limit."""

    unit: CostUnit = CostUnit.PROC_SECONDS
    budget: float | None = None
    n_runs: int | None = None


@dataclass(frozen=True, slots=True)
class InputModel:
    """A learnt model. `arrays` and `facts` belong to the method and to the checks of points; nothing is a closure."""

    declaration: Declaration
    rules: LearnRules
    method: MethodName
    error: ErrorEstimate
    report: Report
    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]


ARRAYS = TableKind(
    "INPUT_ARRAYS",
    (number("value", "the values of all arrays one after the other, last dimension fastest"),),
    (),
    "The arrays of a model over inputs, whose names and shapes are in its model.json.",
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
    >>> from pipeline.inputs import Declaration, Input, LearnRules, learn
    >>> import pyarrow as pa
    >>> runs = pa.table({"n": list(range(1, 31)), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = learn(runs, Declaration(inputs=(Input(name="n", type="log_number"),)), LearnRules())
    >>> with TemporaryDirectory() as folder:
    ...     sorted(file.name for file in save(model, Path(folder)).iterdir())
    ['arrays.parquet', 'model.json']
    """
    plain, values = packed_model(model)
    write_table(folder / "arrays.parquet", ARRAYS.build(value=values), ARRAYS)
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
    pipeline.errors.InputError: ...
    """
    where = printable(str(folder / "model.json"))
    try:
        plain = parsed_json((folder / "model.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(where, "no such file", "a model", "run walltime inputs learn first") from None
    except ValueError as error:
        raise InputError(where, f"no JSON ({printable(str(error), 80)})", "a model", "learn it again") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT or plain.get("method") not in METHODS:
        raise InputError(where, "a file of another version or kind", f"a model of version {FORMAT}", "learn it again")
    values = read_table(folder / "arrays.parquet", ARRAYS).column("value").to_numpy()
    try:
        return unpacked_model(plain, values)
    except (KeyError, TypeError, ValueError) as error:
        found = f"a damaged model ({printable(str(error).splitlines()[0], 80)})"
        raise InputError(where, found, "what walltime inputs learn wrote", "learn it again") from None


def packed_model(model: InputModel) -> tuple[dict[str, Any], Floats]:
    """A model as plain values for JSON, with the shapes of its arrays, and the values of these one after the other."""
    # Fortran order in an array of LAPACK would otherwise be lost in the values.
    arrays = {name: np.ascontiguousarray(model.arrays[name], np.float64) for name in sorted(model.arrays)}
    plain = {
        "format": FORMAT, "method": model.method, "declaration": asdict(model.declaration),
        "settings": asdict(model.rules), "error": asdict(model.error), "report": model.report.as_dict(),
        "facts": model.facts, "shapes": {name: list(values.shape) for name, values in arrays.items()},
    }  # fmt: skip
    return plain, np.concatenate([values.reshape(-1) for values in arrays.values()])


def unpacked_model(plain: Mapping[str, Any], values: Floats) -> InputModel:
    """The inverse of `packed_model`; KeyError, TypeError or ValueError where it is damaged."""
    shapes = plain["shapes"]
    ends = np.cumsum([int(np.prod(shapes[name])) for name in sorted(shapes)])
    parts = zip(sorted(shapes), np.split(values, ends), strict=False)
    arrays = {name: part.reshape(shapes[name]) for name, part in parts}
    return InputModel(
        Declaration.from_dict(plain["declaration"]), LearnRules(**plain["settings"]), plain["method"],
        ErrorEstimate(**plain["error"]), Report.from_dict(plain["report"]), arrays, plain["facts"],
    )  # fmt: skip
