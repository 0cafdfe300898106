"""`walltime search-templates`: which jobs of a log are alike, found by search."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.options import Json

if TYPE_CHECKING:
    from pipeline.estimate.history import History
    from pipeline.estimate.templates.search import Found, Tell

Given = Annotated[
    Path, typer.Argument(metavar="CONFIG|JOBS.parquet", readable=False, help="A config, or a table of jobs.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE.toml", help="The file to write.")]
Share = Annotated[
    float, typer.Option("--share", min=0.001, max=1.0, help="Share of the jobs, from the first on, that is looked at.")
]
Method = Annotated[
    Literal["greedy", "genetic", "both"], typer.Option("--method", help="both: the greedy set joins the genetic one.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed finds the same templates.")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=1024, help="Threads; default: one a processor. None changes what is found."),
]
Minutes = Annotated[
    float | None, typer.Option("--minutes", min=0, help="Stop after about this long, with the best found until then.")
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
    """Search the templates by which a log's past tells its runtimes, and write them to a file to read and edit."""
    import os

    from flows.services.files.os_errors import naming
    from pipeline.core.errors import InputError
    from pipeline.core.text import printable
    from pipeline.estimate.templates.search import SearchSettings, search
    from pipeline.estimate.templates.templates_toml import write_templates

    if out.suffix != ".toml" or out.is_dir():
        raise InputError(f"--out {printable(str(out))}", "no name of a TOML file", "a path that ends in .toml")
    history = _history(given)
    if len(history) < 2:
        raise InputError(printable(str(given)), f"{len(history)} jobs that ran", "at least 2 to learn from")
    until_s = float(history.submit_s[int(len(history) * share)] if share < 1 else history.end_s.max() + 1)
    with _telling(minutes) as tell:
        n_workers = workers or len(os.sched_getaffinity(0))
        found = search(history, until_s, SearchSettings(method=method), seed, n_workers, tell)
    with naming(out):
        write_templates(out, found, given.name)
    _print(found, out, as_json=json)


def _history(given: Path) -> "History":
    from flows.services.run.prepare import prepare
    from pipeline.core.settings import RunSettings
    from pipeline.core.store import read_table
    from pipeline.core.tables import JOBS
    from pipeline.evaluate.backtest import past_of
    from pipeline.run import run_plain

    if given.suffix == ".parquet":
        return past_of(read_table(given, JOBS), RunSettings())
    run, _ = prepare(given)
    jobs = next(tables["jobs_flagged"] for step, tables, _ in run_plain(run) if step.name == "clean")
    return past_of(jobs, run.settings)


@contextmanager
def _telling(minutes: float | None) -> Iterator["Tell"]:
    """A bar on a terminal, a line a stage in a log; stops the search when its time is over."""
    import sys
    import time

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from flows.pages.terminal.render import console

    stop_s = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        places: dict[str, Any] = {}

        def tell(moment: Any) -> bool:
            if moment.stage not in places:
                places[moment.stage] = bar.add_task(moment.stage, total=moment.total)
            described = f"{moment.stage}: error {moment.error_s:,.0f} s"
            bar.update(places[moment.stage], completed=moment.done, description=described)
            is_over = time.monotonic() >= stop_s
            if not sys.stderr.isatty() and (is_over or moment.done % 10 == 0 or moment.done == moment.total):
                sys.stderr.write(f"{described} ({moment.done}/{moment.total})\n")
            return not is_over

        yield tell


def _print(found: "Found", out: Path, *, as_json: bool) -> None:
    from flows.pages.terminal.render import console, print_json, say

    if as_json:
        facts = {"error_s": found.error_s, "n_jobs": found.n_jobs, "until_s": found.until_s, "file": str(out)}
        print_json(facts | {"templates": [template.model_dump() for template in found.templates]})
        return
    console().print(f"Mean absolute error {found.error_s:,.0f} s over {found.n_jobs:,} jobs, by narrowest interval of")
    for template in found.templates:
        console().print(f"  {template}", soft_wrap=True, highlight=False, markup=False)
    console().print(f"Wrote templates to {say(out, 1000)}", soft_wrap=True)
