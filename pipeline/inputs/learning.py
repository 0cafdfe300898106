"""learn: runs and a declaration of inputs to a model with an error estimate; and the model's files.

Runs have a runtime and folds, and stand in an order that does not depend on the table's.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.errors import InputError, printable
from pipeline.inputs.declaration import Declaration, InputType, LearnRules, parsed_formula
from pipeline.inputs.encoding import (
    Training,
    encoding_of,
    input_types,
    is_usable,
    numbers_of,
    raw_inputs,
    texts_of,
    texts_of_values,
    truths_of,
)
from pipeline.inputs.gaussian_process import one_thread, trial_errors
from pipeline.inputs.trees import with_trees
from pipeline.inputs.validation import (
    ErrorEstimate,
    fit_with_bounds,
    grouped_folds,
    leverage_of,
    time_folds,
    validated,
)
from pipeline.report import Report, Tally, parsed_json
from pipeline.schema import TableKind, number
from pipeline.storage import read_table, write_table, write_text

METHODS = ("gp", "gp+trees")
LEAST_RUNS = 10


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


@dataclass(frozen=True, slots=True)
class UsableRuns:
    """The runs that can be learnt from, in their total order, with their inputs as read, and which are lower bounds.

    `group` numbers the runs that were made together; each run is its own group where no batches are known.
    """

    training: Training
    raw: Mapping[str, Array]
    censored: Bools
    group: Ints
    folds_by: str
    report: Report


def usable_runs(runs: pa.Table, declaration: Declaration, rules: LearnRules, codes: tuple[str, ...] = ()) -> UsableRuns:
    """The runs that can be learnt from, and a Report of those that cannot; it names inputs that were found to be codes.

    InputError where fewer than 10 are left, no input varies, or too few runtimes are known.
    """
    # The columns, and why a run is set aside: each counts under the first reason that applies.
    raw, n = raw_inputs(runs, declaration), runs.num_rows
    seconds = numbers_of(runs, declaration.target)
    procs = numbers_of(runs, declaration.procs) if declaration.procs else np.ones(n)
    batches = texts_of(runs, declaration.batch) if declaration.batch else None
    times = numbers_of(runs, declaration.time) if declaration.time else None
    censored = np.nan_to_num(truths_of(runs, declaration.censored)) if declaration.censored else np.zeros(n)
    types, left = input_types(raw, declaration), np.ones(n, bool)
    reasons = {
        "no_target": np.isnan(seconds), "target_not_positive": ~((seconds > 0) & np.isfinite(seconds)),
        "unusable_input": ~is_usable(raw, types),
    }  # fmt: skip
    # fsum is exact, so that the order of the runs changes no digit.
    work, set_aside = np.nan_to_num(np.maximum(seconds, 0.0) * procs, posinf=0.0), {}
    for name, where in reasons.items():
        if (found := left & where).any():
            set_aside[name] = Tally(int(found.sum()), fsum(work[found]))
        left &= ~where
    kept = np.flatnonzero(left)
    if len(kept) < LEAST_RUNS:
        few = f"{len(kept)} of {n} runs with a positive {declaration.target} and usable inputs"
        raise InputError("runs", few, f"at least {LEAST_RUNS}", "give more runs or fewer inputs")
    # The order of their values: rows that tie are equal in every value that counts.
    keys = [*raw.values(), seconds, censored, procs, times, batches]
    ranks = [_codes(values[kept]) for values in keys if values is not None]
    order = kept[np.lexsort(ranks[::-1])]
    raw = {name: values[order] for name, values in raw.items()}
    batches, times = (None if values is None else values[order] for values in (batches, times))
    fold, folds_by = _folds(raw, batches, times, rules)
    encoding, is_bound = encoding_of(raw, types), censored[order] > 0
    if not encoding.features:
        raise InputError("inputs", "the same values in all runs", "an input that varies", "declare other inputs")
    if is_bound.mean() > 0.5 or (~is_bound).sum() < np.unique(fold).size:
        bounds = f"{int(is_bound.sum())} of {len(fold)} runtimes that are lower bounds"
        raise InputError("runs", bounds, "at most half", "give more runs that ended by themselves")
    batch = None if batches is None else _codes(batches)
    training = Training(encoding.encode(raw), np.log(seconds[order]), fold, batch, encoding, rules)
    # What a person is told of them.
    notes = []
    if encoding.gaps:
        unknown = ", ".join(f"{printable(name, 40)} in {count:,}" for name, count in encoding.gaps.items())
        notes.append(f"Of {len(order):,} runs some do not know an input ({unknown}): unknown is a value of its own.")
    if codes:
        names = ", ".join(printable(name, 40) for name in codes)
        notes.append(f"Numbers that are used as categories, because that lowers the error on held runs: {names}.")
    seen, used = Tally(n, fsum(work)), Tally(len(kept), fsum(work[kept]))
    report = Report("inputs", "run", seen, used, set_aside, notes=tuple(notes)).check()
    group = batch if batch is not None and folds_by == "batch" else np.arange(len(order))
    return UsableRuns(training, raw, is_bound, group, folds_by, report)


def _codes(values: Array) -> Ints:
    if values.dtype == object:
        values = np.array(["" if value is None else f"={value}" for value in values])
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _folds(raw: Mapping[str, Array], batches: Array | None, times: Array | None, rules: LearnRules) -> tuple[Ints, str]:
    """The fold of each run, and what the folds follow; too few batches or instants fall back to random folds."""
    rng = np.random.default_rng([rules.seed, 0])
    if batches is not None and len(set(batches)) >= 3:
        return grouped_folds(_codes(batches), rules.folds, rng), "batch"
    if times is not None and np.isfinite(times).all() and len(np.unique(times)) >= 3:
        return time_folds(times, rules.folds), "time"
    # Runs of the same inputs share a fold: repeats of a run tell nothing about runs of other inputs.
    rows = np.stack([_codes(values) for values in raw.values()], axis=1)
    groups = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if groups.max() + 1 < 3:
        raise InputError("runs", f"{groups.max() + 1} distinct combinations of inputs", "at least 3", "vary the inputs")
    return grouped_folds(groups, rules.folds, rng), "random"


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
    tried = [one.name for one in declaration.inputs if one.is_inferred and one.name not in counted]
    tried = [name for name in tried if _may_be_codes(usable.raw[name], len(sample))]
    found: list[str] = []
    errors = np.abs(trial_errors(every.rows(sample))) if tried else np.empty(0)
    for name in (*tried, *tried):
        if name in found:
            continue
        raw = {**usable.raw, **{one: texts_of_values(usable.raw[one].tolist()) for one in (*found, name)}}
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
    if values.dtype == object:
        return False
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
