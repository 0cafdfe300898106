"""Settings of libraries, made before each is first imported; environment variables that the user has set always win."""

import atexit
import gc
import os
import sys
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


def set_short_run_defaults() -> None:
    """What libraries read when they are first loaded; for a command that is soon done and does no linear algebra."""
    # Loading them makes a hundred thousand objects that stay: looking for garbage among these again and again is vain.
    gc.set_threshold(100_000)
    atexit.register(_end_quickly)
    # Arrow's own allocator keeps a third more memory than it uses.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Idle threads of BLAS spin for a while: a tenth of the time that a log of 250,000 jobs takes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Looking for plugins of pydantic reads what is written of every package installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _end_quickly() -> None:
    """Let Python end without looking through all objects several times: a tenth of an ingest of 250,000 jobs."""
    # DuckDB counts its own objects in the end, and would call those left over leaked.
    if "duckdb" not in sys.modules:
        gc.freeze()


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
    import tempfile  # noqa: PLC0415  (each command loads this module, and few ask)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
