"""What `walltime apply` does: pending jobs in, their times changed, or what would be changed."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flows.services.exporting import PublishedLimits, published_limits
from flows.services.published.limit_answers import LEFT, submit_of
from flows.services.published.published_folder import live_path
from flows.services.schedulers import PROGRAM_TIMEOUT_S, Change, PendingJob, Scheduler
from pipeline.arrays import Value
from pipeline.errors import ConfigError, InputError, printable
from pipeline.export.lookup_reader import LEAST_CHANGE_S
from pipeline.ingest.live import run
from pipeline.limits.limit_harm import EVERYBODY
from pipeline.settings import ExportSettings, RunSettings
from pipeline.storage import check_seal, sealed, write_text
from pipeline.tables import LimitStatus

_DAY_S = 86_400
JOURNAL = "applied.json"
"""Beside the live State: the times that were set for jobs that still wait, and whom the present limits have limited."""
_DO = "see whether you may change other users' jobs"


class Journal(NamedTuple):
    """What apply itself has done. Jobs are named by `key_of`."""

    set_s: Mapping[str, float]
    """By pending job the time (s) that was set last; 0 where somebody has raised it since."""
    stamp: str
    """The limits that apply has used last,"""
    limited: Mapping[str, tuple[str, int]]
    """and of all jobs that it has limited by them, pending or not, the user and the number of tasks."""


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
    settings: RunSettings,
    scheduler: Scheduler,
    now_s: float,
    environment: Mapping[str, str],
    *,
    is_dry_run: bool,
    off: frozenset[str] = frozenset(),
) -> Applied:
    """Change the pending jobs' times to the published limits, or only say so.

    A job's time is never above what its user asked for. `off` are users who are limited no more since the limits were
    published, or EVERYBODY. ConfigError for changes under another mode than `limit`.
    InputError where nothing is published, where the limits are too old or damaged, or where the scheduler's programs
    fail.
    """
    _check_may_change(settings, is_dry_run=is_dry_run)
    jobs = scheduler.pending(environment)
    path = live_path(Path(settings.output_dir)).with_name(JOURNAL)
    journal = read_journal(path, jobs)
    limits = published_limits(Path(settings.output_dir))
    as_of_s = limits.file.newest_end_s if limits.file else 0
    age_days, most_days = (now_s - as_of_s) / _DAY_S, settings.export.max_age_days
    if limits.file and age_days > most_days and not is_dry_run:
        found, do = f"limits whose newest job ended {age_days:.0f} days ago", "run walltime run first"
        raise InputError(printable(settings.output_dir), found, f"at most {most_days:g} days", do)
    left: Counter[str] = Counter()
    able = [job for job in jobs if not _is_left(job, settings.export, journal, left)]
    # A job that has a limit keeps it before another one of its user gets one.
    able.sort(key=lambda job: key_of(job) not in journal.set_s)
    journal = journal if limits.file and journal.stamp == limits.stamp else journal._replace(limited={})
    n_limited = _gone(journal, able)
    answers = [(job, *_limit(job, limits, n_limited, off)) for job in able]
    changes = _changes(answers, limits.run_id, settings.apply.most_changes, scheduler, left)
    failures = {} if is_dry_run else _make(changes, scheduler, environment)
    if not is_dry_run:
        made = [one for one in changes if one.job.job_id not in failures]
        with sealed(path) as draft:
            write_text(draft, json.dumps(_with(journal, made, limits)._asdict()))
    return Applied(
        scheduler, changes, failures, dict(sorted(left.items())), len(jobs), is_dry_run, as_of_s, limits.run_id,
    )  # fmt: skip


def _check_may_change(settings: RunSettings, *, is_dry_run: bool) -> None:
    mode = settings.export.mode
    if not is_dry_run and mode != "limit":
        raise ConfigError("export.mode", mode, 'mode = "limit", under which apply changes jobs', "or leave out --yes")


def _gone(journal: Journal, waiting: Sequence[PendingJob]) -> Counter[Value]:
    """By user, how many of the jobs that the present limits have limited wait no more."""
    n_waiting = Counter[str]()
    for job in waiting:
        n_waiting[key_of(job)] += job.n_tasks
    found = Counter[Value]()
    for key, (user, n_tasks) in journal.limited.items():
        found[user] += max(n_tasks - n_waiting[key], 0)
    return found


def key_of(job: PendingJob) -> str:
    """The job in the journal: of an array, whose waiting tasks become fewer, the array; numbers are used again."""
    return f"{re.split(r'[_[]', job.job_id)[0]} {job.submit_s or 0:.0f}"


def read_journal(path: Path, jobs: Sequence[PendingJob]) -> Journal:
    """The journal at a path, with the times of these pending jobs alone.

    The scheduler's own comments may be lost or, in OpenPBS, are not there; what is kept here is only a file beside the
    live State. Where it cannot be read nothing is known.
    """
    try:
        known = json.loads(check_seal(path).read_text("utf-8"))
        set_s, stamp = known["set_s"], str(known["stamp"])
        limited = {key: (str(user), int(n_tasks)) for key, (user, n_tasks) in known["limited"].items()}
        found = {key: float(set_s[key]) for key in map(key_of, jobs) if key in set_s}
    except (InputError, OSError, ValueError, TypeError, KeyError):
        return Journal({}, "", {})
    raised = {key_of(job) for job in jobs if (job.planned_s or 0) > found.get(key_of(job), math.inf)}
    return Journal({key: 0.0 if key in raised else one for key, one in found.items()}, stamp, limited)


def _with(journal: Journal, made: Sequence[Change], limits: PublishedLimits) -> Journal:
    """The journal with changes that were made."""
    set_s = {key_of(one.job): one.to_s for one in made}
    lowered = dict[str, tuple[str, int]]()
    for one in made:
        if one.to_s < (one.job.asked_s or 0):
            key = key_of(one.job)
            lowered[key] = str(one.job.values["user"]), one.job.n_tasks + lowered.get(key, ("", 0))[1]
    # Tasks of an array that have started stay counted.
    lowered = {key: max(own, journal.limited.get(key, own)) for key, own in lowered.items()}
    limited = {key: own for key, own in journal.limited.items() if key not in set_s} | lowered
    return Journal({**journal.set_s, **set_s}, limits.stamp, limited)


def _is_left(job: PendingJob, export: ExportSettings, journal: Journal, left: Counter[str]) -> bool:
    """Whether a job is left alone whatever its estimate; the reason is counted."""
    named = {"user": export.opt_out.users, "account": export.opt_out.accounts, "queue": export.opt_out.partitions}
    for column, opted_out in named.items():
        # A job may wait for several partitions.
        if set(str(job.values.get(column) or "").split(",")) & set(opted_out):
            left[f"{column} has opted out"] += 1
            return True
    is_raised = journal.set_s.get(key_of(job)) == 0.0
    reason = job.fault or ("its limit was raised" if is_raised else "")
    reason = reason or ("no time limit of its own" if not job.asked_s or not job.planned_s else "")
    left.update([reason] if reason else [])
    return bool(reason)


def _changes(
    answers: Sequence[tuple[PendingJob, float | None, str]],
    run_id: str,
    most_changes: int,
    scheduler: Scheduler,
    left: Counter[str],
) -> list[Change]:
    """The changes that jobs with these limits (s) and reasons need; what is left alone is counted."""
    changes = list[Change]()
    for job, limit_s, why in answers:
        asked_s, planned_s = float(job.asked_s or 0), float(job.planned_s or 0)
        to_s = asked_s if limit_s is None else _target_s(job, limit_s, scheduler.step_s)
        if abs(to_s - planned_s) < max(LEAST_CHANGE_S, scheduler.step_s):
            left[why if limit_s is None else "no change"] += 1
        elif len(changes) == most_changes:
            left["after the largest number of changes"] += 1
        else:
            # A time that we have lowered, and that has no limit any more, becomes what was asked for.
            changes.append(Change(job, to_s, why, run_id))
    return changes


def _limit(
    job: PendingJob, limits: PublishedLimits, n_limited: Counter[Value], off: frozenset[str]
) -> tuple[float | None, str]:
    """The limit of a pending job, s, None where its request stands; and why. A job with a limit is counted."""
    values = job.values
    if off & {values.get("user"), EVERYBODY}:
        return None, LEFT[LimitStatus.SITE_OFF if EVERYBODY in off else LimitStatus.USER_OFF]
    if limits.file is None:
        return None, LEFT[LimitStatus.FEW_JOBS]
    gpu_type = limits.file.gpu_type(_text(values.get("queue")))
    submit = submit_of(values, values.get("user"), limits.what(_text(values.get("job_name"))), gpu_type)
    limit_s, status, row = limits.file.decide(submit, n_limited, job.n_tasks)
    if limit_s is None or row is None:
        return None, LEFT[LimitStatus(status)]
    return limit_s, f"{row.n_jobs} ended jobs of the user and of this kind, chance to exceed it {row.chance_beyond:.1%}"


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _target_s(job: PendingJob, wanted_s: float, step_s: float) -> float:
    """The time to plan with: whole steps, rounded up, at least one, never above what was asked for."""
    return min(max(math.ceil(wanted_s / step_s), 1) * step_s, float(job.asked_s or 0))


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
