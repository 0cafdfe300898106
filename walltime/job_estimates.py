"""Estimated runtimes of jobs that have not run, errors of every method on a log, and replays under other policies."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.quantities import chosen_names
from flows.services.studies import ReplayTask, chosen_cases, subject_of_jobs
from pipeline.arrays import DAY_S, Floats, Ints, floats
from pipeline.errors import InputError, printable
from pipeline.estimate.history import ATTRIBUTES, WHAT, WHO, History, history, newest_s
from pipeline.estimate.questions import completed, questions_of
from pipeline.estimate.score import CALIBRATED, QUANTILES
from pipeline.estimate.state import estimate as estimate_jobs
from pipeline.estimate.state import learn, walltime
from pipeline.evaluate import backtest as backtest_log
from pipeline.evaluate.methods import METHODS, method_with_settings
from pipeline.evaluate.methods import Estimator as BacktestMethod
from pipeline.schedule.queues import queue_at
from pipeline.schedule.starts import LEVELS, expected, queue_names, record_of_log
from pipeline.schedule.starts import log_of as log_of_history
from pipeline.schedule.what_if import what_if
from pipeline.schedule.workload import Shakes
from pipeline.tables import BACKTEST, JOBS, REPLAY
from walltime.estimator import MEDIAN, Estimator, interpolated, r_squared, wanted_quantiles, with_target, with_values
from walltime.frames import FrameKind, arrow_of, frame_of, plain, require, same_rows
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
        If a needed column is missing, or a submit is before the first end of a job of the log.

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
    return JobEstimator(site, config=config).fit(log).predict(jobs, quantiles=QUANTILES)


KNOWN = tuple(sorted(CALIBRATED))
"""The quantiles that are calibrated, in order."""
IN_ORDER = [CALIBRATED.index(share) for share in KNOWN]


class JobEstimator(Estimator):
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

    def fit(self, jobs: Any, y: Any = None) -> "JobEstimator":
        """Learn from a log, as `estimate` takes it, or with its runtimes (s) in `y`; returns the estimator itself."""
        self.settings_ = settings_for(self.config, self.site)
        table, _ = with_target(jobs, y, "runtime_s", "fit")
        past_jobs = flagged(log_of(table, "estimate, log", self.settings_), self.settings_)
        self.past_ = history(past_jobs, self.settings_.site.timezone)
        until_s = newest_s(past_jobs, self.past_.row)
        if not np.isfinite(until_s) or not self.past_.has_run.any():
            raise InputError("estimate, log", "no job that ended", "a log with jobs that ended")
        self.state_ = learn(self.past_, until_s)
        return self

    def predict(self, jobs: Any, levels: Sequence[float] = (), quantiles: Sequence[float] = (MEDIAN,)) -> Any:
        """The frame with a column for each of `quantiles`, and both ends of each interval of `levels` (per cent), in s.

        The quantiles 10, 50, 80, 90, 95 and 99% and the intervals 80 and 95% are calibrated; others are interpolated
        between these. Where a job was submitted before the newest time of the log, all are estimated from what was
        known at the earliest of their submits.
        """
        wanted = wanted_quantiles(levels, quantiles, KNOWN)
        table, kind, found = self._answers(jobs)
        for name, share in wanted.items():
            table = with_values(table, name, interpolated(KNOWN, found, share))
        return same_rows(table, kind, jobs)

    def score(self, jobs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination (R squared) of log runtimes on jobs with their runtimes (s); 1 is best."""
        found, actual_s = self._compared(with_target(jobs, y, "runtime_s", "score")[0])
        return r_squared(found[:, KNOWN.index(MEDIAN)], actual_s, sample_weight)

    def plot(self, jobs: Any, axes: Any = None) -> Any:
        """Draw estimates with their 80% intervals over the runtimes of jobs that have them; returns the axes."""
        import matplotlib.pyplot as plt  # noqa: PLC0415  (an extra of the package)

        found, actual_s = self._compared(jobs)
        known = actual_s > 0
        found, actual_s = found[known], actual_s[known]
        low_s, middle_s, high_s = (found[:, KNOWN.index(share)] for share in (0.1, MEDIAN, 0.9))
        axes = axes or plt.subplots()[1]
        off_s = np.abs(np.stack([low_s, high_s]) - middle_s)
        axes.errorbar(actual_s, middle_s, off_s, fmt="o", markersize=3, elinewidth=0.5, alpha=0.6)
        axes.axline((1, 1), slope=1, linewidth=0.8, linestyle="--")
        axes.set(xscale="log", yscale="log", xlabel="runtime, s", ylabel="estimate and 80% interval, s")
        return axes

    def _compared(self, jobs: Any) -> tuple[Floats, Floats]:
        """Quantiles and runtimes of the jobs, s; NaN where one is unknown."""
        table, _, found = self._answers(jobs)
        require(table, ["runtime_s"], "score")
        return found, floats(pa.table(converted(table, JOBS, ["runtime_s"], "score")), "runtime_s")

    def _answers(self, jobs: Any) -> tuple[pa.Table, FrameKind, Floats]:
        """The frame as a table, its kind, and quantiles at KNOWN (jobs, 7) in s, in the order of the rows."""
        self.checked_fitted()
        table, kind = arrow_of(jobs, "estimate, jobs")
        submit_s = _submit_s(table, self.state_.as_of_s)
        first_s = float(submit_s.min(initial=np.inf))
        state = self.state_
        if first_s < state.as_of_s:
            past = self.past_.known_by(first_s)
            if not past.has_run.any():
                found, do = f"a submit at {first_s:.0f} s", "give a later submit_s, or leave the column out"
                raise InputError("estimate, jobs", found, "none before the first end of a job of the log", do)
            state = learn(past, first_s)
        order = np.argsort(submit_s, kind="stable")
        names = [name for name in ASKED if name in table.column_names]
        if not names:
            raise InputError("estimate, jobs", "no column that a submit states", f"one or more of {', '.join(ASKED)}")
        rows = pa.table(converted(table, JOBS, names, "estimate, jobs")).to_pylist()
        site, own = self.settings_.site, [rows[place] for place in order]
        questions = questions_of(own, submit_s[order], site.timezone, site.procs_per_node)
        quantiles_s = np.empty((len(rows), len(KNOWN)))
        quantiles_s[order] = estimate_jobs(state, completed(state, questions))[:, IN_ORDER]
        return table, kind, quantiles_s


def _submit_s(table: pa.Table, as_of_s: float) -> Floats:
    if "submit_s" not in table.column_names:
        return np.full(table.num_rows, as_of_s)
    values = converted(table, JOBS, ["submit_s"], "estimate, jobs")["submit_s"].to_pylist()
    return np.array([as_of_s if value is None else value for value in values], np.float64)


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


Method = Callable[[Any, Any], Any]
"""A method of one's own: from the jobs that ended before a day and those submitted on it to runtimes of these, s."""


def backtest(
    log: Any, methods: Sequence[str | Method] | Method | str | None = None, site: Site = None, *,
    config: str | Path | None = None,
) -> Any:  # fmt: skip
    """The errors of each method on the later jobs of a log, each estimated from jobs that had ended by its submit.

    Parameters
    ----------
    log : DataFrame
        Jobs as `read` or `clean` gives them. Needed: `submit_s`, `start_s`, `end_s` (s since 1970), `procs` and
        `runtime_s` (s). Without flags the log is cleaned first.
    methods : sequence of str or callable, optional
        Names of methods, as in "walltime", "request" and "last_two"; by default those of the settings, else all. A
        function of your own is called once for each day (UTC) as `method(known, new)`: with the jobs that had ended
        when the day began, in order of end, and with the jobs submitted on it, as they were known at their submit. It
        returns the median runtime of each new job in s, or its quantiles 10, 50, 80, 90, 95 and 99% as six columns;
        NaN for no answer. Compare it with "table", which also knows what had ended by the last midnight.
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
    >>> def mean(known, new):
    ...     return [known["runtime_s"].mean()] * len(new)
    >>> figures = wt.backtest(log, methods=["last_two", mean])
    >>> sorted(set(figures["estimator"]))
    ['last_two', 'mean']
    """
    settings = settings_for(config, site)
    given = log_of(log, "backtest", settings)
    jobs = flagged(given, settings)
    listed = [methods] if isinstance(methods, str) or callable(methods) else list(methods or ())
    own: dict[str, Method] = {}
    for nth, one in enumerate(listed, 1):
        if not (isinstance(one, str) or callable(one)):
            expected = f"a name ({', '.join(METHODS)}) or a function of (known, new)"
            raise InputError("backtest", f"a method that is {printable(repr(one), 60)}", expected)
        if callable(one):
            name = getattr(one, "__name__", f"method {nth}")
            if name in own or name in METHODS:
                raise InputError("backtest", f"two methods of the name {printable(name)}", "a name for each function")
            own[name] = one
    named = [one for one in listed if isinstance(one, str)]
    names = chosen_names(named, METHODS, "--methods") if named or not own else []
    estimators = {name: method_with_settings(name, settings) for name in names}
    estimators |= {name: _daily(name, method, jobs, given.kind) for name, method in own.items()}
    table, _ = backtest_log(jobs, settings, estimators)
    return frame_of(plain(table, BACKTEST), given.kind)


def _daily(name: str, method: Method, jobs: pa.Table, kind: FrameKind) -> BacktestMethod:
    """A method of one's own as one of a backtest: it sees no event after the midnight before a submit."""

    def estimated(past: History) -> Floats:
        every = plain(jobs, JOBS)
        by_end = every.take(past.row[past.by_end])
        submitted = every.select([*dict.fromkeys(("job_id", "submit_s", *ASKED))]).take(past.row)
        days, first = np.unique(np.floor(past.submit_s / DAY_S), return_index=True)
        n_known = np.searchsorted(past.end_s[past.by_end], days * DAY_S, side="right")
        found = np.full((len(past), len(QUANTILES)), np.nan)
        for ended, begin, end in zip(n_known, first, np.append(first[1:], len(past)), strict=True):
            new = submitted.slice(begin, end - begin)
            answer = np.asarray(method(frame_of(by_end.slice(0, ended), kind), frame_of(new, kind)), np.float64)
            if answer.shape not in ((len(new),), (len(new), len(QUANTILES))):
                expected = f"one median, or {len(QUANTILES)} quantiles, for each of {len(new)} jobs"
                raise InputError(f"backtest, {printable(name)}", f"an answer of shape {answer.shape}", expected)
            found[begin:end, [QUANTILES.index(MEDIAN)] if answer.ndim == 1 else slice(None)] = (
                answer[:, None] if answer.ndim == 1 else answer
            )
        return found

    return estimated


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
        "request" and "last_two".
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
