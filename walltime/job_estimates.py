"""Estimated runtimes of jobs that have not run, errors of every method on a log, and replays under other policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.quantities import chosen_names
from flows.services.replaying import ReplayTask, chosen_cases, subject_of_jobs
from pipeline.arrays import Floats, Ints, floats
from pipeline.errors import InputError, printable
from pipeline.estimate.history import ATTRIBUTES, WHAT, WHO, history, newest_s
from pipeline.estimate.questions import completed, questions_of
from pipeline.estimate.score import CALIBRATED, QUANTILES
from pipeline.estimate.state import State, learn, walltime
from pipeline.estimate.state import estimate as estimate_jobs
from pipeline.evaluate import backtest as backtest_log
from pipeline.evaluate.methods import METHODS, method_with_settings
from pipeline.schedule.queues import queue_at
from pipeline.schedule.starts import LEVELS, expected, queue_names, record_of_log
from pipeline.schedule.starts import log_of as log_of_history
from pipeline.schedule.what_if import what_if
from pipeline.schedule.workload import Shakes
from pipeline.tables import BACKTEST, JOBS, REPLAY
from walltime.frames import FrameKind, arrow_of, frame_of, plain, require, with_column
from walltime.log_jobs import Site, converted, flagged, log_of, settings_for

COUNTS = ("requested_s", "requested_mem_kib", "procs", "nodes", "gpus")
ASKED = tuple(dict.fromkeys((*WHO, *WHAT, *ATTRIBUTES, *COUNTS)))
"""The columns of a job that an estimate uses."""


def estimate(log: Any, jobs: Any, site: Site = None, *, config: str | Path | None = None) -> Any:
    """Runtime quantiles of jobs that have not run, learnt from a log by the estimator `walltime`.

    Parameters
    ----------
    log : DataFrame
        Jobs that have been submitted, as `read` or `clean` gives them. Needed: `submit_s`, `start_s`, `end_s` (s since
        1970), `procs` and `runtime_s` (s). Without flags the log is cleaned first.
    jobs : DataFrame
        Jobs to estimate. At least one of `user`, `application`, `procs`, `requested_s` (s) and the other columns that a
        submit states; names as in `log`. Without `procs` the size of the submitter's last job is taken, or that of
        `nodes` where the site has `procs_per_node`. A job without `gpus` holds none; their type is that of `gpu_type`,
        else the usual one. `submit_s` (s since 1970) is the time of the submit, by default the newest time of the log.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `timezone`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Returns
    -------
    DataFrame
        The frame `jobs` with `runtime_s_q10`, `_q50`, `_q80`, `_q90`, `_q95` and `_q99`, s. The median is at most the
        request.

    Raises
    ------
    WalltimeError
        If a needed column is missing, or a submit is before the newest time of the log.

    Examples
    --------
    >>> import pandas as pd
    >>> import walltime as wt
    >>> log = wt.read("data_samples/traps.swf", site="oxbow")
    >>> waiting = pd.DataFrame({"user": ["1"], "procs": [4], "requested_s": [3600.0]})
    >>> answer = wt.estimate(log, waiting)
    >>> bool(answer["runtime_s_q50"].item() <= 3600.0)
    True
    """
    table, kind, found = JobEstimator(site, config=config).fit(log)._answers(jobs)
    for place, share in enumerate(QUANTILES):
        table = _appended(table, f"runtime_s_q{round(100 * share)}", found[:, place])
    return frame_of(table, kind)


INTERVALS = (80, 95)
"""The central intervals that are calibrated, per cent."""

PART_OF_95 = 0.46
"""Where the quantile of 97.5% lies between those of 95 and 99%, in logs: as on a normal distribution."""


class JobEstimator:
    """Learns once from a log, and predicts runtimes of new jobs as often as asked: `fit`, `predict`, `score`, `plot`.

    Parameters
    ----------
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `timezone`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Examples
    --------
    >>> import walltime as wt
    >>> log = wt.read("data_samples/traps.swf", site="oxbow")
    >>> model = wt.JobEstimator().fit(log)
    >>> answer = model.predict(log.tail(2)[["user", "procs", "requested_s"]], levels=[80, 95])
    >>> bool((answer["runtime_s_lo95"] <= answer["runtime_s_lo80"]).all())
    True
    """

    def __init__(self, site: Site = None, *, config: str | Path | None = None) -> None:
        self.site, self.config = site, config
        self._state: State | None = None

    def fit(self, jobs: Any) -> "JobEstimator":
        """Learn from a log, as `estimate` takes it; returns the estimator itself."""
        self._settings = settings_for(self.config, self.site)
        past_jobs = flagged(log_of(jobs, "estimate, log", self._settings), self._settings)
        past = history(past_jobs, self._settings.site.timezone)
        until_s = newest_s(past_jobs, past.row)
        if not np.isfinite(until_s) or not past.has_run.any():
            raise InputError("estimate, log", "no job that ended", "a log with jobs that ended")
        self._state = learn(past, until_s)
        return self

    def predict(self, jobs: Any, levels: Sequence[int] = ()) -> Any:
        """The frame with `runtime_s_q50`, and for each of `levels` (80, 95) `runtime_s_lo80`, `runtime_s_hi80`, s."""
        if wrong := [one for one in levels if one not in INTERVALS]:
            raise InputError("predict", f"the level {printable(repr(wrong[0]))}", "80 and 95, which are calibrated")
        table, kind, found = self._answers(jobs)
        table = _appended(table, "runtime_s_q50", found[:, QUANTILES.index(0.5)])
        for name, values in _interval_ends(found).items():
            if int(name[-2:]) in levels:
                table = _appended(table, name, values)
        return frame_of(table, kind)

    def score(self, jobs: Any) -> float:
        """The coefficient of determination (R squared) of log runtimes on jobs with their `runtime_s`; 1 is best."""
        estimate_s, actual_s = self._compared(jobs)[1:]
        logs = np.log(actual_s)
        return float(1 - ((np.log(estimate_s) - logs) ** 2).sum() / ((logs - logs.mean()) ** 2).sum())

    def plot(self, jobs: Any, axes: Any = None) -> Any:
        """Draw estimates with their 80% intervals over the runtimes of jobs that have them; returns the axes."""
        found, estimate_s, actual_s = self._compared(jobs)
        ends = _interval_ends(found)
        axes = axes or _axes()
        off_s = np.abs(np.stack([ends["runtime_s_lo80"], ends["runtime_s_hi80"]]) - estimate_s)
        axes.errorbar(actual_s, estimate_s, off_s, fmt="o", markersize=3, elinewidth=0.5, alpha=0.6)
        axes.axline((1, 1), slope=1, linewidth=0.8, linestyle="--")
        axes.set(xscale="log", yscale="log", xlabel="runtime, s", ylabel="estimate and 80% interval, s")
        return axes

    def _compared(self, jobs: Any) -> tuple[Floats, Floats, Floats]:
        """Quantiles, medians and runtimes, s, of the jobs that have a runtime."""
        table, _, found = self._answers(jobs)
        require(table, ["runtime_s"], "score")
        actual_s = floats(pa.table(converted(table, JOBS, ["runtime_s"], "score")), "runtime_s")
        known = (actual_s > 0) & np.isfinite(found[:, QUANTILES.index(0.5)])
        return found[known], np.maximum(found[known, QUANTILES.index(0.5)], 1e-9), actual_s[known]

    def _answers(self, jobs: Any) -> tuple[pa.Table, FrameKind, Floats]:
        """The frame as a table, its kind, and quantiles at CALIBRATED (jobs, 7) in s, in the order of the rows."""
        if self._state is None:
            raise InputError("JobEstimator", "no log learnt from", "a call of fit before")
        table, kind = arrow_of(jobs, "estimate, jobs")
        submit_s = _submit_s(table, self._state.as_of_s)
        order = np.argsort(submit_s, kind="stable")
        names = [name for name in ASKED if name in table.column_names]
        if not names:
            raise InputError("estimate, jobs", "no column that a submit states", f"one or more of {', '.join(ASKED)}")
        rows = pa.table(converted(table, JOBS, names, "estimate, jobs")).to_pylist()
        site, own = self._settings.site, [rows[place] for place in order]
        questions = questions_of(own, submit_s[order], site.timezone, site.procs_per_node)
        found = np.empty((len(rows), len(CALIBRATED)))
        found[order] = estimate_jobs(self._state, completed(self._state, questions))
        return table, kind, found


def _interval_ends(quantiles_s: Floats) -> dict[str, Floats]:
    """Ends, s, of the central intervals by column, from quantiles at CALIBRATED."""
    lo80_s, _, _, hi80_s, q95_s, q99_s, lo95_s = quantiles_s.T
    return {
        "runtime_s_lo80": lo80_s, "runtime_s_hi80": hi80_s,
        "runtime_s_lo95": lo95_s, "runtime_s_hi95": q95_s * (q99_s / q95_s) ** PART_OF_95,
    }  # fmt: skip


def _appended(table: pa.Table, name: str, values: Floats) -> pa.Table:
    array = pa.array(values, mask=np.isnan(values))
    return with_column(table, pa.field(name, array.type), array)


def _axes() -> Any:
    import matplotlib.pyplot as plt  # noqa: PLC0415  (an extra of the package)

    return plt.subplots()[1]


def _submit_s(table: pa.Table, as_of_s: float) -> Floats:
    if "submit_s" not in table.column_names:
        return np.full(table.num_rows, as_of_s)
    values = converted(table, JOBS, ["submit_s"], "estimate, jobs")["submit_s"].to_pylist()
    submit_s = np.array([as_of_s if value is None else value for value in values], np.float64)
    if (submit_s < as_of_s).any():
        found = f"a submit at {submit_s.min():.0f} s"
        do = "give the log as it was at that time, or leave submit_s out"
        raise InputError("estimate, jobs", found, f"none before the newest time of the log, {as_of_s:.0f} s", do)
    return submit_s


def when(log: Any, at_s: float | None = None, site: Site = None, *, config: str | Path | None = None) -> Any:
    """When the waiting jobs of a log start, and how long its running jobs still run, from what was known at a time.

    Parameters
    ----------
    log : DataFrame
        Jobs as `read` or `clean` gives them, with those that wait and run: their state says so, or they start or end
        after `at_s`.
    at_s : float, optional
        The time of the question, s since 1970; by default the newest time of the log. No later start or end is used,
        but flags are those of the whole log.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `timezone`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Returns
    -------
    DataFrame
        A row per job that runs or waits, in order of submit: `job_id`; of a running job `elapsed_s` and `left_s_q10`,
        `_q50`, `_q80` and `_q95`; of a waiting one `wait_s_q10` to `_q95`, the time left to wait, and `answered_by`;
        all in s, null where there is no answer.

    Raises
    ------
    WalltimeError
        If a needed column is missing, or the log has no time.

    Examples
    --------
    >>> import walltime as wt
    >>> log = wt.read("data_samples/traps.swf", site="oxbow")
    >>> longest = log.loc[log["runtime_s"].idxmax()]
    >>> found = wt.when(log, float(longest["start_s"] + longest["runtime_s"] / 2))
    >>> longest["job_id"] in set(found["job_id"]), bool((found["left_s_q50"].dropna() >= 1.0).all())
    (True, True)
    """
    settings = settings_for(config, site)
    given = log_of(log, "when", settings)
    jobs = flagged(given, settings)
    past = history(jobs, settings.site.timezone)
    now_s = newest_s(jobs, past.row) if at_s is None else float(at_s)
    if not np.isfinite(now_s):
        raise InputError("when", f"the time {now_s}", "a time of the question", "give at_s=, or a log with times")
    past = past.known_by(now_s)
    known = log_of_history(past, walltime(past), None, queue_names(past))
    found = expected(queue_at(known, now_s), record_of_log(known))
    runs, waits = found.queue.runs, found.queue.waits
    columns = {"elapsed_s": _placed(len(past), runs, found.queue.elapsed_s)}
    for nth, level in enumerate(LEVELS):
        columns[f"left_s_q{round(100 * level)}"] = _placed(len(past), runs, found.left_s[:, nth])
        columns[f"wait_s_q{round(100 * level)}"] = _placed(len(past), waits, found.start_s[:, nth])
    way = dict(zip(waits.tolist(), found.way, strict=True))
    places = np.sort(np.concatenate([runs, waits]))
    ids = jobs.column("job_id").take(pa.array(past.row[places])).cast(pa.string())
    arrays = {name: pa.array(values[places], mask=np.isnan(values[places])) for name, values in columns.items()}
    answered = pa.array([way.get(place) for place in places.tolist()], pa.string())
    return frame_of(pa.table({"job_id": ids, **arrays, "answered_by": answered}), given.kind)


def _placed(n: int, places: Ints, values: Floats) -> Floats:
    """(n,) NaN but for values at places."""
    found = np.full(n, np.nan)
    found[places] = values
    return found


def backtest(
    log: Any, methods: Sequence[str] | None = None, site: Site = None, *, config: str | Path | None = None
) -> Any:
    """The errors of each method on the later jobs of a log, each estimated from jobs that had ended by its submit.

    Parameters
    ----------
    log : DataFrame
        Jobs as `read` or `clean` gives them. Needed: `submit_s`, `start_s`, `end_s` (s since 1970), `procs` and
        `runtime_s` (s). Without flags the log is cleaned first.
    methods : sequence of str, optional
        Names of methods, as in "walltime", "request" and "last_two"; by default those of the settings, else all.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `timezone`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Returns
    -------
    DataFrame
        BACKTEST: rows per method and part of the log; errors in s. `walltime show backtest --columns`
            explains the figures.

    Raises
    ------
    WalltimeError
        If a needed column is missing, or a method is unknown.

    Examples
    --------
    >>> import walltime as wt
    >>> log = wt.read("data_samples/traps.swf", site="oxbow")
    >>> figures = wt.backtest(log, methods=["last_two", "request"])
    >>> sorted(set(figures["estimator"]))
    ['last_two', 'request']
    """
    settings = settings_for(config, site)
    given = log_of(log, "backtest", settings)
    names = chosen_names([methods] if isinstance(methods, str) else methods or (), METHODS, "--methods")
    estimators = {name: method_with_settings(name, settings) for name in names}
    table, _ = backtest_log(flagged(given, settings), settings, estimators)
    return frame_of(plain(table, BACKTEST), given.kind)


def replay(
    log: Any,
    procs: int | None = None,
    *,
    policies: Sequence[str] = ("easy", "easy-sjbf"),
    estimates: Sequence[str] = ("soft", "order", "control", "perfect"),
    days: float | None = None,
    shakes: int = 20,
    seed: int = 1,
    site: Site = None,
    config: str | Path | None = None,
) -> Any:
    """What other policies and estimates would have done to the waits of a log's jobs.

    Parameters
    ----------
    log : DataFrame
        Jobs as `read` or `clean` gives them. Needed: `submit_s`, `start_s`, `end_s` (s since 1970), `procs` and
        `runtime_s` (s). Without flags the log is cleaned first.
    procs : int, optional
        Processors of the machine; by default `max_procs` of the site.
    policies : sequence of str
        Of "fcfs", "easy", "easy-sjbf" and "conservative"; each is compared with EASY with requests.
    estimates : sequence of str
        What is planned with: of "soft" (or one of "soft-10", "soft-50" and "soft-80"), "order", "control", "perfect",
        "request" and "last2".
    days : float, optional
        Score the jobs of this many last days; by default all.
    shakes : int
        Replays with shaken arrivals; 0: one replay of the log as it is.
    seed : int
        Seed of the shakes; the same seed gives the same figures.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `max_procs`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Returns
    -------
    DataFrame
        REPLAY: rows per policy, estimates, part of the jobs and statistic; waits in s.

    Raises
    ------
    WalltimeError
        If the size of the machine is unknown, a name is unknown, a column is missing, or there is no job to score.

    Examples
    --------
    >>> import walltime as wt
    >>> log = wt.read("data_samples/traps.swf", site="oxbow")
    >>> figures = wt.replay(log, procs=128, estimates=["request", "perfect"], shakes=0)
    >>> sorted(set(figures["estimates"]))
    ['perfect', 'request']
    """
    settings = settings_for(config, site)
    given = log_of(log, "replay", settings)
    capacity = procs if procs is not None else settings.site.max_procs
    if capacity is None or capacity < 1:
        found = "no size of the machine" if capacity is None else f"procs = {capacity}"
        raise InputError("replay", found, "processors", 'give procs=, or site={"max_procs": ...}')
    policies, estimates = (names if isinstance(names, str) else ",".join(names) for names in (policies, estimates))
    cases = chosen_cases(policies, estimates)
    task = ReplayTask(settings.site.name, (), settings, cases, Shakes(shakes, seed), capacity=capacity, days=days)
    subject, _ = subject_of_jobs(task, flagged(given, settings))
    table = what_if(subject, task.cases, task.shakes)
    if not table.num_rows:
        raise InputError("replay", "no job to score", "jobs after the first 1%, submitted in the days asked for")
    return frame_of(plain(table, REPLAY), given.kind)
