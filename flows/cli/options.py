"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer


def _print_version(value: bool) -> None:
    if value:
        from pipeline.core.version import code_version

        typer.echo(f"walltime {code_version()}")
        raise typer.Exit


def _published(given: Path | None) -> Path:
    from flows.services.published.published_folder import published_folder

    return published_folder(given)


Folder = Annotated[
    Path,
    typer.Argument(
        metavar="[DIR]",
        readable=False,
        callback=_published,
        help="The folder to which a run has published, or its config (.toml); default: out, or the only one in it.",
    ),
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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Node = Annotated[
    int | None, typer.Option("--procs-per-node", min=1, help="Processors per node; whole nodes are charged.")
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Read the newest version made by then instead of the current one: a day or an instant (UTC).",
    ),
]
Rate = Annotated[float | None, typer.Option("--rate", min=0, help="Price of a processor-hour, in any currency.")]
Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]
