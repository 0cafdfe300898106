"""Serves the nightly flow on a site's schedule from this process, under a Prefect server that stands already."""

import http.client
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from flows.prefect.local_api import API_URL, is_configured
from flows.services.run.run_names import site_slug, site_tags
from pipeline.core.errors import ConfigError, InputError, WalltimeError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable

_HOST, _PORT = "127.0.0.1", 4200
_ANSWER_S = 5.0
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

    def wait_for(self, address: str, answers: Callable[[], bool]) -> bool:
        """Whether the server answers in time."""
        if answers():
            return True
        ends = time.monotonic() + self.seconds
        if self.seconds > 0:
            self.announce(f"Waiting up to {self.seconds:.0f} s for a Prefect server at {printable(address)}; {_START}.")
        while time.monotonic() < ends:
            time.sleep(_PAUSE_S)
            if answers():
                return True
        return False


def prepare_serving(
    settings: RunSettings,
    cron: str,
    timezone: str | None,
    environment: MutableMapping[str, str],
    folder: Path,
    patience: Patience = Patience(),
) -> Served:
    """What will be served; InputError or ConfigError for a bad schedule, WalltimeError where no server answers in time.

    Call it before Prefect is imported. Where the user has configured no API, a server of this machine at Prefect's
    usual address is taken: then `environment` gets PREFECT_API_URL.
    """
    own = f"http://{_HOST}:{_PORT}/api"
    if not is_configured(environment, folder) and patience.wait_for(own, _stands_here):
        environment[API_URL] = own
    zone = timezone or settings.site.timezone
    _check_schedule(cron, zone)
    return Served(site_slug(settings.site.name), cron, zone, _answering_api(patience))


def serve_nightly(served: Served, config: Path, site: str) -> None:
    """Register the deployment, and run the flow whenever it is due, until SIGINT or SIGTERM; one run at a time.

    The schedule stays active when this process ends: a restart must not leave it paused. Nights that were missed in the
    meantime are run at the next start; where the logs have not grown they find their steps done.
    """
    from prefect.schedules import Cron  # noqa: PLC0415
    from prefect.types.entrypoint import EntrypointType  # noqa: PLC0415 - the environment is set first

    from flows.prefect.nightly import nightly  # noqa: PLC0415

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


def _stands_here() -> bool:
    connection = http.client.HTTPConnection(_HOST, _PORT, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().read().strip() == b"true"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _check_schedule(cron: str, zone: str) -> None:
    from prefect.client.schemas.schedules import CronSchedule  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        CronSchedule(cron=cron)
    except ValidationError:
        raise InputError(f"--cron {printable(cron)}", "no cron schedule", 'five fields as in "15 2 * * *"') from None
    try:
        CronSchedule(cron=cron, timezone=zone)
    except ValidationError:
        raise ConfigError(f"--timezone {printable(zone)}", "no time zone", "an IANA zone as in Europe/Oslo") from None


def _answering_api(patience: Patience) -> str:
    """The address of the configured API; WalltimeError where there is none, or it does not answer in time."""
    from prefect.client.orchestration import get_client  # noqa: PLC0415
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415

    address = PREFECT_API_URL.value()
    if not address:
        raise WalltimeError(f"Prefect: no server answers at {_HOST}:{_PORT}, and none is configured; {_START}.")
    with get_client(sync_client=True) as client:
        is_there = patience.wait_for(str(address), lambda: client.api_healthcheck() is None)
    if not is_there:
        raise WalltimeError(f"Prefect: no server answers at {printable(str(address))}; {_START}.")
    return str(address)
