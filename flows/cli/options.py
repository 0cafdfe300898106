"""Options and arguments that several commands share: each is spelled and explained once."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer


def _print_version(value: bool) -> None:
    if value:
        from pipeline.version import code_version

        typer.echo(f"walltime {code_version()}")
        raise typer.Exit


def _published(given: Path | None) -> Path:
    from flows.services.published.published_folder import published_folder

    return published_folder(given)


def complete_table(incomplete: str) -> list[str]:
    """The names of tables that begin as the word does, for the shell's completion."""
    from pipeline.tables import TABLES

    return [name for name in TABLES if name.startswith(incomplete)]


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Config = Annotated[
    Path, typer.Argument(metavar="CONFIG", readable=False, help="A TOML file; configs/swf.toml is an example.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="CONFIG", readable=False, help="A TOML file, for its settings."),
]
From = Annotated[
    Path,
    typer.Option(
        "--from",
        metavar="DIR",
        readable=False,
        callback=_published,
        default_factory=lambda: _published(None),
        show_default=False,
        help="The folder to which a run has published, or its config (.toml); default: out, or the only one in it.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Read the newest version made by then instead of the current one: a day or an instant (UTC).",
    ),
]
Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--log", metavar="PATH", help="A log, a glob or a table of jobs, instead of the config's source; repeatable."
    ),
]
Site = Annotated[
    str | None, typer.Option("--site", metavar="NAME", help="The cluster's name, instead of the found one.")
]
Timezone = Annotated[
    str | None, typer.Option("--timezone", metavar="ZONE", help="Zone of times without a zone, as in Europe/Oslo.")
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", readable=False, help="The key with which names of persons are hashed."),
]
OutFile = Annotated[
    Path | None, typer.Option("--out", metavar="PATH", help="Also write the figures as a table, .parquet or .csv.")
]
PageFile = Annotated[
    Path | None, typer.Option("--report", metavar="PAGE.html", help="Also draw the result on one page.")
]
Plain = Annotated[bool, typer.Option("--plain", help="Run without Prefect: the same tables.")]
ShowPrefect = Annotated[bool, typer.Option("--verbose", help="Also show Prefect's own log.")]
MaxProcs = Annotated[
    int | None, typer.Option("--max-procs", min=1, help="Processors of the machine, instead of the known number.")
]
Node = Annotated[
    int | None, typer.Option("--procs-per-node", min=1, help="Processors per node; whole nodes are charged.")
]
Rate = Annotated[float | None, typer.Option("--rate", min=0, help="Price of a processor-hour, in any currency.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed; the same seed gives the same result.")]
User = Annotated[str | None, typer.Option("--user", help="Who submits the job.")]
Account = Annotated[str | None, typer.Option("--account", help="The account charged.")]
UserGroup = Annotated[str | None, typer.Option("--user-group", help="The submitter's Unix group.")]
Application = Annotated[
    str | None, typer.Option("--application", help="The application, as named in the tables, or its script's name.")
]
JobName = Annotated[str | None, typer.Option("--job-name", help="The job's name, as given to the scheduler.")]
Queue = Annotated[str | None, typer.Option("--queue", help="The queue, or partition.")]
ProblemSize = Annotated[str | None, typer.Option("--problem-size", help="The problem size.")]


def given_options(ctx: typer.Context) -> list[str]:
    """The options that stand on the command line, as in `--rows`."""
    return [
        one.opts[0]
        for one in ctx.command.params
        if one.param_type_name == "option"
        and (source := ctx.get_parameter_source(str(one.name))) is not None
        and source.name == "COMMANDLINE"
    ]


def check_mode(ctx: typer.Context, mode: str, *, is_on: bool, own: Collection[str], shared: Collection[str]) -> None:
    """InputError for options that have no effect: those of a mode without it, and beside it those of the other modes.

    `own` are options of the mode alone; `shared` are those that it has in common with the command without it.
    """
    from pipeline.errors import InputError

    both = {mode, *shared, "--json", "--quiet", "--verbose"}
    given = given_options(ctx)
    wrong = [name for name in given if (name not in both and name not in own if is_on else name in own)]
    if wrong and is_on:
        allowed = ", ".join(sorted({*own, *shared, "--json"}))
        raise InputError(mode, f"{', '.join(wrong)} beside it", f"{allowed} at most")
    if wrong:
        raise InputError(wrong[0], f"no {mode} beside it", "both")
