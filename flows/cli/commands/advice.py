"""`walltime advice`: how many processors to request, and what they cost."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsOf, From, Json, Node, Rate

Application = Annotated[
    str | None, typer.Option("--application", help="The application, as named in table groups, or its script's name.")
]
User = Annotated[str | None, typer.Option("--user", help="Who submits the job.")]
Account = Annotated[str | None, typer.Option("--account", help="The account charged.")]
UserGroup = Annotated[str | None, typer.Option("--user-group", help="The submitter's Unix group.")]
Name = Annotated[str | None, typer.Option("--job-name", help="The job's name.")]
Queue = Annotated[str | None, typer.Option("--queue", help="The queue, or partition.")]
Problem = Annotated[str | None, typer.Option("--problem-size", help="The problem size.")]
Group = Annotated[str | None, typer.Option("--group", metavar="ID", help="A group_id from table groups.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", readable=False, help="The key with which names in the tables are hashed.")
]


def advice(
    published: From,
    application: Application = None,
    user: User = None,
    account: Account = None,
    user_group: UserGroup = None,
    job_name: Name = None,
    queue: Queue = None,
    problem_size: Problem = None,
    group: Group = None,
    procs_per_node: Node = None,
    rate: Rate = None,
    key_file: KeyFile = None,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Recommend processor counts: the best trade-off, the cheapest and the fastest, with the cost of each.

    Each count is listed with its runtime and 80% interval, processor-hours and efficiency. Nodes and price are listed
    where the config or an option gives them, and energy where the log measured it. Without an application or another
    value the groups with most jobs are listed. Counts go up to twice the largest that ran.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_advice import print_advice
    from flows.services.published.advice import advised_groups, cost_of_run
    from flows.services.quantities import as_of_seconds
    from pipeline.publish import reading

    texts = {
        "application": application, "user": user, "account": account, "user_group": user_group, "job_name": job_name,
        "queue": queue, "problem_size": problem_size, "group_id": group,
    }  # fmt: skip
    wanted = {name: text for name, text in texts.items() if text is not None}
    with reading(published, as_of_seconds(as_of)) as manifest:
        found = advised_groups(manifest, wanted, cost_of_run(manifest, procs_per_node, rate), key_file)
    print_json(found) if json else print_advice(found)
