"""What the page of a model shows: errors by size, effects of inputs, calibration, and the learning curve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Floats, Ints
from pipeline.errors import InputError
from pipeline.inputs.answers import predict
from pipeline.inputs.declaration import Declaration, InputType, LearnRules
from pipeline.inputs.input_model import InputModel
from pipeline.inputs.learning import learn, usable_runs
from pipeline.inputs.validation import scores

MOST_VALUES, MOST_RUNS = 12, 60
"""Values of an input and runs that its effect is averaged over."""
SHARES = (0.25, 0.5, 0.75)
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
MORE_RUNS = 20


@dataclass(frozen=True, slots=True)
class ModelStudy:
    """Plain values for a page.

    sizes: rows of part, n_runs, mean_pct. effects: by input, rows of value, median_s, low_s, high_s. calibration: pairs
    of level and share held. curve: pairs of runs and mean error, per cent. more_runs: what more runs would give.
    """

    sizes: Sequence[Mapping[str, Any]]
    effects: Mapping[str, Sequence[Mapping[str, Any]]]
    calibration: Sequence[tuple[float, float]]
    curve: Sequence[tuple[int, float]]
    more_runs: float | None


def study_model(model: InputModel, runs: pa.Table) -> ModelStudy:
    """The study of a model; it learns from the runs again, and from parts of them."""
    actual_s, predicted_s, rank = held_runs(runs, model.declaration, model.rules)
    error_pct = 100.0 * np.abs(predicted_s / actual_s - 1.0)
    curve = [*learning_curve(model, runs), (model.error.n_runs, model.error.mean_pct)]
    return ModelStudy(
        by_size(actual_s, error_pct),
        {one.name: effect_of(model, runs, one.name) for one in model.declaration.inputs},
        [(level, float((rank <= level).mean())) for level in LEVELS],
        curve,
        error_after(curve, model.error.n_runs + MORE_RUNS),
    )


def by_size(actual_s: Floats, error_pct: Floats) -> list[dict[str, Any]]:
    """Mean errors of the quarters of the runs by runtime; quarters without a run are left out."""
    ends = np.quantile(actual_s, (0.0, 0.25, 0.5, 0.75, 1.0))
    quarter = np.clip(np.searchsorted(ends, actual_s, side="left") - 1, 0, 3)
    return [
        {"from_s": float(actual_s[quarter == q].min()), "to_s": float(actual_s[quarter == q].max()),
         "n_runs": int((quarter == q).sum()), "mean_pct": float(error_pct[quarter == q].mean())}
        for q in range(4) if (quarter == q).any()
    ]  # fmt: skip


def effect_of(model: InputModel, runs: pa.Table, name: str) -> list[dict[str, Any]]:
    """Partial dependence (Friedman 2001): the geometric mean of runtimes with one value of an input in every run.

    `low_s` and `high_s` hold 80% of the runs. A value at which no run is answered is left out.
    """
    kind = next(one.type for one in model.declaration.inputs if one.name == name)
    rng = np.random.default_rng([model.rules.seed, 9])
    some = runs.take(pa.array(np.sort(rng.choice(runs.num_rows, min(runs.num_rows, MOST_RUNS), replace=False))))
    rows = [_effect_at(model, some, name, value) for value in _values(runs.column(name), kind)]
    return [row for row in rows if row]


def _effect_at(model: InputModel, runs: pa.Table, name: str, value: Any) -> dict[str, Any]:
    place = runs.column_names.index(name)
    changed = runs.set_column(place, name, pa.array([value] * runs.num_rows, runs.schema.field(name).type))
    median_s = predict(model, changed).column("median_s").to_numpy()
    median_s = median_s[np.isfinite(median_s)]
    if not len(median_s):
        return {}
    low_s, high_s = np.quantile(median_s, (0.1, 0.9))
    middle_s = float(np.exp(np.log(median_s).mean()))
    return {"value": value, "median_s": middle_s, "low_s": float(low_s), "high_s": float(high_s)}


def _values(column: pa.ChunkedArray, kind: InputType) -> list[Any]:
    """At most 12 values that runs had, in order; the most frequent ones of a category."""
    if kind in (InputType.CATEGORY, InputType.BOOLEAN):
        counts = column.drop_null().value_counts().to_pylist()
        often = sorted(counts, key=lambda one: (-one["counts"], str(one["values"])))[:MOST_VALUES]
        return sorted((one["values"] for one in often), key=str)
    found: Array = np.unique(column.drop_null().to_numpy())
    places = np.unique(np.linspace(0, len(found) - 1, min(len(found), MOST_VALUES)).astype(int))
    return [found[place].item() for place in places]


def learning_curve(model: InputModel, runs: pa.Table) -> list[tuple[int, float]]:
    """Runs and mean error (per cent) of models of nested parts of the runs; parts with too few runs are left out."""
    order = np.random.default_rng([model.rules.seed, 10]).permutation(runs.num_rows)
    rules = replace(model.rules, method=model.method)
    found: list[tuple[int, float]] = []
    for share in SHARES:
        part = runs.take(pa.array(np.sort(order[: int(share * runs.num_rows)])))
        try:
            error = learn(part, model.declaration, rules).error
        except InputError:
            continue
        found.append((error.n_runs, error.mean_pct))
    return found


def error_after(curve: Sequence[tuple[int, float]], n_runs: int) -> float | None:
    """The error (per cent) that the curve leads to at a number of runs: a power law by least squares of logarithms.

    None with fewer than three points, or where the errors do not fall with more runs.
    """
    known = [(n, error) for n, error in curve if error > 0]
    if len(known) < 3:
        return None
    logs = np.log(np.array(known, float))
    slope, _ = np.polyfit(logs[:, 0], logs[:, 1], 1)
    last_n, last_error = known[-1]
    return float(last_error * (n_runs / last_n) ** slope) if slope < 0 else None


def held_runs(runs: pa.Table, declaration: Declaration, rules: LearnRules) -> tuple[Floats, Floats, Floats]:
    """(runs,) each: measured runtimes, those that folds without the run predict (s), and the ranks of their errors.

    Lower bounds are left out. A rank is the share of the other folds' scaled errors that are smaller: uniform where
    intervals hold what they say. InputError as in `learn`.
    """
    usable = usable_runs(runs, declaration, rules)
    _, training, fitted = usable.fitted()
    known = ~usable.censored
    ratio = np.exp(fitted.held_mean - training.y)[known]
    rank = ranks(scores(training.y, fitted)[known], training.fold[known])
    actual_s = usable.seconds[known]
    return actual_s, actual_s * ratio, rank


def ranks(found: Floats, fold: Ints) -> Floats:
    """(runs,) for each score the share of the other folds' scores that are smaller."""
    rank = np.zeros(len(found))
    for k in np.unique(fold):
        others = np.sort(found[fold != k])
        rank[fold == k] = np.searchsorted(others, found[fold == k], side="left") / max(len(others), 1)
    return rank
