"""Settings for handing estimates to a scheduler: `walltime export` and `walltime apply` read the same ones."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pipeline.core.section import Section

EXPORTED_SHARES = (0.5, 0.8, 0.9, 0.95, 0.99)
"""The quantiles of a runtime that may be handed to a scheduler; estimates have these, and 10%."""


def _known_share(share: float) -> float:
    if share not in EXPORTED_SHARES:
        raise ValueError(f"one of {', '.join(map(str, EXPORTED_SHARES))}")
    return share


Share = Annotated[float, AfterValidator(_known_share)]


class ExportSettings(Section):
    """Which runtime a scheduler is told, and whose jobs are left alone."""

    mode: Literal["dry_run", "limit", "priority"] = Field(
        "dry_run",
        description="Slurm's plug-in; dry_run: only a comment; limit: lower TimeLimit; priority: set the site factor.",
    )
    quantile: Share = Field(
        0.95, description="Quantile of the runtime that a lowered limit covers: a job beyond its limit is killed."
    )
    margin_s: float = Field(600.0, ge=0, allow_inf_nan=False, description="Time added to that quantile (s).")
    soft_quantile: Share = Field(
        0.5, description="Quantile of the runtime that OpenPBS plans with (soft_walltime); no job is killed for it."
    )
    soft_margin_s: float = Field(0.0, ge=0, allow_inf_nan=False, description="Time added to that quantile (s).")
    least_change_s: float = Field(
        60.0, ge=0, allow_inf_nan=False, description="A limit is left alone if it would change by less (s)."
    )
    opt_out_users: tuple[str, ...] = Field((), description="Users whose jobs are never changed.")
    opt_out_accounts: tuple[str, ...] = Field((), description="Accounts whose jobs are never changed.")
    opt_out_partitions: tuple[str, ...] = Field((), description="Partitions or queues whose jobs are never changed.")
    priority_per_halving: float = Field(
        1000.0,
        ge=0,
        le=1e6,
        description="Slurm's site factor in mode priority, per halving of the expected runtime below a day.",
    )
