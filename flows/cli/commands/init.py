"""`walltime init`: looks at this machine, and writes a commented config for it, with units of systemd where asked."""

import os
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The config to write; an existing file stays.")]
Log = Annotated[
    str | None,
    typer.Option("--log", metavar="PATH", help="A log, folder or table to read, instead of looking for one."),
]
Site = Annotated[
    str | None, typer.Option("--site", metavar="NAME", help="The cluster's name, instead of the found one.")
]
Systemd = Annotated[
    Path | None,
    typer.Option(
        "--systemd", metavar="DIR", help="Write a service and a timer there too; for an existing config, only these."
    ),
]
At = Annotated[str, typer.Option("--at", metavar="HH:MM", help="The timer's time of day, in the site's time zone.")]


def init(
    out: Out = Path("my-site.toml"),
    log: Log = None,
    site: Site = None,
    systemd: Systemd = None,
    at: At = "02:15",
    json: Json = False,
) -> None:
    """Write a commented config for this machine: its sacct, its PBS accounting folder, or a log that you give."""
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_init import print_config, print_units
    from flows.services.files.config import config_settings
    from flows.services.init.initialising import initialise, write_units

    done = initialise(out, log, site, os.environ) if systemd is None or not out.exists() else None
    if done and not json:
        print_config(done)
    units = write_units(config_settings(out), out, systemd, at, os.environ) if systemd is not None else ()
    if json:
        name, seen = (done.machine.name, done.machine.seen) if done else (None, ())
        print_json({"config": out, "is_new": done is not None, "site": name, "seen": list(seen), "units": list(units)})
    elif units:
        print_units(units)
