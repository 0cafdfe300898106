"""Settings of Prefect, made before it is first imported; environment variables that the user has set always win."""

import os
from collections.abc import Mapping
from pathlib import Path

_HOME = "PREFECT_HOME"
_DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}
_CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"


def set_prefect_defaults() -> None:
    """Send no telemetry, and wait long enough for the embedded API on a loaded machine."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


def set_console_level(*, verbose: bool) -> None:
    """Set how much of Prefect's log reaches the terminal; the API keeps all of it.

    Errors are hidden too: `walltime run` reports expected failures in one sentence and raises the others.
    """
    if "PREFECT_LOGGING_LEVEL" in os.environ:
        return
    os.environ.setdefault(_CONSOLE_LEVEL, "INFO" if verbose else "CRITICAL")


def set_prefect_home(fallback: Path) -> None:
    """Keep Prefect's database in `fallback` where its home is read-only: Prefect itself would retry for minutes."""
    if _HOME not in os.environ and not _is_writable(prefect_home(os.environ)):
        fallback.mkdir(parents=True, exist_ok=True)
        os.environ[_HOME] = str(fallback.absolute())


def prefect_home(environment: Mapping[str, str]) -> Path | None:
    """The folder of Prefect's database and profiles; None where the user has no home."""
    try:
        return Path(environment[_HOME]).expanduser() if _HOME in environment else Path.home() / ".prefect"
    except RuntimeError:
        return None


def _is_writable(folder: Path | None) -> bool:
    """Whether a file can be written there; for root, permissions do not show a read-only disk."""
    if folder is None:
        return False
    import tempfile  # noqa: PLC0415  (every command loads this module, and few need it)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
