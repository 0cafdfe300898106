"""`walltime rerun`: a run over some months with changed settings, as a version that is not published."""

import time
from typing import Annotated, Any

import typer

from flows.cli.commands.run import Config, Logs, Out, Quiet, Site, showing_steps
from flows.cli.options import Json

Name = Annotated[str, typer.Option("--name", help="The name of the version, as in try-7.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting to change, as in clean.flurry.remove_weeks=2; repeatable."
    ),
]
Begin = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Use jobs submitted from this month, day or instant on.")
]
End = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="TIME", help="Use jobs that were submitted and had ended by then; a month or day is included."
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
    quiet: Quiet = False,
) -> None:
    """Run over the jobs of a window with changed settings, into a version of its own that is not published.

    `walltime compare` scores it beside another version, `walltime promote` publishes it. The template is chosen from
    the jobs of the window alone. The steps run in memory, without Prefect.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.services.published.summary import summarize_version
    from flows.services.versions.rerunning import rerun_and_keep

    began = time.monotonic()
    with showing_steps(quiet=quiet):
        manifest = rerun_and_keep(config, name, change or (), begin, end, log or (), site, out)
    summary: dict[str, Any] = summarize_version(manifest)
    if json:
        print_json(summary | {"version": manifest.folder, "name": name, "seconds": time.monotonic() - began})
    elif not quiet:
        from flows.pages.terminal.render_versions import print_kept

        print_kept(manifest, summary)
