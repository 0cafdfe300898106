"""Serves a site: its flows as deployments of a standing Prefect server, until it is told to end.

Prefect's runner serves, and its client asks again where the API does not answer: for two hours and a quarter, after
pauses that double. A night that was due meanwhile has its flow run, which is late, and runs when the API is back; one
that has begun goes on, publishes, and waits for the API (`nightly`). After a longer outage the runner ends, and is
started again here when the API answers.

A night that was killed or stopped, as with this process, is run again once, when the site is served again. Killed
runs are marked by the heartbeats of Prefect and an automation, as its documents describe. That automation, and those
for a failed and a late night, are made where the server has none of the name.
"""

import asyncio
import json
import signal
import sys
import time
import tomllib
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from prefect import serve
from prefect import settings as of_prefect
from prefect.automations import Automation
from prefect.client.orchestration import get_client
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.server.schemas.schedules import CronSchedule
from prefect.types.entrypoint import EntrypointType
from pydantic import ValidationError

from flows.prefect import server_address
from flows.prefect.nightly import nightly, rerun, site_tags, wait_for_api
from flows.services.initialising import site_slug
from flows.services.run_record import SERVED, SERVING, LastRun, read_last_run
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.publish.store import take_run_lock
from pipeline.settings import RunSettings
from pipeline.storage import write_text

HERE = "http://127.0.0.1:4200/api"
"""Where `prefect server start` serves unless it is told otherwise."""

TRIES = 12
"""How often Prefect's client asks again, 2 s after the first failure and twice as long after each later one."""
MAKING_S = 30.0
"""How long Prefect may take to make the scheduled flow runs of a deployment anew."""
PAUSE_S = 15.0
"""How long serving pauses after Prefect's runner has ended."""


@dataclass(frozen=True, slots=True)
class Served:
    """A site's deployment: its name, its schedule in a zone, and the API it is known to."""

    name: str
    cron: str
    timezone: str
    api: str


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
    return Served(site_slug(settings.site.name), cron, zone, server_address() or HERE)


def serving_lock(folder: Path) -> BinaryIO:
    """Held by the one process that serves the site of an output folder; RunInProgressError where another one does."""
    return take_run_lock(
        folder / SERVING, found="another `walltime serve` of it", do="leave it to that one, or end it first"
    )


def serve_site(
    served: Served, settings: RunSettings, given: dict[str, str | None], notify: str | None, say: Callable[[str], None]
) -> None:
    """Serve both flows until SIGINT or SIGTERM, one run at a time; the caller holds the `serving_lock`.

    `given`: the parameters of the nightly flow; `notify`: the block of notifications. The schedule stays active when
    this process ends: a restart must not leave it paused.
    """
    # Prefect's runner stops itself by a coroutine that it does not await where SIGTERM ends it.
    warnings.filterwarnings("ignore", "coroutine 'Runner.astop' was never awaited", RuntimeWarning)
    folder = Path(settings.output_dir)
    write_text(folder / SERVING / SERVED, json.dumps(asdict(served), indent=1) + "\n")
    last = read_last_run(folder)
    of_client = {
        of_prefect.PREFECT_API_URL: served.api,
        of_prefect.PREFECT_CLIENT_MAX_RETRIES: TRIES,
        of_prefect.PREFECT_CLIENT_RETRY_EXTRA_CODES: "500",
    }
    while True:
        # Prefect's runner sets its own, which fails when that runner is over.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            wait_for_api(served.api, say)
            with of_prefect.temporary_settings(of_client):
                make_automations(served.name, settings.site.name, notify)
                deployments = deployments_of(served, settings.site.name, given)
                time.sleep(until_due(served, datetime.now(UTC)))
                run_again(served, last)
                last = None
                serve(*deployments, pause_on_shutdown=False, print_starting_message=False, limit=1)
                return
        except WalltimeError:
            raise
        except Exception as error:  # of several kinds
            say(f"Prefect's runner has ended ({printable(str(error))}). It is started again.")
            time.sleep(PAUSE_S)


def run_again(served: Served, last: LastRun | None) -> None:
    """Begin a night anew that did not end by itself: a machine or systemd that stops this process stops that too."""
    if last is not None and last.state in ("killed", "stopped"):
        # A site that is served for the first time has no deployment yet.
        with suppress(ObjectNotFound):
            run_deployment(f"{nightly.name}/{served.name}", timeout=0)


def until_due(served: Served, now: datetime) -> float:
    """The seconds until a night that is due within MAKING_S, else 0.

    Prefect drops the flow runs ahead when it serves a deployment, and makes them again seconds later: one that falls
    due in between would never run. It keeps one that is late.
    """
    schedule = CronSchedule(cron=served.cron, timezone=served.timezone)
    ahead_s = asyncio.run(schedule.get_dates(n=1, start=now))[0].timestamp() - now.timestamp()
    return ahead_s if ahead_s < MAKING_S else 0.0


def deployments_of(served: Served, site: str, given: dict[str, str | None]) -> list[Any]:
    """The scheduled nightly run, and the rerun, which a user starts in Prefect's pages with parameters.

    A deployment or a schedule that a user has paused stays so.
    """
    is_paused, is_active = False, True
    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        known = client.read_deployment_by_name(f"{nightly.name}/{served.name}")
        is_paused, is_active = known.paused, any(one.active for one in known.schedules)
    common: dict[str, Any] = {"tags": site_tags(site), "entrypoint_type": EntrypointType.MODULE_PATH}
    night, again = f"Walltime's nightly run of {printable(site)}", "A rerun over past jobs, which is not published"
    schedule = Cron(served.cron, timezone=served.timezone, active=is_active)
    of_night: dict[str, Any] = {"schedule": schedule, "paused": is_paused}
    of_rerun = {"config": given["config"]}
    return [
        nightly.to_deployment(served.name, parameters=given, description=night, **of_night, **common),
        rerun.to_deployment(f"{served.name}-rerun", parameters=of_rerun, description=again, **common),
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
        for known in tomllib.loads(Path(__file__).with_name("automations.toml").read_text("utf-8"))["automation"]:
            if not client.read_automations_by_name(title := f"Walltime {name}: {known['name']}"):
                facts = {"actions": [tell], **known, "name": title, "trigger": known["trigger"] | of_site}
                Automation.model_validate(facts).create()
