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
    from flows.cli.answer_query import ask

    ask(
        published, user=user, account=account, user_group=user_group, application=application, job_name=job_name,
        queue=queue, partition=partition, qos=qos, problem_size=problem_size, procs=procs, requested=requested,
        memory=memory, mem_per_cpu=mem_per_cpu, at=at, batch=batch, out=out, key_file=key_file, json=json,
    )  # fmt: skip
