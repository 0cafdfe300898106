"""learn: runs and a declaration of inputs to a model with an error estimate; and the model's files."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Floats
from pipeline.errors import InputError, printable
from pipeline.inputs.declaration import Declaration, InputType, LearnRules, parsed_formula
from pipeline.inputs.encoding import UsableRuns, encoding_of, texts_of, usable_runs
from pipeline.inputs.gaussian_process import one_thread, trial_errors
from pipeline.inputs.trees import with_trees
from pipeline.inputs.validation import ErrorEstimate, fit_with_bounds, leverage_of, validated
from pipeline.report import Report, parsed_json
from pipeline.schema import TableKind
from pipeline.storage import read_table, write_table, write_text
from pipeline.tables import columns

METHODS = ("gp", "gp+trees")


@dataclass(frozen=True, slots=True)
class InputModel:
    """A learnt model. `arrays` and `facts` belong to the processes, the trees and the checks of points."""

    declaration: Declaration
    rules: LearnRules
    method: str
    """One of METHODS."""
    error: ErrorEstimate
    report: Report
    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]


@one_thread()
def learn(runs: pa.Table, declaration: Declaration, rules: LearnRules) -> InputModel:
    """A model of the runtime over inputs; the same for the same runs in any order.

    Whole numbers whose type is inferred are taken as codes of categories where held runs show that they are.

    Parameters
    ----------
    runs : pa.Table
        One row a run, with the columns that the declaration names.
    declaration : Declaration
        Inputs, derived inputs, and columns with a role: target (s), procs, batch, time, censored.
    rules : LearnRules
        Method, folds, seed, and what to do outside the runs.

    Returns
    -------
    InputModel
        The learnt model; `error` is its error on held folds, `report` counts the runs set aside.

    Raises
    ------
    InputError
        If a column is missing or has another type, a formula does not parse, fewer than 10 runs are usable, or no input
        varies.

    Examples
    --------
    >>> from pipeline.inputs.declaration import Input, InputType
    >>> runs = pa.table({"n": list(range(1, 31)), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = learn(runs, Declaration(inputs=(Input(name="n", type=InputType.LOG_NUMBER),)), LearnRules())
    >>> model.method, model.error.n_runs, model.error.mean_pct < 5
    ('gp', 30, True)
    """
    # The runs that can be learnt from. Inputs that turn out to be codes are read anew, as if declared as categories.
    usable = usable_runs(runs, declaration, rules)
    if codes := codes_among(usable, declaration):
        declaration = as_categories(declaration, codes)
        usable = usable_runs(runs, declaration, rules, codes)
    # Gaussian processes, and trees for what they leave. The scores on held folds make the intervals.
    training, fitted = fit_with_bounds(usable.training, usable.censored)
    if rules.method == "auto":
        fitted = with_trees(training, fitted)
    error, facts = validated(training, fitted, usable.group, ~usable.censored, usable.folds_by)
    # What says whether a point is outside the runs.
    scatter, largest = leverage_of(training.x)
    facts |= {"encoding": asdict(training.encoding), "largest_leverage": largest}
    method = METHODS["value" in fitted.arrays]
    return InputModel(declaration, rules, method, error, usable.report, {**fitted.arrays, "scatter": scatter}, facts)


LEAST_CODES, MOST_CODES, LARGEST_CODE = 3, 20, 50
"""Distinct values of an input that may be a code, and the largest one: numbers of variants are small and dense."""
RUNS_PER_CODE = 5
TRIAL_RUNS = 1000
LEAST_GAIN, LEAST_Z = 0.03, 2.0
"""Least fall of the mean error by which numbers are taken for codes: a share of it, and in standard errors."""


def codes_among(usable: UsableRuns, declaration: Declaration) -> tuple[str, ...]:
    """The inputs with an inferred type whose whole numbers name variants, as 0, 3 and 6 do for three solvers.

    Each is tried as a category beside those found before, and taken where a process then errs less on held folds. One
    may matter only beside others, so that each is tried twice.
    """
    every, known = usable.training, np.flatnonzero(~usable.censored)
    sample = known if len(known) <= TRIAL_RUNS else np.sort(every.rng(6).choice(known, TRIAL_RUNS, replace=False))
    counted = {name for one in declaration.derived for name in parsed_formula(one.formula).names}
    counted |= {declaration.procs or ""}
    numbers = [one.name for one in declaration.inputs if one.is_inferred and one.type != InputType.CATEGORY]
    tried = [name for name in numbers if name not in counted and _may_be_codes(usable.raw[name], len(sample))]
    found: list[str] = []
    errors = np.abs(trial_errors(every.rows(sample))) if tried else np.empty(0)
    for name in (*tried, *tried):
        if name in found:
            continue
        raw = {**usable.raw, **{one: texts_of(pa.table({one: usable.raw[one]}), one) for one in (*found, name)}}
        encoding = encoding_of(raw, {**every.encoding.types, **dict.fromkeys((*found, name), "category")})
        trial = replace(every, x=encoding.encode(raw), encoding=encoding)
        lower = np.abs(trial_errors(trial.rows(sample)))
        gain = errors - lower
        if gain.mean() > max(LEAST_GAIN * errors.mean(), LEAST_Z * gain.std() / np.sqrt(len(gain))):
            found.append(name)
            errors = lower
    return tuple(found)


def _may_be_codes(values: Array, n_runs: int) -> bool:
    """Whether numbers are whole, few and small, and no powers of two alone, which are counts."""
    distinct = np.unique(values[~np.isnan(values)])
    if not LEAST_CODES <= len(distinct) <= min(MOST_CODES, n_runs // RUNS_PER_CODE) or (distinct % 1).any():
        return False
    are_powers = distinct[0] > 0 and not (np.log2(distinct) % 1).any()
    return bool(np.abs(distinct).max() <= LARGEST_CODE) and not are_powers


def as_categories(declaration: Declaration, names: tuple[str, ...]) -> Declaration:
    """The declaration with these inputs as categories."""
    inputs = (replace(one, type=InputType.CATEGORY) if one.name in names else one for one in declaration.inputs)
    return replace(declaration, inputs=tuple(inputs))


ARRAYS = TableKind(
    "INPUT_ARRAYS",
    columns("value"),
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
    text, values = packed_model(model, indent=1)
    write_table(folder / "arrays.parquet", ARRAYS.build(value=values), ARRAYS)
    write_text(folder / "model.json", text + "\n")
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
        text = (folder / "model.json").read_bytes()
    except FileNotFoundError:
        raise InputError(where, "no such file", "a model", "run walltime inputs learn first") from None
    return unpacked_model(where, text, read_table(folder / "arrays.parquet", ARRAYS).column("value").to_numpy())


def packed_model(model: InputModel, indent: int | None = None) -> tuple[str, Floats]:
    """A model as JSON, with the shapes of its arrays, and the values of these one after the other."""
    # Fortran order in an array of LAPACK would otherwise be lost in the values.
    arrays = {name: np.ascontiguousarray(model.arrays[name], np.float64) for name in sorted(model.arrays)}
    plain = {
        "format": FORMAT, "method": model.method, "declaration": asdict(model.declaration),
        "settings": asdict(model.rules), "error": asdict(model.error), "report": model.report.as_dict(),
        "facts": model.facts, "shapes": {name: list(values.shape) for name, values in arrays.items()},
    }  # fmt: skip
    text = json.dumps(plain, indent=indent, sort_keys=True, ensure_ascii=False)
    return text, np.concatenate([values.reshape(-1) for values in arrays.values()])


def unpacked_model(where: str, text: str | bytes, values: Floats) -> InputModel:
    """The inverse of `packed_model`; InputError, with where it stood, where it is damaged or of another version."""
    try:
        plain = parsed_json(text)
    except (TypeError, ValueError) as error:
        raise InputError(where, f"no JSON ({printable(str(error), 80)})", "a model", "learn it again") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT or plain.get("method") not in METHODS:
        raise InputError(where, "a file of another version or kind", f"a model of version {FORMAT}", "learn it again")
    try:
        shapes = plain["shapes"]
        ends = np.cumsum([int(np.prod(shapes[name])) for name in sorted(shapes)])
        parts = zip(sorted(shapes), np.split(values, ends), strict=False)
        return InputModel(
            Declaration.from_dict(plain["declaration"]), LearnRules(**plain["settings"]), plain["method"],
            ErrorEstimate(**plain["error"]), Report.from_dict(plain["report"]),
            {name: part.reshape(shapes[name]) for name, part in parts}, plain["facts"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"a damaged model ({printable(str(error).splitlines()[0], 80)})"
        raise InputError(where, found, "what Walltime wrote", "learn it again") from None
