"""The only folder that knows Prefect: its flows, its settings, its embedded server.

Importing it sets Prefect's defaults, before Prefect itself is imported. The rest of `flows` changes no environment, so
that a notebook which imports `walltime` keeps its own.
"""

from flows.prefect.session import set_prefect_defaults

set_prefect_defaults()
