"""`walltime query`: the expected runtime of one job, or of a file of jobs, from the published State."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsOf, From, Json

User = Annotated[str | None, typer.Option("--user", help="Who submits the job.")]
Account = Annotated[str | None, typer.Option("--account", help="The account charged.")]
Group = Annotated[str | None, typer.Option("--user-group", help="The submitter's Unix group.")]
Application = Annotated[
    str | None, typer.Option("--application", help="The application, as named in table jobs, or its script's name.")
]
Name = Annotated[str | None, typer.Option("--job-name", help="The job's name, as given to the scheduler.")]
Comment = Annotated[str | None, typer.Option("--comment", help="The job's comment, for [[inputs.rules]] that read it.")]
SubmitLine = Annotated[
    str | None, typer.Option("--submit-line", help="The line that submits the job, for [[inputs.rules]] that read it.")
]
Queue = Annotated[str | None, typer.Option("--queue", help="The queue, or partition.")]
Partition = Annotated[str | None, typer.Option("--partition", help="The partition (Slurm's name for a queue).")]
Qos = Annotated[str | None, typer.Option("--qos", help="The quality of service.")]
Problem = Annotated[str | None, typer.Option("--problem-size", help="The problem size.")]
Procs = Annotated[int | None, typer.Option("--procs", min=1, max=2**53, help="Processors requested.")]
Requested = Annotated[
    str | None, typer.Option("--requested", metavar="TIME", help="Time requested, as in 4h, 1h30m or 1-04:00:00.")
]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="Memory requested for the whole job, as in 4G.")
]
PerProcessor = Annotated[
    str | None,
    typer.Option("--mem-per-cpu", metavar="SIZE", help="Memory requested per processor, instead of --memory."),
]
At = Annotated[str | None, typer.Option("--at", metavar="TIME", help="Submit time (ISO); default: the end of the log.")]
Batch = Annotated[
    Path | None,
    typer.Option(
        "--batch",
        metavar="FILE.csv",
        readable=False,
        help="A file of jobs, one per line; its columns are named like the options.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Write the answers to a batch, as .csv or .parquet.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", readable=False, help="The key with which names in the tables are hashed.")
]
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="NAME",
        help="Instead: what walltime predict-phases says of another machine, of --application and --procs if given.",
    ),
]


def query(
    published: From,
    user: User = None,
    account: Account = None,
    user_group: Group = None,
    application: Application = None,
    job_name: Name = None,
    comment: Comment = None,
    submit_line: SubmitLine = None,
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
    as_of: AsOf = None,
    platform: Platform = None,
    json: Json = False,
) -> None:
    """Estimate how long a job will run, with quantiles and the past jobs they rest on. A missing option is unknown."""
    from flows.cli.answer_query import answer_query

    answer_query(
        published, user=user, account=account, user_group=user_group, application=application, job_name=job_name,
        comment=comment, submit_line=submit_line, queue=queue, partition=partition, qos=qos,
        problem_size=problem_size, procs=procs, requested=requested, memory=memory, mem_per_cpu=mem_per_cpu, at=at,
        batch=batch, out=out, key_file=key_file, as_of=as_of, platform=platform, json=json,
    )  # fmt: skip
