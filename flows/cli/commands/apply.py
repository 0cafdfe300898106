"""`walltime apply`: the times of pending jobs, changed to what the published State says of them."""

import os
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import Json

FAILED = 1
"""The exit code where the scheduler refused some of the changes."""

Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG", readable=False, help="A TOML file, for its output_dir, [export] and [apply] settings."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be changed, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Make the changes.")]
For = Annotated[
    Literal["slurm", "pbs"] | None,
    typer.Option("--for", help="The scheduler: slurm (TimeLimit) or pbs (soft_walltime); default: the config's."),
]


def apply(config: Config, dry_run: DryRun = False, yes: Yes = False, scheduler: For = None, json: Json = False) -> None:
    """Lower the time limits of Slurm's pending jobs, or set OpenPBS's soft_walltime, to their expected runtimes.

    No job's time is set above what its user asked for. Exit code 1: the scheduler refused some of the changes.
    """
    from flows.services.run.prepare import run_settings
    from flows.services.schedulers.applying import SCHEDULERS, apply_estimates
    from pipeline.core.errors import InputError

    if dry_run == yes:
        raise InputError("the command line", "both" if yes else "neither", "either --dry-run or --yes")
    settings = run_settings(config)
    chosen = SCHEDULERS[scheduler or settings.apply.scheduler]
    applied = apply_estimates(settings, chosen, time.time(), os.environ, is_dry_run=dry_run)
    if json:
        from flows.pages.terminal.json_out import print_json

        print_json(applied.as_dict())
    else:
        from flows.pages.terminal.render_apply import print_applied

        print_applied(applied)
    if applied.failures:
        raise typer.Exit(FAILED)
