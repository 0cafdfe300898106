"""`walltime query`: the expected runtime of one job, or of a file of jobs, from the published State."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import (
    Account,
    Application,
    AsOf,
    From,
    JobName,
    Json,
    KeyFile,
    ProblemSize,
    Queue,
    User,
    UserGroup,
    check_mode,
)

Comment = Annotated[str | None, typer.Option("--comment", help="The job's comment, for [[inputs.rules]] that read it.")]
SubmitLine = Annotated[
    str | None, typer.Option("--submit-line", help="The line that submits the job, for [[inputs.rules]] that read it.")
]
Partition = Annotated[str | None, typer.Option("--partition", help="The partition (Slurm's name for a queue).")]
Qos = Annotated[str | None, typer.Option("--qos", help="The quality of service.")]
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
Platform = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="NAME",
        help="Instead: what walltime phases predict says of another machine, of --application and --procs if given.",
    ),
]


def query(
    ctx: typer.Context,
    published: From,
    user: User = None,
    account: Account = None,
    user_group: UserGroup = None,
    application: Application = None,
    job_name: JobName = None,
    comment: Comment = None,
    submit_line: SubmitLine = None,
    queue: Queue = None,
    partition: Partition = None,
    qos: Qos = None,
    problem_size: ProblemSize = None,
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
    """Estimate how long a job will run, with quantiles and the past jobs they rest on. A missing option is unknown.

    \b
    Examples:
      walltime query --from my-tables --user u17 --application solver_n16.sh --procs 64 --requested 4h
      walltime query --from my-tables --batch jobs.csv --out answers.parquet
    """
    from pipeline.errors import InputError

    check_mode(ctx, "--platform", is_on=platform is not None, own=(), shared=("--from", "--application", "--procs"))
    check_mode(ctx, "--batch", is_on=batch is not None, own=("--out",), shared=("--from", "--key-file", "--as-of"))
    if platform is not None:
        _answer_platform(published, platform, application, procs, as_json=json)
    elif batch is not None:
        _answer_batch(published, batch, out, key_file, as_of, as_json=json)
    else:
        if memory is not None and mem_per_cpu is not None:
            raise InputError("--memory", "--mem-per-cpu beside it", "one of the two")
        given = {
            "user": user, "account": account, "user_group": user_group, "application": application,
            "job_name": job_name, "comment": comment, "submit_line": submit_line, "queue": queue,
            "partition": partition, "qos": qos, "problem_size": problem_size, "requested": requested,
            "memory": memory, "mem_per_cpu": mem_per_cpu, "at": at, "procs": None if procs is None else str(procs),
        }  # fmt: skip
        _answer_one(published, given, key_file, as_of, as_json=json)


def _answer_platform(
    published: Path, platform: str, application: str | None, procs: int | None, *, as_json: bool
) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.services.phases.phase_folder import platform_answer

    answered = platform_answer(published, platform, application, procs)
    if as_json:
        print_json(answered)
        return
    from flows.pages.terminal.render_models import print_platform_answer

    print_platform_answer(answered)


def _answer_one(
    published: Path, given: dict[str, str | None], key_file: Path | None, as_of: str | None, *, as_json: bool
) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.services.quantities import as_of_seconds
    from flows.services.query.answers import answer
    from flows.services.query.batch import job_of

    job = job_of({name: text for name, text in given.items() if text is not None})
    found = answer(published, job, key_file, as_of_seconds(as_of))
    if as_json:
        print_json(found)
        return
    from flows.pages.terminal.render_query import print_answer

    print_answer(found)


def _answer_batch(
    published: Path, path: Path, out: Path | None, key_file: Path | None, as_of: str | None, *, as_json: bool
) -> None:
    from flows.pages.terminal.json_out import print_json_lines
    from flows.services.files.table_files import check_suffix
    from flows.services.quantities import as_of_seconds
    from flows.services.query.answer_file import write_rows
    from flows.services.query.answers import answering_state, answers, facts_of
    from flows.services.query.batch import answer_rows, describe_batch, read_batch
    from pipeline.errors import printable
    from pipeline.publish import reading

    if out is not None:
        check_suffix(out)
    batch = read_batch(path)
    as_of_s = as_of_seconds(as_of)
    with reading(published, as_of_s) as manifest:
        loaded = answering_state(manifest, len(batch.jobs), as_of_s)
        rows = answer_rows(batch, answers(loaded, batch.jobs, key_file))
    described = f"{describe_batch(batch)} of {printable(str(path), 1000)}"
    if out is not None:
        write_rows(out, rows)
        # With --json stdout holds nothing but the answers.
        stream = sys.stderr if as_json else sys.stdout
        print(f"Wrote the answers to {described} to {printable(str(out), 1000)}", file=stream)
    if as_json:
        print_json_lines(rows)
    elif out is None:
        from flows.pages.terminal.render_query import print_rows

        print_rows(rows, facts_of(loaded), described)
