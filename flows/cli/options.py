"""Options that several commands share, and what they print about the version."""

from typing import Annotated

import typer


def _print_version(value: bool) -> None:
    if value:
        from pipeline.core.version import code_version

        typer.echo(f"walltime {code_version()}")
        raise typer.Exit


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]
Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]
