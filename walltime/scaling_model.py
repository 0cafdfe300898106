"""Scalability series of measured runs or of a log's jobs, the laws fitted to them, and predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, floats, job_procs
from pipeline.errors import InputError, printable
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.group import observe as observe_groups
from pipeline.scaling.advice import CostSettings
from pipeline.scaling.fit import Loss
from pipeline.scaling.fitted_series import fit_and_predict, predictions_at, series_as_dicts, with_answers
from pipeline.settings import GroupSettings, SiteSettings
from pipeline.tables import FITS, GROUPS, JOBS, OBSERVATIONS, PREDICTIONS, SCALABILITY
from walltime.estimator import (
    MEDIAN,
    Estimator,
    interpolated,
    per_row,
    r_squared,
    wanted_quantiles,
    with_target,
    with_values,
)
from walltime.frames import FrameKind, arrow_of, frame_of, plain, require, same_rows
from walltime.log_jobs import Given, converted, jobs_of

NEEDED = ("procs", "runtime_s")
BY = ("application", "problem_size", "series")
"""Columns that separate the series of measured runs, where a frame has them."""

ONLY_SERIES = "runs"
_SHOWN_ROWS = 10


INTERVAL_QUANTILES = {0.025: "_lo95", 0.1: "_lo80", 0.5: "", 0.9: "_hi80", 0.975: "_hi95"}
"""Quantiles that PREDICTIONS has, and the ends of their columns."""

_ADVICE = ("why", "procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "proc_hours", "price", "efficiency",
           "reliability")  # fmt: skip


class ScalingModel(Estimator):
    """Fits scaling laws to series of runs once, and predicts any processor counts: `fit`, `predict`, `score`, `plot`.

    Parameters
    ----------
    by : sequence of str, optional
        Columns whose values separate the series, as for `observe`.
    loss : str
        "relative", for measured runs; "log", for an accounting log, whose runtimes vary more.
    max_procs : int, optional
        Processors of the machine; without it recommendations end at the largest size observed.

    Attributes
    ----------
    tables_ : dict of str to pa.Table
        After `fit`, the Arrow tables `observations`, `patterns`, `fits` and `scalability` by name.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> runs = pd.DataFrame({"procs": [1, 2, 4, 8, 16], "runtime_s": [100.0, 55.0, 32.5, 21.25, 15.625]})
    >>> model = wt.ScalingModel().fit(runs)
    >>> model.predict([64])["procs"].tolist(), model.score(runs) > 0.99
    ([64], True)
    >>> model.fit(runs[["procs"]], runs["runtime_s"]).predict(runs[["procs"]])["runtime_s_q50"].round(1).tolist()
    [100.0, 55.0, 32.5, 21.2, 15.6]
    """

    def __init__(
        self, by: Sequence[str] | None = None, *, loss: Loss = "relative", max_procs: int | None = None
    ) -> None:
        self.by, self.loss, self.max_procs = by, loss, max_procs

    def fit(self, runs: Any, y: Any = None, sample_weight: Any = None) -> "ScalingModel":
        """Fit to a row per run, as for `observe`, or to the frame that `observe` returned; returns the model itself.

        `y` has the runtimes in s where `runs` has no column `runtime_s`; `runs` may then also be an array of one column
        of processor counts. `sample_weight` says how many equal runs a row stands for.
        """
        if self.loss not in ("relative", "log"):
            raise InputError("fit", f"loss = {printable(repr(self.loss))}", "relative or log")
        table, self.kind_ = with_target(runs, y, "runtime_s", "fit")
        if sample_weight is not None:
            table = _repeated(table, per_row(sample_weight, table.num_rows, "fit", "sample_weight"))
        observations, self.names_ = _observed(table, self.by, "fit")
        self.tables_ = fit_and_predict(observations, [], self.max_procs, self.loss)
        return self

    def score(self, runs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination (R squared) of log runtimes on runs of these series; 1 is best."""
        table, _ = with_target(runs, y, "runtime_s", "score")
        found = self._of_rows(table, "score")
        actual_s = floats(pa.table(converted(table, JOBS, ["runtime_s"], "score")), "runtime_s")
        return r_squared(found[:, 2], actual_s, sample_weight)

    def plot(self, procs: Sequence[int] | None = None, axes: Any = None) -> Any:
        """Draw runs, predictions and 80% intervals of each series, on these counts or those between."""
        import matplotlib.pyplot as plt  # noqa: PLC0415  (an extra of the package)

        axes = axes or plt.subplots()[1]
        self.checked_fitted()
        observed = self.tables_[OBSERVATIONS.name].to_pylist()
        ran = [row["procs"] for row in observed] or [1]
        between = np.geomspace(min(ran), 2 * max(ran), 40).round().astype(int)
        found = self._predicted({int(one) for one in (between if procs is None else procs)}).to_pylist()
        for name in dict.fromkeys(row["group_id"] for row in found):
            rows = [row for row in found if row["group_id"] == name]
            counts, middle, low, high = (
                np.array([row[one] for row in rows], float)
                for one in ("procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80")
            )
            (line,) = axes.plot(counts, middle, label=printable(str(name), 60))
            axes.fill_between(counts, low, high, alpha=0.2, color=line.get_color())
            points = [(row["procs"], row["runtime_s_median"]) for row in observed if row["group_id"] == name]
            axes.plot(*zip(*points, strict=True), "o", color=line.get_color())
        axes.set(xscale="log", yscale="log", xlabel="processors", ylabel="runtime, s")
        axes.legend()
        return axes

    @property
    def observations(self) -> Any:
        """OBSERVATIONS: runtimes in s by series and processors, with the sizes that the fits leave out."""
        return frame_of(plain(self.tables_[OBSERVATIONS.name], OBSERVATIONS), self.kind_)

    @property
    def fits(self) -> Any:
        """FITS: a row per series and law, with one chosen law per series."""
        return frame_of(plain(self.tables_[FITS.name], FITS), self.kind_)

    @property
    def scalability(self) -> Any:
        """SCALABILITY: how many processors to request, a row per series of which a law scales."""
        return frame_of(plain(self.tables_[SCALABILITY.name], SCALABILITY, ("run_id",)), self.kind_)

    def predict(self, procs: Any, levels: Sequence[float] = (), quantiles: Sequence[float] = (MEDIAN,)) -> Any:
        """PREDICTIONS of every series at these processor counts, as the function `predict`; or the rows of a frame.

        A frame with a column `procs`, and those that separate the series, comes back with the `quantiles` of the
        runtime in s (null for another series) and both ends of the intervals `levels` (per cent). The intervals 80 and
        95% are calibrated, others are interpolated. For an array of one column the answer is an array of medians.
        """
        if hasattr(procs, "columns") or hasattr(procs, "column_names") or np.ndim(procs) == 2:
            wanted = wanted_quantiles(levels, quantiles, tuple(INTERVAL_QUANTILES))
            table, kind = with_target(procs, None, "runtime_s", "predict")
            found = self._of_rows(table, "predict")
            if kind is FrameKind.ARRAY:
                return found[:, 2]
            for name, share in wanted.items():
                table = with_values(table, name, interpolated(tuple(INTERVAL_QUANTILES), found, share))
            return same_rows(table, kind, procs)
        counts = _whole_counts([procs] if isinstance(procs, int) else list(procs))
        return frame_of(plain(self._predicted(counts), PREDICTIONS, ("run_id",)), self.kind_)

    def advise(self, procs_per_node: int | None = None, rate: float | None = None) -> Any:
        """How many processors to request: per series the best trade-off, the cheapest and the fastest count.

        A row a recommendation, with its runtime in s, processor-hours and, at a `rate` a processor-hour, its price.
        Whole nodes of `procs_per_node` are charged. `walltime scaling fit` and `scaling advise` say the same.
        """
        self.checked_fitted()
        series = series_as_dicts(self.tables_)
        advised = with_answers(series, self.tables_, self.max_procs, CostSettings(procs_per_node, rate))
        rows = [{"group_id": one["series"]} | row for one in advised for row in one["choices"]]
        columns = {name: [row[name] for row in rows] for name in ("group_id", *_ADVICE)}
        return frame_of(pa.table(columns), self.kind_)

    def _predicted(self, counts: set[int]) -> pa.Table:
        self.checked_fitted()
        return predictions_at(self.tables_, sorted(counts), SiteSettings(max_procs=self.max_procs))

    def _of_rows(self, table: pa.Table, what: str) -> Floats:
        """(rows, 5) quantiles at INTERVAL_QUANTILES, s, of the series and count of each row; NaN: none."""
        self.checked_fitted()
        if self.names_ is None:
            raise InputError(what, "series of a template that the log chose", "a model fitted with by=")
        require(table, ["procs", *self.names_], what)
        counts = table.column("procs").to_pylist()
        found = self._predicted(_whole_counts(counts)).to_pylist()
        known = {
            (row["group_id"], row["procs"]): [row[f"runtime_s{end}"] for end in INTERVAL_QUANTILES.values()]
            for row in found
        }
        unknown = [None] * len(INTERVAL_QUANTILES)
        rows = zip(_labels(table, self.names_).to_pylist(), counts, strict=True)
        return np.array([known.get((name, int(n)), unknown) for name, n in rows], np.float64).reshape(-1, len(unknown))

    def __repr__(self) -> str:
        """Once fitted, the chosen law of each series."""
        if not self.__sklearn_is_fitted__():
            return super().__repr__()
        fits = self.tables_[FITS.name]
        rows = fits.filter(fits.column("is_chosen")).to_pylist()
        n_series = len(pc.unique(self.tables_[OBSERVATIONS.name].column("group_id")))
        lines = [f"{printable(row['group_id'], 60)}: {row['law']}, {row['status']}" for row in rows[:_SHOWN_ROWS]]
        more = [f"and {len(rows) - _SHOWN_ROWS} more series"] if len(rows) > _SHOWN_ROWS else []
        return "\n  ".join([f"ScalingModel of {n_series} series, {len(rows)} with a chosen law", *lines, *more])


def observe(runs: Any, by: Sequence[str] | None = None) -> Any:
    """Runtime statistics of each series at each processor count.

    Parameters
    ----------
    runs : DataFrame
        One row per run. Needed: `procs` and `runtime_s` (s). Rows with a `flag` are left out.
    by : sequence of str, optional
        Columns whose values separate the series. By default the column `group_id`, where it has values; for jobs of a
        log (columns `job_id` and `submit_s`) the template that `walltime run` would choose; for other frames those of
        `application`, `problem_size` and `series` that exist. Without any, all runs are one series.

    Returns
    -------
    DataFrame
        OBSERVATIONS in order of series (`group_id`) and `procs`; runtimes in s.

    Raises
    ------
    WalltimeError
        If a needed column is missing, or a row has no processors or no runtime.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> runs = pd.DataFrame({"procs": [1, 1, 2, 4], "runtime_s": [102.0, 98.0, 54.0, 30.0]})
    >>> wt.observe(runs)[["group_id", "procs", "n_jobs", "runtime_s_median"]].to_dict("records")[0]
    {'group_id': 'runs', 'procs': 1, 'n_jobs': 2, 'runtime_s_median': 100.0}
    """
    table, kind = arrow_of(runs, "observe")
    return frame_of(plain(_observed(table, by, "observe")[0], OBSERVATIONS), kind)


def fit(
    runs: Any, by: Sequence[str] | None = None, *, loss: Loss = "relative", max_procs: int | None = None
) -> ScalingModel:
    """The default scaling laws fitted to every series, and the law chosen for each.

    Parameters
    ----------
    runs : DataFrame
        One row per run, as for `observe`; or the frame that `observe` returned.
    by : sequence of str, optional
        Columns whose values separate the series, as for `observe`.
    loss : str
        "relative", for measured runs; "log", for an accounting log, whose runtimes vary more.
    max_procs : int, optional
        Processors of the machine; without it recommendations end at the largest size observed.

    Returns
    -------
    ScalingModel
        The tables of the fits; printed, the chosen laws.

    Raises
    ------
    WalltimeError
        If a needed column is missing, or a row has no processors or no runtime.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> runs = pd.DataFrame({"procs": [1, 2, 4, 8, 16], "runtime_s": [100.0, 55.0, 32.5, 21.25, 15.625]})
    >>> model = wt.fit(runs)
    >>> chosen = model.fits[model.fits["is_chosen"]]
    >>> len(chosen), chosen["status"].item()
    (1, 'ok')
    """
    return ScalingModel(by, loss=loss, max_procs=max_procs).fit(runs)


def predict(runs: Any, procs: Sequence[int], by: Sequence[str] | None = None) -> Any:
    """Runtimes of each series at these processor counts, with intervals and what makes them doubtful.

    Parameters
    ----------
    runs : ScalingModel or DataFrame
        What `fit` returned, or runs to fit first, as for `fit` with its defaults.
    procs : sequence of int
        Processor counts, 1 or more.
    by : sequence of str, optional
        Columns whose values separate the series of runs, as for `observe`; a ScalingModel has its series.

    Returns
    -------
    DataFrame
        PREDICTIONS: a row per series and count, with `runtime_s` and the ends of its 80% and 95% intervals, s.

    Raises
    ------
    WalltimeError
        If a count is not a whole number of at least 1, or as for `fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> runs = pd.DataFrame({"procs": [1, 2, 4, 8, 16], "runtime_s": [100.0, 55.0, 32.5, 21.25, 15.625]})
    >>> found = wt.predict(runs, procs=[32, 64])
    >>> found["procs"].tolist(), bool((found["runtime_s"] < 16).all())
    ([32, 64], True)
    """
    model = runs if isinstance(runs, ScalingModel) else fit(runs, by)
    return model.predict(procs)


def _whole_counts(counts: Sequence[Any]) -> set[int]:
    for one in counts:
        if isinstance(one, bool) or one is None or not one >= 1 or one != int(one):
            raise InputError("predict", f"procs = {printable(repr(one))}", "whole numbers of processors, 1 or more")
    if not counts:
        raise InputError("predict", "no processor count", "at least one, as in procs=[64, 128]")
    return {int(one) for one in counts}


def _repeated(table: pa.Table, weight: Floats) -> pa.Table:
    """Each row as often as its weight says."""
    if (weight < 0).any() or (weight != np.floor(weight)).any() or "job_id" in table.column_names:
        raise InputError("fit", "weights of jobs, or that are no counts", "sample_weight as numbers of equal runs")
    return table.take(np.repeat(np.arange(len(weight)), weight.astype(np.int64)))


def _observed(table: pa.Table, by: Sequence[str] | None, what: str) -> tuple[pa.Table, list[str] | None]:
    """OBSERVATIONS of runs, or the table itself where it has their columns; and the columns that separate the series.

    None: the series are those of a template that the log chose.
    """
    if {"group_id", "procs", "runtime_s_median"} <= set(table.column_names):
        names = [column.name for column in OBSERVATIONS.columns if column.name in table.column_names]
        return OBSERVATIONS.build(**converted(table, OBSERVATIONS, names, what)), ["group_id"]
    given = jobs_of(table, NEEDED, what)
    jobs = given.jobs.filter(pc.is_null(given.jobs.column("flag")))
    _check_runs(jobs, what)
    grouped, names_of_series = _grouped(given, jobs, by, what)
    return observe_groups(grouped)[0], names_of_series


def _check_runs(jobs: pa.Table, what: str) -> None:
    bad = ~(job_procs(jobs) > 0) | ~(floats(jobs, "runtime_s") > 0)
    if bad.any() or not jobs.num_rows:
        found = f"{int(bad.sum())} of {jobs.num_rows} rows without processors or without a positive runtime"
        raise InputError(what, found, "procs and runtime_s in every row", "remove these rows, or use walltime.clean")


def _grouped(given: Given, jobs: pa.Table, by: Sequence[str] | None, what: str) -> tuple[pa.Table, list[str] | None]:
    """The jobs with `group_id`, and the columns that it is made of; None: a template that the log chose."""
    known = given.table.column_names
    if by is None and jobs.column("group_id").null_count < jobs.num_rows:
        return jobs, ["group_id"]
    if by is None and {"job_id", "submit_s"} <= set(known):
        templates, _ = choose_template(jobs, GroupSettings())
        return assign_groups(jobs, with_chosen(GroupSettings(), templates))[0], None
    names = [name for name in BY if name in known] if by is None else [by] if isinstance(by, str) else list(by)
    require(given.table, names, f"{what}, by")
    rows = given.table.take(given.order).filter(pc.is_null(given.jobs.column("flag")))
    place = JOBS.schema().get_field_index("group_id")
    return jobs.set_column(place, JOBS.schema().field("group_id"), _labels(rows, names)), names


def _labels(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Per row the text of its values, as `walltime scaling fit` names series; an unknown value is an empty text."""
    wanted = GROUPS.schema().field("group_id").type
    if list(names) == ["group_id"]:
        return rows.column("group_id").cast(pa.string()).combine_chunks().dictionary_encode().cast(wanted)
    if not names:
        return pa.array([ONLY_SERIES] * rows.num_rows, pa.string()).dictionary_encode().cast(wanted)
    texts = [pc.fill_null(rows.column(name).cast(pa.string()), "") for name in names]
    labelled = [pc.binary_join_element_wise(name, text, "=") for name, text in zip(names, texts, strict=True)]
    return pc.binary_join_element_wise(*labelled, " ").combine_chunks().dictionary_encode().cast(wanted)
