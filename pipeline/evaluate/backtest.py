"""The as-of backtest: every method's estimates for the later jobs of a log, in order of submit, and their errors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Array, Bools, Floats, Ints, proc_seconds, tally
from pipeline.estimate.history import History, history
from pipeline.estimate.score import QUANTILES, scores
from pipeline.evaluate.methods import Estimator
from pipeline.report import Fact, Report
from pipeline.settings import RunSettings
from pipeline.tables import BACKTEST, BACKTEST_ERRORS, JOB

TRAIN_SHARE = 1 / 3
"""First share of the jobs, by submit, that is learnt from and not scored."""
FORTNIGHT_MIN_JOBS = 100
"""Least number of jobs of the fortnight reported as the worst covered."""

FORTNIGHT = np.timedelta64(14, "D")
WORST = {"fortnight_80": "coverage_80", "fortnight_q95": "coverage_q95"}
"""Parts of BACKTEST that are the fortnight with the lowest value of a figure."""


@dataclass(frozen=True, slots=True)
class Way:
    """What estimates may use: events up to the submit or an earlier midnight, with or without flagged jobs."""

    stale_s: float | None = None
    without_flagged: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of BACKTEST with these choices; `stale_days`: the least age of what estimates know."""
        stale_days = None if self.stale_s is None else self.stale_s / DAY_S
        return {"stale_days": stale_days, "learnt_from": "kept" if self.without_flagged else "all"}


def backtest(
    jobs: pa.Table,
    settings: RunSettings,
    estimators: Mapping[str, Estimator],
    log: str | None = None,
    way: Way | None = None,
    train_share: float = TRAIN_SHARE,
    errors: list[pa.Table] | None = None,
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
        Settings of the site.
    estimators : mapping of str to callable
        Methods by name; each maps a History of n jobs to float64[n, 6] quantiles, s.
    log : str, optional
        Name of the log in the table; by default the site's name.
    way : Way, optional
        How old the estimates' information is, and whether flagged jobs are learnt from.
    train_share : float, optional
        First share of the jobs, by submit, that is not scored.
    errors : list of pa.Table, optional
        Gets BACKTEST_ERRORS of each estimator: a row per scored job.

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
    >>> from pipeline.evaluate.methods import ESTIMATORS
    >>> table, report = backtest(tables["jobs"], settings, {"last_two": ESTIMATORS["last_two"]})
    >>> table.column("part").to_pylist()[0], report.kept.rows > 0
    ('all', True)
    """
    way = way or Way()
    past = past_of(jobs, settings, way)
    about = {"log": log if log is not None else settings.site.name} | way.columns
    ran = np.flatnonzero(past.has_run)
    n_learnt = int(len(ran) * train_share)
    scored = ran[n_learnt:]
    instead = fallback_quantiles(past)
    rows: list[dict[str, Any]] = []
    facts: dict[str, Fact] = {}
    for name, estimator in estimators.items():
        quantiles_s, is_fallback = _filled(estimator(past), instead, scored)
        if errors is not None:
            errors.append(errors_of(jobs, past, quantiles_s, scored, about | {"estimator": name}))
        facts[f"fallback_{name}"] = int(is_fallback[scored].sum())
        rows += [about | {"estimator": name} | row for row in rows_of(past, quantiles_s, is_fallback, scored)]
    table = BACKTEST.build(**{column.name: [row.get(column.name) for row in rows] for column in BACKTEST.columns})
    proc_s = proc_seconds(jobs)
    set_aside = {
        "no_runtime_to_score": tally(proc_s, np.setdiff1d(np.arange(jobs.num_rows), past.row[ran])),
        "learnt_from": tally(proc_s, past.row[ran[:n_learnt]]),
    }
    report = Report("backtest", "job", tally(proc_s), tally(proc_s, past.row[scored]), set_aside, facts)
    return table, report.check()


def errors_of(jobs: pa.Table, past: History, quantiles_s: Floats, scored: Ints, about: Mapping[str, Any]) -> pa.Table:
    """BACKTEST_ERRORS: for each scored job the estimated quantiles and the runtime (both in s), and the age in days of
    what the estimate knew.

    `runtime_quantile` is the share, interpolated among the six, at which the runtime lies; null below the first one,
    beyond the last one, and where a method has no quantiles.
    """
    quantiles_s, runtime_s = quantiles_s[scored], past.runtime_s[scored]
    columns = {f"runtime_s_q{100 * share:.0f}": quantiles_s[:, k] for k, share in enumerate(QUANTILES)}
    columns |= {"known_age_days": (past.submit_s[scored] - past.known_s[scored]) / DAY_S}
    known = {name: np.where(np.isfinite(column), column, np.nan) for name, column in columns.items()}
    rows = pa.array(past.row[scored])
    return BACKTEST_ERRORS.build(
        **{name: [about[name]] * len(scored) for name in ("log", "estimator", "stale_days")},
        **{name: jobs.column(name).take(rows) for name in (*JOB, "restart", "submit_s")},
        **{name: pa.array(column, from_pandas=True) for name, column in known.items()},
        runtime_s=runtime_s, runtime_quantile=runtime_quantiles(runtime_s, quantiles_s),
    )  # fmt: skip


def runtime_quantiles(runtime_s: Floats, quantiles_s: Floats) -> list[float | None]:
    """Per job the share at which its runtime lies among its quantiles (jobs, 6), s, interpolated; null outside them."""
    return [
        float(np.interp(one_s, own_s, QUANTILES)) if own_s[0] <= one_s <= own_s[-1] else None
        for one_s, own_s in zip(runtime_s.tolist(), quantiles_s, strict=True)
    ]


def past_of(jobs: pa.Table, settings: RunSettings, way: Way | None = None) -> History:
    """The log in the order a scheduler observes it, with submit times on the site's clock."""
    way = way or Way()
    past = history(jobs, settings.site.timezone, without_flagged=way.without_flagged)
    return replace(past, stale_s=way.stale_s)


def _filled(quantiles_s: Floats, instead: Floats, scored: Ints) -> tuple[Floats, Bools]:
    """One method's quantiles with gaps filled, and where; a quantile it never gives stays NaN and is not scored."""
    if quantiles_s.shape != instead.shape:
        raise ValueError(f"quantiles of shape {quantiles_s.shape}, expected {instead.shape}")
    is_fallback = np.isnan(quantiles_s[:, QUANTILES.index(0.50)])
    filled = np.where(is_fallback[:, None], instead, quantiles_s)
    answered = quantiles_s[scored[~is_fallback[scored]]]
    filled[:, np.isnan(answered).all(axis=0) & bool(len(answered))] = np.nan
    return filled, is_fallback


def rows_of(past: History, quantiles_s: Floats, is_fallback: Bools, scored: Ints) -> Iterator[dict[str, Any]]:
    """BACKTEST's columns of a method by part of the scored jobs; no row where there is none."""

    def rows(part: str, values: Array) -> Iterator[dict[str, Any]]:
        order = scored[np.argsort(values[scored], kind="stable")]
        for own in np.split(order, 1 + np.flatnonzero(values[order[1:]] != values[order[:-1]])):
            figures = _figures(past, quantiles_s[own], is_fallback[own], own)
            yield {"part": part, "part_value": values[own[0]]} | figures

    if not len(scored):
        return
    local = past.local_s.astype("datetime64[s]")
    first = local[scored].min().astype("datetime64[D]")
    yield from (row | {"part_value": None} for row in rows("all", np.zeros(len(past))))
    yield from (row | {"part_value": str(row["part_value"])} for row in rows("month", local.astype("datetime64[M]")))
    yield from (row | {"part_value": size_name(row["part_value"])} for row in rows("size", size_classes(past.procs)))
    fortnights = first + (local - first) // FORTNIGHT * FORTNIGHT
    large = [row for row in rows("", fortnights) if row["n_jobs"] >= FORTNIGHT_MIN_JOBS]
    for part, figure in WORST.items():
        if known := [row for row in large if row.get(figure) is not None]:
            worst = min(known, key=lambda row: float(row[figure]))
            yield worst | {"part": part, "part_value": str(worst["part_value"])}


def size_classes(procs: Floats) -> Ints:
    """0 for 1 processor, 1 for 2, 2 for 3-4, 3 for 5-8: k for more than 2^(k-1) and up to 2^k."""
    return np.ceil(np.log2(np.maximum(procs, 1.0))).astype(np.int64)


def size_name(size: int) -> str:
    """The class as text: 1, 2, 3-4, 5-8."""
    return str(2**size) if size < 2 else f"{2 ** (size - 1) + 1}-{2**size}"


def _figures(past: History, quantiles_s: Floats, is_fallback: Bools, places: Ints) -> dict[str, Any]:
    """The figures of the jobs at these places, of which quantiles and fallbacks are given."""
    answered = ~np.isnan(quantiles_s[:, 1])
    counts = {"n_jobs": len(places), "n_fallback": int(is_fallback.sum()), "n_unanswered": int((~answered).sum())}
    if not answered.any():
        return counts
    every = scores(past.runtime_s[places], quantiles_s, answered)
    known = {name: value for name, value in every.items() if np.isfinite(value) and not name.startswith("n_")}
    if np.isnan(quantiles_s[:, [0, 3]]).any(axis=1).all():
        known.pop("coverage_80", None)
    # A backfiller can use the room between the request and the 95% quantile.
    requested_s, q95_s = past.requested_s[places], quantiles_s[:, QUANTILES.index(0.95)]
    both = (requested_s > 0) & ~np.isnan(q95_s)
    if both.any():
        known["q95_over_request"] = float(np.median(q95_s[both]) / np.median(requested_s[both]))
    return counts | known


def fallback_quantiles(past: History) -> Floats:
    """(jobs, 6), s: the request from its median up, as a limit; else the log's running quantiles; NaN before any end.

    The lowest quantile is the log's own, never above the request.
    """
    running_s = running_quantiles(past)
    requested_s = np.where(past.requested_s > 0, past.requested_s, np.nan)
    found: Floats = np.where(np.isnan(requested_s)[:, None], running_s, requested_s[:, None])
    found[:, 0] = np.fmin(running_s[:, 0], requested_s)
    return found


def running_quantiles(past: History) -> Floats:
    """(jobs, 6), s: quantiles (nearest rank) of the runtimes of all jobs that had ended by each submit.

    The n-th smallest of the first runtimes is found for all jobs at once, bit by bit of its rank among all runtimes: a
    wavelet matrix (Claude, Navarro and Ordonez 2015, The wavelet matrix).
    """
    ran_s, n_known = past.runtime_s[past.by_end], past.ended[:, None]
    nth = np.maximum(np.ceil(np.array(QUANTILES) * n_known), 1).astype(np.int64) - 1
    ranks = np.argsort(np.argsort(ran_s, kind="stable"))
    # Of the ranks that share the bits found so far those of known jobs are the ones from `first` to `last`.
    found, first, last = np.zeros_like(nth), np.zeros_like(nth), np.broadcast_to(n_known, nth.shape)
    for bit in reversed(range(len(ranks).bit_length())):
        is_high = (ranks >> bit) & 1 == 1
        lower = np.append(0, np.cumsum(~is_high))
        n_low = lower[last] - lower[first]
        goes_high = nth >= n_low
        nth = np.where(goes_high, nth - n_low, nth)
        first, last = (np.where(goes_high, lower[-1] + at - lower[at], lower[at]) for at in (first, last))
        found += goes_high.astype(np.int64) << bit
        ranks = np.concatenate([ranks[~is_high], ranks[is_high]])
    return np.append(np.sort(ran_s), np.nan)[np.where(n_known > 0, found, -1)]
