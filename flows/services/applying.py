"""What `walltime apply` does: pending jobs in, their times changed, or what would be changed."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.services.published.published_folder import live_path
from flows.services.query.answers import LoadedState, answers, load_state
from flows.services.schedulers import PROGRAM_TIMEOUT_S, SLURM, Change, PendingJob, Scheduler
from pipeline.errors import ConfigError, InputError, printable
from pipeline.export.scheduler_files import LEAST_CHANGE_S
from pipeline.ingest.live import run
from pipeline.settings import ExportSettings, RunSettings
from pipeline.storage import write_text

_DAY_S = 86_400
LEAST_ENDED_JOBS = 10
"""Ended jobs of a submitter from which on his or her jobs are changed; like the next one chosen for caution."""
MOST_STATE_AGE_DAYS = 7.0
"""Age of the published State beyond which nothing is changed."""
JOURNAL = "applied.json"
"""Beside the live State: the times that were set for jobs that still wait."""
_DO = "see whether you may change other users' jobs"


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the pending jobs: those changed (or to change), those left alone by reason, and failures."""

    scheduler: Scheduler
    changes: Sequence[Change]
    failures: Mapping[str, str]
    """By job id the sentence of a change that the scheduler refused."""
    left: Mapping[str, int]
    n_pending: int
    is_dry_run: bool
    as_of_s: int
    run_id: str

    def as_dict(self) -> dict[str, Any]:
        """The same in plain values for JSON."""
        rows = [
            {
                "job_id": change.job.job_id, "user": change.job.values.get("user"), "from_s": change.job.planned_s,
                "to_s": change.to_s, "asked_s": change.job.asked_s, "why": change.why,
                "failed": self.failures.get(change.job.job_id),
            }
            for change in self.changes
        ]  # fmt: skip
        return {
            "scheduler": self.scheduler.name, "changes_what": self.scheduler.what, "dry_run": self.is_dry_run,
            "n_pending": self.n_pending, "n_changed": 0 if self.is_dry_run else len(rows) - len(self.failures),
            "n_failed": len(self.failures), "left": dict(self.left), "as_of_s": self.as_of_s, "run_id": self.run_id,
            "changes": rows,
        }  # fmt: skip


def apply_estimates(
    settings: RunSettings, scheduler: Scheduler, now_s: float, environment: Mapping[str, str], *, is_dry_run: bool
) -> Applied:
    """Change the pending jobs' times to what the published State says of them, or only say so.

    A job's time is never above what its user asked for. ConfigError for changes under another mode than `limit`.
    InputError where nothing is published, where the State is too old to change a job by it, or where the scheduler's
    programs fail.
    """
    mode = settings.export.mode
    if not is_dry_run and mode != "limit":
        raise ConfigError("export.mode", mode, 'mode = "limit", under which apply changes jobs', "or leave out --yes")
    jobs = scheduler.pending(environment)
    path = live_path(Path(settings.output_dir)).with_name(JOURNAL)
    journal = read_journal(path, jobs)
    loaded = load_state(Path(settings.output_dir), len(jobs))
    age_days = (now_s - loaded.state.as_of_s) / _DAY_S
    if age_days > MOST_STATE_AGE_DAYS and not is_dry_run:
        expected = f"one of at most {MOST_STATE_AGE_DAYS:g} days"
        raise InputError(loaded.where, f"a State {age_days:.0f} days old", expected, "run walltime run first")
    left: Counter[str] = Counter()
    able = [job for job in jobs if not _is_left(job, settings.export, journal, left)]
    changes = _changes(able, loaded, settings, scheduler, now_s, left)
    failures = {} if is_dry_run else _make(changes, scheduler, environment)
    if not is_dry_run:
        made = {key_of(one.job): one.to_s for one in changes if one.job.job_id not in failures}
        path.parent.mkdir(exist_ok=True)
        write_text(path, json.dumps(journal | made))
    return Applied(
        scheduler, changes, failures, dict(sorted(left.items())), len(jobs), is_dry_run, int(loaded.state.as_of_s),
        loaded.manifest.run_id,
    )  # fmt: skip


def key_of(job: PendingJob) -> str:
    """The job in the journal: of an array, whose waiting tasks become fewer, the array; numbers are used again."""
    return f"{re.split(r'[_[]', job.job_id)[0]} {job.submit_s or 0:.0f}"


def read_journal(path: Path, jobs: Sequence[PendingJob]) -> dict[str, float]:
    """By key the time (s) that was set last for each of the pending jobs; 0 where somebody has raised it since.

    The scheduler's own comments may be lost or, in OpenPBS, are not there; what is kept here is only a file beside the
    live State. Where it cannot be read nothing is known.
    """
    try:
        known = json.loads(path.read_text("utf-8"))
        found = {key: float(known[key]) for key in map(key_of, jobs) if key in known}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    raised = {key_of(job) for job in jobs if (job.planned_s or 0) > found.get(key_of(job), math.inf)}
    return {key: 0.0 if key in raised else set_s for key, set_s in found.items()}


def _is_left(job: PendingJob, export: ExportSettings, journal: Mapping[str, float], left: Counter[str]) -> bool:
    """Whether a job is left alone whatever its estimate; the reason is counted."""
    named = {"user": export.opt_out.users, "account": export.opt_out.accounts, "queue": export.opt_out.partitions}
    for column, opted_out in named.items():
        # A job may wait for several partitions.
        if set(str(job.values.get(column) or "").split(",")) & set(opted_out):
            left[f"{column} has opted out"] += 1
            return True
    is_raised = journal.get(key_of(job)) == 0.0
    reason = job.fault or ("its limit was raised" if is_raised else "")
    reason = reason or ("no time limit of its own" if not job.asked_s or not job.planned_s else "")
    left.update([reason] if reason else [])
    return bool(reason)


def _changes(
    jobs: Sequence[PendingJob], loaded: LoadedState, settings: RunSettings, scheduler: Scheduler, now_s: float,
    left: Counter[str],
) -> list[Change]:  # fmt: skip
    share, margin_s = scheduler.share_and_margin(settings.export)
    # The State answers for the time after it, as if the job were submitted then.
    at = [max(job.submit_s or now_s, loaded.state.as_of_s) for job in jobs]
    found = answers(loaded, [{**job.values, "at": s} for job, s in zip(jobs, at, strict=True)]) if jobs else []
    changes: list[Change] = []
    for job, answer in zip(jobs, found, strict=True):
        runtime_s = max(answer[f"runtime_s_q{round(100 * share)}"], scheduler.least_s)
        to_s = _target_s(job, runtime_s + margin_s, scheduler.step_s)
        if answer["n_submitter"] < LEAST_ENDED_JOBS:
            left["few ended jobs of its submitter"] += 1
        elif scheduler is SLURM and answer["n_program"] < LEAST_ENDED_JOBS:
            # Other applications of the submitter say nothing of this one, and a job beyond its limit is killed.
            left["few ended jobs of its application"] += 1
        elif 2 * float(job.asked_s or 0) < answer["least_requested_s"]:
            # No job like it has run: its runtime would be guessed from the request alone.
            left["a far shorter request than its submitter's others"] += 1
        elif abs(to_s - float(job.planned_s or 0)) < max(LEAST_CHANGE_S, scheduler.step_s):
            left["no change"] += 1
        elif len(changes) == settings.apply.most_changes:
            left["after the largest number of changes"] += 1
        else:
            changes.append(Change(job, to_s, _why(share, margin_s, answer), loaded.manifest.run_id))
    return changes


def _target_s(job: PendingJob, wanted_s: float, step_s: float) -> float:
    """The time to plan with: whole steps, rounded up, at least one, never above what was asked for."""
    asked_s = float(job.asked_s or 0)
    if not math.isfinite(wanted_s):
        return asked_s
    return min(max(math.ceil(wanted_s / step_s), 1) * step_s, asked_s)


def _why(share: float, margin_s: float, answer: Mapping[str, Any]) -> str:
    runtime_s = answer[f"runtime_s_q{round(100 * share)}"]
    margin = f" + {margin_s:g} s" if margin_s else ""
    own, alike = answer["n_submitter"], answer["n_program"]
    return f"q{100 * share:.0f} {runtime_s:.0f} s{margin}; the user has {own} ended jobs, {alike} of this application"


def _make(changes: Sequence[Change], scheduler: Scheduler, environment: Mapping[str, str]) -> dict[str, str]:
    """Make the changes; by job id why one was not made, which the scheduler is asked, whatever its programs say."""
    said = []
    for command, given in scheduler.commands(changes):
        try:
            run(command, environment, PROGRAM_TIMEOUT_S, _DO, given)
        except InputError as error:
            said.append(printable(f"{error.where}: {error.found}", 400))
    planned_s = {job.job_id: job.planned_s for job in scheduler.pending(environment)} if changes else {}
    # A job that waits no more has started with its new time, or has gone.
    refused = [one for one in changes if planned_s.get(one.job.job_id, one.to_s) != one.to_s]
    return {one.job.job_id: "; ".join(said) or "its time is still another one" for one in refused}
