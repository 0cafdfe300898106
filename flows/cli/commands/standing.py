"""`walltime init`, `serve` and `doctor`: what sets up the nightly run of a site, keeps it going, and checks on it."""

import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from flows.cli.options import CONFIG, JSON, SITE, TIMEZONE, check_mode, option
from flows.pages.blocks import Answer, Block, Exact, Grid, columns
from flows.services.files.os_errors import config_settings
from flows.services.quantities import seconds
from pipeline.errors import InputError

WARNING_EXIT, ERROR_EXIT = 3, 4
OUTCOMES = {"note": "Nothing needs to be done", "warning": "There is a warning", "error": "Something is broken"}
"""By the worst level of a diagnosis."""


def init(
    out: Path = option("--out FILE", "The config to write; an existing file is not replaced.", Path("my-site.toml")),
    log: str | None = option("--log PATH", "A log, folder or table to read, instead of looking for one."),
    is_sample: bool = option("--sample", "Use the simulated log that comes with Walltime, to try it.", False),
    site: str | None = SITE,
    systemd: Path | None = option(
        "--systemd DIR", "Write units of systemd there too; for an existing config, only these."
    ),
    at: str = option("--at HH:MM", "The time of day of the nightly run, in the site's time zone.", "02:15"),
) -> Answer:
    """Write a commented config for this machine: its sacct, its PBS accounting folder, or a log that you give.

    \b
    Examples:
      walltime init --out my-site.toml
      walltime init --sample --out sample.toml
      walltime init --log /var/log/my-log.swf.gz --systemd units
    """
    from flows.services.initialising import initialise, sample, template, write_units

    if is_sample:
        if log is not None:
            raise InputError("--sample", "also --log", "one of the two")
        log, site = str(sample()), site or "riverbend"
    done = initialise(out, log, site, os.environ) if systemd is None or not out.exists() else None
    units = write_units(config_settings(out), out, systemd, at, os.environ) if systemd is not None else ()
    name, seen = (done.name, done.seen) if done else (None, ())
    facts = {"config": out, "is_new": done is not None, "site": name, "seen": seen, "units": units}
    blocks: list[Block] = []
    if done:
        blocks += [f"Found: {line}" for line in done.seen]
        blocks.append(Exact(f"Wrote {shlex.quote(str(out))} for the site {done.name} ({done.timezone})"))
        blocks.append(Exact(f"Next: walltime run {shlex.quote(str(out))}"))
    if units:
        paths = " ".join(shlex.quote(str(path)) for path in units)
        _, timer, serve, guard = (shlex.quote(path.name) for path in units[:4])
        text = template("installing", paths=paths, timer=timer, serve=serve, guard=guard)
        blocks += map(Exact, text.splitlines())
    return Answer(facts, blocks)


def serve(
    config: Path = CONFIG,
    cron: str = option("--cron CRON", 'When to run, as in "15 2 * * *": at 02:15 daily.', ...),
    timezone: str | None = TIMEZONE,
    notify: str | None = option(
        "--notify TYPE/NAME", "A notification block of Prefect for failed or late runs, as in slack-webhook/ops."
    ),
    page: str | None = option("--page URL", "The address of the site's page; each run of the flow links to it."),
    json: bool = JSON,
) -> None:
    """Run a config on a schedule, as a deployment of a Prefect server, until Ctrl-C or SIGTERM.

    Start a server with `prefect server start`; PREFECT_API_URL names one elsewhere. Runs that are due while it does not
    answer start when it is back, and those that have begun go on. One command serves one site.
    The schedule is in the time zone of the site, or of --timezone. --json prints what is served as one line of JSON.

    \b
    Examples:
      walltime serve my-site.toml --cron "15 2 * * *" --timezone Europe/Oslo
    """
    from dataclasses import asdict

    from flows.cli.typer_app import print_answer
    from flows.prefect.serving import serve_site, served_of, serving_lock
    from flows.services.logs import listed_paths, run_settings

    settings = run_settings(config)
    listed_paths(settings, config)
    served = served_of(settings, cron, timezone)
    site = settings.site.name
    with serving_lock(Path(settings.output_dir)):
        schedule = f"{served.cron} ({served.timezone}), known to {served.api}"
        shown = [Exact(f"Serving nightly/{served.name} for the site {site}: {schedule}")]
        print_answer(Answer([{"site": site, **asdict(served)}], shown, is_lines=True), as_json=json)
        given = {"config": str(config.absolute()), "page": page}
        serve_site(served, settings, given, notify, lambda text: typer.echo(text, err=True))


def doctor(
    ctx: typer.Context,
    target: Path | None = option(
        "--from DIR",
        "The folder to which a run has published; or its config (.toml), whose logs are checked too; default: out, or "
        "the only one in it.",
    ),
    max_age: str = option("--max-age TIME", "The age from which tables are too old, as in 36h or 2d.", "48h"),
    deep: bool = option("--deep", "Also compare every table of every version on disk with its checksum.", False),
    checks: bool = option("--checks", "Instead: check the published tables as a run does before it publishes.", False),
    metrics: Path | None = option(
        "--metrics FILE.prom",
        "Instead: write age, rows, coverage and the last run as OpenMetrics, as for node_exporter's textfile "
        "collector; -: to stdout.",
    ),
) -> Answer | None:
    """Check the manifest, the tables, leftovers, the lock, the disk and the age of published tables; change nothing.

    With a config, also check its logs or its sacct. --deep reads every table of the earlier versions too.

    Exit code 0: nothing needs to be done; 3: there is a warning; 4: something is broken, or with --checks a check that
    blocks publication failed.

    \b
    Examples:
      walltime doctor --from my-site.toml --max-age 36h
      walltime doctor --checks --from my-site-tables --json
      walltime doctor --metrics /var/lib/node_exporter/walltime.prom
    """
    from flows.services.published.published_folder import published_folder

    check_mode(ctx, "--checks", is_on=checks, own=(), shared=("--from",))
    check_mode(ctx, "--metrics", is_on=metrics is not None, own=(), shared=("--from",))
    if checks:
        from flows.services.doctor import check_published
        from flows.services.run_record import BLOCKED_EXIT_CODE

        outcome = check_published(published_folder(target), time.time())
        return Answer(outcome, view_checks(outcome), exit_code=0 if outcome["passed"] else BLOCKED_EXIT_CODE)
    if metrics is not None:
        from flows.services.files.table_files import write_page
        from flows.services.metrics import folder_metrics

        text = folder_metrics(published_folder(target), time.time())
        if str(metrics) == "-":
            sys.stdout.write(text)
        else:
            write_page(metrics, text)
        return None
    from flows.services.doctor import diagnose

    oldest_s = int(seconds(max_age, "--max-age"))
    found = diagnose(target or published_folder(None), int(time.time()), oldest_s, os.environ, is_deep=deep)
    code = {"warning": WARNING_EXIT, "error": ERROR_EXIT}.get(found["worst"], 0)
    return Answer(found, view_diagnosis(found), exit_code=code)


def view_diagnosis(found: Mapping[str, Any]) -> Iterator[Block]:
    """Each finding with what to do, then one line on the whole."""
    for one in found["findings"]:
        yield Exact(f"{one['level']:<8} {one['check']}: {one['where']}")
        yield Exact(f"         found {one['found']}")
        yield Exact(f"         do: {one['do']}")
    checked = f"{len(found['checked'])} checks of {found['output_dir'] or 'the config'}"
    yield Exact(f"{OUTCOMES[found['worst']]}: {checked}." if found["worst"] else f"All {checked} passed.")


def view_checks(found: Mapping[str, Any]) -> Iterator[Block]:
    """Each check with its mode and outcome, and below them every finding."""
    compared = f"compared with {found['compared_with']}" if found["compared_with"] else "not compared"
    title = f"Checks of version {found['folder']} of site {found['site']}, {compared}"
    yield Grid(title, columns("checks"), found["checks"])
    for check in found["checks"]:
        for one in check["findings"]:
            yield f"{check['check']}: {one['where']}: found {one['found']}, expected {one['expected']}."
