"""`walltime query`: one job's question to the published tables."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

From = Annotated[Path, typer.Option("--from", metavar="DIR", readable=False, help="The folder a run has published to.")]
User = Annotated[str | None, typer.Option("--user", help="Who submits the job.")]
Group = Annotated[str | None, typer.Option("--user-group", help="The submitter's Unix group.")]
Account = Annotated[str | None, typer.Option("--account", help="The account charged.")]
Application = Annotated[str | None, typer.Option("--application", help="What it runs, as table jobs names it.")]
Queue = Annotated[str | None, typer.Option("--queue", help="Its queue.")]
Partition = Annotated[str | None, typer.Option("--partition", help="Its partition, where the log names one apart.")]
Qos = Annotated[str | None, typer.Option("--qos", help="Its quality of service.")]
Problem = Annotated[str | None, typer.Option("--problem-size", help="Its problem size.")]
Procs = Annotated[int | None, typer.Option("--procs", min=1, max=2**62, help="Processors asked for.")]
Requested = Annotated[
    str | None, typer.Option("--requested", metavar="TIME", help="Time asked for, as in 4h, 1h30m or 1-04:00:00.")
]
Memory = Annotated[
    float | None, typer.Option("--memory", metavar="KIB", min=0, help="Memory asked for, KiB per processor.")
]
Site = Annotated[str | None, typer.Option("--site", metavar="NAME", help="The cluster, where tables hold several.")]


def query(
    published: From = Path("out"),
    user: User = None,
    user_group: Group = None,
    account: Account = None,
    application: Application = None,
    queue: Queue = None,
    partition: Partition = None,
    qos: Qos = None,
    problem_size: Problem = None,
    procs: Procs = None,
    requested: Requested = None,
    memory: Memory = None,
    site: Site = None,
    json: Json = False,
) -> None:
    """Say how long a job will run, from which jobs, and why; what is not given counts as unknown."""
    from flows.durations import seconds
    from flows.query import answer
    from flows.render import print_json
    from flows.render_query import print_answer

    requested_s = seconds(requested, "--requested") if requested is not None else None
    values = {
        "user": user, "user_group": user_group, "account": account, "application": application, "queue": queue,
        "partition": partition, "qos": qos, "problem_size": problem_size, "requested_s": requested_s,
        "requested_mem_kib": memory, "procs": procs,
    }  # fmt: skip
    found = answer(published, values, site)
    print_json(found) if json else print_answer(found, requested_s)
