"""learn: runs and a declaration of inputs to a model with an error estimate.

Runs have a runtime and folds, and stand in an order that does not depend on the table's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.errors import InputError, printable
from pipeline.inputs.declaration import Declaration, LearnRules, MethodName
from pipeline.inputs.encoding import (
    Encoding,
    encoding_of,
    input_types,
    is_usable,
    numbers_of,
    raw_inputs,
    texts_of,
    truths_of,
)
from pipeline.inputs.input_model import InputModel
from pipeline.inputs.methods import METHODS, candidate_methods
from pipeline.inputs.training import Fitted, Training, on_one_thread
from pipeline.inputs.validation import (
    error_estimate,
    fit_with_bounds,
    grouped_folds,
    left_out_tests,
    leverage_of,
    quantiles,
    same_inputs,
    scores,
    time_folds,
)
from pipeline.report import Report, Tally

LEAST_RUNS = 10


@dataclass(frozen=True, slots=True)
class UsableRuns:
    """The runs that can be learnt from, in their total order: encoded, with runtimes (s) and which are lower bounds."""

    training: Training
    seconds: Floats
    censored: Bools
    folds_by: str
    report: Report

    @property
    def group(self) -> Ints:
        """The runs that were made together, as one number; each run is its own group where no batches are known."""
        batch = self.training.batch
        return batch if batch is not None and self.folds_by == "batch" else np.arange(len(self.seconds))

    def fitted(self) -> tuple[MethodName, Training, Fitted]:
        """The method that the rules name, the runs with lower bounds replaced, and what it learnt from them.

        Of two methods it is the one with the smaller mean error on held folds.
        """
        names = candidate_methods(self.training.rules)
        found = [(name, *fit_with_bounds(METHODS[name], self.training, self.censored)) for name in names]
        return min(found, key=lambda one: self._held_error(one[2]))

    def _held_error(self, fitted: Fitted) -> float:
        """The mean absolute error of the runs whose runtime is known, as a share."""
        error = fitted.held_mean - np.log(self.seconds)
        return float(np.abs(np.expm1(np.minimum(error, 50.0)))[~self.censored].mean())


def usable_runs(runs: pa.Table, declaration: Declaration, rules: LearnRules) -> UsableRuns:
    """The runs that can be learnt from, and a Report of those that cannot.

    InputError where fewer than 10 are left, no input varies, or too few runtimes are known.
    """
    raw, n = raw_inputs(runs, declaration), runs.num_rows
    seconds = numbers_of(runs, declaration.target)
    procs = numbers_of(runs, declaration.procs) if declaration.procs else np.ones(n)
    types = input_types(raw, declaration)
    reasons = _reasons(raw, types, seconds)
    kept = np.flatnonzero(np.logical_not(np.logical_or.reduce(list(reasons.values()))))
    if len(kept) < LEAST_RUNS:
        found = f"{len(kept)} of {n} runs with a positive {declaration.target} and usable inputs"
        raise InputError("runs", found, f"at least {LEAST_RUNS}", "give more runs or fewer inputs")
    batches = texts_of(runs, declaration.batch) if declaration.batch else None
    times = numbers_of(runs, declaration.time) if declaration.time else None
    censored = np.nan_to_num(truths_of(runs, declaration.censored)) if declaration.censored else np.zeros(n)
    order = kept[_total_order(raw, kept, [seconds, censored, procs, times], batches)]
    raw = {name: values[order] for name, values in raw.items()}
    batches, times = (None if values is None else values[order] for values in (batches, times))
    fold, folds_by = _folds(raw, batches, times, rules)
    encoding, is_bound = encoding_of(raw, types), censored[order] > 0
    _check_learnable(encoding, is_bound, fold)
    batch = None if batches is None else _codes(batches)
    report = _report(reasons, kept, seconds, procs, _gap_notes(encoding, len(order)))
    training = Training(encoding.encode(raw), np.log(seconds[order]), fold, batch, encoding, rules)
    return UsableRuns(training, seconds[order], is_bound, folds_by, report)


def _check_learnable(encoding: Encoding, is_bound: Bools, fold: Ints) -> None:
    if not encoding.features:
        raise InputError("inputs", "the same values in all runs", "an input that varies", "declare other inputs")
    if is_bound.mean() > 0.5 or (~is_bound).sum() < np.unique(fold).size:
        found = f"{int(is_bound.sum())} of {len(fold)} runtimes that are lower bounds"
        raise InputError("runs", found, "at most half", "give more runs that ended by themselves")


def _reasons(raw: Mapping[str, Array], types: Mapping[str, str], seconds: Floats) -> dict[str, Bools]:
    """Why runs are set aside; each run counts under the first reason that applies."""
    no_target = np.isnan(seconds)
    not_positive = ~no_target & ~((seconds > 0) & np.isfinite(seconds))
    unusable = ~is_usable(raw, types) & ~no_target & ~not_positive
    return {"no_target": no_target, "target_not_positive": not_positive, "unusable_input": unusable}


def _gap_notes(encoding: Encoding, n_runs: int) -> tuple[str, ...]:
    """One sentence on inputs that some runs do not know; none where all runs know all."""
    gaps = ", ".join(f"{printable(name, 40)} in {count:,}" for name, count in encoding.gaps.items())
    return (f"Of {n_runs:,} runs some do not know an input ({gaps}): unknown is a value of its own.",) if gaps else ()


def _report(reasons: Mapping[str, Bools], kept: Ints, seconds: Floats, procs: Floats, notes: tuple[str, ...]) -> Report:
    # fsum is exact, so that the order of the runs changes no digit.
    work = np.nan_to_num(np.maximum(seconds, 0.0) * procs, posinf=0.0)
    set_aside = {name: Tally(int(where.sum()), fsum(work[where])) for name, where in reasons.items() if where.any()}
    seen, left = Tally(len(work), fsum(work)), Tally(len(kept), fsum(work[kept]))
    return Report("inputs", "run", seen, left, set_aside, notes=notes).check()


def _total_order(raw: Mapping[str, Array], kept: Ints, numbers: list[Floats | None], batches: Array | None) -> Ints:
    """Places of the kept rows in the order of their values: rows that tie are equal in every value that counts."""
    keys = [_codes(values[kept]) for values in [*raw.values(), *[one for one in numbers if one is not None]]]
    if batches is not None:
        keys.append(_codes(batches[kept]))
    return np.lexsort(keys[::-1]).astype(np.int64)


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
    rows = np.stack([_codes(values) for values in raw.values()], axis=1)
    groups = same_inputs(rows)
    if groups.max() + 1 < 3:
        raise InputError("runs", f"{groups.max() + 1} distinct combinations of inputs", "at least 3", "vary the inputs")
    return grouped_folds(groups, rules.folds, rng), "random"


@on_one_thread
def learn(runs: pa.Table, declaration: Declaration, rules: LearnRules) -> InputModel:
    """A model of the runtime over inputs; the same for the same runs in any order.

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
    usable = usable_runs(runs, declaration, rules)
    name, training, fitted = usable.fitted()
    known, group = ~usable.censored, usable.group
    found = scores(training.y, fitted)[known]
    error = error_estimate(training.y, fitted, training.fold, group, known, usable.folds_by)
    scatter, largest = leverage_of(training.x)
    facts: dict[str, Any] = {
        "encoding": asdict(training.encoding), "method": dict(fitted.facts),
        "quantiles": quantiles(found, group[known]), "mean_score": float(found.mean()),
        "largest_leverage": largest,
        "left_out": left_out_tests(METHODS[name], training, fitted, group, known),
    }  # fmt: skip
    return InputModel(declaration, rules, name, error, usable.report, {**fitted.arrays, "scatter": scatter}, facts)
