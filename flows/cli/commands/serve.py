"""`walltime serve`: runs a config every night, under a Prefect server that stands already."""

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

WAIT_S = 120.0
"""A server that is started at the same time, as after a reboot, takes half a minute on a busy machine."""

Config = Annotated[Path, typer.Argument(metavar="CONFIG", readable=False, help="A TOML file, as for `walltime run`.")]
Cron = Annotated[str, typer.Option("--cron", metavar="CRON", help='When to run, as in "15 2 * * *": at 02:15 daily.')]
Timezone = Annotated[
    str | None, typer.Option("--timezone", metavar="ZONE", help="Zone of the schedule; default: the site's.")
]


def serve(config: Config, cron: Cron, timezone: Timezone = None, json: Json = False) -> None:
    """Run a config on a schedule, as a deployment of a Prefect server; goes on until Ctrl-C or SIGTERM.

    Needs a server, as of `prefect server start`, and waits two minutes for one; PREFECT_API_URL names one elsewhere.
    --json prints what is served as one line of JSON, and goes on too.
    """
    from dataclasses import asdict

    from flows.pages.terminal.json_out import print_json_lines
    from flows.pages.terminal.render_init import print_served
    from flows.prefect.serving import Patience, prepare_serving, serve_nightly
    from flows.services.run.prepare import listed_paths, run_settings

    settings = run_settings(config)
    listed_paths(settings, config)
    patience = Patience(WAIT_S, lambda text: typer.echo(text, err=True))
    served = prepare_serving(settings, cron, timezone, os.environ, Path(), patience)
    if json:
        print_json_lines([{"site": settings.site.name, **asdict(served)}])
    else:
        print_served(settings.site.name, served.name, f"{served.cron} ({served.timezone})", served.api)
    serve_nightly(served, config, settings.site.name)
