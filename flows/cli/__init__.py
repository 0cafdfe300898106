"""The command `walltime`."""

import atexit
import gc
import os
import sys
import warnings
from typing import NoReturn

from flows.cli.exits import exit_after
from flows.services.files.process_guards import deny_world_writing

SHORT_COMMANDS = ("query", "ingest")
"""Commands that run for seconds at most and do no linear algebra."""


def main() -> NoReturn:
    """Run the command line. An expected failure is one sentence on stderr and exit code 2, never a traceback."""
    arguments = sys.argv[1:]
    deny_world_writing()
    is_short = bool(arguments) and arguments[0] in SHORT_COMMANDS
    if is_short or arguments[:1] == ["run"]:
        _collect_rarely()
    if is_short:
        _set_libraries()
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)
    exit_after(arguments)


def _collect_rarely() -> None:
    """Collect garbage rarely: imports make 100,000 objects and more that live until the end."""
    gc.set_threshold(100_000)
    atexit.register(_skip_last_collections)


def _skip_last_collections() -> None:
    """Spare Python's garbage collections at exit: a tenth of the time to ingest 250,000 jobs."""
    # DuckDB counts its own objects at exit and would report these as leaked.
    if "duckdb" not in sys.modules:
        gc.freeze()


def _set_libraries() -> None:
    """Set what libraries read at their import; the user's variables stay."""
    # Arrow's own allocator keeps a third more memory than it uses.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Idle BLAS threads spin for a while: a tenth of the time to ingest 250,000 jobs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic looks for plugins by reading the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
