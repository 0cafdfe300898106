"""What `walltime backtest` does: logs in, a table BACKTEST of every method and log out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.logs.cleaning import flagged_jobs
from flows.services.progress import running_stage
from flows.services.quantities import chosen_names, seconds
from flows.services.settings_and_logs import resolve
from pipeline.arrays import Floats
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.estimate.history import History
from pipeline.evaluate import backtest, check_no_look_ahead
from pipeline.evaluate.backtest import Way, past_of
from pipeline.evaluate.methods import METHODS, Estimator, method_with_settings
from pipeline.ingest.sources import find_sources
from pipeline.report import Report
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
