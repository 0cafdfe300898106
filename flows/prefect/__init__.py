"""The only folder that knows Prefect: its flows, its settings, and the server that a user has configured.

Importing it sets Prefect's defaults, before Prefect itself is imported. The rest of `flows` changes no environment, so
that a notebook which imports `walltime` keeps its own.
"""

import atexit
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import WalltimeError

_DEFAULTS = {
    "DO_NOT_TRACK": "1",  # for this client, also of a server that reports its use
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "60",
}


def set_prefect_defaults() -> None:
    """Send no telemetry, beat often enough for the automation of killed runs, and reach this machine without a proxy.

    What the user has set wins.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    # A server on this machine is reached by no proxy. Both names, as programs differ in which they read.
    if {"http_proxy", "https_proxy", "all_proxy"} & {name.lower() for name in os.environ}:
        direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
        direct = ",".join(dict.fromkeys([*filter(None, direct.split(",")), "127.0.0.1", "localhost", "::1"]))
        os.environ.update(no_proxy=direct, NO_PROXY=direct)


set_prefect_defaults()


def server_address() -> str | None:
    """The address of the API that PREFECT_API_URL or a profile of Prefect names; None where there is none."""
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415 - the environment is set first

    address = PREFECT_API_URL.value()
    return str(address) if address else None


@contextmanager
def prefect_session(*, verbose: bool, instead: str) -> Iterator[None]:
    """Import a flow and call it inside this context. `instead` is the command without Prefect, named in a failure."""
    if "PREFECT_LOGGING_LEVEL" not in os.environ:
        # The API keeps all of the log. Errors are hidden too: commands report expected failures and raise the others.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "INFO" if verbose else "CRITICAL")
    try:
        yield
    except RuntimeError as error:
        if not re.search(r"\b(Prefect|reach) API\b", str(error)):
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        raise WalltimeError(f"Prefect: {reason}; {instead} does without it.") from error


@atexit.register
def _let_go_of_duckdb() -> None:
    """Prefect keeps modules alive at the end of a process, and DuckDB 2.0 then prints its constants as leaks."""
    for name in [name for name in sys.modules if name.startswith(("duckdb", "_duckdb"))]:
        constants = vars(sys.modules[name])
        for one in [key for key, value in constants.items() if type(value).__name__ == "DuckDBPyType"]:
            del constants[one]
