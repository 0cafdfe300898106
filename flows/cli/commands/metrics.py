"""`walltime metrics`: figures of a folder of published tables for Prometheus."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Folder

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE.prom", help="Write there in one step, as for node_exporter's textfile collector."
    ),
]


def metrics(folder: Folder, out: Out = None) -> None:
    """Write the age and rows of the tables, jobs set aside, coverage and the last run as OpenMetrics text."""
    import time

    from flows.services.files.table_files import write_page
    from flows.services.metrics.figures import metric_families
    from flows.services.metrics.openmetrics import openmetrics_text

    text = openmetrics_text(metric_families(folder, time.time()))
    if out is None:
        sys.stdout.write(text)
    else:
        write_page(out, text)
