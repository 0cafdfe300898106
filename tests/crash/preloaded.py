"""What the runs of this folder import, imported once, and their kernels, loaded once.

Prefect comes after flows, which sets its defaults. No stage is called here: a forked process has no copy of the
threads that Arrow and DuckDB would start.
"""

import sys

import duckdb  # noqa: F401
import pandas  # noqa: F401
from numba.core.dispatcher import Dispatcher

import flows.cli.commands.run
import flows.cli.typer_app
import flows.pages.terminal
import flows.prefect.nightly
import flows.services.run.running  # noqa: F401


def load_kernels() -> int:
    """Load the compiled kernels of this project from numba's cache, for every type they were called with; their number.

    A run loads only what it calls, but each run would spend two CPU-seconds on that.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "pipeline"]
    values = [value for module in modules for value in vars(module).values()]
    kernels = {id(value): value for value in values if isinstance(value, Dispatcher)}
    n_loaded = 0
    for kernel in kernels.values():
        # numba has no public name for the types in its cache. Where the cache is empty, nothing is loaded.
        index = kernel._cache._cache_file._load_index() if kernel._cache.cache_path else {}
        for types, *_ in index:
            kernel.compile(types)
            n_loaded += 1
    return n_loaded


N_KERNELS = load_kernels()
