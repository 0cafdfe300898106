"""`walltime rerun`: a run over some months with changed settings, as a version that is not published."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands.run import Out, Quiet, showing_steps
from flows.cli.options import Config, Json, Logs, Plain, ShowPrefect, Site

if TYPE_CHECKING:
    from pipeline.publish import Manifest

Name = Annotated[str, typer.Option("--name", help="The name of the version, as in try-7.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting to change, as in group.template=user; repeatable."
    ),
]
Begin = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Use jobs submitted from this month, day or instant on.")
]
End = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="Use jobs that had ended by then; a month or day is included.",
    ),
]


def rerun(
    config: Config,
    name: Name,
    begin: Begin = None,
    end: End = None,
    change: Changes = None,
    log: Logs = None,
    site: Site = None,
    out: Out = None,
    json: Json = False,
    plain: Plain = False,
    quiet: Quiet = False,
    verbose: ShowPrefect = False,
) -> None:
    """Run over the jobs of a window with changed settings, into a version of its own that is not published.

    `walltime versions compare` scores it beside another version, `walltime versions promote` publishes it. The template
    is chosen from the jobs of the window alone.

    \b
    Examples:
      walltime rerun my-site.toml --since 2023-01 --until 2023-06 --set group.template=user --name try-7
    """
    from flows.pages.terminal.json_out import print_json
    from flows.services.published.summary import summarize_version

    began = time.monotonic()
    arguments: dict[str, Any] = {
        "name": name, "changes": change or [], "begin": begin, "end": end, "logs": log or [], "site": site,
        "output_dir": out,
    }  # fmt: skip
    if plain:
        from flows.services.versions.rerunning import rerun_and_keep

        with showing_steps(quiet=quiet):
            manifest = rerun_and_keep(config, **arguments)
    else:
        manifest = _run_flow(config, arguments, quiet=quiet, verbose=verbose)
    summary: dict[str, Any] = summarize_version(manifest)
    if json:
        print_json(summary | {"version": manifest.folder, "name": name, "seconds": time.monotonic() - began})
    elif not quiet:
        from flows.pages.terminal.render_published import print_kept

        print_kept(manifest, summary)


def _run_flow(config: Path, arguments: dict[str, Any], *, quiet: bool, verbose: bool) -> "Manifest":
    """Call the flow under Prefect, after the checks that need no API; returns the version's manifest."""
    from flows.prefect.session import prefect_session
    from flows.services.run.run_lock import check_no_other_run
    from flows.services.run.work_folder import WORK
    from flows.services.versions.rerunning import check_rerun
    from pipeline.publish.manifest import load_version

    settings = check_rerun(config, **arguments)
    folder = Path(settings.output_dir)
    # A second run would start an API on the same database.
    check_no_other_run(folder / WORK)
    session = prefect_session(folder, verbose=verbose, instead="`walltime rerun --plain`")
    with session, showing_steps(quiet=quiet):
        from flows.prefect.nightly import rerun, run_flow

        return load_version(folder, run_flow(rerun, {"config": str(config)} | arguments, settings.site.name))
