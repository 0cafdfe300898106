"""What is known of a pending job, whatever the scheduler, and what a scheduler has to give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.arrays import Value
from pipeline.settings import ExportSettings

PROGRAM_TIMEOUT_S = 60.0
"""Longest wait for the next output of a scheduler's program: they answer within seconds, or hang."""


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job that waits: its id as the scheduler's programs take it, and its values under the names of JOBS columns."""

    job_id: str
    values: Mapping[str, Value]
    submit_s: float | None
    asked_s: float | None
    """The time that the user asked for (s); None: unknown or unlimited."""
    planned_s: float | None
    """The time that the scheduler plans with now (s)."""
    comment: str = ""
    """Slurm's AdminComment."""
    fault: str = ""
    """Why the job cannot be changed; empty where it can."""


@dataclass(frozen=True, slots=True)
class Change:
    """A job's time from and to (s), and the reason."""

    job: PendingJob
    to_s: float
    why: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How the jobs of a scheduler are read and changed; the times it takes are whole multiples of `step_s`."""

    name: str
    what: str
    """What is changed, as its users know it."""
    step_s: float
    share_and_margin: Callable[[ExportSettings], tuple[float, float]]
    pending: Callable[[Mapping[str, str]], Sequence[PendingJob]]
    """The pending jobs of all users, under an environment."""
    command: Callable[[Change], Sequence[str]]
    """The program and its arguments that make a change; no shell reads them."""
