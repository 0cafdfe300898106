"""The only folder that knows Prefect: its flows, its settings, its embedded server.

Importing it sets Prefect's defaults, before Prefect itself is imported. The rest of `flows` changes no environment, so
that a notebook which imports `walltime` keeps its own.
"""

import atexit
import sys

from flows.prefect.session import set_prefect_defaults

set_prefect_defaults()


@atexit.register
def _let_go_of_duckdb() -> None:
    """Prefect keeps modules alive at the end of a process, and DuckDB 2.0 then prints its constants as leaks."""
    for name in [name for name in sys.modules if name.startswith(("duckdb", "_duckdb"))]:
        constants = vars(sys.modules[name])
        for one in [key for key, value in constants.items() if type(value).__name__ == "DuckDBPyType"]:
            del constants[one]
