"""What `walltime backtest` and `replay` do: logs in; BACKTEST of every method, or REPLAY of every policy, out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.logs.cleaning import flagged_jobs
from flows.services.progress import running_stage
from flows.services.quantities import chosen_names, seconds, words
from flows.services.settings_and_logs import resolve, settings_and_logs
from pipeline.arrays import DAY_S, Floats, category_codes, floats
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.estimate.history import History
from pipeline.evaluate import backtest, check_no_look_ahead
from pipeline.evaluate.backtest import Way, past_of
from pipeline.evaluate.methods import METHODS, Estimator, method_with_settings
from pipeline.ingest.sources import find_sources
from pipeline.limits.soft import rules_of
from pipeline.report import Report
from pipeline.schedule.engine import Policy
from pipeline.schedule.figures import Score
from pipeline.schedule.verdict import ReplayResult
from pipeline.schedule.what_if import METHOD, SOFT, WITH_METHOD, Case, Estimates, Subject, cases, policy_name, what_if
from pipeline.schedule.workload import Convention, Shakes, has_waits, workload_of_jobs
from pipeline.settings import RunSettings


@dataclass(frozen=True, slots=True)
class Task:
    """One log to backtest: its name, files, settings, methods, and the ways in which estimates are made."""

    log: str
    paths: tuple[Path, ...]
    settings: RunSettings
    methods: tuple[str, ...]
    checks_leaks: bool
    ways: tuple[Way, ...] = (Way(),)
    lists_errors: bool = False

    @property
    def n_stages(self) -> int:
        """Stages that a backtest announces."""
        n_checked = len(self.methods) if self.checks_leaks else 0
        return 1 + n_checked + len(self.methods) * len(self.ways)


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """The backtest of one log: its rows of BACKTEST, the report, and CPU seconds by method."""

    log: str
    table: pa.Table
    report: Report
    cpu_s: Mapping[str, float]
    errors: list[pa.Table]
    """BACKTEST_ERRORS of each way and method, where they are asked for."""

    def rows(self, part: str, way: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a part in plain values, of one way (default: the first)."""
        way = self.ways[0] if way is None else way
        return [row for row in self.table.to_pylist() if row["part"] == part and way.items() <= row.items()]

    @property
    def ways(self) -> list[dict[str, Any]]:
        """The ways of the backtest, as their columns, in order of appearance."""
        rows = self.table.select(["stale_days", "learnt_from"]).to_pylist()
        return list({tuple(row.values()): row for row in rows}.values())

    @property
    def ranked(self) -> list[Mapping[str, Any]]:
        """Each method over all jobs, least mean absolute error first."""
        return ranked(self.rows("all"))


def ways(staleness: Sequence[str], *, compare_cleaning: bool) -> tuple[Way, ...]:
    """The ways to estimate: with knowledge until the submit or until a midnight, with flagged jobs or also without."""
    ages_s = {"live": None, "0": 0.0}
    found = [Way(ages_s[text] if text in ages_s else seconds(text, "--staleness")) for text in staleness or ("live",)]
    if compare_cleaning:
        found += [replace(way, without_flagged=True) for way in found]
    return tuple(dict.fromkeys(found))


def ranked(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows in rising order of mean absolute error; unknown errors come last."""
    return sorted(rows, key=lambda row: float("inf") if row["mae_s"] is None else row["mae_s"])


def backtest_tasks(
    config: Path,
    logs: Sequence[str],
    methods: Sequence[str],
    *,
    check_leaks: bool,
    staleness: Sequence[str] = (),
    compare_cleaning: bool = False,
    lists_errors: bool = False,
) -> list[Task]:
    """One task for the config's logs together, or one for each of `logs`; InputError for an unknown method or log."""
    settings, paths = resolve(config, logs)
    names = chosen_names(methods, METHODS, "--methods")
    chosen = ways(staleness, compare_cleaning=compare_cleaning)
    each = (
        [(source.label, (source.path,)) for source in find_sources(paths)]
        if logs
        else [(settings.site.name, tuple(paths))]
    )
    return [Task(label, own, settings, names, check_leaks, chosen, lists_errors) for label, own in each]


def run_backtest(task: Task) -> BacktestResult:
    """Read and clean a log, and score every method as of each submit."""
    name = printable(task.log, 40)
    estimators = {method: method_with_settings(method, task.settings) for method in task.methods}
    flagged, _ = flagged_jobs(task.paths, task.settings, task.log)
    if task.checks_leaks:
        _check_leaks(flagged, task, estimators)
    cpu_s: dict[str, float] = {}
    errors: list[pa.Table] = []

    def timed(method: str) -> Estimator:
        def estimate(past: History) -> Floats:
            with running_stage(f"{name}: {method}"):
                began = time.process_time()
                found = estimators[method](past)
                cpu_s.setdefault(method, time.process_time() - began)
            return found

        return estimate

    scored = [
        backtest(
            flagged, task.settings, {method: timed(method) for method in task.methods}, task.log, way,
            errors=errors if task.lists_errors else None,
        )
        for way in task.ways
    ]  # fmt: skip
    if not scored[0][0].num_rows:
        raise InputError(name, f"{flagged.num_rows} jobs, none to score", "jobs with times and a runtime")
    tables = pa.concat_tables([table for table, _ in scored])
    return BacktestResult(task.log, tables, scored[0][1].check(), cpu_s, errors)


def _check_leaks(jobs: pa.Table, task: Task, estimators: Mapping[str, Estimator]) -> None:
    past = past_of(jobs, task.settings)
    for method, call in estimators.items():
        with running_stage(f"{printable(task.log, 40)}: does {method} look ahead"):
            try:
                check_no_look_ahead(call, past)
            except WalltimeError as error:
                raise type(error)(f"{method}: {error}") from None


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """A log to replay, and how."""

    log: str
    paths: tuple[Path, ...]
    settings: RunSettings
    cases: tuple[Case, ...]
    shakes: Shakes
    convention: Convention = Convention.NATURAL
    capacity: int | None = None
    """Processors; None: the site's, else the header's."""
    days: float | None = None
    """Score the jobs submitted in this many last days of the log; None: all."""
    whole_nodes: bool = False

    @property
    def has_estimates(self) -> bool:
        """Whether a case plans with estimates of ours."""
        return any(case.estimates in WITH_METHOD for case in self.cases)

    @property
    def n_stages(self) -> int:
        """Stages that a replay announces."""
        return 2 + self.has_estimates


def chosen_cases(policies: str, estimates: str) -> tuple[Case, ...]:
    """The cases of the command's options; `soft` is every soft case. InputError for an unknown name."""
    named = {policy_name(policy): policy for policy in Policy}
    chosen = [named[name] for name in chosen_names(words(policies) or [policies], named, "--policy")]
    known = [*map(str, Estimates), "soft"]
    names = chosen_names(words(estimates) or [estimates], known, "--estimates")
    return cases(chosen, [one for name in names for one in (SOFT if name == "soft" else [Estimates(name)])])


def replay_task(given: Path, **how: Any) -> ReplayTask:
    """The task of a config (.toml) or of a log; `how` are the task's other fields. InputError for neither."""
    name, settings, paths = settings_and_logs(given)
    return ReplayTask(name, tuple(paths), settings, **how)


def with_distinct_names(tasks: Sequence[ReplayTask]) -> list[ReplayTask]:
    """The tasks, those that share a name called by the path of their first log."""
    names = [task.log for task in tasks]
    return [replace(one, log=str(one.paths[0])) if names.count(one.log) > 1 else one for one in tasks]


def run_replay(task: ReplayTask) -> ReplayResult:
    """Read a log, estimate its jobs once as of each submit, and replay every case over every shake."""
    name = printable(task.log, 40)
    subject, capacity_from = subject_of(task)
    with running_stage(f"{name}: replay"):
        table = what_if(subject, task.cases, task.shakes)
    if not table.num_rows:
        raise InputError(name, "no job to score", "jobs after the first 1%, submitted in the days asked for")
    return ReplayResult(subject, table, capacity_from, "nodes" if task.whole_nodes else "processors")


def subject_of(task: ReplayTask) -> tuple[Subject, str]:
    """The log as it is replayed, with the estimates that its cases need, and where its capacity comes from."""
    flagged, report = flagged_jobs(task.paths, task.settings, task.log)
    return subject_of_jobs(task, flagged, report.facts.get("max_procs"))


def subject_of_jobs(task: ReplayTask, flagged: pa.Table, header: object = None) -> tuple[Subject, str]:
    """The same for flagged jobs in memory; `header` is the size of the machine that the log states."""
    name = printable(task.log, 40)
    past = past_of(flagged, task.settings)
    site, export = task.settings.site, task.settings.export
    capacity, capacity_from = machine_size(task.capacity, site.max_procs, header, printable(task.log, 200))
    if task.whole_nodes and site.procs_per_node is None:
        raise InputError("--whole-nodes", "no site.procs_per_node", "the processors of a node", "set it in the config")
    per_node = site.procs_per_node if task.whole_nodes else None
    work = workload_of_jobs(
        flagged, capacity, task.convention, per_node, past.row,
        counts_every_request=task.settings.clean.counts_every_request,
    )  # fmt: skip
    if not len(work):
        found = f"{flagged.num_rows} jobs, none to replay"
        raise InputError(name, found, "jobs with a submit, a runtime and processors")
    score = Score.AVEBSLD if task.convention is Convention.PYSS else Score.NATURAL
    # By method (rows of JOBS, 6) in s, as of each submit: the backtest's pass. The table is as old as it is served.
    estimates_s = dict[str, Floats]()
    if task.has_estimates:
        with running_stage(f"{name}: {METHOD}"):
            answers = method_with_settings(METHOD, task.settings)(replace(past, stale_s=DAY_S))
        estimates_s[METHOD] = np.full((flagged.num_rows, answers.shape[1]), np.nan)
        estimates_s[METHOD][past.row] = answers
    since_s = -np.inf if task.days is None else float(work.submit_s[-1]) - DAY_S * task.days
    subject = Subject(
        task.log, work, estimates_s, category_codes(flagged, "user")[1], task.convention, score, since_s,
        has_waits(flagged), floats(flagged, "start_s"), floats(flagged, "runtime_s"),
        rules_of(export.quantile, export.over_time_limit_min),
    )  # fmt: skip
    return subject, capacity_from


def machine_size(given: int | None, site: object, header: object, where: str) -> tuple[int, str]:
    """The machine's processors, and where the number comes from; InputError where it is unknown."""
    for known, name in ((given, "--max-procs"), (site, "site.max_procs"), (header, "the log's header")):
        if isinstance(known, int) and known > 0:
            return known, name
    do = "give --max-procs, or set site.max_procs in the config"
    raise InputError(where, "no size of the machine", "the machine's processors", do)
