"""Serves the nightly flow on a site's schedule from this process, under a Prefect server that stands already."""

import time
import warnings
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
from flows.prefect.session import site_tags
from flows.services.initialising import site_slug
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


def answers(address: str) -> bool:
    """Whether a Prefect server answers there."""
    with temporary_settings({PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        return client.api_healthcheck() is None


def prepare_serving(
    settings: RunSettings,
    cron: str,
    timezone: str | None,
    wait_s: float = 0.0,
    announce: Callable[[str], None] = lambda _: None,
) -> Served:
    """What will be served; InputError or ConfigError for a bad schedule, WalltimeError where no server answers in time.

    Where the user has configured no server, that of this machine at Prefect's usual address is taken. One that is being
    started is waited for; `announce` is called once before.
    """
    zone = timezone or settings.site.timezone
    _check_schedule(cron, zone)
    address, ends = str(PREFECT_API_URL.value() or _HERE), time.monotonic() + wait_s
    is_there = answers(address)
    if not is_there and wait_s > 0:
        announce(f"Waiting up to {wait_s:.0f} s for a Prefect server at {printable(address)}; {_START}.")
    while not is_there and time.monotonic() < ends:
        time.sleep(_PAUSE_S)
        is_there = answers(address)
    if not is_there:
        raise WalltimeError(f"Prefect: no server answers at {printable(address)}; {_START}.")
    return Served(site_slug(settings.site.name), cron, zone, address)


def serve_nightly(served: Served, config: Path, site: str) -> None:
    """Register the deployment, and run the flow whenever it is due, until SIGINT or SIGTERM; one run at a time.

    The schedule stays active when this process ends: a restart must not leave it paused. Nights that were missed in the
    meantime are run at the next start; where the logs have not grown they find their steps done.
    """
    # Prefect's runner stops itself by a coroutine that it does not await where SIGTERM ends it.
    warnings.filterwarnings("ignore", "coroutine 'Runner.astop' was never awaited", RuntimeWarning)
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
    no_cron = InputError(f"--cron {printable(cron)}", "no cron schedule", 'five fields as in "15 2 * * *"')
    no_zone = ConfigError(f"--timezone {printable(zone)}", "no time zone", "an IANA zone as in Europe/Oslo")
    for schedule, error in (({"cron": cron}, no_cron), ({"cron": cron, "timezone": zone}, no_zone)):
        try:
            CronSchedule.model_validate(schedule)
        except ValidationError:
            raise error from None
