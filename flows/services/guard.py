"""`walltime guard`: no job ends by a limit of ours.

`plan_round` is the whole policy, a pure function of what a round has seen: a running job that is near its limit gets a
longer one, at most its request; a waiting job gets the limit that the plug-in would set, or its request back. `Guard`
asks Slurm, makes the changes in one call, asks again whether they were made, and writes the heartbeat without which the
plug-in sets no limit. What cannot be known (reservations, submit lines, the look-up) never keeps a running job from
getting time: running jobs come first, and need squeue and scontrol alone.
"""

import math
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flows.services.files.os_errors import naming_path, os_failure
from flows.services.published.planned_limit import submit_of
from flows.services.schedulers import (
    SLURM,
    Change,
    PendingJob,
    Reservation,
    change_limits,
    controller,
    limits_s,
    reservations,
    signalling,
)
from flows.services.starts_table import read_starts
from pipeline.application_names import application_of
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.export.lookup_reader import Lookup
from pipeline.export.scheduler_files import DAY_S, HEARTBEAT_FILE, LOOKUP_FILE
from pipeline.ingest.limit_comment import limit_comment, may_be_set, set_s_of, without_ours
from pipeline.limits.soft import (
    MINUTE_S,
    SOFT_RULES,
    SoftRules,
    extensions_of,
    margin_of,
    medians_left,
    next_limits,
    planned_limits,
    waits_too_long,
)
from pipeline.settings import QUANTILES, ExportSettings, RunSettings, Whose
from pipeline.storage import write_bytes

RETRY_S = 5.0
"""Wait after a failed round: a controller that comes back ends jobs past their limits within half a minute."""
SLURM_CONF = "/etc/slurm/slurm.conf"
"""Where Slurm has its configuration unless told otherwise."""
ASKED = ("user", "job_name", "queue", "requested_s", "procs", "gpus", "gpu_type")
"""The values of a job that its estimate depends on."""
MOST_ANSWERS = 100_000
KNOWN_S = 60.0
"""So long after its submit sacct should know a job."""
MOST_ASKED = 1000
"""Jobs whose submit lines are asked for in one round."""


class Seen(NamedTuple):
    """What a round has seen."""

    now_s: float
    jobs: Sequence[PendingJob]
    export: ExportSettings
    rules: SoftRules
    quantiles_s: Mapping[str, Sequence[float]]
    """By job id the quantiles of the runtime; jobs without an estimate are missing."""
    signals: Mapping[int, bool]
    """By raw id whether the submit line asks for a signal; of jobs that are missing it is not known."""
    unknown: frozenset[int]
    """Raw ids of jobs of which sacct should know the submit line by now, and does not."""
    reservations: Sequence[Reservation] | None
    """None: not known."""
    late: frozenset[str]
    """Partitions in which a job waits too long."""
    is_leaving: bool = False
    """Whether every job is to get its request back."""


class Planned(NamedTuple):
    """The changes of a round, running jobs first, and how many jobs were left alone by reason."""

    changes: list[Change]
    left: Counter[str]


def plan_round(seen: Seen) -> Planned:
    """The changes that the jobs need now."""
    left = Counter[str]()
    running, waiting = list[Change](), list[Change]()
    for job in seen.jobs:
        first_s, limit_s = set_s_of(job.comment), job.planned_s or math.inf
        if job.start_s is not None:
            is_ours = first_s is not None and first_s <= limit_s < (job.asked_s or 0)
            change = _raised(job, float(first_s or 0), seen) if is_ours else None
            running += [change] if change else []
        elif first_s is not None and limit_s != first_s:
            left["its limit was changed"] += 1
        elif change := _waiting(job, first_s is not None, seen, left):
            waiting.append(change)
    return Planned([*running, *waiting], left)


def _raised(job: PendingJob, first_s: float, seen: Seen) -> Change | None:
    """The next limit of a running job; its request where it should not have had a limit of ours."""
    asked_s, limit_s = float(job.asked_s or 0), float(job.planned_s or 0)
    if why := _why_not(job, seen) or _why_late(job, seen):
        return Change(job, asked_s, why, _left_comment(job) if seen.is_leaving else None)
    left_s = 0.0 if math.isnan(job.end_s) else job.end_s - seen.now_s
    if left_s >= seen.rules.margin_s:
        return None
    quantiles_s = seen.quantiles_s.get(job.job_id)
    to_s = np.array([limit_s])
    # More than one extension where the guard was away and the job is past its limit.
    while to_s[0] < asked_s and left_s + to_s[0] - limit_s < seen.rules.margin_s:
        median_s = np.full(1, np.nan)
        if quantiles_s is not None:
            median_s = medians_left(np.array([quantiles_s]), QUANTILES, to_s)
        n = extensions_of(to_s, np.array([first_s]), seen.rules)
        to_s = next_limits(to_s, np.array([asked_s]), n, median_s, seen.rules)
    return Change(job, float(to_s[0]), f"{max(left_s, 0.0) / MINUTE_S:.0f} min were left")


def _waiting(job: PendingJob, is_ours: bool, seen: Seen, left: Counter[str]) -> Change | None:
    """The first limit of a waiting job, or its request back; None where it keeps what it has."""
    asked_s, limit_s = float(job.asked_s or 0), float(job.planned_s or 0)
    why = _why_not(job, seen) or _why_not_now(job, seen)
    quantiles_s = None if why else seen.quantiles_s.get(job.job_id)
    wanted_s = math.nan
    if quantiles_s is not None:
        quantile_s = np.array([quantiles_s[QUANTILES.index(seen.rules.quantile)]])
        wanted_s = float(planned_limits(quantile_s, np.array([asked_s]), seen.rules)[0])
    why = why or ("" if wanted_s > 0 else "no estimate far enough below its request")
    if why and not is_ours:
        left[why] += 1
        return None
    if why:
        comment = _left_comment(job) if seen.is_leaving else _our_comment(job, None, asked_s)
        return Change(job, asked_s, why, comment)
    if abs(wanted_s - limit_s) < MINUTE_S:
        return None
    return Change(job, wanted_s, "as estimated", _our_comment(job, wanted_s, asked_s))


def _why_not(job: PendingJob, seen: Seen) -> str:
    """Why a job is to have its request, whether it waits or runs; empty where a shorter limit may stand."""
    export = seen.export
    if seen.is_leaving:
        return "limits are withdrawn"
    if job.fault or seen.signals.get(job.raw_id):
        return job.fault or "it has a --signal"
    if job.raw_id in seen.unknown:
        return "its submit line is not known"
    if _is_named(job, export.opt_out):
        return "its user, account or partition has opted out"
    return "" if not export.opt_in or _is_named(job, export.opted_in) else "nobody has opted it in"


def _why_not_now(job: PendingJob, seen: Seen) -> str:
    """The same of a job that waits: what may change until it starts."""
    if not job.asked_s or not job.planned_s:
        return "no time limit of its own"
    if not may_be_set(job.comment):
        return "the plug-in has not seen it, or leaves it alone"
    # A new job of ours keeps its limit until sacct should know it.
    if job.raw_id not in seen.signals and set_s_of(job.comment) is None:
        return "its submit line is not known"
    if seen.reservations is None:
        return "reservations are not known"
    # Which nodes it will get is not known: any reservation counts.
    if any(seen.now_s < one.start_s < seen.now_s + job.asked_s for one in seen.reservations):
        return "its request would reach a reservation"
    return _why_late(job, seen)


def _why_late(job: PendingJob, seen: Seen) -> str:
    # Of running jobs too: only then is it planned when nodes are free for the job that waits.
    return "a job of its partition waits too long" if seen.late & _names(job, "queue") else ""


def _names(job: PendingJob, column: str) -> set[str]:
    """The names in a column; a job may wait for several partitions."""
    return set(str(job.values.get(column) or "").split(",")) - {""}


def _is_named(job: PendingJob, whose: Whose) -> bool:
    lists = {"user": whose.users, "account": whose.accounts, "queue": whose.partitions}
    return any(_names(job, column) & set(names) for column, names in lists.items())


def _our_comment(job: PendingJob, limit_s: float | None, asked_s: float) -> str:
    limit_min = None if limit_s is None else round(limit_s / MINUTE_S)
    ours = limit_comment("limit", "run=guard", limit_min, round(asked_s / MINUTE_S))
    others = without_ours(job.comment)
    return f"{others}; {ours}" if others else ours


def _left_comment(job: PendingJob) -> str | None:
    """The AdminComment without ours; None where it has characters that scontrol cannot be given."""
    return without_ours(job.comment) if re.fullmatch(r"[ !#-&(-\[\]-~]*", job.comment) else None


@dataclass(frozen=True, slots=True)
class Round:
    """What a round did."""

    n_running: int
    """Running jobs,"""
    n_ours: int
    """and how many of them run under a limit of ours below their request."""
    n_waiting: int
    changes: Sequence[Change]
    refused: Mapping[str, str]
    """By job id what scontrol said where a change was not made."""
    left: Mapping[str, int]
    complaints: Sequence[str]
    """What could not be known, or should be mended, in sentences."""
    is_dry_run: bool
    took_s: float

    def as_dict(self) -> dict[str, Any]:
        """The same in plain values for JSON."""
        rows = [
            {
                "job_id": one.job.job_id, "user": one.job.values.get("user"), "is_running": one.job.start_s is not None,
                "from_s": one.job.planned_s, "to_s": one.to_s, "asked_s": one.job.asked_s, "why": one.why,
                "refused": self.refused.get(one.job.job_id),
            }
            for one in self.changes
        ]  # fmt: skip
        return {
            "running": self.n_running, "ours": self.n_ours, "waiting": self.n_waiting, "changes": rows,
            "left": dict(self.left), "complaints": list(self.complaints), "dry_run": self.is_dry_run,
            "took_s": self.took_s,
        }  # fmt: skip


@dataclass(slots=True)
class Guard:
    """Rounds over one Slurm; `run_round` is to be called again and again.

    `settings` is asked at each round, so that a changed config counts from the next one; where it fails, the settings
    of the round before stay. ConfigError for another scheduler, InputError where Slurm's folder is not there.
    """

    settings: Callable[[], RunSettings]
    environment: Mapping[str, str]
    is_dry_run: bool
    is_leaving: bool = False
    rules: SoftRules | None = None
    """None: with the margin by slurm.conf's OverTimeLimit."""
    folder: Path = field(init=False)
    """Of slurm.conf: the look-up and the heartbeat are in it."""
    _known: RunSettings = field(init=False)
    _rules: SoftRules = field(init=False)
    _compared: tuple[float, float] | None = None
    """The setting and slurmctld's OverTimeLimit (min) when they were last compared."""
    _signals: dict[int, bool] = field(default_factory=dict)
    _stamp: str | None = None
    _answers: dict[tuple[Any, ...], Sequence[float] | None] = field(default_factory=dict)
    """Of the look-up with this stamp the quantiles, by a job's values of ASKED: a round asks only for new ones."""

    def __post_init__(self) -> None:
        self._known = self.settings()
        if self._known.guard.scheduler != "slurm":
            raise ConfigError(
                "guard.scheduler", self._known.guard.scheduler, "slurm", "OpenPBS extends soft_walltime by itself"
            )
        conf = self.environment.get("SLURM_CONF") or SLURM_CONF
        with suppress(InputError):
            conf = controller(self.environment).conf or conf
        self.folder = Path(conf).parent
        if not self.folder.is_dir():
            raise InputError(
                printable(str(self.folder)), "no such folder", "that of slurm.conf", "see whether scontrol works"
            )
        self._rules = self.rules or SOFT_RULES

    @property
    def round_s(self) -> float:
        """Time between two rounds."""
        return self._rules.round_s

    def run_round(self, now_s: float) -> Round:
        """One round; InputError where squeue or scontrol cannot be asked, and then the next one comes soon."""
        began, complaints = time.monotonic(), list[str]()
        with _noting(complaints):
            self._known = self.settings()
        export = self._known.export
        is_leaving = self.is_leaving or export.mode == "off"
        # Limits of an earlier mode are given back too, while a dry run shows what would be set.
        is_trying = export.mode == "dry_run" and not self.is_leaving
        if is_leaving or is_trying:
            self.stop_new_limits()
        jobs = SLURM.queued(self.environment)
        with _noting(complaints):
            now_s = self._ask_controller(now_s, complaints)
        rules = self._rules._replace(quantile=export.quantile)
        none, is_withdrawing = frozenset[Any](), is_leaving or is_trying
        urgent = [job for job in jobs if job.start_s is not None]
        estimates = self._estimates(urgent, export, now_s, [])
        seen = Seen(now_s, urgent, export, rules, estimates, self._signals, none, None, none, is_withdrawing)
        first = plan_round(seen)
        refused = self._make(first.changes)
        seen = seen._replace(jobs=jobs, quantiles_s=self._estimates(jobs, export, now_s, complaints))
        if not is_leaving:
            seen = self._with_details(seen, complaints)
        rest = plan_round(seen)
        done = {one.job.job_id for one in first.changes}
        running = [one for one in rest.changes if one.job.start_s is not None and one.job.job_id not in done]
        waiting = [one for one in rest.changes if one.job.start_s is None]
        refused |= self._make([*running, *waiting])
        shown = [*first.changes, *running, *waiting]
        if is_trying:
            shown += [one for one in plan_round(seen._replace(is_leaving=False)).changes if one.job.start_s is None]
        if export.mode == "limit" and not self.is_leaving and not self.is_dry_run:
            with _noting(complaints), naming_path(self.folder / HEARTBEAT_FILE):
                write_bytes(self.folder / HEARTBEAT_FILE, f"{now_s:.0f}\n".encode())
        n_ours = sum((set_s_of(one.comment) or 0) > 0 and (one.planned_s or 0) < (one.asked_s or 0) for one in urgent)
        return Round(
            len(urgent), n_ours, len(jobs) - len(urgent), shown, refused, rest.left, complaints,
            self.is_dry_run or is_trying, time.monotonic() - began,
        )  # fmt: skip

    def _ask_controller(self, now_s: float, complaints: list[str]) -> float:
        """The time by slurmctld's clock, by which it ends jobs; the margin follows its OverTimeLimit."""
        found = controller(self.environment)
        self._rules = self.rules or SOFT_RULES._replace(margin_s=margin_of(found.over_time_limit_s))
        compared = set_min, over_min = self._known.export.over_time_limit_min, found.over_time_limit_s / MINUTE_S
        if set_min != over_min and compared != self._compared:
            complaints.append(
                f"export.over_time_limit_min is {set_min:g}, but slurmctld's OverTimeLimit is {over_min:g} min: set it "
                f"to {over_min:g}, because queries, replays and an export without Slurm plan with it."
            )
        self._compared = compared
        off_s = found.clock_s - now_s
        if math.isnan(off_s):
            return now_s
        if abs(off_s) >= MINUTE_S:
            complaints.append(f"This machine's clock is {off_s:+.0f} s off that of slurmctld, which is used.")
        return found.clock_s

    def stop_new_limits(self) -> None:
        """Remove the heartbeat, so that the plug-in sets no limit from now on."""
        if not self.is_dry_run:
            with suppress(OSError):
                (self.folder / HEARTBEAT_FILE).unlink()

    def _make(self, changes: Sequence[Change]) -> dict[str, str]:
        """Make changes; by job id why one was not made, which Slurm is asked, whatever scontrol says."""
        if self.is_dry_run or not changes:
            return {}
        said = change_limits(changes, self.environment)
        now_s = limits_s(self.environment)
        # A job that is not there any more has ended.
        wrong = [one.job.job_id for one in changes if now_s.get(one.job.job_id, one.to_s) != one.to_s]
        return dict.fromkeys(wrong, said or "its limit is still another one")

    def _with_details(self, seen: Seen, complaints: list[str]) -> Seen:
        """With what is asked only after running jobs have their time: reservations, submit lines, expected starts."""
        now: Sequence[Reservation] | None = None
        with _noting(complaints):
            now = reservations(self.environment)
        submit_s = {job.raw_id: job.submit_s or 0.0 for job in seen.jobs if job.raw_id}
        self._signals = {one: asks for one, asks in self._signals.items() if one in submit_s}
        new = sorted(set(submit_s) - set(self._signals))[:MOST_ASKED]
        with _noting(complaints):
            if new:
                self._signals |= signalling(new, self.environment)
        unknown = frozenset(one for one in new if one not in self._signals and seen.now_s - submit_s[one] > KNOWN_S)
        late = frozenset[str]()
        with _noting(complaints):
            late = self._late(seen)
        return seen._replace(reservations=now, signals=self._signals, unknown=unknown, late=late)

    def _late(self, seen: Seen) -> frozenset[str]:
        """The partitions of jobs that wait too long, by the starts that were expected of them first."""
        first = dict[str, tuple[int, float]]()
        for row in read_starts(Path(self._known.output_dir)).select(["job_id", "made_s", "start_s_q50"]).to_pylist():
            if row["start_s_q50"] is not None:
                own = row["made_s"], float(row["start_s_q50"])
                first[row["job_id"]] = min(own, first.get(row["job_id"], own))
        waiting = [job for job in seen.jobs if job.start_s is None and job.job_id in first and not job.held]
        expected_s = np.array([first[job.job_id][1] for job in waiting])
        asked_s = np.array([job.asked_s or 0.0 for job in waiting])
        is_late = waits_too_long(seen.now_s, expected_s, asked_s, seen.rules)
        return frozenset(
            name for job, late in zip(waiting, is_late, strict=True) if late for name in _names(job, "queue")
        )

    def _estimates(
        self, jobs: Sequence[PendingJob], export: ExportSettings, now_s: float, complaints: list[str]
    ) -> dict[str, Sequence[float]]:
        """The estimates of jobs by the look-up that the plug-in reads; none where it is missing, damaged or too old."""
        found = dict[str, Sequence[float]]()
        path = self.folder / LOOKUP_FILE
        with _noting(complaints), naming_path(path), path.open("rb") as file:
            lookup = Lookup(file)
            age_days = (now_s - lookup.newest_end_s) / DAY_S
            if age_days > export.max_age_days:
                complaints.append(f"The newest job of the look-up ended {age_days:.0f} days ago: no limit is set.")
                return {}
            if self._stamp != lookup.facts.get("stamp") or len(self._answers) > MOST_ANSWERS:
                self._stamp, self._answers = lookup.facts.get("stamp"), {}
            for job in jobs:
                key = tuple(job.values.get(name) for name in ASKED)
                if key not in self._answers:
                    values = submit_of(
                        job.values, job.values.get("user"), self._program(job, lookup), _gpu_type(job, lookup)
                    )
                    one = lookup.estimate(values)
                    self._answers[key] = None if one is None else one.quantiles_s
                if (quantiles_s := self._answers[key]) is not None:
                    found[job.job_id] = quantiles_s
        return found

    def _program(self, job: PendingJob, lookup: Lookup) -> str | None:
        """What the job runs, as the plug-in tells it from the name."""
        name = job.values.get("job_name")
        if not isinstance(name, str):
            return None
        listed = lookup.application(name)
        if listed is not None or self._known.ingest.application_rules:
            return listed
        return application_of(name) or f"job_name {name}"


def _gpu_type(job: PendingJob, lookup: Lookup) -> str:
    queue = job.values.get("queue")
    return lookup.gpu_type(queue if isinstance(queue, str) else None)


class _noting(suppress):  # noqa: N801 # it is used as a function
    """Go on after an error of ours, of the disk or of a damaged look-up, and note its sentence."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(WalltimeError, OSError, ValueError, KeyError)
        self._complaints = complaints

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        is_ours = super().__exit__(kind, error, trace)
        if is_ours and error is not None:
            self._complaints.append(printable(str(os_failure(error) if isinstance(error, OSError) else error), 400))
        return bool(is_ours)


def tell_systemd(what: str, environment: Mapping[str, str]) -> None:
    """Send a word as sd_notify(3) does, where systemd has started us and listens."""
    address = environment.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(what.encode(), os.fsencode("\0" + address[1:] if address[0] == "@" else address))
