"""What `walltime backtest` does, apart from printing: logs in, BACKTEST of each method and log out."""

import difflib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.methods import METHODS, bound
from flows.prepare import resolve
from flows.progress import staging
from pipeline.clean import clean
from pipeline.core.arrays import Floats
from pipeline.core.errors import InputError, WalltimeError
from pipeline.core.report import Report
from pipeline.core.settings import RunSettings
from pipeline.core.store import read_table, write_table, write_text
from pipeline.core.tables import BACKTEST
from pipeline.core.text import printable
from pipeline.estimate.history import History
from pipeline.evaluate import backtest, check_no_look_ahead
from pipeline.evaluate.backtest import Estimator, past_of
from pipeline.ingest import ingest
from pipeline.ingest.sources import find_sources


@dataclass(frozen=True, slots=True)
class Task:
    """One log to try methods on: its name, its files, under which settings."""

    log: str
    paths: tuple[Path, ...]
    settings: RunSettings
    methods: tuple[str, ...]
    is_checked_for_leaks: bool


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a log: its rows of BACKTEST, the account, and the CPU seconds each method took."""

    log: str
    table: pa.Table
    report: Report
    cpu_s: Mapping[str, float]

    def rows(self, part: str) -> list[dict[str, Any]]:
        """The rows of a part, in plain values."""
        return [row for row in self.table.to_pylist() if row["part"] == part]

    @property
    def ranked(self) -> list[dict[str, Any]]:
        """Each method over all jobs, least mean absolute error first."""
        return ranked(self.rows("all"))


def ranked(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by mean absolute error, the least first; unknown ones last."""
    return sorted(rows, key=lambda row: float("inf") if row["mae_s"] is None else row["mae_s"])


def tasks_of(config: Path, logs: Sequence[str], methods: Sequence[str], *, check_leaks: bool) -> list[Task]:
    """The config's logs as one; logs given beside it each by itself. InputError for an unknown method or log."""
    settings, paths = resolve(config, logs)
    asked = known_methods(methods or settings.backtest.methods, METHODS)
    if not logs:
        return [Task(settings.site.name, tuple(paths), settings, asked, check_leaks)]
    labels = [(source.label, source.path) for source in find_sources(paths)]
    return [Task(label, (path,), settings, asked, check_leaks) for label, path in labels]


def known_methods(asked: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """The methods asked for, each once, or all of them; InputError for one there is not."""
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else ""
            raise InputError("--methods", f"no method {printable(name)}", f"one of {', '.join(known)}", hint)
    return tuple(dict.fromkeys(asked or known))


def try_methods(task: Task) -> Tried:
    """Read and clean a log, and score every method as of each submit."""
    name = printable(task.log, 40)
    asked = {method: bound(method, task.settings) for method in task.methods}
    with staging(f"{name}: read") as stage:
        jobs, _, stage.report = ingest(task.paths, task.settings.site, task.settings.ingest)
    flagged, *_ = clean(jobs, task.settings.clean, task.settings.site)
    cpu_s: dict[str, float] = {}
    timed = {method: _timed(name, method, call, cpu_s) for method, call in asked.items()}
    if task.is_checked_for_leaks:
        _check_leaks(flagged, task, asked)
    table, report = backtest(flagged, task.settings, timed, task.log)
    if not table.num_rows:
        raise InputError(name, f"{jobs.num_rows} jobs, none to score", "jobs with times and a runtime")
    return Tried(task.log, table, report.check(), cpu_s)


def _timed(log: str, method: str, call: Estimator, cpu_s: dict[str, float]) -> Estimator:
    def estimate(past: History) -> Floats:
        with staging(f"{log}: {method}"):
            began = time.process_time()
            found = call(past)
            cpu_s[method] = time.process_time() - began
        return found

    return estimate


def _check_leaks(jobs: pa.Table, task: Task, asked: Mapping[str, Estimator]) -> None:
    past = past_of(jobs, task.settings)
    for method, call in asked.items():
        with staging(f"{printable(task.log, 40)}: does {method} look ahead"):
            try:
                check_no_look_ahead(call, past, task.settings.backtest.leak_times)
            except WalltimeError as error:
                raise type(error)(f"{method}: {error}") from None


def keep(tried: Tried, path: Path) -> Path:
    """Write what came of a log: the table at `path`, the rest beside it; returns the path."""
    beside = {"log": tried.log, "report": tried.report.as_dict(), "cpu_s": dict(tried.cpu_s)}
    write_text(path.with_suffix(".json"), json.dumps(beside))
    return write_table(path, tried.table, BACKTEST)


def kept(path: Path) -> Tried:
    """What `keep` wrote."""
    beside = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return Tried(beside["log"], read_table(path, BACKTEST), Report.from_dict(beside["report"]), beside["cpu_s"])


def joined(all_tried: Sequence[Tried]) -> pa.Table:
    """BACKTEST of all logs."""
    return BACKTEST.check(pa.concat_tables([tried.table for tried in all_tried], promote_options="default"))
