"""How far predictors are off on measured series: some sizes given, the others predicted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, floats
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
    """k given series, with the medians of the runs of each size, and the targets, in any order.

    Per series: `application`, an integer that series of one application share. Per given size: `n_runs`, and `log_sd`,
    the standard deviation of repeats (log s, NaN for a single run). Per target: `target_series` (0 to k - 1) and
    `target_procs`.
    """

    given: SeriesBatch
    application: Ints
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
    table = SCALING_ERRORS.build(**{one.name: [row[one.name] for row in rows] for one in SCALING_ERRORS.columns})
    set_aside = {"too_few_sizes": Tally(n_seen - n_kept)} if n_kept < n_seen else {}
    facts = {f"targets of {split.name}": len(split.measured_s) for split in splits}
    return table, Report("evaluate_scaling", "series", Tally(n_seen), Tally(n_kept), set_aside, facts).check()


def make_splits(observations: pa.Table, applications: Mapping[str, str]) -> tuple[list[Split], int, int]:
    """Every split that leaves a target somewhere; how many series there are, and how many have sizes enough."""
    usable = ObservedSizes.of(observations, with_odd=True)
    n_sizes, names = usable.batch.n_points, sorted(set(applications.values()))
    application = np.array([names.index(applications[group]) for group in usable.ids], np.int64)
    splits = [
        _split(count, which, usable, application)
        for count, which in SPLITS
        if n_sizes.max(initial=0) >= max(count + 1, MIN_SIZES)
    ]
    return splits, len(pc.unique(observations.column("group_id"))), int((n_sizes >= MIN_SIZES).sum())


def _split(count: int, which: str, usable: ObservedSizes, application: Ints) -> Split:
    """Each series that has more than `count` sizes, of which so many are given: the smallest, or spread evenly."""
    batch = usable.batch
    series = np.flatnonzero(batch.n_points >= max(count + 1, MIN_SIZES))
    rows, n_sizes = batch.sizes_of(series), batch.n_points[series]
    owner = np.repeat(np.arange(len(series)), n_sizes)
    place = np.arange(len(rows)) - (np.cumsum(n_sizes) - n_sizes)[owner]
    places = (
        np.arange(count)[:, None] if which == "smallest" else np.round(np.linspace(0, n_sizes - 1, count))[:, owner]
    )
    is_given = (place == places).any(axis=0)
    seen, targets, owner = rows[is_given], rows[~is_given], owner[~is_given]
    offsets = count * np.arange(len(series) + 1)
    given = SeriesBatch(offsets, batch.procs[seen], batch.runtime_s[seen], np.ones(len(seen)))
    n_runs, log_sd = (floats(usable.table, name)[seen] for name in ("n_jobs", "log_sd"))
    question = PredictionTask(given, application[series], n_runs, log_sd, owner, batch.procs[targets])
    first, last = given.ends(given.procs)[:, owner]
    distance = np.maximum(question.target_procs / last, first / question.target_procs)
    return Split(f"{count} {which}", question, batch.runtime_s[targets], distance <= NEAR * (1 + 1e-9))


def _row(name: str, split: Split, predicted_s: Floats) -> dict[str, object]:
    error = np.abs(predicted_s / split.measured_s - 1.0) * 100.0
    is_answered = np.isfinite(error)
    error = np.where(is_answered, error, np.inf)
    return {
        "predictor": name,
        "split": split.name,
        "n_series": split.asked.given.n_series,
        "n_targets": len(error),
        "n_answered": int(is_answered.sum()),
        "median_abs_error_pct": _median(error),
        "n_near": int(split.is_near.sum()),
        "near_median_abs_error_pct": _median(error[split.is_near]),
    }


def _median(error: Floats) -> float | None:
    """None for no targets, and where the median is no number."""
    found = float(np.median(error)) if len(error) else np.nan
    return found if np.isfinite(found) else None


def observed_series(asked: PredictionTask, application: Ints) -> ObservedSeries:
    """The series of a task as the model average reads them; those of one `application` inform each other (-1: none)."""
    # One size without repeats is asked as if its runs scattered as little as those of others.
    rules, given = PredictRules(default_log_sd=PredictRules().run_log_sd), asked.given
    spread = pooled(given, extra_runs(asked.n_runs, asked.log_sd), asked.log_sd)
    return ObservedSeries.of(given, asked.n_runs, run_log_sd(given, asked.n_runs, spread, rules), application, rules)


def _average(asked: PredictionTask, application: Ints | None = None) -> Floats:
    """The model average of each series, alone or informed by the others of its application."""
    alone = np.full(asked.given.n_series, -1)
    observed = observed_series(asked, alone if application is None else application)
    return np.exp(observed.curve(asked.target_series, asked.target_procs).log_s)


def _laws(names: Sequence[str], asked: PredictionTask) -> Floats:
    """Per series the law of least relative squares among `names`."""
    predicted_s, least = np.full(asked.target_procs.size, np.nan), np.full(asked.given.n_series, np.inf)
    for name in names:
        fitted = fit_law(name, asked.given)
        is_best = fitted.wssre < least
        least = np.where(is_best, fitted.wssre, least)
        with np.errstate(divide="ignore", invalid="ignore"):
            law_s = LAWS[name].runtime_s(fitted[asked.target_series], asked.target_procs)
        predicted_s = np.where(is_best[asked.target_series], law_s, predicted_s)
    return predicted_s


def _adept(asked: PredictionTask) -> Floats:
    """ADEPT: each target by its own instance, every size of the series counted alike but for its distance."""
    return runtime_s(find(asked.given, asked.target_series, asked.target_procs), asked.target_procs)


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
