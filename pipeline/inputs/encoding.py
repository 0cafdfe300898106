"""From a table to the runs that a model is learnt from: usable rows, their order, their folds, and inputs as numbers.

Numbers are read as floats, categories as texts, and derived inputs are computed. Encoded are logarithms of log_numbers,
and one column for each value of a category. Points are read and encoded as runs are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints, floats_of
from pipeline.errors import InputError, did_you_mean, printable
from pipeline.inputs.declaration import Declaration, Input, InputType, LearnRules, parsed_formula
from pipeline.report import Report, Tally

LEAST_RUNS = 10
TRUTHS = {"true": 1.0, "yes": 1.0, "1": 1.0, "1.0": 1.0, "false": 0.0, "no": 0.0, "0": 0.0, "0.0": 0.0, None: np.nan}


def usable_runs(
    runs: pa.Table, declaration: Declaration, rules: LearnRules, codes: tuple[str, ...] = ()
) -> "UsableRuns":
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
    batch = None if batches is None else _codes(batches[order])
    fold, folds_by = _folds(raw, batch, None if times is None else times[order], rules)
    encoding, is_bound = encoding_of(raw, types), censored[order] > 0
    if not encoding.features:
        raise InputError("inputs", "the same values in all runs", "an input that varies", "declare other inputs")
    if is_bound.mean() > 0.5 or (~is_bound).sum() < np.unique(fold).size:
        bounds = f"{int(is_bound.sum())} of {len(fold)} runtimes that are lower bounds"
        raise InputError("runs", bounds, "at most half", "give more runs that ended by themselves")
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


@dataclass(frozen=True, slots=True)
class UsableRuns:
    """The runs that can be learnt from, in their total order, with their inputs as read, and which are lower bounds.

    `group` numbers the runs that were made together; each run is its own group where no batches are known.
    """

    training: "Training"
    raw: Mapping[str, Array]
    censored: Bools
    group: Ints
    folds_by: str
    report: Report


@dataclass(frozen=True, slots=True)
class Training:
    """Runs to learn from: x (runs, features) standardised, y log runtimes (log s), the fold of each run.

    `batch` numbers the runs' batches, where a column of batches is declared.
    """

    x: Floats
    y: Floats
    fold: Ints
    batch: Ints | None
    encoding: "Encoding"
    rules: LearnRules

    @property
    def n_folds(self) -> int:
        """How many folds there are; every one of them has runs."""
        return int(self.fold.max()) + 1

    def rows(self, chosen: Ints) -> "Training":
        """Some of the runs; their folds are numbered anew where one has no run left."""
        fold = np.unique(self.fold[chosen], return_inverse=True)[1].astype(np.int64)
        batch = None if self.batch is None else self.batch[chosen]
        return replace(self, x=self.x[chosen], y=self.y[chosen], fold=fold, batch=batch)

    def some(self, rng: np.random.Generator, most: int) -> "Training":
        """At most so many of the runs, drawn; all folds keep their numbers."""
        if len(self.y) <= most:
            return self
        rows = np.sort(rng.choice(len(self.y), most, replace=False))
        return replace(self.rows(rows), fold=self.fold[rows])

    def rng(self, purpose: int) -> np.random.Generator:
        """Random numbers that depend on the seed and the purpose alone."""
        return np.random.default_rng([self.rules.seed, purpose])


def _codes(values: Array) -> Ints:
    if values.dtype == object:
        values = np.array(["" if value is None else f"={value}" for value in values])
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _folds(raw: Mapping[str, Array], batch: Ints | None, times: Floats | None, rules: LearnRules) -> tuple[Ints, str]:
    """The fold of each run, and what the folds follow; too few batches or instants fall back to random folds."""
    rng = np.random.default_rng([rules.seed, 0])
    if batch is not None and len(set(batch)) >= 3:
        return grouped_folds(batch, rules.folds, rng), "batch"
    if times is not None and np.isfinite(times).all() and len(np.unique(times)) >= 3:
        return time_folds(times, rules.folds), "time"
    # Runs of the same inputs share a fold: repeats of a run tell nothing about runs of other inputs.
    rows = np.stack([_codes(values) for values in raw.values()], axis=1)
    groups = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if groups.max() + 1 < 3:
        raise InputError("runs", f"{groups.max() + 1} distinct combinations of inputs", "at least 3", "vary the inputs")
    return grouped_folds(groups, rules.folds, rng), "random"


def grouped_folds(groups: Ints, n_folds: int, rng: np.random.Generator) -> Ints:
    """A fold for each run; runs of one group share a fold, and folds have about equal numbers of runs.

    Groups are taken from the largest to the smallest, each into the smallest fold so far; ties are drawn.
    """
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    totals, fold_of = np.zeros(min(n_folds, len(sizes)), np.int64), np.zeros(len(sizes), np.int64)
    for group in order:
        fold_of[group] = np.argmin(totals)
        totals[fold_of[group]] += sizes[group]
    return fold_of[groups]


def time_folds(times: Floats, n_folds: int) -> Ints:
    """Blocks of equal numbers of runs in order of time; runs of one instant share a block."""
    values, codes = np.unique(times, return_inverse=True)
    ends = np.cumsum(np.bincount(codes, minlength=len(values)))
    block = np.minimum((ends - 1) * n_folds // len(times), n_folds - 1)
    return np.unique(block[codes], return_inverse=True)[1].astype(np.int64)


def raw_inputs(table: pa.Table, declaration: Declaration) -> dict[str, Array]:
    """Values of every declared and derived input, (rows,) each: floats with NaN for unknown, or texts with None.

    InputError where a column is missing, a value does not have the declared type, or a formula reads no number.
    """
    readers: dict[InputType, Callable[[pa.Table, str], Array]] = {
        InputType.NUMBER: numbers_of, InputType.LOG_NUMBER: numbers_of,
        InputType.BOOLEAN: truths_of, InputType.CATEGORY: texts_of,
    }  # fmt: skip
    found = {one.name: readers[one.type](table, one.name) for one in declaration.inputs}
    for one in declaration.derived:
        parsed, where = parsed_formula(one.formula), f"formula {printable(one.formula, 80)}"
        for name in sorted(parsed.names):
            if name not in found:
                raise _unknown(where, name, found)
            if found[name].dtype.kind != "f":
                raise InputError(where, f"{printable(name)}, which is a category", "inputs that are numbers")
        found[one.name] = parsed.evaluate(found, table.num_rows)
    return found


def inferred_inputs(runs: pa.Table, names: Sequence[str]) -> tuple[Input, ...]:
    """A type for each column: texts are categories; two values of 0 and 1 a boolean; other numbers that are never
    negative log_number. `learn` may find that whole numbers are codes, and takes them as categories."""
    return tuple(Input(name, _inferred(column_of(runs, name)), is_inferred=True) for name in names)


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column; InputError that names the nearest one where it is missing."""
    if name not in table.column_names:
        raise _unknown("columns", name, table.column_names)
    return table.column(name)


def numbers_of(table: pa.Table, name: str) -> Floats:
    """A column of numbers, NaN for null; InputError where it holds something else."""
    column = column_of(table, name)
    try:
        return floats_of(column.cast(pa.float64(), safe=False))
    except pa.ArrowInvalid:
        raise InputError(f"column {printable(name)}", "texts", "numbers", "declare it as a category") from None
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise InputError(f"column {printable(name)}", f"values of type {column.type}", "numbers") from None


def truths_of(table: pa.Table, name: str) -> Floats:
    """A column of yes and no as 1 and 0, NaN for null; InputError for any other value."""
    lower = [text.lower() if text is not None else None for text in texts_of(table, name)]
    strange = next((text for text in lower if text not in TRUTHS), None)
    if strange is not None:
        raise InputError(f"column {printable(name)}", printable(strange, 40), "true, false, yes, no, 1 or 0")
    return np.array([TRUTHS[text] for text in lower], np.float64)


def texts_of(table: pa.Table, name: str) -> Array:
    """A column as texts, None for null; whole numbers have no decimals, so that 1.0 and 1 are the same category."""
    return np.array([_text(value) for value in column_of(table, name).to_pylist()], dtype=object)


def _text(value: object) -> str | None:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _inferred(column: pa.ChunkedArray) -> InputType:
    if pa.types.is_boolean(column.type):
        return InputType.BOOLEAN
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return InputType.CATEGORY
    values = floats_of(column.cast(pa.float64(), safe=False))
    values = values[np.isfinite(values)]
    if len(values) and set(np.unique(values)) <= {0.0, 1.0}:
        return InputType.BOOLEAN
    return InputType.LOG_NUMBER if len(values) and values.min() >= 0 else InputType.NUMBER


def _unknown(where: str, name: str, known: Iterable[str]) -> InputError:
    names = sorted(known)
    expected = f"one of {printable(', '.join(names), 200)}"
    return InputError(where, f"no {printable(name)}", expected, did_you_mean(name, names))


LOG, GAP = str(InputType.LOG_NUMBER), "gap"
"""The types of features that are logarithms, and of those that say whether an input is unknown."""
MOST_COLUMNS = 50
"""Values of a category with a column of their own, the most frequent ones; the others share what is left."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One encoded column: the input it comes from, and how its value is shifted and scaled.

    `level` is the value of a category that has 1 here. `low` and `high` bound the runs' values, in encoded units.
    """

    name: str
    type: str
    level: str | None = None
    mean: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    shift: float = 0.0
    """What is added before the logarithm: the smallest positive value of a log_number that can be zero."""

    def of_runs(self, values: Array) -> "Feature":
        """This feature with the shift, the scale and the bounds of the values of the runs."""
        found = self
        if self.type == LOG and np.nanmin(values) <= 0 < np.nanmax(values):
            found = replace(self, shift=float(values[values > 0].min()))
        columns = found.column(values)
        known = columns[~np.isnan(columns)]
        mean, scale = float(known.mean()), float(known.std())
        low, high = ((float(end) - mean) / scale for end in (known.min(), known.max()))
        return replace(found, mean=mean, scale=scale, low=low, high=high)

    def column(self, values: Array) -> Floats:
        """(rows,) the feature of an input's values, neither shifted to a mean of 0 nor scaled; NaN where unknown."""
        if self.type == GAP:
            return is_unknown(values).astype(np.float64)
        if self.level is not None:
            return np.array([value == self.level for value in values], np.float64)
        if self.type != LOG:
            return values
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(values + self.shift > 0, np.log(values + self.shift), np.nan)

    def bound(self, side: str) -> float:
        """The least ("low") or largest ("high") value of the runs in the input's own unit."""
        value = (self.low if side == "low" else self.high) * self.scale + self.mean
        return float(np.exp(value)) - self.shift if self.type == LOG else value


@dataclass(frozen=True, slots=True)
class Encoding:
    """How inputs become columns. Inputs with one known value in all runs have no column; `constant` holds them.

    `gaps` counts for each input the runs that do not know it: an unknown value is a value of its own there.
    """

    features: tuple[Feature, ...]
    levels: Mapping[str, tuple[str, ...]]
    constant: Mapping[str, float | None]
    types: Mapping[str, str]
    gaps: Mapping[str, int]

    def encode(self, raw: Mapping[str, Array]) -> Floats:
        """(rows, features) standardised numbers; an unknown number is the mean, and 1 in the input's column of gaps.

        A new value of a category has 0 in all of the category's columns, before they are standardised.
        """
        n_rows = len(next(iter(raw.values())))
        columns = [(one.column(raw[one.name]) - one.mean) / one.scale for one in self.features]
        return np.nan_to_num(np.stack(columns, axis=1)) if columns else np.zeros((n_rows, 0))


def encoding_of(raw: Mapping[str, Array], types: Mapping[str, str]) -> Encoding:
    """The encoding of usable rows."""
    features: list[Feature] = []
    levels: dict[str, tuple[str, ...]] = {}
    constant: dict[str, float | None] = {}
    gaps: dict[str, Bools] = {}
    for name, values in raw.items():
        is_gap = is_unknown(values)
        known, found = values[~is_gap], list[Feature]()
        if is_gap.any():
            # Inputs that are unknown in the same runs have one column of gaps.
            if not is_gap.all() and not any((is_gap == other).all() for other in gaps.values()):
                found.append(Feature(name, GAP))
            gaps[name] = is_gap
        if types[name] == InputType.CATEGORY:
            counts = Counter(sorted(known))
            levels[name] = tuple(counts)
            if len(counts) > 1:
                often = sorted(level for level, _ in counts.most_common(MOST_COLUMNS))
                found += [Feature(name, types[name], level) for level in often]
        elif len(known) and known.max() > known.min():
            found.append(Feature(name, types[name]))
        else:
            constant[name] = float(known[0]) if len(known) else None
        features += [one.of_runs(values) for one in found]
    n_unknown = {name: int(is_gap.sum()) for name, is_gap in gaps.items()}
    return Encoding(tuple(features), levels, constant, dict(types), n_unknown)


def input_types(raw: Mapping[str, Array], declaration: Declaration) -> dict[str, str]:
    """The type of each input; a derived one is a log_number where no value is negative."""
    types = {one.name: str(one.type) for one in declaration.inputs}
    for one in declaration.derived:
        known = raw[one.name][np.isfinite(raw[one.name])]
        is_log = len(known) > 0 and known.min() >= 0
        types[one.name] = str(InputType.LOG_NUMBER if is_log else InputType.NUMBER)
    return types


def is_unknown(values: Array) -> Bools:
    """Where a number is NaN or a text is None."""
    return np.array([value is None for value in values], bool) if values.dtype == object else np.isnan(values)


def is_usable(raw: Mapping[str, Array], types: Mapping[str, str]) -> Bools:
    """Rows without an infinite number, and without a negative one where its logarithm is taken."""
    numbers = {name: values for name, values in raw.items() if types[name] != InputType.CATEGORY}
    bad = [np.isinf(values) | ((values < 0) & (types[name] == LOG)) for name, values in numbers.items()]
    found: Bools = ~np.logical_or.reduce([np.zeros(len(next(iter(raw.values()))), bool), *bad])
    return found
