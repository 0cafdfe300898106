"""Serves the nightly flow on a site's schedule from this process, under a Prefect server that stands already."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.types.entrypoint import EntrypointType
from pydantic import ValidationError

from flows.prefect.nightly import nightly
from flows.services.run.run_names import site_slug, site_tags
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.settings import RunSettings

_HERE = "http://127.0.0.1:4200/api"
"""Where `prefect server start` serves unless it is told otherwise."""

_PAUSE_S = 1.0
_START = "start one with `prefect server start`, or set PREFECT_API_URL"


@dataclass(frozen=True, slots=True)
class Served:
    """A deployment: the flow, its name, which is the site's, its schedule in a zone, and the API it is known to."""

    name: str
    cron: str
    timezone: str
    api: str


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server that is being started, in seconds, and what to call once before waiting."""

    seconds: float = 0.0
    announce: Callable[[str], None] = lambda _: None

    def wait_for(self, address: str) -> bool:
        """Whether the server answers in time."""
        if answers(address):
            return True
        ends = time.monotonic() + self.seconds
        if self.seconds > 0:
            self.announce(f"Waiting up to {self.seconds:.0f} s for a Prefect server at {printable(address)}; {_START}.")
        while time.monotonic() < ends:
            time.sleep(_PAUSE_S)
            if answers(address):
                return True
        return False


def answers(address: str) -> bool:
    """Whether a Prefect server answers there."""
    with temporary_settings({PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        return client.api_healthcheck() is None


def prepare_serving(
    settings: RunSettings, cron: str, timezone: str | None, patience: Patience = Patience()
) -> Served:
    """What will be served; InputError or ConfigError for a bad schedule, WalltimeError where no server answers in time.

    Where the user has configured no server, that of this machine at Prefect's usual address is taken.
    """
    zone = timezone or settings.site.timezone
    _check_schedule(cron, zone)
    address = str(PREFECT_API_URL.value() or _HERE)
    if not patience.wait_for(address):
        raise WalltimeError(f"Prefect: no server answers at {printable(address)}; {_START}.")
    return Served(site_slug(settings.site.name), cron, zone, address)


def serve_nightly(served: Served, config: Path, site: str) -> None:
    """Register the deployment, and run the flow whenever it is due, until SIGINT or SIGTERM; one run at a time.

    The schedule stays active when this process ends: a restart must not leave it paused. Nights that were missed in the
    meantime are run at the next start; where the logs have not grown they find their steps done.
    """
    with temporary_settings({PREFECT_API_URL: served.api}):
        nightly.serve(
            name=served.name,
            schedule=Cron(served.cron, timezone=served.timezone),
            parameters={"config": str(config.absolute())},
            tags=site_tags(site),
            description=f"Walltime's nightly run of {printable(site)}",
            pause_on_shutdown=False,
            print_starting_message=False,
            limit=1,
            entrypoint_type=EntrypointType.MODULE_PATH,
        )


def _check_schedule(cron: str, zone: str) -> None:
    try:
        CronSchedule(cron=cron)
    except ValidationError:
        raise InputError(f"--cron {printable(cron)}", "no cron schedule", 'five fields as in "15 2 * * *"') from None
    try:
        CronSchedule(cron=cron, timezone=zone)
    except ValidationError:
        raise ConfigError(f"--timezone {printable(zone)}", "no time zone", "an IANA zone as in Europe/Oslo") from None
