"""Settings of `walltime apply` and `walltime watch`: the scheduler's programs, and what limits their changes."""

from typing import Literal

from pydantic import Field

from pipeline.core.section import Section


class ApplySettings(Section):
    """How pending jobs are read and changed; which runtime they are told is in the settings of export."""

    scheduler: Literal["slurm", "pbs"] = Field("slurm", description="Whose jobs are changed, without --for.")
    squeue_command: str = Field("squeue", min_length=1, description="The squeue program: a name or a path.")
    scontrol_command: str = Field("scontrol", min_length=1, description="The scontrol program: a name or a path.")
    qstat_command: str = Field("qstat", min_length=1, description="The qstat program: a name or a path.")
    qalter_command: str = Field("qalter", min_length=1, description="The qalter program: a name or a path.")
    timeout_s: float = Field(
        60.0, gt=0, allow_inf_nan=False, description="Longest wait for the next output of these programs (s)."
    )
    least_jobs: int = Field(
        10, ge=0, description="Number of ended jobs of a submitter from which on his or her jobs are changed."
    )
    most_changes: int = Field(500, ge=1, description="Number of jobs that one call changes; the others wait.")
    most_age_days: float = Field(
        7.0, gt=0, allow_inf_nan=False, description="Age of the published State beyond which nothing is changed (days)."
    )
