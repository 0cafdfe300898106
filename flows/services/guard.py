"""`walltime guard`: no job ends by a limit of ours.

The policy is `plan_round` of pipeline/limits/plan.py. `Guard` asks Slurm, makes the changes in one call, asks again
whether they were made, and writes the heartbeat without which the plug-in sets no limit. What cannot be known
(reservations, submit lines, the look-up) never keeps a running job from getting time: running jobs come first, and need
squeue and scontrol alone.

`Watch` follows the source beside it, round by round: the newest records, a State that knows them, and expected starts.
"""

import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services import schedulers
from flows.services.files.os_errors import naming_path, sentence_of
from flows.services.logs import listed_paths, sacct_table
from flows.services.published.published_folder import CONTINUES, continued, live_pointer, live_state
from flows.services.schedulers import SCHEDULERS, SLURM
from flows.services.when import note_starts, read_starts
from pipeline import code_version
from pipeline.application_names import application_of
from pipeline.arrays import DAY_S
from pipeline.clean import clean
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.estimate.stage import update_state
from pipeline.estimate.state import loaded_state
from pipeline.export.lookup_reader import Lookup
from pipeline.export.scheduler_files import HEARTBEAT_FILE, LOOKUP_FILE
from pipeline.ingest import ingest
from pipeline.ingest.privacy import with_hashed_names
from pipeline.ingest.slurm_texts import set_s_of
from pipeline.large_tables import StoredTable, parts_of
from pipeline.limits.plan import Change, PendingJob, Seen, names_of, plan_round
from pipeline.limits.soft import MINUTE_S, SOFT_RULES, SoftRules, margin_of, waits_too_long
from pipeline.publish import load_manifest
from pipeline.publish.store import new_table, take_run_lock
from pipeline.settings import RunSettings
from pipeline.storage import read_table, write_bytes, write_table
from pipeline.tables import JOBS, STATE

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
    _answers: dict[tuple[Any, ...], Sequence[float] | None] = field(default_factory=dict)
    """Quantiles by a look-up's stamp, whether rules of the site decide names, and a job's values of ASKED."""

    def __post_init__(self) -> None:
        self._known = self.settings()
        if self._known.guard.scheduler != "slurm":
            raise ConfigError(
                "guard.scheduler", self._known.guard.scheduler, "slurm", "OpenPBS extends soft_walltime by itself"
            )
        conf = self.environment.get("SLURM_CONF") or SLURM_CONF
        with suppress(InputError):
            conf = schedulers.controller(self.environment).conf or conf
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

    def run_round(self, now_s: float) -> dict[str, Any]:
        """One round; InputError where squeue or scontrol cannot be asked, and then the next one comes soon.

        Returns the numbers of jobs that run, that run under a limit of `ours` below their request, and that wait; the
        changes, with what scontrol said of a `refused` one; why others are left alone; and in sentences the complaints:
        what could not be known, or should be mended.
        """
        began, complaints, no_estimates = time.monotonic(), list[str](), dict[str, Sequence[float]]()
        self._known = _tried(complaints, self._known, self.settings)
        export = self._known.export
        is_leaving = self.is_leaving or export.mode == "off"
        # Limits of an earlier mode are given back too, while a dry run shows what would be set.
        is_trying = export.mode == "dry_run" and not self.is_leaving
        if is_leaving or is_trying:
            self.stop_new_limits()
        jobs = SLURM.queued(self.environment)
        now_s = _tried(complaints, now_s, self._ask_controller, now_s, complaints)
        rules = self._rules._replace(quantile=export.quantile)
        none, is_withdrawing = frozenset[Any](), is_leaving or is_trying
        urgent = [job for job in jobs if job.start_s is not None]
        estimates = _tried([], no_estimates, self._estimates, urgent, now_s)
        seen = Seen(now_s, urgent, export, rules, estimates, self._signals, none, None, none, is_withdrawing)
        first = plan_round(seen)
        refused = self._make(first.changes)
        seen = seen._replace(jobs=jobs, quantiles_s=_tried(complaints, no_estimates, self._estimates, jobs, now_s))
        if not is_leaving:
            seen = self._with_details(seen, complaints)
        rest = plan_round(seen)
        done = {one.job.job_id for one in first.changes}
        others = [one for one in rest.changes if one.job.job_id not in done]
        refused |= self._make(others)
        shown = [*first.changes, *others]
        if is_trying:
            shown += [one for one in plan_round(seen._replace(is_leaving=False)).changes if one.job.start_s is None]
        if export.mode == "limit" and not self.is_leaving and not self.is_dry_run:
            heartbeat = self.folder / HEARTBEAT_FILE, f"{now_s:.0f}\n".encode()
            _tried(complaints, None, write_bytes, *heartbeat)
        rows = [
            {
                "job_id": one.job.job_id, "user": one.job.values.get("user"), "is_running": one.job.start_s is not None,
                "from_s": one.job.planned_s, "to_s": one.to_s, "asked_s": one.job.asked_s, "why": one.why,
                "refused": refused.get(one.job.job_id),
            }
            for one in shown
        ]  # fmt: skip
        n_ours = sum((set_s_of(one.comment) or 0) > 0 and (one.planned_s or 0) < (one.asked_s or 0) for one in urgent)
        return {
            "running": len(urgent), "ours": n_ours, "waiting": len(jobs) - len(urgent), "changes": rows,
            "left": dict(rest.left), "complaints": complaints, "dry_run": self.is_dry_run or is_trying,
            "took_s": time.monotonic() - began,
        }  # fmt: skip

    def _ask_controller(self, now_s: float, complaints: list[str]) -> float:
        """The time by slurmctld's clock, by which it ends jobs; the margin follows its OverTimeLimit."""
        found = schedulers.controller(self.environment)
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
        said = schedulers.change_limits(changes, self.environment)
        now_s = schedulers.limits_s(self.environment)
        # A job that is not there any more has ended.
        wrong = [one.job.job_id for one in changes if now_s.get(one.job.job_id, one.to_s) != one.to_s]
        return dict.fromkeys(wrong, said or "its limit is still another one")

    def _with_details(self, seen: Seen, complaints: list[str]) -> Seen:
        """With what is asked only after running jobs have their time: reservations, submit lines, expected starts."""
        now = _tried(complaints, None, schedulers.reservations, self.environment)
        submit_s = {job.raw_id: job.submit_s or 0.0 for job in seen.jobs if job.raw_id}
        self._signals = {one: asks for one, asks in self._signals.items() if one in submit_s}
        new = sorted(set(submit_s) - set(self._signals))[:MOST_ASKED]
        if new:
            self._signals |= _tried(complaints, dict[int, bool](), schedulers.signalling, new, self.environment)
        unknown = frozenset(one for one in new if one not in self._signals and seen.now_s - submit_s[one] > KNOWN_S)
        late = _tried(complaints, frozenset[str](), self._late, seen)
        return seen._replace(reservations=now, signals=self._signals, unknown=unknown, late=late)

    def _late(self, seen: Seen) -> frozenset[str]:
        """The partitions of jobs that wait too long, by the starts that were expected of them first."""
        rows = read_starts(Path(self._known.output_dir)).sort_by("made_s").to_pylist()
        first_s = {row["job_id"]: row["start_s_q50"] for row in reversed(rows) if row["start_s_q50"] is not None}
        waiting = [job for job in seen.jobs if job.start_s is None and job.job_id in first_s and not job.held]
        expected_s = np.array([float(first_s[job.job_id]) for job in waiting])
        asked_s = np.array([job.asked_s or 0.0 for job in waiting])
        is_late = waits_too_long(seen.now_s, expected_s, asked_s, seen.rules)
        late = [names_of(waiting[place], "queue") for place in np.flatnonzero(is_late)]
        return frozenset().union(*late)

    def _estimates(self, jobs: Sequence[PendingJob], now_s: float) -> dict[str, Sequence[float]]:
        """The estimates of jobs by the look-up that the plug-in reads; an error where it is missing, damaged or old."""
        with (self.folder / LOOKUP_FILE).open("rb") as file:
            lookup = Lookup(file)
            age_days = (now_s - lookup.newest_end_s) / DAY_S
            if age_days > self._known.export.max_age_days:
                raise WalltimeError(f"The newest job of the look-up ended {age_days:.0f} days ago: no limit is set.")
            # The names that rules of the site decide stand in the look-up.
            by_rules = None if self._known.ingest.application_rules else application_of
            if len(self._answers) > MOST_ANSWERS:
                self._answers.clear()
            found = dict[str, Sequence[float]]()
            for job in jobs:
                key = (lookup.facts.get("stamp"), by_rules is None, *map(job.values.get, ASKED))
                if key not in self._answers:
                    one = lookup.estimate(lookup.values_of(job.values, by_rules))
                    self._answers[key] = None if one is None else one.quantiles_s
                if (quantiles_s := self._answers[key]) is not None:
                    found[job.job_id] = quantiles_s
        return found


T = TypeVar("T")


def _tried(complaints: list[str], otherwise: T, call: Callable[..., T], *arguments: Any) -> T:
    """The result of a call; after an error of ours, of the disk or of a damaged look-up its sentence is noted."""
    try:
        return call(*arguments)
    except (WalltimeError, OSError, ValueError, KeyError) as error:
        complaints.append(printable(sentence_of(error), 400))
        return otherwise


def tell_systemd(what: str, environment: Mapping[str, str]) -> None:
    """Send a word as sd_notify(3) does, where systemd has started us and listens."""
    address = environment.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(what.encode(), os.fsencode("\0" + address[1:] if address[0] == "@" else address))


LOOK_BACK_S = 14 * DAY_S
"""How long before the State's time a job may have been submitted; longer ones wait for the nightly run."""

FOLLOWED = ("sacct", "folder")
"""Kinds of sources that grow."""


@dataclass(slots=True)
class Watch:
    """A watch over one config's source; `run_round` is to be called again and again."""

    settings: RunSettings
    config: Path
    scheduler: str
    environment: Mapping[str, str]
    _seen: object = None
    """What the source held when it was read last."""
    _state: pa.Table | None = None
    _of_version: str = ""

    def run_round(self, now_s: int) -> dict[str, int]:
        """Read what is new: `n_new` jobs are new to the State, `n_open` ones have been brought up to date.

        WalltimeError or OSError where the source, the scheduler or the disk fails; the next round then reads it again.
        """
        try:
            facts = self._update(now_s, is_forced=self._take_version())
            note_starts(Path(self.settings.output_dir), SCHEDULERS[self.scheduler], self.environment, now_s)
        except (WalltimeError, OSError):
            self._seen = None
            raise
        return facts

    def _take_version(self) -> bool:
        """Continue from the published version where it is another one, or from the live State that continues it."""
        manifest = load_manifest(Path(self.settings.output_dir))
        if continued(manifest) == self._of_version:
            return False
        path = live_state(manifest) or manifest.path(STATE.name)
        self._state, self._of_version = read_table(path, STATE), continued(manifest)
        if manifest.code != code_version():
            # Its settings and its format are checked, so that an older version fails in a sentence.
            loaded_state(self._state, printable(str(path)))
        return True

    def _recent_jobs(self, first_s: int, now_s: int, *, is_forced: bool) -> pa.Table | None:
        """JOBS of the source submitted at `first_s` or later; None where nothing has changed, unless forced.

        InputError where the source cannot be read.
        """
        before, settings = self._seen, self.settings
        if settings.source.kind == "sacct":
            table = self._seen = sacct_table(settings, now_s)
            if table == before and not is_forced:
                return None
            parts = parts_of(StoredTable(table, JOBS))
            later = [part.filter(pc.greater_equal(part["submit_s"], first_s)) for part in parts]
            return pa.concat_tables(later).unify_dictionaries()
        listed = listed_paths(settings, self.config) or []
        paths = [path for path in listed if path.stat().st_mtime >= first_s]
        # A file that grows has another size, whatever its clock says.
        marks = self._seen = [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        if not paths or not (is_forced or marks != before):
            return None
        jobs, _, _ = ingest(paths, settings.site, settings.ingest)
        return jobs.filter(pc.greater_equal(jobs["submit_s"], first_s))

    def _update(self, now_s: int, *, is_forced: bool) -> dict[str, int]:
        assert self._state is not None  # nosec B101 # for the type checker
        row = self._state.column("array").to_pylist().index("as_of_s")
        as_of_s = float(self._state.column("floats")[row].as_py()[0])
        jobs = self._recent_jobs(int(as_of_s) - LOOK_BACK_S, now_s, is_forced=is_forced)
        if jobs is None or not jobs.num_rows:
            return {"n_new": 0, "n_open": 0}
        flagged, *_ = clean(jobs, with_hashed_names(self.settings).clean, self.settings.site)
        state, report = update_state(self._state, flagged)
        with new_table(live_pointer(Path(self.settings.output_dir))) as path:
            write_table(path, state, STATE, {CONTINUES: self._of_version, "code": code_version()})
        self._state = state
        return {name: int(report.facts[name] or 0) for name in ("n_new", "n_open")}


def watching_alone(output_dir: Path) -> BinaryIO:
    """Held by the one watch over a folder; RunInProgressError where another process has it."""
    folder = live_pointer(output_dir).parent
    with naming_path(folder):
        return take_run_lock(folder, found="another watch over it", do="stop the other one first")
