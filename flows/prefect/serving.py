"""Serves a site: its flows as deployments of a standing Prefect server, and its nights also where that is away.

Prefect's runner serves in the main thread. It ends where the API does not answer for half a minute, and is started
again. A thread keeps watch: a night that was due and has not begun, because the API is away, or whose process was
killed, is run as `walltime run --plain`, once. What has begun is known from the record that each run keeps
(`run_record`), whoever has started it. The record of a run that has ended waits in the folder of `serve` for its
report, one file a run: it is removed once the API has the run's end, as that of its own flow run, of the one that was
scheduled before it began, or of a new one.

Killed runs are marked by the heartbeats of Prefect and an automation, as its documents describe. That automation, and
those for a failed and a late night, are made where the server has none of the name.
"""

import asyncio
import json
import signal
import subprocess  # nosec B404 # a list of arguments, no shell
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, BinaryIO
from uuid import UUID

import httpx
from prefect import serve
from prefect.automations import Automation
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.server.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Crashed, Failed, Running
from prefect.types.entrypoint import EntrypointType
from pydantic import ValidationError

from flows.prefect.nightly import emit_failure, emit_version, nightly, rerun
from flows.prefect.session import nightly_run_name, site_tags
from flows.services.initialising import program, site_slug
from flows.services.run.run_record import SERVED, SERVING, LastRun, RunState, read_last_run, settle_killed, unreported
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.publish import load_manifest
from pipeline.publish.store import WORK, RunInProgressError, holder_name, holder_of, is_held, take_run_lock
from pipeline.publish.versions import find_version
from pipeline.settings import RunSettings
from pipeline.storage import write_text

HERE = "http://127.0.0.1:4200/api"
"""Where `prefect server start` serves unless it is told otherwise."""

ANSWER_S = 10.0
LOOK_S = 10.0
LOOK_BACK = timedelta(hours=12)
"""How long after its time a night is made up for, which nobody served."""
GRACE = timedelta(seconds=45)
"""How long after its time a night may begin before the watch runs it, where the API does not answer."""
EARLY_S = 1.0
"""Prefect waits for whole seconds, so that a run begins up to half a second before it is due."""
MAKING_S = 30.0
"""How long Prefect may take to make the scheduled flow runs of a deployment anew."""
REPORT_S = 60.0
"""How long a run may take to report its end after its record has it."""
PAUSE_S = 15.0
"""How long serving pauses after Prefect's runner has ended."""
END_S = 60.0
"""How long a run that the watch has started may take to end."""
AUTOMATIONS = Path(__file__).with_name("automations.toml")


@dataclass(frozen=True, slots=True)
class Served:
    """A site's deployment: its name, its schedule in a zone, and the API it is known to."""

    name: str
    cron: str
    timezone: str
    api: str

    def dates(self, **limits: Any) -> list[float]:
        """The times of the nights within limits (`n`, `start`, `end`), in UTC epoch seconds."""
        schedule = CronSchedule(cron=self.cron, timezone=self.timezone)
        return [date.timestamp() for date in asyncio.run(schedule.get_dates(**limits))]


def served_of(settings: RunSettings, cron: str, timezone: str | None) -> Served:
    """What is to be served; InputError or ConfigError for a bad schedule.

    Where the user has configured no server, that of this machine at Prefect's usual address is taken.
    """
    zone = timezone or settings.site.timezone
    try:
        CronSchedule(cron=cron, timezone=zone)
    except ValidationError as error:
        where, found, expected = f"--timezone {printable(zone)}", "no time zone", "an IANA zone as in Europe/Oslo"
        if error.errors()[0]["loc"]:
            where, found, expected = f"--cron {printable(cron)}", "no cron schedule", 'five fields as in "15 2 * * *"'
        raise InputError(where, found, expected) from None
    return Served(site_slug(settings.site.name), cron, zone, str(PREFECT_API_URL.value() or HERE))


def answers(address: str) -> bool:
    """Whether a Prefect server answers there; Prefect's own client would ask one that hangs again for minutes.

    `/ready` asks the database too; `/health` is well while PostgreSQL is stopped.
    """
    try:
        return httpx.get(f"{address}/ready", timeout=ANSWER_S).status_code < 500
    except httpx.HTTPError:
        return False


def serving_lock(folder: Path) -> BinaryIO:
    """Held by the one process that serves the site of an output folder; RunInProgressError where another one does."""
    try:
        return take_run_lock(folder / SERVING)
    except RunInProgressError:
        found = f"another `walltime serve` of it ({holder_name(holder_of(folder / SERVING))})"
        where, do = printable(str(folder), 1000), "leave it to that one, or end it first"
        raise RunInProgressError(where, found, "one that serves", do) from None


def serve_site(
    served: Served, settings: RunSettings, config: Path, options: Mapping[str, str | None], say: Callable[[str], None]
) -> None:
    """Serve both flows until SIGINT or SIGTERM, one run at a time; the caller holds the `serving_lock`.

    `options`: the `page` of the site, and the block of notifications (`notify`). The schedule stays active when this
    process ends: a restart must not leave it paused.
    """
    # Prefect's runner stops itself by a coroutine that it does not await where SIGTERM ends it.
    warnings.filterwarnings("ignore", "coroutine 'Runner.astop' was never awaited", RuntimeWarning)
    folder = Path(settings.output_dir)
    write_text(folder / SERVING / SERVED, json.dumps(asdict(served), indent=1) + "\n")
    with temporary_settings({PREFECT_API_URL: served.api}):
        watch = Watch(served, config, folder, say)
        thread = Thread(target=copy_context().run, args=(watch.run,), daemon=True)
        pause_s = 0.0
        thread.start()
        try:
            while True:
                # Prefect's runner sets its own, which fails when that runner is over.
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
                time.sleep(pause_s)
                while not answers(served.api):
                    time.sleep(LOOK_S)
                try:
                    watch.report()
                    make_automations(served.name, settings.site.name, options.get("notify"))
                    deployments = deployments_of(served, settings, config, options.get("page"))
                    time.sleep(until_due(served, datetime.now(UTC)))
                    serve(*deployments, pause_on_shutdown=False, print_starting_message=False, limit=1)
                    return
                except WalltimeError:
                    raise
                except Exception as error:  # of several kinds, and groups of them
                    watch.broke_s = time.time()
                    pause_s = PAUSE_S
                    say(f"Prefect's runner has ended ({_first(error)}). It is started again.")
        finally:
            watch.ended.set()
            thread.join(END_S)


def until_due(served: Served, now: datetime) -> float:
    """The seconds until a night that is due within MAKING_S, else 0.

    Prefect drops the flow runs ahead when it serves a deployment, and makes them again seconds later: one that falls
    due in between would never run. It keeps one that is late.
    """
    ahead_s = served.dates(n=1, start=now)[0] - now.timestamp()
    return ahead_s if ahead_s < MAKING_S else 0.0


def _first(error: BaseException) -> str:
    """The first failure in a group of them, in a few words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return printable(f"{type(error).__name__}: {error}".splitlines()[0], 200)


def deployments_of(served: Served, settings: RunSettings, config: Path, page: str | None) -> list[Any]:
    """The scheduled nightly run, and the rerun, which a user starts in Prefect's pages with parameters."""
    site, path = settings.site.name, str(config.absolute())
    common: dict[str, Any] = {"tags": site_tags(site), "entrypoint_type": EntrypointType.MODULE_PATH}
    night, again = f"Walltime's nightly run of {printable(site)}", "A rerun over past jobs, which is not published"
    schedule = Cron(served.cron, timezone=served.timezone)
    given = {"config": path, "page": page}
    return [
        nightly.to_deployment(served.name, schedule=schedule, parameters=given, description=night, **common),
        rerun.to_deployment(f"{served.name}-rerun", parameters={"config": path}, description=again, **common),
    ]


def make_automations(name: str, site: str, notify: str | None) -> None:
    """Make the automations of a site that the server has not, for flow runs with its tag: a user's changes stay.

    `notify` is a block of notifications, TYPE/NAME as in slack-webhook/ops; without one the failed and the late night
    are events in Prefect's pages alone. ConfigError where there is no such block.
    """
    with get_client(sync_client=True) as client:
        tell: dict[str, Any] = {"type": "do-nothing"}
        if notify:
            kind, _, block_name = notify.partition("/")
            try:
                block = client.read_block_document_by_name(block_name, kind)
            except ObjectNotFound:
                expected = "TYPE/NAME of a notification block as slack-webhook/ops"
                raise ConfigError(f"--notify {printable(notify)}", "no such block", expected) from None
            tell = {
                "type": "send-notification",
                "block_document_id": block.id,
                "subject": f"Walltime, {name}: {{{{ automation.name }}}}",
                "body": "{{ flow_run.name }}: {{ flow_run.state.message }}",
            }
        of_site = {"match_related": {"prefect.resource.id": f"prefect.tag.{site_tags(site)[-1]}"}}
        for known in tomllib.loads(AUTOMATIONS.read_text(encoding="utf-8"))["automation"]:
            if not client.read_automations_by_name(title := f"Walltime {name}: {known['name']}"):
                facts = {"actions": [tell], **known, "name": title, "trigger": known["trigger"] | of_site}
                Automation.model_validate(facts).create()


@dataclass(slots=True)
class Watch:
    """Runs the nights that Prefect cannot, and reports how each run has ended."""

    served: Served
    config: Path
    folder: Path
    say: Callable[[str], None]
    began_s: float = field(default_factory=time.time)
    broke_s: float = field(default_factory=time.time)
    """When Prefect's runner last ended, which stops the run that it has started (UTC epoch seconds)."""
    ended: Event = field(default_factory=Event)
    """Set to end the watch, and the run that it has started."""
    is_away: bool = False
    _reporting: Lock = field(default_factory=Lock)
    _is_paused: bool = False
    _tried_s: float = 0.0

    def run(self) -> None:
        """Look every few seconds until the end. What fails is said, and the watch goes on."""
        while not self.ended.wait(LOOK_S):
            try:
                self.look()
            except Exception as error:
                self.say(f"The watch over the nights goes on after a failure: {_first(error)}.")

    def look(self) -> None:
        """Report to the API if it answers; run the last night that was due if nobody else does."""
        settle_killed(self.folder)
        was_away = self.is_away
        self.is_away = not answers(self.served.api)
        if not self.is_away:
            self.report()
        elif not was_away:
            self.say(f"Prefect's API at {self.served.api} is away. Nights go on without it.")
        now = datetime.now(UTC)
        dates = self.served.dates(start=now - LOOK_BACK, end=now - GRACE)
        night_s = self._missing(dates[-1] if dates else None)
        if night_s is not None and night_s != self._tried_s:
            self._tried_s = night_s
            self._run_plainly()

    def _missing(self, due_s: float | None) -> float | None:
        """The time of a night that nobody else runs: a killed one, or the last that was due while the API is away.

        One that ran here and is killed is not run again: what has ended it may end it again.
        """
        last = read_last_run(self.folder)
        if last is not None and (last.flow_run or last.began_s < self.began_s):
            # Prefect stops a run where its runner ends; it also stops one that a user cancels.
            is_broken = last.state == RunState.STOPPED and last.began_s <= self.broke_s
            if last.state == RunState.KILLED or is_broken:
                return last.began_s
        if due_s is None or not self.is_away or self._is_paused or is_held(self.folder / WORK):
            return None
        # A site that is served for the first time has missed nothing.
        return due_s if due_s > (self.began_s if last is None else last.began_s + EARLY_S) else None

    def _run_plainly(self) -> None:
        self.say("A night is due that Prefect has not run: it runs as `walltime run --plain`.")
        command = [*program(), "run", str(self.config.absolute()), "--plain", "--quiet"]
        with subprocess.Popen(command) as process:  # noqa: S603 # nosec B603 # a list of arguments, no shell
            while process.poll() is None:
                if self.ended.wait(0.2):
                    process.terminate()

    def report(self) -> None:
        """Tell the API how the runs have ended that it may not know of."""
        with self._reporting, get_client(sync_client=True) as client:
            try:
                deployment = client.read_deployment_by_name(f"{nightly.name}/{self.served.name}")
            except ObjectNotFound:
                return
            self._is_paused = deployment.paused or not any(one.active for one in deployment.schedules)
            for path, record in unreported(self.folder).items():
                # A run under Prefect may be about to report its end itself.
                if record.flow_run and (record.ended_s or 0.0) > time.time() - REPORT_S:
                    continue
                # A run from the command line may have had a server of its own.
                with suppress(ObjectNotFound):
                    _tell(client, deployment, record, self.folder)
                path.unlink(missing_ok=True)


def _tell(client: SyncPrefectClient, deployment: DeploymentResponse, record: LastRun, folder: Path) -> None:
    """Give the flow run of a record its end: its own one, the last that was scheduled before it began, or a new one."""
    ran, has_succeeded = "`walltime run --plain` ran this night", record.state == RunState.SUCCEEDED
    if record.flow_run:
        run, ran = client.read_flow_run(UUID(record.flow_run)), "The run, which could not report its end, went on"
        # A failure of a run that succeeded is that it could not say so.
        if run.state and run.state.is_final() and (run.state.is_completed() or not has_succeeded):
            # Who is killed says nothing, and Prefect says only that the run crashed.
            if record.state == RunState.KILLED:
                emit_failure(record.site, record.reason)
            return
    else:
        began = datetime.fromtimestamp(record.began_s, UTC)
        asked = {
            "state": {"type": {"any_": ["SCHEDULED"]}},
            "deployment_id": {"any_": [deployment.id]},
            "expected_start_time": {"before_": began},
        }
        newest_first = FlowRunSort.EXPECTED_START_TIME_DESC
        found = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(asked), sort=newest_first)
        waiting = next((one for one in found if one.auto_scheduled), None)
        run = waiting or client.create_flow_run_from_deployment(deployment.id)
        due = (waiting and waiting.expected_start_time) or began
        client.update_flow_run(run.id, name=nightly_run_name(deployment.parameters or {}, due))
        client.set_flow_run_state(run.id, Running(), force=True)
    times = [
        f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%SZ}" if at_s else "an unknown time"
        for at_s in (record.began_s, record.ended_s)
    ]
    kind = {RunState.SUCCEEDED: Completed, RunState.FAILED: Failed}.get(RunState(record.state), Crashed)
    end: State[Any] = kind(message=f"{ran} from {' to '.join(times)}: {record.state} ({record.reason}).")
    client.set_flow_run_state(run.id, end, force=True)
    if not has_succeeded:
        emit_failure(record.site, record.reason)
        return
    with suppress(WalltimeError):
        # Others may have been published since.
        emit_version(load_manifest(folder, find_version(folder, record.run_id).folder), record.began_s)
