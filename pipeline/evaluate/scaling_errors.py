"""How far predictors are off on measured series: some sizes given, the others predicted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, floats, median
from pipeline.laws import LAWS
from pipeline.report import Report, Tally, count_done
from pipeline.scaling.adept import find, runtime_s
from pipeline.scaling.average import ObservedSeries
from pipeline.scaling.fit import fit_law
from pipeline.scaling.series import ObservedSizes, PredictRules, SeriesBatch, extra_runs, pooled, run_log_sd
from pipeline.tables import SCALING_ERRORS

SPLITS = ((3, "smallest"), (4, "smallest"), (5, "smallest"), (3, "spread"), (4, "spread"))
"""How many sizes of a measured series are given to predict the others, and which."""

MIN_SIZES = 4
"""Least number of sizes of a series."""

NEAR = 4.0
"""Largest ratio of a near target to the largest given size."""


@dataclass(frozen=True, slots=True)
class PredictionTask:
    """k concatenated series, each sorted by distinct procs: series i is the slice offsets[i]:offsets[i + 1].

    Per series: `application`, an integer that series of one application share. Per size: `procs`, `runtime_s` (median
    of the runs), `n_runs`, and `log_sd`, the standard deviation of repeats (log s, NaN for a single run). Per target,
    in any order: `target_series` (0 to k - 1) and `target_procs`.
    """

    offsets: Ints
    application: Ints
    procs: Floats
    runtime_s: Floats
    n_runs: Floats
    log_sd: Floats
    target_series: Ints
    target_procs: Floats


Predictor = Callable[[PredictionTask], Floats]
"""Predicted runtime (s) per target, float64; NaN where the predictor has no answer."""


@dataclass(frozen=True, slots=True)
class Split:
    """One way to divide every series: its name, what is asked, and per target the runtime measured (s)."""

    name: str
    asked: PredictionTask
    measured_s: Floats
    is_near: Bools


def evaluate_scaling(
    observations: pa.Table, applications: Mapping[str, str], predictors: Mapping[str, Predictor]
) -> tuple[pa.Table, Report]:
    """SCALING_ERRORS of every predictor and split; the Report counts series.

    `applications` names the application of each group_id, for predictors that let its series inform each other: they
    see of each the sizes that the split gives. A target that a predictor leaves open counts as an infinite error, so
    that medians of different predictors are over the same targets; null where the median itself is open.

    Parameters
    ----------
    observations : pa.Table
        OBSERVATIONS of measured series.
    applications : mapping of str to str
        Application of each group_id.
    predictors : mapping of str to callable
        Predictors by name, which map a task of k targets to float64[k] runtimes, s.

    Returns
    -------
    table : pa.Table
        SCALING_ERRORS: relative errors by predictor and split.
    report : Report
        Number of series.

    Examples
    --------
    >>> from pipeline.evaluate.scaling_errors import PREDICTORS
    >>> observed = tables["observed"]
    >>> names = {group: "cfd" for group in observed.column("group_id").to_pylist()}
    >>> table, report = evaluate_scaling(observed, names, {"average": PREDICTORS["average"]})
    >>> set(table.column("predictor").to_pylist()) <= {"average"}, report.stage
    (True, 'evaluate_scaling')
    """
    splits, n_seen, n_kept = make_splits(observations, applications)
    rows = []
    for name, predictor in predictors.items():
        for split in splits:
            rows.append(_row(name, split, predictor(split.asked)))
            count_done("predicted targets", len(split.measured_s))
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]} if rows else {}
    table = SCALING_ERRORS.build(**columns) if rows else SCALING_ERRORS.empty()
    set_aside = {"too_few_sizes": Tally(n_seen - n_kept)} if n_kept < n_seen else {}
    facts = {f"targets of {split.name}": len(split.measured_s) for split in splits}
    return table, Report("evaluate_scaling", "series", Tally(n_seen), Tally(n_kept), set_aside, facts).check()


def make_splits(observations: pa.Table, applications: Mapping[str, str]) -> tuple[list[Split], int, int]:
    """Every split that leaves a target somewhere; how many series there are, and how many have sizes enough."""
    usable = ObservedSizes.of(observations, with_odd=True)
    kept = np.flatnonzero(usable.batch.n_points >= MIN_SIZES)
    series = [usable.batch.sizes_of(np.array([k])) for k in kept]
    names = sorted(set(applications.values()))
    application = np.array([names.index(applications[usable.ids[k]]) for k in kept], np.int64)
    splits = [
        _split(f"{count} {which}", divided, usable, application)
        for count, which in SPLITS
        if (
            divided := [
                (k, rows, _given(count, which, len(rows))) for k, rows in enumerate(series) if count < len(rows)
            ]
        )
    ]
    return splits, len(pc.unique(observations.column("group_id"))), len(series)


def _given(count: int, which: str, n_sizes: int) -> Bools:
    """Which of the sizes of a series a split gives."""
    places = np.arange(n_sizes)
    return places < count if which == "smallest" else np.isin(places, np.round(np.linspace(0, n_sizes - 1, count)))


def _split(name: str, divided: Sequence[tuple[int, Ints, Bools]], usable: ObservedSizes, application: Ints) -> Split:
    procs, runtime_s = usable.batch.procs, usable.batch.runtime_s
    given = [rows[is_given] for _, rows, is_given in divided]
    asked = [rows[~is_given] for _, rows, is_given in divided]
    seen, targets = np.concatenate(given), np.concatenate(asked)
    series = np.repeat(np.arange(len(divided)), [len(rows) for rows in asked])
    first, last = (np.array([procs[rows[place]] for rows in given])[series] for place in (0, -1))
    question = PredictionTask(
        offsets=np.cumsum([0, *(len(rows) for rows in given)]),
        application=application[[k for k, _, _ in divided]],
        procs=procs[seen],
        runtime_s=runtime_s[seen],
        n_runs=floats(usable.table, "n_jobs")[seen],
        log_sd=floats(usable.table, "log_sd")[seen],
        target_series=series,
        target_procs=procs[targets],
    )
    distance = np.maximum(procs[targets] / last, first / procs[targets])
    return Split(name, question, runtime_s[targets], distance <= NEAR * (1 + 1e-9))


def _row(name: str, split: Split, predicted_s: Floats) -> dict[str, object]:
    error = np.abs(predicted_s / split.measured_s - 1.0) * 100.0
    is_answered = np.isfinite(error)
    error = np.where(is_answered, error, np.inf)
    return {
        "predictor": name,
        "split": split.name,
        "n_series": split.asked.offsets.size - 1,
        "n_targets": len(error),
        "n_answered": int(is_answered.sum()),
        "median_abs_error_pct": _median(error),
        "n_near": int(split.is_near.sum()),
        "near_median_abs_error_pct": _median(error[split.is_near]),
    }


def _median(error: Floats) -> float:
    """NaN for no targets, and where the median is no number."""
    found = float(median(error))
    return found if np.isfinite(found) else np.nan


def observed_series(asked: PredictionTask, application: Ints) -> ObservedSeries:
    """The series of a task as the model average reads them; those of one `application` inform each other (-1: none)."""
    # One size without repeats is asked as if its runs scattered as little as those of others.
    rules, batch = PredictRules(default_log_sd=PredictRules().run_log_sd), _batch(asked)
    spread = pooled(batch, extra_runs(asked.n_runs, asked.log_sd), asked.log_sd)
    return ObservedSeries.of(batch, asked.n_runs, run_log_sd(batch, asked.n_runs, spread, rules), application, rules)


def _average(asked: PredictionTask, application: Ints | None = None) -> Floats:
    """The model average of each series, alone or informed by the others of its application."""
    alone = np.full(asked.offsets.size - 1, -1)
    observed = observed_series(asked, alone if application is None else application)
    return np.exp(observed.curve(asked.target_series, asked.target_procs).log_s)


def _laws(names: Sequence[str], asked: PredictionTask) -> Floats:
    """Per series the law of least relative squares among `names`."""
    predicted_s, least = np.full(asked.target_procs.size, np.nan), np.full(asked.offsets.size - 1, np.inf)
    for name in names:
        fitted = fit_law(name, _batch(asked))
        is_best = fitted.wssre < least
        least = np.where(is_best, fitted.wssre, least)
        with np.errstate(divide="ignore", invalid="ignore"):
            law_s = LAWS[name].runtime_s(fitted[asked.target_series], asked.target_procs)
        predicted_s = np.where(is_best[asked.target_series], law_s, predicted_s)
    return predicted_s


def _adept(asked: PredictionTask) -> Floats:
    """ADEPT: each target by its own instance, every size of the series counted alike but for its distance."""
    found = find(_batch(asked), asked.target_series, asked.target_procs)
    return runtime_s(found, asked.target_procs)


def _batch(asked: PredictionTask) -> SeriesBatch:
    return SeriesBatch(asked.offsets, asked.procs, asked.runtime_s, np.ones(asked.procs.size))


PREDICTORS: dict[str, Predictor] = {
    "average": _average,
    "walltime": lambda asked: _average(asked, asked.application),
    **{law: partial(_laws, (law,)) for law in LAWS},
    "downey": partial(_laws, ("downey_low", "downey_high")),
    "adept": _adept,
}
"""Walltime's default is the average over laws, informed by the other series of the application."""

ON_REQUEST = "adept"
"""The predictor that is left out unless it is named: it tries 250,000 curves for each target, .06 s of computing."""
