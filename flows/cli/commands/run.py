"""`walltime run`: all steps from logs to published tables."""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.options import Config, Json, Logs, Plain, ShowPrefect, Site

if TYPE_CHECKING:
    from flows.services.progress import StageEvent
    from flows.services.run.run_log import RunLog

Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="The folder to publish to, instead of the config's.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only errors.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait where another run publishes to the same folder; default: end with exit code 75."),
]
LogFormat = Annotated[
    Literal["text", "json"] | None,
    typer.Option("--log-format", help="json: each event is one line of JSON on stderr; default: the config's."),
]


def run(
    config: Config,
    log: Logs = None,
    site: Site = None,
    out: Out = None,
    plain: Plain = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: ShowPrefect = False,
    wait: Wait = False,
    log_format: LogFormat = None,
) -> None:
    """Read logs, fit, predict, and publish the tables as Parquet.

    \b
    Examples:
      walltime run configs/sample.toml
      walltime run my-site.toml --log /var/log/my-log.swf.gz --site my-cluster --out my-tables
      walltime run my-site.toml --plain --json
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_run import print_nothing_new, print_summary
    from flows.services.run.run_lock import waiting_for_other_runs

    began = time.monotonic()
    chosen = _run_log(config, log_format, quiet=quiet, verbose=verbose)
    with _failures_in(chosen), waiting_for_other_runs(chosen.waiting if wait else None):
        is_quiet = quiet or chosen.is_json
        manifest, is_new = _call(config, log or [], site, out, plain=plain, quiet=is_quiet, verbose=verbose)
    if quiet and not json:
        return
    summary = _summary(manifest, began) | {"config": str(config), "nothing_new": not is_new}
    if json:
        print_json(summary)
    elif is_new:
        print_summary(summary)
    else:
        print_nothing_new(summary)


def _run_log(config: Path, log_format: str | None, *, quiet: bool, verbose: bool) -> "RunLog":
    """The log of the run; where the config cannot be read, the run reports that."""
    from flows.services.files.config import config_settings
    from flows.services.run.run_log import RunLog
    from pipeline.errors import InputError
    from pipeline.settings import RunSettings

    try:
        settings = config_settings(config)
    except (InputError, OSError):
        settings = RunSettings()
    log = RunLog(sys.stderr, "json" if (log_format or settings.run.log_format) == "json" else "text", quiet)
    log.is_anonymous = settings.site.anonymise
    if log.is_json and verbose:
        found, expected = "also --log-format json", "one of them, because Prefect's log is plain text"
        raise InputError("--verbose", found, expected, "leave out --verbose")
    return log


@contextmanager
def _failures_in(log: "RunLog") -> Iterator[None]:
    """Write the run inside to this log. With JSON lines a failure is one too, and ends the command here."""
    from flows.services.run.run_log import logging_to
    from pipeline.errors import WalltimeError

    with logging_to(log):
        try:
            yield
        except (WalltimeError, OSError) as error:
            if not log.is_json:
                raise
            if not log.has_ended:
                log.ended(None, error)
            sys.exit(error.exit_code if isinstance(error, WalltimeError) else WalltimeError.exit_code)


def _call(
    config: Path, logs: list[str], site: str | None, out: str | None, *, plain: bool, quiet: bool, verbose: bool
) -> tuple[Path, bool]:
    """The path of the manifest, and whether any step was done: where none was, nothing is new."""
    arguments: dict[str, Any] = {"config": str(config), "logs": logs, "site": site, "output_dir": out}
    if plain:
        from flows.services.run.running import run_and_publish

        with showing_steps(quiet=quiet), _noting_steps() as done:
            return Path(run_and_publish(**arguments)), _is_new(done)
    return _run_flow(arguments, quiet=quiet, verbose=verbose)


def _run_flow(arguments: dict[str, Any], *, quiet: bool, verbose: bool) -> tuple[Path, bool]:
    from flows.prefect.session import prefect_session
    from flows.services.files.config import config_settings
    from flows.services.run.run_lock import check_no_other_run
    from flows.services.run.work_folder import WORK

    config = Path(arguments["config"])
    output_dir = Path(arguments["output_dir"] or config_settings(config).output_dir)
    # A second run would start an API on the same database.
    check_no_other_run(output_dir / WORK)
    with prefect_session(output_dir, verbose=verbose, instead="`walltime run --plain`"):
        from flows.services.run.prepare import listed_paths, run_settings

        settings = run_settings(config, arguments["site"], arguments["output_dir"])
        listed_paths(settings, config, arguments["logs"])  # fails before the API is there, without asking sacct
        with showing_steps(quiet=quiet), _noting_steps() as done:
            from flows.prefect.nightly import nightly, run_flow

            return Path(run_flow(nightly, arguments, settings.site.name)), _is_new(done)


@contextmanager
def _noting_steps() -> Iterator[list["StageEvent"]]:
    from flows.services.progress import also_listening

    events: list[StageEvent] = []
    with also_listening(events.append):
        yield events


def _is_new(done: list["StageEvent"]) -> bool:
    return any(event.state == "done" and event.stage != "publish" for event in done)


@contextmanager
def showing_steps(*, quiet: bool) -> Iterator[None]:
    """Show the steps of a run as they end, unless `quiet`."""
    if quiet:
        yield
        return
    from flows.pages.terminal.activity import showing_stages
    from pipeline.run import STEPS

    with showing_stages(len(STEPS) + 1):
        yield


def _summary(manifest: Path, began: float) -> dict[str, Any]:
    from flows.services.published.summary import summarize
    from pipeline.publish import load_manifest

    summary = summarize(manifest)
    folder = Path(summary["tables"]["predictions"]).parent
    return summary | {
        "output_dir": str(manifest.parent),
        "folder": str(folder),
        "created_s": load_manifest(manifest.parent).created_s,
        "seconds": time.monotonic() - began,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
