"""Where Prefect, the terminal and the clock are: the nightly flow, and the command line. Stages are in pipeline/."""

from flows.prefect.settings import set_prefect_defaults

set_prefect_defaults()
