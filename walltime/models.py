"""Models of measured runs: scaling laws over processors, of runs or of a log's jobs, and runtimes over the inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.input_models import declaration_of
from flows.services.quantities import chosen_names
from pipeline import inputs
from pipeline.arrays import Floats, floats, job_procs
from pipeline.errors import InputError, printable
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.group import observe as observe_groups
from pipeline.inputs import Cost, CostUnit, InputModel, LearnRules
from pipeline.inputs.answers import ANSWERS, SUGGESTIONS
from pipeline.scaling.advice import CostSettings
from pipeline.scaling.fit import Loss
from pipeline.scaling.fitted_series import fit_and_predict, predictions_at, series_as_dicts, with_answers
from pipeline.settings import GroupSettings, SiteSettings
from pipeline.tables import FITS, GROUPS, JOBS, OBSERVATIONS, PREDICTIONS, SCALABILITY
from walltime.estimator import ARRAY, MEDIAN, Estimator, per_row, with_quantiles, with_target
from walltime.frames import arrow_of, converted, frame_of, jobs_of, plain, require, with_column

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
    """Fits scaling laws to series of runs once, and predicts any processor counts: `fit`, `predict`, `score`.

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

    _shares = tuple(INTERVAL_QUANTILES)

    def __init__(
        self, by: Sequence[str] | None = None, *, loss: Loss = "relative", max_procs: int | None = None
    ) -> None:
        self.by, self.loss, self.max_procs = by, loss, max_procs

    def fit(self, runs: Any, y: Any = None, sample_weight: Any = None) -> "ScalingModel":
        """Fit to a row per run, as for `observe`, or to the frame that `observe` returned; returns the model itself.

        `y` has the runtimes in s where `runs` has no column `runtime_s`; `runs` may then also be an array of one column
        of processor counts. `sample_weight` says how many equal runs a row stands for.
        """
        chosen_names([self.loss], ("relative", "log"), "loss")
        table, self.kind_ = with_target(runs, y, "fit")
        if sample_weight is not None:
            times = per_row(sample_weight, table.num_rows, "fit", "sample_weight")
            if (times < 0).any() or (times != np.floor(times)).any() or "job_id" in table.column_names:
                raise InputError(
                    "fit", "weights of jobs, or that are no counts", "sample_weight as numbers of equal runs"
                )
            table = table.take(np.repeat(np.arange(len(times)), times.astype(np.int64)))
        observations, self.names_ = _observed(table, self.by, "fit")
        self.tables_ = fit_and_predict(observations, [], self.max_procs, self.loss)
        return self

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
        return frame_of(plain(self.tables_[SCALABILITY.name], SCALABILITY), self.kind_)

    def predict(self, procs: Any, levels: Sequence[float] = (), quantiles: Sequence[float] = (MEDIAN,)) -> Any:
        """PREDICTIONS of every series at these processor counts, as the function `predict`; or the rows of a frame.

        A frame with a column `procs`, and those that separate the series, comes back with the `quantiles` of the
        runtime in s (null for another series) and both ends of the intervals `levels` (per cent). The intervals 80 and
        95% are calibrated, others are interpolated. For an array of one column the answer is an array of medians.
        """
        if hasattr(procs, "columns") or hasattr(procs, "column_names") or np.ndim(procs) == 2:
            table, kind = with_target(procs, None, "predict")
            found = self._quantiles_of(table)
            if kind == ARRAY:
                return found[:, self._shares.index(MEDIAN)]
            table = with_quantiles(table, levels, quantiles, self._shares, found)
            return frame_of(table, kind, like=procs)
        counts = _whole_counts([procs] if isinstance(procs, int) else list(procs))
        return frame_of(plain(self._predicted(counts), PREDICTIONS), self.kind_)

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

    def _quantiles_of(self, table: pa.Table) -> Floats:
        """(rows, 5) quantiles at INTERVAL_QUANTILES, s, of the series and count of each row; NaN: none."""
        self.checked_fitted()
        if self.names_ is None:
            raise InputError("predict", "series of a template that the log chose", "a model fitted with by=")
        require(table, ["procs", *self.names_], "predict")
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


def learn(
    runs: Any, names: Sequence[str] | None = None, *, target: str = "time_s", procs: str | None = None,
    batch: str | None = None, types: Mapping[str, str] | None = None, seed: int = 0,
) -> InputModel:  # fmt: skip
    """A model of the runtime over the inputs of a run, as `walltime inputs learn`.

    Parameters
    ----------
    runs : data frame
        A row a run: inputs, and the runtime in s.
    names : sequence of str, optional
        Columns of inputs; without it every column without another role.
    target : str
        Column of runtimes, s.
    procs : str, optional
        Column of processors, by which `suggest` counts costs.
    batch : str, optional
        Column that says which runs were made together.
    types : mapping of str to str, optional
        number, log_number, category or boolean for inputs whose type should not be inferred.
    seed : int
        Seed of the folds and of what is drawn.

    Returns
    -------
    InputModel
        The model; `error.mean_pct` is its mean error on held runs, per cent, and `report` counts runs set aside.

    Raises
    ------
    InputError
        If a column is missing, fewer than ten runs are usable, or no input varies.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> runs = pd.DataFrame({"n": range(1, 31), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = wt.learn(runs)
    >>> wt.ask(model, pd.DataFrame({"n": [10.0]}))["status"].tolist()
    ['ok']
    >>> len(wt.suggest(model, runs, unit="runs", n_runs=2))
    2
    """
    table, _ = arrow_of(runs, "learn")
    told = [f"{name}={kind}" for name, kind in (types or {}).items()]
    declared = declaration_of(table, target, ",".join(names) if names else None, told, procs=procs, batch=batch)
    return inputs.learn(table, declared, LearnRules(seed=seed))


def ask(model: InputModel, points: Any) -> Any:
    """Runtimes at new inputs, with intervals; a point unlike all runs is refused with its reason.

    Parameters
    ----------
    model : InputModel
        What `learn` gave.
    points : data frame
        The inputs' columns, a row a question.

    Returns
    -------
    data frame
        INPUT_ANSWERS, of the kind of the points: a row a point in their order, runtimes in s.

    Raises
    ------
    InputError
        If a column of an input is missing or has another type.

    Examples
    --------
    See `learn`.
    """
    table, kind = arrow_of(points, "ask")
    return frame_of(plain(inputs.predict(model, table), ANSWERS), kind, like=points)


def suggest(
    model: InputModel, candidates: Any, *, unit: str = "proc-seconds", budget: float | None = None,
    n_runs: int | None = None,
) -> Any:  # fmt: skip
    """The runs to make next, best first: those that lower the candidates' variance most for the root of their cost.

    Parameters
    ----------
    model : InputModel
        What `learn` gave.
    candidates : data frame
        The inputs' columns, a row a run that could be made.
    unit : str
        What a run costs: proc-seconds, seconds or runs.
    budget : float, optional
        What the runs may cost together.
    n_runs : int, optional
        How many runs at most.

    Returns
    -------
    data frame
        INPUT_SUGGESTIONS, of the kind of the candidates: a row a run, `candidate` is its row from 0.

    Raises
    ------
    InputError
        If the unit is unknown, or it counts processors and `learn` was given none.

    Examples
    --------
    See `learn`.
    """
    chosen_names([unit], list(CostUnit), "unit")
    table, kind = arrow_of(candidates, "suggest")
    return frame_of(plain(inputs.suggest(model, table, Cost(CostUnit(unit), budget, n_runs)), SUGGESTIONS), kind)


def _whole_counts(counts: Sequence[Any]) -> set[int]:
    for one in counts:
        if isinstance(one, bool) or one is None or not one >= 1 or one != int(one):
            raise InputError("predict", f"procs = {printable(repr(one))}", "whole numbers of processors, 1 or more")
    if not counts:
        raise InputError("predict", "no processor count", "at least one, as in procs=[64, 128]")
    return {int(one) for one in counts}


def _observed(table: pa.Table, by: Sequence[str] | None, what: str) -> tuple[pa.Table, list[str] | None]:
    """OBSERVATIONS of runs, or the table itself where it has their columns; and the columns that separate the series.

    None: the series are those of a template that the log chose.
    """
    known = table.column_names
    if {"group_id", "procs", "runtime_s_median"} <= set(known):
        names = [column.name for column in OBSERVATIONS.columns if column.name in known]
        return OBSERVATIONS.build(**converted(table, OBSERVATIONS, names, what)), ["group_id"]
    jobs, order = jobs_of(table, NEEDED, what)
    is_kept = pc.is_null(jobs.column("flag"))
    jobs, rows = jobs.filter(is_kept), table.take(order).filter(is_kept)
    bad = ~(job_procs(jobs) > 0) | ~(floats(jobs, "runtime_s") > 0)
    if bad.any() or not jobs.num_rows:
        found = f"{int(bad.sum())} of {jobs.num_rows} rows without processors or without a positive runtime"
        raise InputError(what, found, "procs and runtime_s in every row", "remove these rows, or use walltime.clean")
    if by is None and jobs.column("group_id").null_count < jobs.num_rows:
        return observe_groups(jobs)[0], ["group_id"]
    if by is None and {"job_id", "submit_s"} <= set(known):
        templates, _ = choose_template(jobs, GroupSettings())
        return observe_groups(assign_groups(jobs, with_chosen(GroupSettings(), templates))[0])[0], None
    names = [name for name in BY if name in known] if by is None else [by] if isinstance(by, str) else list(by)
    require(table, names, f"{what}, by")
    field = JOBS.schema().field("group_id")
    return observe_groups(with_column(jobs, field.name, _labels(rows, names), field))[0], names


def _labels(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Per row the text of its values, as `walltime scaling fit` names series; an unknown value is an empty text."""
    labels = pa.array([ONLY_SERIES] * rows.num_rows, pa.string())
    if list(names) == ["group_id"]:
        labels = rows.column("group_id").cast(pa.string()).combine_chunks()
    elif names:
        texts = [pc.fill_null(rows.column(name).cast(pa.string()), "") for name in names]
        named = [pc.binary_join_element_wise(name, text, "=") for name, text in zip(names, texts, strict=True)]
        labels = pc.binary_join_element_wise(*named, " ").combine_chunks()
    return labels.dictionary_encode().cast(GROUPS.schema().field("group_id").type)
