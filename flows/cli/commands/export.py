"""`walltime export`: the published estimates as files for a scheduler's plug-in, a spreadsheet or a database."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import Json

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder to write into.")]
For = Annotated[
    Literal["slurm", "csv"],
    typer.Option("--for", help="slurm: job_submit.lua and its look-up; csv: one table."),
]
From = Annotated[
    Path, typer.Option("--from", metavar="DIR", readable=False, help="The folder to which a run has published.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE.toml", readable=False, help="A config with [export]; default: that of the run."
    ),
]


def export(
    folder: Folder, scheduler: For, published: From = Path("out"), config: Config = None, json: Json = False
) -> None:
    """Write the published estimates for a scheduler that looks them up at each submit, or as a table.

    Each file is put in place in one step. Nothing is installed: INSTALL.txt says how, and is printed.
    """
    from dataclasses import asdict

    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_export import print_exported
    from flows.services.export.exporting import export as write

    exported = write(published, scheduler, folder, config)
    print_json(asdict(exported)) if json else print_exported(exported)
