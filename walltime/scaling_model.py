"""Scalability series of measured runs or of a log's jobs, the laws fitted to them, and predictions."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import floats, job_procs
from pipeline.errors import InputError, printable
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.group import observe as observe_groups
from pipeline.scaling.fitted_series import Loss, fit_and_predict, predictions_at
from pipeline.settings import GroupSettings, SiteSettings
from pipeline.tables import FITS, GROUPS, JOBS, OBSERVATIONS, PREDICTIONS, SCALABILITY
from walltime.frames import FrameKind, arrow_of, frame_of, plain, require
from walltime.log_jobs import Given, converted, jobs_of

NEEDED = ("procs", "runtime_s")
BY = ("application", "problem_size", "series")
"""Columns that separate the series of measured runs, where a frame has them."""

ONLY_SERIES = "runs"
_SHOWN = ("group_id", "law", "n_points", "n_jobs", "status")
_SHOWN_ROWS = 10


class ScalingModel:
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
    tables : dict of str to pa.Table
        After `fit`, the Arrow tables `observations`, `patterns`, `fits` and `scalability` by name.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> runs = pd.DataFrame({"procs": [1, 2, 4, 8, 16], "runtime_s": [100.0, 55.0, 32.5, 21.25, 15.625]})
    >>> model = wt.ScalingModel().fit(runs)
    >>> model.predict([64])["procs"].tolist(), model.score(runs) > 0.99
    ([64], True)
    """

    def __init__(
        self, by: Sequence[str] | None = None, *, loss: Loss = "relative", max_procs: int | None = None
    ) -> None:
        if loss not in ("relative", "log"):
            raise InputError("fit", f"loss = {printable(repr(loss))}", "relative or log")
        self.by, self.loss, self.max_procs = by, loss, max_procs
        self.tables: dict[str, pa.Table] = {}
        self.kind = FrameKind.PANDAS

    def fit(self, runs: Any) -> "ScalingModel":
        """Fit to a row per run, as for `observe`, or to the frame that `observe` returned; returns the model itself."""
        observations, self.kind = _observed(runs, self.by, "fit")
        self.tables = fit_and_predict(observations, [], self.max_procs, self.loss)
        return self

    def score(self, runs: Any) -> float:
        """The coefficient of determination (R squared) of log runtimes on runs of these series; 1 is best."""
        observed, _ = _observed(runs, self.by, "score")
        rows = [row for row in observed.to_pylist() if row["runtime_s_median"]]
        found = self._predicted({row["procs"] for row in rows})
        known = {(row["group_id"], row["procs"]): row["runtime_s"] for row in found.to_pylist()}
        pairs = [
            (known[key], row["runtime_s_median"]) for row in rows if (key := (row["group_id"], row["procs"])) in known
        ]
        logs = np.log(np.array(pairs, np.float64).reshape(-1, 2))
        off = logs[:, 0] - logs[:, 1]
        return float(1 - (off**2).sum() / ((logs[:, 1] - logs[:, 1].mean()) ** 2).sum())

    def plot(self, procs: Sequence[int] | None = None, axes: Any = None) -> Any:
        """Draw runs, predictions and 80% intervals of each series, on these counts or those between."""
        import matplotlib.pyplot as plt  # noqa: PLC0415  (an extra of the package)

        axes = axes or plt.subplots()[1]
        observed = self.tables[OBSERVATIONS.name].to_pylist()
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
        return frame_of(plain(self.tables[OBSERVATIONS.name], OBSERVATIONS), self.kind)

    @property
    def fits(self) -> Any:
        """FITS: a row per series and law, with one chosen law per series."""
        return frame_of(plain(self.tables[FITS.name], FITS), self.kind)

    @property
    def scalability(self) -> Any:
        """SCALABILITY: how many processors to request, a row per series of which a law scales."""
        return frame_of(plain(self.tables[SCALABILITY.name], SCALABILITY, ("run_id",)), self.kind)

    def predict(self, procs: Sequence[int]) -> Any:
        """PREDICTIONS at these processor counts, as the function `predict`."""
        counts = [procs] if isinstance(procs, int) else list(procs)
        for one in counts:
            if isinstance(one, bool) or one != int(one) or one < 1:
                raise InputError("predict", f"procs = {printable(repr(one))}", "whole numbers of processors, 1 or more")
        if not counts:
            raise InputError("predict", "no processor count", "at least one, as in procs=[64, 128]")
        found = self._predicted({int(one) for one in counts})
        return frame_of(plain(found, PREDICTIONS, ("run_id",)), self.kind)

    def _predicted(self, counts: set[int]) -> pa.Table:
        if not self.tables:
            raise InputError("ScalingModel", "no runs fitted", "a call of fit before")
        return predictions_at(self.tables, sorted(counts), SiteSettings(max_procs=self.max_procs))

    @property
    def _chosen(self) -> list[dict[str, Any]]:
        fits = self.tables[FITS.name]
        rows: list[dict[str, Any]] = fits.filter(fits.column("is_chosen")).select(list(_SHOWN)).to_pylist()
        return rows

    @property
    def _title(self) -> str:
        n_series = len(pc.unique(self.tables[OBSERVATIONS.name].column("group_id")))
        return f"ScalingModel of {n_series} series, {len(self._chosen)} with a chosen law"

    def __repr__(self) -> str:
        rows = self._chosen[:_SHOWN_ROWS]
        lines = [f"{printable(row['group_id'], 60)}: {row['law']}, {row['status']}" for row in rows]
        return "\n  ".join([self._title, *lines, *self._others])

    def _repr_html_(self) -> str:
        """A table of the chosen laws for notebooks; every text of a log is escaped."""
        head = "".join(f"<th>{name}</th>" for name in _SHOWN)
        rows = ("".join(f"<td>{_cell(row[name])}</td>" for name in _SHOWN) for row in self._chosen[:_SHOWN_ROWS])
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        others = "".join(f"<p>{line}</p>" for line in self._others)
        return f"<p>{self._title}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{others}"

    @property
    def _others(self) -> list[str]:
        n_others = len(self._chosen) - _SHOWN_ROWS
        return [f"and {n_others} more series"] if n_others > 0 else []


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
    observations, kind = _observed(runs, by, "observe")
    return frame_of(plain(observations, OBSERVATIONS), kind)


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
        The tables of the fits; a notebook shows the chosen laws.

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


def _observed(runs: Any, by: Sequence[str] | None, what: str) -> tuple[pa.Table, FrameKind]:
    """OBSERVATIONS of a frame of runs, or the frame itself where it has the columns of OBSERVATIONS."""
    table, kind = arrow_of(runs, what)
    if {"group_id", "procs", "runtime_s_median"} <= set(table.column_names):
        names = [column.name for column in OBSERVATIONS.columns if column.name in table.column_names]
        return OBSERVATIONS.build(**converted(table, OBSERVATIONS, names, what)), kind
    given = jobs_of(runs, NEEDED, what)
    jobs = given.jobs.filter(pc.is_null(given.jobs.column("flag")))
    _check_runs(jobs, what)
    return observe_groups(_grouped(given, jobs, by, what))[0], kind


def _check_runs(jobs: pa.Table, what: str) -> None:
    bad = ~(job_procs(jobs) > 0) | ~(floats(jobs, "runtime_s") > 0)
    if bad.any() or not jobs.num_rows:
        found = f"{int(bad.sum())} of {jobs.num_rows} rows without processors or without a positive runtime"
        raise InputError(what, found, "procs and runtime_s in every row", "remove these rows, or use walltime.clean")


def _grouped(given: Given, jobs: pa.Table, by: Sequence[str] | None, what: str) -> pa.Table:
    """The jobs with `group_id`."""
    known = given.table.column_names
    if by is None and jobs.column("group_id").null_count < jobs.num_rows:
        return jobs
    if by is None and {"job_id", "submit_s"} <= set(known):
        templates, _ = choose_template(jobs, GroupSettings())
        return assign_groups(jobs, with_chosen(GroupSettings(), templates))[0]
    names = [name for name in BY if name in known] if by is None else [by] if isinstance(by, str) else list(by)
    require(given.table, names, f"{what}, by")
    rows = given.table.take(given.order).filter(pc.is_null(given.jobs.column("flag")))
    place = JOBS.schema().get_field_index("group_id")
    return jobs.set_column(place, JOBS.schema().field("group_id"), _labels(rows, names))


def _labels(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Per row the text of its values, as `walltime scaling fit` names series; an unknown value is an empty text."""
    wanted = GROUPS.schema().field("group_id").type
    if not names:
        return pa.array([ONLY_SERIES] * rows.num_rows, pa.string()).dictionary_encode().cast(wanted)
    texts = [pc.fill_null(rows.column(name).cast(pa.string()), "") for name in names]
    labelled = [pc.binary_join_element_wise(name, text, "=") for name, text in zip(names, texts, strict=True)]
    return pc.binary_join_element_wise(*labelled, " ").combine_chunks().dictionary_encode().cast(wanted)


def _cell(value: Any) -> str:
    return "" if value is None else html.escape(printable(str(value), 80))
