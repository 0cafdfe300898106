"""The configs and sample logs that come with the package: `walltime init --sample` writes a config for the first."""

from flows.services.initialising import sample

__all__ = ["sample"]
