"""Settings for commands that run for less than a second and do no linear algebra."""

import atexit
import gc
import os
import sys


def set_fast_start() -> None:
    """Set what libraries read at import; environment variables that the user has set stay as they are."""
    # The libraries allocate 100,000 objects that live until the end: frequent garbage collections find nothing.
    gc.set_threshold(100_000)
    atexit.register(_skip_last_collections)
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
