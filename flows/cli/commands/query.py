"""`walltime query` and `when`: the expected runtime of a job, or of a file of jobs, and when jobs will start."""

import os
import sys
import time
from pathlib import Path
from typing import Literal

import typer

from flows.cli import options as shared
from flows.cli.options import check_mode, option
from flows.pages.terminal.blocks import Answer
from flows.services.quantities import as_of_seconds, instant_s, words
from pipeline.errors import InputError, printable


def query(
    ctx: typer.Context,
    published: Path = shared.FROM,
    user: str | None = shared.USER,
    account: str | None = shared.ACCOUNT,
    user_group: str | None = shared.USER_GROUP,
    application: str | None = shared.APPLICATION,
    job_name: str | None = shared.JOB_NAME,
    comment: str | None = option("--comment", "The job's comment, for [[inputs.rules]] that read it."),
    submit_line: str | None = option(
        "--submit-line", "The line that submits the job, for [[inputs.rules]] that read it."
    ),
    queue: str | None = shared.QUEUE,
    partition: str | None = option("--partition", "The partition (Slurm's name for a queue)."),
    qos: str | None = option("--qos", "The quality of service."),
    problem_size: str | None = shared.PROBLEM_SIZE,
    array_id: str | None = option(
        "--array-id", "The job array of a waiting task; its tasks that have ended are used first."
    ),
    procs: int | None = option("--procs", "Processors requested.", min=1, max=2**53),
    nodes: int | None = option("--nodes", "Nodes requested; without --procs all processors of each.", min=1),
    gpus: int | None = option("--gpus", "GPUs requested; default: none.", min=0),
    gpu_type: str | None = option("--gpu-type", "The type of the GPUs, as the log names it; default: the usual one."),
    requested: str | None = shared.REQUESTED,
    memory: str | None = option(
        "--memory SIZE", "Memory requested for the whole job, as in 4G; divided by --procs, else by 1."
    ),
    mem_per_cpu: str | None = option("--mem-per-cpu SIZE", "Memory requested per processor, instead of --memory."),
    at: str | None = option("--at TIME", "Submit time (ISO), or `later`: in the next week; default: the log's end."),
    batch: Path | None = option(
        "--batch FILE.csv", "A file of jobs, one per line, with columns named like the options."
    ),
    out: Path | None = option("--out", "Write the answers to a batch, as .csv or .parquet."),
    key_file: Path | None = shared.KEY_FILE,
    as_of: str | None = shared.AS_OF,
    platform: str | None = option(
        "--platform NAME",
        "Instead: the runtime on another machine by walltime phases predict, for --application and --procs if given.",
    ),
    json: bool = shared.JSON,
) -> Answer | None:
    """Estimate how long a job will run: quantiles, and how many past jobs they use. What is not given is unknown.

    \b
    Examples:
      walltime query --from my-site-tables --user u17 --application solver_n16.sh --procs 64 --requested 4h
      walltime query --from my-site-tables --batch jobs.csv --out answers.parquet
    """
    from flows.pages.terminal.view_query import view_answer
    from flows.services.query.answers import answer
    from flows.services.query.jobs import job_of

    check_mode(ctx, "--platform", is_on=platform is not None, own=(), shared=("--from", "--application", "--procs"))
    check_mode(ctx, "--batch", is_on=batch is not None, own=("--out",), shared=("--from", "--key-file", "--as-of"))
    if platform is not None:
        from flows.pages.answers.phases import view_prediction
        from flows.services.phase_folder import platform_answer

        found = platform_answer(published, platform, application, procs)
        return Answer(found, (block for one in found["predictions"] for block in view_prediction(one)))
    if batch is not None:
        return _of_batch(published, batch, out, key_file, as_of, as_json=json)
    if memory is not None and mem_per_cpu is not None:
        raise InputError("--memory", "--mem-per-cpu beside it", "one of the two")
    given = {
        "user": user, "account": account, "user_group": user_group, "application": application,
        "job_name": job_name, "comment": comment, "submit_line": submit_line, "queue": queue,
        "partition": partition, "qos": qos, "problem_size": problem_size, "array_id": array_id, "requested": requested,
        "memory": memory, "mem_per_cpu": mem_per_cpu, "at": at, "procs": procs, "nodes": nodes, "gpus": gpus,
        "gpu_type": gpu_type,
    }  # fmt: skip
    job = job_of({name: str(text) for name, text in given.items() if text is not None})
    found = answer(published, job, key_file, as_of_seconds(as_of))
    return Answer(found, view_answer(found))


def _of_batch(
    published: Path, path: Path, out: Path | None, key_file: Path | None, as_of: str | None, *, as_json: bool
) -> Answer | None:
    from flows.pages.terminal.view_query import view_batch
    from flows.services.files.table_files import check_suffix, write_rows
    from flows.services.query.answers import answering_state, answers, facts_of
    from flows.services.query.jobs import answer_rows, describe_batch, read_batch
    from pipeline.publish import reading

    if out is not None:
        check_suffix(out)
    batch = read_batch(path)
    as_of_s = as_of_seconds(as_of)
    with reading(published, as_of_s) as manifest:
        loaded = answering_state(manifest, as_of_s)
        rows = answer_rows(batch, answers(loaded, batch.jobs, key_file))
    described = f"{describe_batch(batch)} of {printable(str(path), 1000)}"
    if out is not None:
        write_rows(out, rows)
        # With --json stdout holds nothing but the answers.
        stream = sys.stderr if as_json else sys.stdout
        print(f"Wrote the answers to {described} to {printable(str(out), 1000)}", file=stream)
        if not as_json:
            return None
    return Answer(rows, view_batch(rows, facts_of(loaded), described), is_lines=True)


def when(
    ctx: typer.Context,
    published: Path = shared.FROM,
    job: str | None = option("--job ID", "Only these jobs, with commas between them; default: all that wait or run."),
    scheduler: Literal["slurm", "pbs"] = option("--for", "The scheduler that lists queue and nodes.", "slurm"),
    queue_file: Path | None = option(
        "--queue-file FILE", "The output of squeue --json or qstat -f -F json, instead of running it."
    ),
    at: str | None = option("--at TIME", "The time of that output (ISO); default: as written, and without a file now."),
    procs: int | None = option("--procs", "Instead: predict for a job that would request these processors now.", min=1),
    requested: str | None = shared.REQUESTED,
    user: str | None = shared.USER,
    account: str | None = shared.ACCOUNT,
    application: str | None = shared.APPLICATION,
    job_name: str | None = shared.JOB_NAME,
    queue: str | None = shared.QUEUE,
) -> Answer:
    """Predict when waiting jobs will start and how much longer running jobs will run, as quantiles.

    With --procs: when a job that is submitted now would start and end, and what a shorter request or another number of
    processors would change. No start is predicted for a job that is on hold or depends on another one.

    \b
    Examples:
      walltime when --from my-site-tables
      walltime when --from my-site-tables --job 4711,4712 --json
      walltime when --from my-site-tables --user u17 --procs 64 --requested 24h
    """
    from flows.pages.terminal.view_query import view_hypothetical, view_when
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
