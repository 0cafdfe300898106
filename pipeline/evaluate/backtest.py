"""The as-of backtest: every method's estimates for the later jobs of a log, in order of submit, and their errors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, Floats, Ints, proc_seconds
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import RunSettings
from pipeline.core.tables import BACKTEST
from pipeline.estimate.history import History, history
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.fallback import fallback_quantiles
from pipeline.evaluate.figures import DAY_S, Scored, rows_of


@dataclass(frozen=True, slots=True)
class Way:
    """What estimates may use: events up to the submit or an earlier midnight, with or without flagged jobs."""

    stale_s: float | None = None
    without_flagged: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of BACKTEST with these choices."""
        days = None if self.stale_s is None else self.stale_s / DAY_S
        return {"stale_days": days, "learnt_from": "kept" if self.without_flagged else "all"}


Estimator = Callable[[History], Floats]
"""A method with its settings bound: (jobs, 6) quantiles in the order of QUANTILES, s; NaN: no answer."""


def backtest(
    jobs: pa.Table,
    settings: RunSettings,
    estimators: Mapping[str, Estimator],
    log: str | None = None,
    way: Way | None = None,
) -> tuple[pa.Table, Report]:
    """BACKTEST of every estimator over one log, and how many jobs were learnt from and scored.

    The first `train_share` of the jobs by submit are not scored. Every method is scored on the same jobs: where it has
    no answer the request stands in, else the log's running quantiles, and `n_fallback` says how often. Rows per method:
    all; by month of submit on the site's clock; by processors asked for; the fortnights covered worst.

    Parameters
    ----------
    jobs : pa.Table
        JOBS of one site, flagged or not.
    settings : RunSettings
        Settings of the site and of the backtest.
    estimators : mapping of str to callable
        Methods by name; each maps a History of n jobs to float64[n, 6] quantiles, s.
    log : str, optional
        Name of the log in the table; by default the site's name.
    way : Way, optional
        How old the estimates' information is, and whether flagged jobs are learnt from.

    Returns
    -------
    table : pa.Table
        BACKTEST: rows per estimator and part of the log; errors in s.
    report : Report
        Jobs scored, learnt from, and without a runtime.

    Raises
    ------
    ValueError
        If an estimator returns an array of another shape.

    Examples
    --------
    >>> from pipeline.estimate.registry import ESTIMATORS
    >>> methods = {"last_two": lambda past: ESTIMATORS["last_two"](past, settings.forecast)}
    >>> table, report = backtest(tables["jobs"], settings, methods)
    >>> table.column("part").to_pylist()[0], report.kept.rows > 0
    ('all', True)
    """
    way = way or Way()
    past = past_of(jobs, settings, way)
    ran = np.flatnonzero(past.has_run)
    scored = np.zeros(len(past), np.bool_)
    scored[ran[int(len(ran) * settings.backtest.train_share) :]] = True
    instead = fallback_quantiles(past)
    rows: list[dict[str, Any]] = []
    facts: dict[str, Fact] = {}
    for name, estimator in estimators.items():
        found = _filled(estimator(past), instead, scored)
        facts |= {f"fallback_{name}": int(found.is_fallback[scored].sum())}
        rows += [{"estimator": name} | way.columns | row for row in rows_of(past, found, settings.backtest)]
    named = log if log is not None else settings.site.name
    names = [column.name for column in BACKTEST.columns if column.name != "log"]
    table = BACKTEST.build(log=[named] * len(rows), **{name: [row.get(name) for row in rows] for name in names})
    return table, _report(jobs, past, scored, facts)


def past_of(jobs: pa.Table, settings: RunSettings, way: Way | None = None) -> History:
    """The log in the order a scheduler observes it, with submit times on the site's clock."""
    way = way or Way()
    past = history(jobs, settings.site.timezone, without_flagged=way.without_flagged)
    return replace(past, stale_s=way.stale_s)


def _filled(quantiles_s: Floats, instead: Floats, scored: Bools) -> Scored:
    """One method's quantiles with gaps filled; a quantile it never gives stays NaN and is not scored."""
    if quantiles_s.shape != instead.shape:
        raise ValueError(f"quantiles of shape {quantiles_s.shape}, expected {instead.shape}")
    is_fallback = np.isnan(quantiles_s[:, QUANTILES.index(0.50)])
    filled = np.where(is_fallback[:, None], instead, quantiles_s)
    answered = quantiles_s[scored & ~is_fallback]
    filled[:, np.isnan(answered).all(axis=0) & bool(len(answered))] = np.nan
    return Scored(filled, is_fallback, scored)


def _report(jobs: pa.Table, past: History, scored: Bools, facts: Mapping[str, Fact]) -> Report:
    proc_s = proc_seconds(jobs)

    def tally(rows: Ints) -> Tally:
        return Tally(len(rows), float(proc_s[rows].sum()))

    other = np.setdiff1d(np.arange(jobs.num_rows), past.row)
    set_aside = {
        "no_runtime_to_score": tally(np.append(other, past.row[~past.has_run])),
        "learnt_from": tally(past.row[~scored & past.has_run]),
    }
    whole = Tally(jobs.num_rows, float(proc_s.sum()))
    return Report("backtest", "job", whole, tally(past.row[scored]), set_aside, facts).check()
