"""What is ready before Prefect is imported: its settings, its failures in one sentence, and the names that it shows.

Two sites never share a name of a run, a tag or a key of an artifact.
"""

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from flows.services.initialising import site_slug
from flows.services.run.prepare import run_settings
from pipeline.errors import WalltimeError, printable
from pipeline.publish.store import WORK

_HOME = "PREFECT_HOME"
_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",  # for the temporary server that is started here
    "DO_NOT_TRACK": "1",  # for this client, also of a server that reports its use
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "60",
}


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def set_prefect_defaults() -> None:
    """Send no telemetry, wait long enough for Prefect's server on a loaded machine, and reach it without a proxy.

    What the user has set wins.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    # Prefect's own server is on this machine, where no proxy leads. Both names, as programs differ in which they read.
    if {"http_proxy", "https_proxy", "all_proxy"} & {name.lower() for name in os.environ}:
        direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
        direct = ",".join(dict.fromkeys([*filter(None, direct.split(",")), *_LOOPBACK]))
        os.environ.update(no_proxy=direct, NO_PROXY=direct)


@contextmanager
def prefect_session(output_dir: Path, *, verbose: bool, instead: str = "--plain") -> Iterator[None]:
    """Import a flow and call it inside this context. `instead` is the command without Prefect, named in a failure."""
    if _HOME not in os.environ and not _is_writable_home():
        # Prefect itself would retry for minutes.
        home = output_dir / WORK / "prefect"
        home.mkdir(parents=True, exist_ok=True)
        os.environ[_HOME] = str(home.absolute())
    _check_database(instead)
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


def _check_database(instead: str) -> None:
    """WalltimeError where Prefect cannot use its database of SQLite: it would say so in its server's log alone, and
    commands would wait for the server for minutes."""
    import prefect  # noqa: PLC0415 - the environment is set first
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_DATABASE_CONNECTION_URL  # noqa: PLC0415

    kind, _, name = str(PREFECT_SERVER_DATABASE_CONNECTION_URL.value() or "").partition(":///")
    path = Path(name)
    migrations = Path(prefect.__file__).parent.glob("server/database/_migrations/versions/sqlite/*.py")
    if PREFECT_API_URL.value() or not kind.startswith("sqlite") or not path.is_file():
        return
    try:
        with closing(sqlite3.connect(path)) as database:
            tables = {name for (name,) in database.execute("select name from sqlite_master")}
            named = database.execute("select version_num from alembic_version") if "alembic_version" in tables else ()
            revisions = [str(revision) for (revision,) in named]
    except sqlite3.OperationalError:  # locked, as by another process that makes it
        return
    except sqlite3.DatabaseError as error:
        found = f"cannot be read ({error})"
    else:
        known = "".join(one.read_text(encoding="utf-8") for one in migrations)
        strange = [revision for revision in revisions if known and f'"{revision}"' not in known]
        if not strange and (not revisions or "flow_run" in tables):
            return
        why = f"has the revision {strange[0]}" if strange else "lacks tables of its revision"
        found = f"is not one of the installed Prefect {prefect.__version__} (it {why}), but perhaps of a newer release"
    do = f"Set PREFECT_HOME to another folder, or install that release; {instead} does without it."
    raise WalltimeError(f"Prefect: its database {printable(str(path))} {found}. {do}")


def _is_writable_home() -> bool:
    """Whether ~/.prefect can be written, and its disk is not read-only."""
    try:
        home = Path.home() / ".prefect"
        home.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return False
    return os.access(home, os.W_OK)


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
    name, zone = site_and_zone(parameters)
    return f"{printable(name)} {scheduled.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}"


def site_and_zone(parameters: Mapping[str, Any]) -> tuple[str, str]:
    """The name of a run's site, and its zone; the file's name and UTC of a config that cannot be read."""
    config = Path(str(parameters.get("config", "")))
    try:
        settings = run_settings(config, parameters.get("site"))
    except (WalltimeError, OSError, ValueError):
        return config.stem, "UTC"
    return settings.site.name, settings.site.timezone
