"""Follows a run from its settings to its end: its log, its record in the folder, and its metrics."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from flows.services.files.os_errors import naming_path, os_failure
from flows.services.metrics.figures import metric_families
from flows.services.metrics.openmetrics import openmetrics_text
from flows.services.progress import StageEvent, also_listening
from flows.services.run.last_run import (
    RUNNING,
    LastRun,
    Reason,
    RunState,
    StepFacts,
    write_last_run,
    write_running,
)
from flows.services.run.run_lock import RunInProgressError
from flows.services.run.run_log import RunLog, current_log
from pipeline.core.settings import RunSettings
from pipeline.core.store import write_text


@dataclass(slots=True)
class RecordedRun:
    """A run that is followed; `running` is to be entered with the lock of its work folder."""

    log: RunLog
    run: LastRun
    steps: dict[str, StepFacts] = field(default_factory=dict)

    @contextmanager
    def running(self, work: Path, run_id: str) -> Iterator[None]:
        """The steps of the run, with a record in its work folder for as long as they run."""
        self.run, self.log.run_id = replace(self.run, run_id=run_id), run_id
        write_running(work, self.run)
        self.log.started()
        try:
            yield
        finally:
            with suppress(OSError):
                (work / RUNNING).unlink()

    def follow(self, event: StageEvent) -> None:
        """Write the event to the log, and keep what an ended step took."""
        self.log.stage(event)
        if event.state != "started":
            rows = event.report.seen.rows if event.report else None
            self.steps[event.stage] = StepFacts(event.seconds, rows, event.state == "reused")


@contextmanager
def recorded_run(settings: RunSettings) -> Iterator[RecordedRun]:
    """Follow the run inside: write its events, and at its end its record and its metrics, however it ends.

    A run that does not begin because another one is in progress leaves the other one's record alone.
    """
    log = current_log() or RunLog(sys.stderr, settings.run.log_format)
    log.site, log.is_anonymous = settings.site.name, settings.site.anonymise
    now_s = float(time.time())
    started = LastRun(settings.site.name, "", RunState.RUNNING, Reason.NONE, None, now_s, None, os.getpid(), {})
    found, began = RecordedRun(log, started), time.monotonic()
    failure: BaseException | None = None
    try:
        with also_listening(found.follow):
            yield found
    except BaseException as error:
        failure = error
        raise
    finally:
        if not isinstance(failure, RunInProgressError):
            ended = found.run.with_end(failure, float(time.time()), found.steps)
            write_last_run(Path(settings.output_dir), ended)
            _write_metrics(settings, ended, log)
        log.ended(time.monotonic() - began, failure)


def _write_metrics(settings: RunSettings, run: LastRun, log: RunLog) -> None:
    """Write the file of metrics that the settings name. Whatever fails is a warning: the tables are there."""
    if settings.run.metrics_file is None:
        return
    path = Path(settings.run.metrics_file)
    try:
        with naming_path(path):
            write_text(path, openmetrics_text(metric_families(Path(settings.output_dir), time.time(), run)))
    except OSError as error:
        log.warn(f"the metrics were not written: {os_failure(error)}")
    except Exception as error:
        log.warn(f"the metrics were not written, by a fault of Walltime ({type(error).__name__}).")
