"""`walltime export`: the published estimates as files for a scheduler's plug-in, a spreadsheet or a database."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import From, Json

Folder = Annotated[Path, typer.Argument(metavar="DIR", readable=False, help="The folder to write into.")]
For = Annotated[
    Literal["slurm", "pbs", "csv"],
    typer.Option("--for", help="slurm: job_submit.lua and its look-up; pbs: a hook and its look-up; csv: one table."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE.toml", readable=False, help="A config with [export]; default: that of the run."
    ),
]


def export(folder: Folder, scheduler: For, published: From, config: Config = None, json: Json = False) -> None:
    """Write the published estimates for a scheduler that looks them up at each submit, or as a table.

    Each file is put in place in one step. Nothing is installed: INSTALL.txt says how, and is printed.
    """
    from dataclasses import asdict

    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_export import print_exported
    from flows.services.export.exporting import export as write

    exported = write(published, scheduler, folder, config)
    print_json(asdict(exported)) if json else print_exported(exported)
