"""What is ready before Prefect is imported: its settings, its failures in one sentence, and the names that it shows.

Two sites never share a name of a run, a tag or a key of an artifact.
"""

import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from flows.services.initialising import site_slug
from flows.services.run.prepare import run_settings
from flows.services.run.work_folder import WORK
from pipeline.errors import WalltimeError, printable

_HOME = "PREFECT_HOME"
_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}


def set_prefect_defaults() -> None:
    """Send no telemetry, and wait long enough for Prefect's server on a loaded machine; what the user has set wins."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


@contextmanager
def prefect_session(output_dir: Path, *, verbose: bool, instead: str = "--plain") -> Iterator[None]:
    """Import a flow and call it inside this context. `instead` is the command without Prefect, named in a failure."""
    _set_home(output_dir / WORK / "prefect")
    if "PREFECT_LOGGING_LEVEL" not in os.environ:
        # The API keeps all of the log. Errors are hidden too: commands report expected failures and raise the others.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "INFO" if verbose else "CRITICAL")
    try:
        yield
    except (WalltimeError, OSError):
        raise
    except RuntimeError as error:
        if not re.search(r"\b(Prefect|reach) API\b", str(error)):
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        raise WalltimeError(f"Prefect: {reason}; {instead} does without it.") from error


def connect() -> None:
    """Start Prefect's temporary server where no other is configured, deaf to a Ctrl-C, which a terminal sends to all.

    The server would end before the run can report its own end to it, and the run would ask it again for a minute.
    """
    from prefect.client.orchestration import get_client  # noqa: PLC0415 - the environment is set first

    # A process inherits the signals that are blocked where it is started; it is ended by SIGTERM.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        get_client(sync_client=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _set_home(fallback: Path) -> None:
    """Keep Prefect's database in `fallback` where its home is read-only: Prefect itself would retry for minutes."""
    if _HOME not in os.environ and not _is_writable_home():
        fallback.mkdir(parents=True, exist_ok=True)
        os.environ[_HOME] = str(fallback.absolute())


def _is_writable_home() -> bool:
    """Whether a file can be written in ~/.prefect; for root, permissions do not show a read-only disk."""
    try:
        home = Path.home() / ".prefect"
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return True
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return False


def artifact_key(site: str, name: str) -> str:
    """The key of one of a site's artifacts; Prefect accepts lowercase letters, digits and dashes."""
    return f"walltime-{site_slug(site)}-{name.replace('_', '-')}"


def site_tags(site: str) -> list[str]:
    """The tags of a site's deployment and of its runs."""
    return ["walltime", f"site:{printable(site)}"]


def nightly_run_name(parameters: Mapping[str, Any], scheduled: datetime) -> str:
    """The site and the time of a run, as in `riverbend 2026-11-22 02:15`: the site's time at the scheduled start.

    A config that cannot be read gives its file's name and the time in UTC; the run itself reports the fault.
    """
    config = Path(str(parameters.get("config", "")))
    try:
        settings = run_settings(config, parameters.get("site"))
        name, zone = settings.site.name, settings.site.timezone
    except (WalltimeError, OSError, ValueError):
        name, zone = config.stem, "UTC"
    return f"{printable(name)} {scheduled.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}"
