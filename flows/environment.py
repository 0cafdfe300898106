"""Prefect's settings, as environment variables set before Prefect is first imported; the user's own always win."""

import os
import tempfile
from pathlib import Path

_HOME = "PREFECT_HOME"
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


def set_prefect_home(instead: Path) -> None:
    """Keep Prefect's database in `instead` where the home cannot be written: Prefect itself tries for minutes."""
    if _HOME not in os.environ and not _is_writable(_usual_home()):
        instead.mkdir(parents=True, exist_ok=True)
        os.environ[_HOME] = str(instead.absolute())


def _usual_home() -> Path | None:
    try:
        return Path.home() / ".prefect"
    except RuntimeError:
        return None


def _is_writable(folder: Path | None) -> bool:
    """By writing: root may write anywhere but on a read-only disk, which permissions do not tell."""
    if folder is None:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
