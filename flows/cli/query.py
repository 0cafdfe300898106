"""`walltime query`: one job's question, or a file of them, to the published State."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

From = Annotated[Path, typer.Option("--from", metavar="DIR", readable=False, help="The folder a run has published to.")]
User = Annotated[str | None, typer.Option("--user", help="Who submits the job.")]
Account = Annotated[str | None, typer.Option("--account", help="The account charged.")]
Group = Annotated[str | None, typer.Option("--user-group", help="The submitter's Unix group.")]
Application = Annotated[
    str | None, typer.Option("--application", help="What it runs, as table jobs names it, or its script's name.")
]
Name = Annotated[str | None, typer.Option("--job-name", help="Its name, as given to the scheduler.")]
Queue = Annotated[str | None, typer.Option("--queue", help="Its queue, or partition.")]
Partition = Annotated[str | None, typer.Option("--partition", help="The same, as Slurm calls it.")]
Qos = Annotated[str | None, typer.Option("--qos", help="Its quality of service.")]
Problem = Annotated[str | None, typer.Option("--problem-size", help="Its problem size.")]
Procs = Annotated[int | None, typer.Option("--procs", min=1, max=2**53, help="Processors asked for.")]
Requested = Annotated[
    str | None, typer.Option("--requested", metavar="TIME", help="Time asked for, as in 4h, 1h30m or 1-04:00:00.")
]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Memory asked for, of the whole job, as in 4G.")
]
PerProcessor = Annotated[str | None, typer.Option("--mem-per-cpu", metavar="SIZE", help="... or per processor.")]
At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="When it is submitted (ISO); default: where the log ends.")
]
Batch = Annotated[
    Path | None,
    typer.Option("--batch", metavar="FILE.csv", readable=False, help="Jobs, one a line, columns named as options."),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write the batch's answers there, as .csv or .parquet.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", readable=False, help="The key that the tables' names are hashed under.")
]


def query(
    published: From = Path("out"),
    user: User = None,
    account: Account = None,
    user_group: Group = None,
    application: Application = None,
    job_name: Name = None,
    queue: Queue = None,
    partition: Partition = None,
    qos: Qos = None,
    problem_size: Problem = None,
    procs: Procs = None,
    requested: Requested = None,
    memory: Memory = None,
    mem_per_cpu: PerProcessor = None,
    at: At = None,
    batch: Batch = None,
    out: Out = None,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Say how long a job will run, how sure that is, and what it rests on; what is not given counts as unknown."""
    from flows.query_batch import job_of
    from pipeline.core.errors import InputError

    texts = {
        "user": user, "account": account, "user_group": user_group, "application": application, "job_name": job_name,
        "queue": queue, "partition": partition, "qos": qos, "problem_size": problem_size, "requested": requested,
        "procs": None if procs is None else str(procs), "memory": memory, "mem_per_cpu": mem_per_cpu, "at": at,
    }  # fmt: skip
    given = {name: text for name, text in texts.items() if text is not None}
    if memory is not None and mem_per_cpu is not None:
        raise InputError("--memory", "--mem-per-cpu beside it", "one of the two")
    if batch is not None and given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError("--batch", f"{named} beside it", "these as columns of the file")
    if batch is None and out is not None:
        raise InputError("--out", "no --batch beside it", "a file of jobs")
    if batch is None:
        _one(published, job_of(given), key_file, json)
    else:
        _many(published, batch, out, key_file, json)


def _one(published: Path, job: dict[str, str | float | int | None], key_file: Path | None, json: bool) -> None:
    from flows.json_out import print_json
    from flows.query import answer

    found = answer(published, job, key_file)
    if json:
        print_json(found)
        return
    from flows.render_query import print_answer

    print_answer(found)


def _many(published: Path, batch: Path, out: Path | None, key_file: Path | None, json: bool) -> None:
    from flows.json_out import print_lines
    from flows.query import answers, facts_of, held_in
    from flows.query_batch import read_jobs, rows_of
    from flows.query_out import write_rows
    from flows.tables_out import check_suffix

    if out is not None:
        check_suffix(out)
    jobs = read_jobs(batch)
    held = held_in(published, len(jobs))
    rows = rows_of(jobs, answers(held, jobs, key_file))
    if out is not None:
        write_rows(out, rows)
    if json:
        print_lines(rows)
    elif out is None:
        from flows.render_query import print_rows

        print_rows(rows, facts_of(held))
