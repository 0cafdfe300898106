"""How options are declared, and those that several commands share: each is spelled and explained once."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import typer

from pipeline.errors import InputError


def option(spelled: str, told: str, default: Any = None, **more: Any) -> Any:
    """The default of a parameter that is an option `--name METAVAR`; the default `...` makes the option needed."""
    flags, _, metavar = spelled.partition(" ")
    shown = {"help": told, "metavar": metavar or None, "readable": False}
    return typer.Option(default, flags, **(shown | more))


def argument(metavar: str, told: str, default: Any = ..., **more: Any) -> Any:
    """The default of a parameter that is an argument."""
    return typer.Argument(default, metavar=metavar, help=told, readable=False, **more)


def _print_version(value: bool) -> None:
    if value:
        from pipeline import code_version

        typer.echo(f"walltime {code_version()}")
        raise typer.Exit


def _published(given: Path | None) -> Path:
    from flows.services.published.published_folder import published_folder

    return published_folder(given)


def complete_table(incomplete: str) -> list[str]:
    """The names of tables that begin as the word does, for the shell's completion."""
    from pipeline.tables import TABLES

    return [name for name in TABLES if name.startswith(incomplete)]


def table_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """The path of a table or a page to write; InputError, before any work, where its suffix is none of one."""
    if path is not None:
        from flows.services.files.table_files import PAGE_SUFFIXES, SUFFIXES, check_suffix

        name = param.opts[0]
        check_suffix(path, name, PAGE_SUFFIXES if name == "--report" else SUFFIXES)
    return path


def file_option(spelled: str, told: str, default: Any = None) -> Any:
    """The default of a parameter that is the path of a table or a page to write."""
    return option(spelled, told, default, callback=table_file)


def given(ctx: typer.Context, names: Iterable[str]) -> dict[str, str]:
    """The parameters of these names that are known, as texts."""
    return {name: str(ctx.params[name]) for name in names if ctx.params.get(name) is not None}


VERSION = option("--version", "Print the version and exit.", False, callback=_print_version, is_eager=True)
JSON = option("--json", "Print one JSON document on stdout, and nothing else there.", False)
CONFIG = argument("CONFIG", "A TOML file; configs/swf.toml is an example.")
CONFIG_OPTION = option("--config CONFIG", "A TOML file, for its settings.")
FOLDER_MEANT = (
    "The folder to which a run has published, its config (.toml), or the URL of a copy; default: out, or the only one "
    "in it."
)
FROM = option(
    "--from DIR", FOLDER_MEANT, ..., callback=_published, default_factory=lambda: _published(None), show_default=False
)
AS_OF = option("--as-of TIME", "Read the newest version that existed at this day or time (UTC), not the current one.")
LOGS = option("--log PATH", "A log, a glob or a table of jobs, instead of the config's source; repeatable.")
SITE = option("--site NAME", "The cluster's name; replaces that of the config, or the one found on this machine.")
TIMEZONE = option("--timezone ZONE", "Time zone of times that name none, as in Europe/Oslo.")
KEY_FILE = option("--key-file FILE", "The file with the secret key that names of persons are hashed with.")
OUT_FILE = file_option("--out PATH", "Also write the figures as a table, .parquet or .csv.")
PAGE_FILE = file_option("--report PAGE.html", "Also draw the result on one page.")
PLAIN = option("--plain", "Run without Prefect, as where no server of it is configured: the same tables.", False)
SHOW_PREFECT = option("--verbose", "Also show Prefect's own log.", False)
MAX_PROCS = option("--max-procs", "Processors of the machine, instead of the known number.", min=1)
NODE = option("--procs-per-node", "Processors per node; whole nodes are charged.", min=1)
RATE = option("--rate", "Price of a processor-hour, in any currency.", min=0)
SEED_MEANS = "Random seed; the same seed gives the same result."
SEED = option("--seed", SEED_MEANS, 0, min=0)
USER = option("--user", "Who submits the job.")
ACCOUNT = option("--account", "The account charged.")
USER_GROUP = option("--user-group", "The submitter's Unix group.")
APPLICATION = option("--application", "The application, as named in the tables, or its script's name.")
JOB_NAME = option("--job-name", "The job's name, as given to the scheduler.")
QUEUE = option("--queue", "The queue, or partition.")
REQUESTED = option("--requested TIME", "Time requested, as in 4h, 1h30m or 1-04:00:00.")
PROBLEM_SIZE = option("--problem-size", "The problem size.")


def check_mode(ctx: typer.Context, mode: str, *, is_on: bool, own: Collection[str], shared: Collection[str]) -> None:
    """InputError for options that have no effect: those of a mode without it, and beside it those of the other modes.

    `own` are options of the mode alone; `shared` are those that it has in common with the command without it.
    """
    both = {mode, *shared, "--json", "--quiet", "--verbose"}
    sources = {one.opts[0]: ctx.get_parameter_source(str(one.name)) for one in ctx.command.params}
    given = [name for name, source in sources.items() if name[0] == "-" and source and source.name == "COMMANDLINE"]
    wrong = [name for name in given if (name not in both and name not in own if is_on else name in own)]
    if wrong and is_on:
        allowed = ", ".join(sorted({*own, *shared, "--json"}))
        raise InputError(mode, f"{', '.join(wrong)} beside it", f"{allowed} at most")
    if wrong:
        raise InputError(wrong[0], f"no {mode} beside it", "both")
