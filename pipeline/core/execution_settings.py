"""Settings of how a run is computed; no byte of a table depends on them."""

from pydantic import Field

from pipeline.core.observe_settings import ObserveSettings


class ExecutionSettings(ObserveSettings):
    """How a run is computed, and how it reports its progress and its end. No table depends on it."""

    processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that compute steps at the same time; 1: all steps in this process.",
    )
    threads: int = Field(
        2, ge=1, le=64, description="Threads of a step, for the parts of the estimator and for its look-up table."
    )
    dask: str | None = Field(
        None,
        min_length=1,
        description="Address of a Dask scheduler whose workers compute the steps; they need the output folder and the "
        "logs under the same paths, and the package walltime[dask].",
    )
