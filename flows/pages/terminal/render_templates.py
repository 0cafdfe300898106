"""What `walltime search-templates` shows: progress of the search, then the templates found."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flows.pages.terminal.render import console, say
from flows.pages.terminal.verbosity import is_quiet


@contextmanager
def showing_search(minutes: float | None) -> Iterator[Callable[[Any], bool]]:
    """A callback that shows progress, as a bar on a terminal or as lines in a log.

    It returns False, which stops the search, once `minutes` have passed.
    """
    stop_s = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    is_hidden = is_quiet() or not sys.stderr.isatty()
    with Progress(*columns, console=console(stderr=True), transient=True, disable=is_hidden) as bar:
        places: dict[str, Any] = {}

        def show(progress: Any) -> bool:
            if progress.stage not in places:
                places[progress.stage] = bar.add_task(progress.stage, total=progress.total)
            described = f"{progress.stage}: error {progress.error_s:,.0f} s"
            bar.update(places[progress.stage], completed=progress.done, description=described)
            is_over = time.monotonic() >= stop_s
            if is_hidden and not is_quiet() and (is_over or progress.done % 10 == 0 or progress.done == progress.total):
                sys.stderr.write(f"{described} ({progress.done}/{progress.total})\n")
            return not is_over

        yield show


def print_templates(templates: Sequence[object], error_s: float, n_jobs: int, file: Path) -> None:
    """Print the error of the templates, each template, and where they are written."""
    out = console()
    out.print(f"Mean absolute error {error_s:,.0f} s over {n_jobs:,} jobs, by narrowest interval of")
    for template in templates:
        out.print(f"  {template}", soft_wrap=True, highlight=False, markup=False)
    out.print(f"Wrote templates to {say(file, 1000)}", soft_wrap=True)
