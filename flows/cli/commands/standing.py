"""`walltime init`, `serve` and `doctor`: what sets up the nightly run of a site, keeps it going, and checks on it."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Config, Json, Site, Timezone, check_mode

WAIT_S = 120.0
"""A server that is started at the same time, as after a reboot, takes half a minute on a busy machine."""

WARNING_EXIT = 3
ERROR_EXIT = 4

OutConfig = Annotated[Path, typer.Option("--out", metavar="FILE", help="The config to write; an existing file stays.")]
Log = Annotated[
    str | None,
    typer.Option("--log", metavar="PATH", help="A log, folder or table to read, instead of looking for one."),
]
Systemd = Annotated[
    Path | None,
    typer.Option(
        "--systemd", metavar="DIR", help="Write a service and a timer there too; for an existing config, only these."
    ),
]
At = Annotated[str, typer.Option("--at", metavar="HH:MM", help="The timer's time of day, in the site's time zone.")]
Cron = Annotated[str, typer.Option("--cron", metavar="CRON", help='When to run, as in "15 2 * * *": at 02:15 daily.')]
Target = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="DIR",
        readable=False,
        help="The folder to which a run has published; or its config (.toml), whose logs are checked too; default: "
        "out, or the only one in it.",
    ),
]
MaxAge = Annotated[
    str, typer.Option("--max-age", metavar="TIME", help="The age at which tables count as old, as in 36h or 2d.")
]
Deep = Annotated[bool, typer.Option("--deep", help="Also compare every table of every version on disk with its hash.")]
Checks = Annotated[
    bool, typer.Option("--checks", help="Instead: check the published tables as a run does before it publishes.")
]
Metrics = Annotated[
    Path | None,
    typer.Option(
        "--metrics",
        metavar="FILE.prom",
        help="Instead: write age, rows, coverage and the last run as OpenMetrics, as for node_exporter's textfile "
        "collector; -: to stdout.",
    ),
]


def init(
    out: OutConfig = Path("my-site.toml"),
    log: Log = None,
    site: Site = None,
    systemd: Systemd = None,
    at: At = "02:15",
    json: Json = False,
) -> None:
    """Write a commented config for this machine: its sacct, its PBS accounting folder, or a log that you give.

    \b
    Examples:
      walltime init --out my-site.toml
      walltime init --log /var/log/my-log.swf.gz --systemd units
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_doctor import print_config, print_units
    from flows.services.files.config import config_settings
    from flows.services.initialising import initialise, write_units

    done = initialise(out, log, site, os.environ) if systemd is None or not out.exists() else None
    if done and not json:
        print_config(done)
    units = write_units(config_settings(out), out, systemd, at, os.environ) if systemd is not None else ()
    if json:
        name, seen = (done.machine.name, done.machine.seen) if done else (None, ())
        print_json({"config": out, "is_new": done is not None, "site": name, "seen": list(seen), "units": list(units)})
    elif units:
        print_units(units)


def serve(config: Config, cron: Cron, timezone: Timezone = None, json: Json = False) -> None:
    """Run a config on a schedule, as a deployment of a Prefect server; goes on until Ctrl-C or SIGTERM.

    Needs a server, as of `prefect server start`, and waits two minutes for one; PREFECT_API_URL names one elsewhere.
    The zone of the schedule is the site's, or that of --timezone. --json prints what is served as one line of JSON,
    and goes on too.

    \b
    Examples:
      walltime serve my-site.toml --cron "15 2 * * *" --timezone Europe/Oslo
    """
    from dataclasses import asdict

    from flows.pages.terminal.json_out import print_json_lines
    from flows.pages.terminal.render_doctor import print_served
    from flows.prefect.serving import prepare_serving, serve_nightly
    from flows.services.run.prepare import listed_paths, run_settings

    settings = run_settings(config)
    listed_paths(settings, config)
    served = prepare_serving(settings, cron, timezone, WAIT_S, lambda text: typer.echo(text, err=True))
    if json:
        print_json_lines([{"site": settings.site.name, **asdict(served)}])
    else:
        print_served(settings.site.name, served.name, f"{served.cron} ({served.timezone})", served.api)
    serve_nightly(served, config, settings.site.name)


def doctor(
    ctx: typer.Context,
    target: Target = None,
    max_age: MaxAge = "48h",
    deep: Deep = False,
    checks: Checks = False,
    metrics: Metrics = None,
    json: Json = False,
) -> None:
    """Check the manifest, the tables, leftovers, the lock, the disk and the age of published tables; change nothing.

    With a config also its logs, or its sacct. --deep reads every table of the earlier versions too.

    Exit code 0: nothing needs to be done; 3: there is a warning; 4: something is broken, or with --checks a check that
    blocks a publication fails.

    \b
    Examples:
      walltime doctor --from my-site.toml --max-age 36h
      walltime doctor --checks --from my-tables --json
      walltime doctor --metrics /var/lib/node_exporter/walltime.prom
    """
    from flows.services.published.published_folder import published_folder

    check_mode(ctx, "--checks", is_on=checks, own=(), shared=("--from",))
    check_mode(ctx, "--metrics", is_on=metrics is not None, own=(), shared=("--from",))
    if checks:
        _check(published_folder(target), as_json=json)
    elif metrics is not None:
        _write_metrics(published_folder(target), metrics)
    else:
        _diagnose(target or published_folder(None), max_age, is_deep=deep, as_json=json)


def _diagnose(target: Path, max_age: str, *, is_deep: bool, as_json: bool) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_doctor import plain_diagnosis, print_diagnosis
    from flows.services.doctor import Level, diagnose
    from flows.services.quantities import seconds

    found = diagnose(target, int(time.time()), int(seconds(max_age, "--max-age")), os.environ, is_deep=is_deep)
    print_json(plain_diagnosis(found)) if as_json else print_diagnosis(found)
    if found.worst is not None and found.worst > Level.NOTE:
        sys.exit(ERROR_EXIT if found.worst is Level.ERROR else WARNING_EXIT)


def _check(published: Path, *, as_json: bool) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_doctor import print_checks
    from flows.services.run.publishing import BLOCKED_EXIT_CODE, check_published

    found = check_published(published, time.time())
    print_json(found) if as_json else print_checks(found)
    sys.exit(0 if found["passed"] else BLOCKED_EXIT_CODE)


def _write_metrics(published: Path, file: Path) -> None:
    from flows.services.files.table_files import write_page
    from flows.services.metrics import metric_families, openmetrics_text

    text = openmetrics_text(metric_families(published, time.time()))
    if str(file) == "-":
        sys.stdout.write(text)
    else:
        write_page(file, text)
