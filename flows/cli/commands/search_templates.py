"""`walltime search-templates`: a search for the templates that group similar jobs of a log."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import Json

Given = Annotated[
    Path, typer.Argument(metavar="CONFIG|JOBS.parquet", readable=False, help="A config, or a table of jobs.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE.toml", help="The file to write.")]
Share = Annotated[
    float, typer.Option("--share", min=0.001, max=1.0, help="Share of the jobs, from the first, to learn from.")
]
Method = Annotated[
    Literal["greedy", "genetic", "both"],
    typer.Option("--method", help="Search method; both: the genetic search starts with the greedy result."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed; the same seed gives the same templates.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, max=1024, help="Threads; default: one per processor. The result does not depend on it."
    ),
]
Minutes = Annotated[
    float | None, typer.Option("--minutes", min=0, help="Stop after about this time with the best result so far.")
]


def search_templates(
    given: Given,
    out: Out,
    share: Share = 1.0,
    method: Method = "both",
    seed: Seed = 0,
    workers: Workers = None,
    minutes: Minutes = None,
    json: Json = False,
) -> None:
    """Search for templates that predict a log's runtimes best, and write them to a file that can be edited."""
    import os

    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_templates import print_templates, showing_search
    from flows.services.backtest.past_jobs import end_of_share_s, past_jobs
    from flows.services.files.os_errors import naming_path
    from pipeline.core.errors import InputError
    from pipeline.core.text import printable
    from pipeline.estimate.templates.search import SearchSettings, search
    from pipeline.estimate.templates.templates_toml import write_templates

    if out.suffix != ".toml" or out.is_dir():
        raise InputError(f"--out {printable(str(out))}", "no name of a TOML file", "a path that ends in .toml")
    history = past_jobs(given)
    until_s = end_of_share_s(history, share)
    with showing_search(minutes) as show:
        n_workers = workers or len(os.sched_getaffinity(0))
        found = search(history, until_s, SearchSettings(method=method), seed, n_workers, show)
    with naming_path(out):
        write_templates(out, found, given.name)
    if json:
        facts = {"error_s": found.error_s, "n_jobs": found.n_jobs, "until_s": found.until_s, "file": str(out)}
        print_json(facts | {"templates": [template.model_dump() for template in found.templates]})
    else:
        print_templates(found.templates, found.error_s, found.n_jobs, out)
