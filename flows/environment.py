"""Prefect's settings, as environment variables set before Prefect is first imported; the user's own always win."""

import os

_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}
_CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"


def set_prefect_defaults() -> None:
    """No telemetry, and patience with the embedded API on a loaded machine."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


def set_console_level(*, verbose: bool) -> None:
    """How much of Prefect's log reaches the terminal; what the API keeps of it does not change.

    Errors are left out too: `walltime run` says in one sentence what failed, and raises what it did not expect.
    """
    if "PREFECT_LOGGING_LEVEL" in os.environ:
        return
    os.environ.setdefault(_CONSOLE_LEVEL, "INFO" if verbose else "CRITICAL")
