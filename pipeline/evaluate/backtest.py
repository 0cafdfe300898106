"""The as-of backtest: a log in order of submit, every method's estimates of its later jobs, and how good they were."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.clean.view import View
from pipeline.core.arrays import Bools, Floats, Ints, floats, proc_seconds
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import RunSettings
from pipeline.core.tables import BACKTEST
from pipeline.estimate.history import History, history
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.figures import Scored, rows_of
from pipeline.evaluate.stand_in import stand_in

Estimator = Callable[[History], Floats]
"""A method with its settings bound: (jobs, 5) quantiles in the order of QUANTILES, s; NaN: no answer."""


def backtest(
    jobs: pa.Table, settings: RunSettings, estimators: Mapping[str, Estimator], log: str | None = None
) -> tuple[pa.Table, Report]:
    """BACKTEST of every estimator over one log, and how many jobs were learnt from and scored.

    The first `train_share` of the jobs by submit are not scored. Every method is scored on the same jobs: where it has
    no answer the request stands in, else the log's running quantiles, and `n_fallback` says how often. Rows per method:
    all; by month of submit on the site's clock; by processors asked for; the fortnights covered worst.
    """
    past = past_of(jobs, settings)
    scored = np.arange(len(past)) >= int(len(past) * settings.backtest.train_share)
    instead = stand_in(past)
    rows: list[dict[str, Any]] = []
    facts: dict[str, Fact] = {}
    for name, estimator in estimators.items():
        found = _filled(estimator(past), instead, scored)
        facts |= {f"fallback_{name}": int(found.is_stood_in[scored].sum())}
        rows += [{"estimator": name} | row for row in rows_of(past, found, settings.backtest)]
    named = log if log is not None else settings.site.name
    names = [column.name for column in BACKTEST.columns if column.name != "log"]
    table = BACKTEST.build(log=[named] * len(rows), **{name: [row.get(name) for row in rows] for name in names})
    return table, _report(jobs, past, scored, facts)


def past_of(jobs: pa.Table, settings: RunSettings) -> History:
    """The log as a scheduler lives through it, with submits on the site's clock (UTC where the user is unknown)."""
    submit_s = np.nan_to_num(floats(jobs, "submit_s")).astype(np.int64)
    local_s = View(jobs, settings.site).local_s
    return history(jobs, np.where(local_s == 0, submit_s, local_s))


def _filled(quantiles_s: Floats, instead: Floats, scored: Bools) -> Scored:
    """One method's answers with gaps filled; a quantile it never gives stays unknown, so that it is not scored."""
    if quantiles_s.shape != instead.shape:
        raise ValueError(f"quantiles of shape {quantiles_s.shape}, expected {instead.shape}")
    is_stood_in = np.isnan(quantiles_s[:, QUANTILES.index(0.50)])
    filled = np.where(is_stood_in[:, None], instead, quantiles_s)
    answered = quantiles_s[scored & ~is_stood_in]
    filled[:, np.isnan(answered).all(axis=0) & bool(len(answered))] = np.nan
    return Scored(filled, is_stood_in, scored)


def _report(jobs: pa.Table, past: History, scored: Bools, facts: Mapping[str, Fact]) -> Report:
    proc_s = proc_seconds(jobs)

    def tally(rows: Ints) -> Tally:
        return Tally(len(rows), float(proc_s[rows].sum()))

    other = np.setdiff1d(np.arange(jobs.num_rows), past.row)
    set_aside = {"no_runtime_to_score": tally(other), "learnt_from": tally(past.row[~scored])}
    whole = Tally(jobs.num_rows, float(proc_s.sum()))
    return Report("backtest", "job", whole, tally(past.row[scored]), set_aside, facts).check()
