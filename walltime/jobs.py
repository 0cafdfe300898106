"""Jobs of accounting logs: read, cleaned, estimated before they run, asked when they start, scored and replayed."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.files.os_errors import config_settings
from flows.services.quantities import chosen_names
from flows.services.studies import chosen_cases, replayed, subject_of
from pipeline.arrays import DAY_S, Floats
from pipeline.clean import SET
from pipeline.clean import clean as clean_jobs
from pipeline.errors import InputError, printable
from pipeline.estimate.history import ATTRIBUTES, WHAT, WHO, History, history, newest_s
from pipeline.estimate.questions import completed, questions_of
from pipeline.estimate.score import CALIBRATED, QUANTILES
from pipeline.estimate.state import estimate as estimate_jobs
from pipeline.estimate.state import learn, walltime
from pipeline.evaluate import backtest as backtest_log
from pipeline.evaluate.methods import METHODS, method_with_settings
from pipeline.evaluate.methods import Estimator as BacktestMethod
from pipeline.ingest import Source, ingest
from pipeline.schedule.queues import queue_at
from pipeline.schedule.starts import LEVELS, expected, log_of, queue_names, record_of_log
from pipeline.schedule.workload import Shakes
from pipeline.settings import RunSettings, parse_settings
from pipeline.tables import BACKTEST, JOBS, REPLAY
from walltime.estimator import MEDIAN, Estimator, with_quantiles, with_target
from walltime.frames import KINDS, arrow_of, converted, frame_of, jobs_of, plain, with_column

Site = str | Mapping[str, Any] | None

NEEDED_OF_LOG = ("submit_s", "start_s", "end_s", "procs", "runtime_s")
"""The columns without which jobs are no log."""

COUNTS = ("requested_s", "requested_mem_kib", "procs", "nodes", "gpus")
ASKED = tuple(dict.fromkeys((*WHO, *WHAT, *ATTRIBUTES, *COUNTS)))
"""The columns of a job that an estimate uses."""

KNOWN = tuple(sorted(CALIBRATED))
"""The quantiles that are calibrated, in order."""

Method = Callable[[Any, Any], Any]
"""A method of one's own: from the jobs that ended before a day and those submitted on it to runtimes of these, s."""


class UnreadableLinesWarning(UserWarning):
    """Lines of a log could not be read, and their jobs are not in the frame."""


def read(path: Any, site: Site = None, *, config: str | Path | None = None, frame: str = "pandas") -> Any:
    """The jobs of accounting logs, one row per record of one allocation, in order of submit.

    Formats are found by content: `sacct` dumps and JSON, accounting files of OpenPBS and TORQUE, the Standard Workload
    Format, tables that `walltime ingest` wrote, and any other table of jobs; each may be compressed. Which column of
    such a table holds what is guessed, or declared in the config's `[ingest.columns]`. `walltime show --columns jobs`
    explains the columns of the result.

    Parameters
    ----------
    path : str, Path, list of these, or a frame
        Logs, folders or globs of one site; or a frame of pandas or polars, a table or dataset of Arrow, or a relation
        of DuckDB, with a row for each job.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `timezone` and `max_procs`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.
    frame : str
        Kind of the frame: "pandas", "polars" or "arrow".

    Returns
    -------
    DataFrame
        JOBS; times in s since 1970 (UTC), durations in s, unknown values null.

    Warns
    -----
    UnreadableLinesWarning
        If lines could not be read; `walltime ingest` writes each with its reason.

    Raises
    ------
    WalltimeError
        If a log is missing, empty, damaged or of no known format, or if a setting is wrong.

    Examples
    --------
    >>> import walltime as wt
    >>> jobs = wt.read("data_samples/traps.swf", site="oxbow")
    >>> len(jobs), jobs["runtime_s"].dtype
    (94, dtype('float64'))
    """
    chosen_names([frame], KINDS, "frame")
    settings = settings_for(config, site)
    paths = path if isinstance(path, list | tuple) else [path]
    sources: list[Path | Source] = (
        [Path(one) for one in paths] if isinstance(path, str | Path | list | tuple) else [_log_in_memory(path)]
    )
    jobs, unreadable, _ = ingest(sources, settings.site, settings.ingest)
    if unreadable.num_rows:
        reasons = ", ".join(sorted({printable(reason) for reason in unreadable.column("reason").to_pylist()}))
        found = f"{unreadable.num_rows} lines could not be read ({reasons}) and are missing here"
        warnings.warn(f"{found}; `walltime ingest` writes each with its reason.", UnreadableLinesWarning, stacklevel=2)
    return frame_of(plain(jobs, JOBS), frame)


def _log_in_memory(frame: Any) -> Source:
    table, sink = arrow_of(frame, "frame")[0].unify_dictionaries(), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    data = sink.getvalue()
    return Source(Path("frame"), "frame", opened=lambda: pa.BufferReader(data))


def settings_for(config: str | Path | None, site: Site) -> RunSettings:
    """The settings of a config file, or the defaults; `site` is the site's name, or values of the section [site]."""
    settings = config_settings(Path(config)) if config is not None else RunSettings()
    given = {"name": site} if isinstance(site, str) else dict(site or {})
    named = settings.model_dump()
    return parse_settings(named | {"site": named["site"] | given}, "site")


def clean(jobs: Any, site: Site = None, *, config: str | Path | None = None) -> Any:
    """The same rows with the reason for which each job is set aside; no row is removed.

    Parameters
    ----------
    jobs : DataFrame
        Jobs as `read` gives them. Needed: `submit_s`, `start_s`, `end_s` (s since 1970), `procs` and `runtime_s` (s).
        Other columns of JOBS are used where they exist, and further columns are kept.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `max_procs`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Returns
    -------
    DataFrame
        The frame with `flag` (null: the job is kept), `burst_id` and `is_lower_bound`.

    Raises
    ------
    WalltimeError
        If a needed column is missing, or values do not fit their column.

    Examples
    --------
    >>> import walltime as wt
    >>> jobs = wt.clean(wt.read("data_samples/traps.swf", site="oxbow"))
    >>> len(jobs), int(jobs["flag"].notna().sum()), int((jobs["flag"] == "no_procs").sum())
    (94, 25, 2)
    """
    settings = settings_for(config, site)
    table, kind = arrow_of(jobs, "clean")
    given, order = jobs_of(table, NEEDED_OF_LOG, "clean", settings.site.name)
    flagged = clean_jobs(given, settings.clean, settings.site)[0].take(np.argsort(order))
    for field in (JOBS.schema(on_disk=True).field(name) for name in SET):
        table = with_column(table, field.name, flagged.column(field.name).cast(field.type), field)
    return frame_of(table, kind, like=jobs)


def _flagged(log: Any, what: str, settings: RunSettings) -> tuple[pa.Table, str]:
    """JOBS of a log with flags, those of the frame where it has any, else what cleaning sets; and the frame's kind."""
    table, kind = arrow_of(log, what)
    jobs, _ = jobs_of(table, NEEDED_OF_LOG, what, settings.site.name)
    has_flags = jobs.column("flag").null_count < jobs.num_rows
    return jobs if has_flags else clean_jobs(jobs, settings.clean, settings.site)[0], kind


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


class JobEstimator(Estimator):
    """Learns once from a log, and predicts runtimes of new jobs as often as asked: `fit`, `predict`, `score`.

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

    _shares = KNOWN

    def __init__(self, site: Site = None, *, config: str | Path | None = None) -> None:
        self.site, self.config = site, config

    def fit(self, jobs: Any, y: Any = None) -> "JobEstimator":
        """Learn from a log, as `estimate` takes it, or with its runtimes (s) in `y`; returns the estimator itself."""
        self.settings_ = settings_for(self.config, self.site)
        past_jobs, _ = _flagged(with_target(jobs, y, "fit")[0], "estimate, log", self.settings_)
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
        table, kind = arrow_of(jobs, "estimate, jobs")
        return frame_of(with_quantiles(table, levels, quantiles, KNOWN, self._quantiles_of(table)), kind, like=jobs)

    def _quantiles_of(self, table: pa.Table) -> Floats:
        """(jobs, 7) quantiles at KNOWN, s, in the order of the rows."""
        self.checked_fitted()
        names = [name for name in ASKED if name in table.column_names]
        if not names:
            raise InputError("estimate, jobs", "no column that a submit states", f"one or more of {', '.join(ASKED)}")
        dated = [*names, *({"submit_s"} & set(table.column_names))]
        rows, state = pa.table(converted(table, JOBS, dated, "estimate, jobs")).to_pylist(), self.state_
        now_s = state.as_of_s
        submit_s = np.array([now_s if (own_s := row.get("submit_s")) is None else own_s for row in rows], np.float64)
        first_s = float(submit_s.min(initial=np.inf))
        if first_s < now_s:
            past = self.past_.known_by(first_s)
            if not past.has_run.any():
                found, do = f"a submit at {first_s:.0f} s", "give a later submit_s, or leave the column out"
                raise InputError("estimate, jobs", found, "none before the first end of a job of the log", do)
            state = learn(past, first_s)
        order, site = np.argsort(submit_s, kind="stable"), self.settings_.site
        questions = questions_of([rows[at] for at in order], submit_s[order], site.timezone, site.procs_per_node)
        return estimate_jobs(state, completed(state, questions))[np.argsort(order)][:, np.argsort(CALIBRATED)]


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
    jobs, kind = _flagged(log, "when", settings)
    past = history(jobs, settings.site.timezone)
    now_s = newest_s(jobs, past.row) if at_s is None else float(at_s)
    if not np.isfinite(now_s):
        raise InputError("when", f"the time {now_s}", "a time of the question", "give at_s=, or a log with times")
    past = past.known_by(now_s)
    known = log_of(past, walltime(past), None, queue_names(past))
    queue, names = queue_at(known, now_s), [f"s_q{round(100 * level)}" for level in LEVELS]
    start_s, ways, left_s = expected(queue, record_of_log(known))
    left, wait = (
        {f"{what}_{name}": seconds[:, nth] for nth, name in enumerate(names)}
        for what, seconds in (("left", left_s), ("wait", start_s))
    )
    runs = pa.table({"place": queue.runs, "elapsed_s": queue.elapsed_s, **left})
    waits = pa.table({"place": queue.waits, **wait, "answered_by": pa.array(ways, pa.string())})
    rows, _ = arrow_of(pa.concat_tables([runs, waits], promote_options="default").sort_by("place"), "when")
    ids = jobs.column("job_id").take(past.row[rows.column("place")])
    return frame_of(rows.set_column(0, "job_id", ids.cast(pa.string())), kind)


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
    jobs, kind = _flagged(log, "backtest", settings)
    listed = [methods] if isinstance(methods, str) or callable(methods) else list(methods or ())
    estimators: dict[str, BacktestMethod] = {}
    for nth, one in enumerate(listed, 1):
        if callable(one):
            name = getattr(one, "__name__", f"method {nth}")
            if name in estimators or name in METHODS:
                raise InputError("backtest", f"two methods of the name {printable(name)}", "a name for each function")
            estimators[name] = _daily(name, one, jobs, kind)
    named = [str(one) for one in listed if not callable(one)]
    names = chosen_names(named, METHODS, "--methods") if named or not listed else []
    table, _ = backtest_log(jobs, settings, {n: method_with_settings(n, settings) for n in names} | estimators)
    return frame_of(plain(table, BACKTEST), kind)


def _daily(name: str, method: Method, jobs: pa.Table, kind: str) -> BacktestMethod:
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
            if answer.shape == (len(new),):
                found[begin:end, QUANTILES.index(MEDIAN)] = answer
            elif answer.shape == (len(new), len(QUANTILES)):
                found[begin:end] = answer
            else:
                expected = f"one median, or {len(QUANTILES)} quantiles, for each of {len(new)} jobs"
                raise InputError(f"backtest, {printable(name)}", f"an answer of shape {answer.shape}", expected)
        return found

    return estimated


def replay(
    log: Any, procs: int | None = None, *, policies: Sequence[str] = ("easy", "easy-sjbf"),
    estimates: Sequence[str] = ("soft", "order", "control", "perfect"), days: float | None = None, shakes: int = 20,
    seed: int = 1, site: Site = None, config: str | Path | None = None,
) -> Any:  # fmt: skip
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
    if procs is not None and procs < 1:
        raise InputError("replay", f"procs = {procs}", "processors of the machine, 1 or more")
    settings = settings_for(config, site)
    jobs, kind = _flagged(log, "replay", settings)
    policies, estimates = (names if isinstance(names, str) else ",".join(names) for names in (policies, estimates))
    cases = chosen_cases(policies, estimates)
    subject, _ = subject_of(settings.site.name, jobs, settings, cases, capacity=procs, days=days)
    return frame_of(plain(replayed(subject, cases, Shakes(shakes, seed)), REPLAY), kind)
