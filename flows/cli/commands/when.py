"""`walltime when`: when jobs will start and end, from the queue as it is now and the published tables."""

import os
import time
from pathlib import Path
from typing import Literal

import typer

from flows.cli.options import ACCOUNT, APPLICATION, FROM, JOB_NAME, QUEUE, REQUESTED, USER, check_mode, option
from flows.pages.terminal.blocks import Answer
from flows.services.quantities import instant_s, words


def when(
    ctx: typer.Context,
    published: Path = FROM,
    job: str | None = option("--job ID", "Only these jobs, with commas between them; default: all that wait or run."),
    scheduler: Literal["slurm", "pbs"] = option("--for", "Whose programs tell the queue and the nodes.", "slurm"),
    queue_file: Path | None = option(
        "--queue-file FILE", "The output of squeue --json or qstat -f -F json, instead of running it."
    ),
    at: str | None = option("--at TIME", "The time of that output (ISO); default: as it says, and without a file now."),
    procs: int | None = option("--procs", "Instead: of a job that would ask for these processors now.", min=1),
    requested: str | None = REQUESTED,
    user: str | None = USER,
    account: str | None = ACCOUNT,
    application: str | None = APPLICATION,
    job_name: str | None = JOB_NAME,
    queue: str | None = QUEUE,
) -> Answer:
    """Say when waiting jobs will start and how much longer running ones will run, with quantiles.

    With --procs: when a job would start and end that is submitted now, and what a shorter request or another number of
    processors would change. No start is expected of a job that is on hold or depends on another one.

    \b
    Examples:
      walltime when --from my-site-tables
      walltime when --from my-site-tables --job 4711,4712 --json
      walltime when --from my-site-tables --user u17 --procs 64 --requested 24h
    """
    from flows.pages.terminal.view_when import view_hypothetical, view_when
    from flows.services.query.jobs import job_of
    from flows.services.schedulers import SCHEDULERS
    from flows.services.when import hypothetical, queue_in, queue_of
    from flows.services.when import when as answered

    own = ("--requested", "--user", "--account", "--application", "--job-name", "--queue")
    check_mode(ctx, "--procs", is_on=procs is not None, own=own, shared=("--from", "--for", "--queue-file", "--at"))
    at_s = None if at is None else float(instant_s("--at", at, "UTC"))
    program = SCHEDULERS[scheduler]
    if queue_file:
        now = queue_in(queue_file, program, at_s)
    else:
        now = queue_of(program, os.environ, time.time() if at_s is None else at_s)
    if procs is None:
        found = answered(published, words(job), now)
        return Answer(found, view_when(found))
    given = {
        "user": user, "account": account, "application": application, "job_name": job_name, "queue": queue,
        "requested": requested, "procs": str(procs),
    }  # fmt: skip
    named = job_of({name: text for name, text in given.items() if text is not None})
    found = hypothetical(published, named, now)
    return Answer(found, view_hypothetical(found))
