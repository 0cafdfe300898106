"""Replays with moldable jobs: a log and true curves in, every share of moldable jobs under every chooser out."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import naming_path, read_text
from flows.services.files.table_files import write_any, write_page
from flows.services.logs.flagged_jobs import ingested_jobs
from flows.services.progress import running_stage
from flows.services.run.prepare import find_logs, resolve
from flows.services.series_files import read_series_and_applications
from pipeline.clean import clean
from pipeline.errors import InputError, printable
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.schedule.moldable import StudySettings, one_seed
from pipeline.schedule.true_curves import (
    HISTORY_SHARE,
    TRUTH_FILE,
    MeasuredSeries,
    MoldableLog,
    SimulatedLaws,
    TrueCurves,
    measured_series_of,
    moldable_log,
    simulated_laws_of,
)
from pipeline.settings import RunSettings
from pipeline.tables import MOLDABLE


def read_moldable_log(given: Path, max_procs: int | None = None) -> MoldableLog:
    """A log, or the logs of a config; InputError where the size of the machine is unknown or jobs are too few.

    The template of the groups is chosen on the first third of the jobs. Flags are those of the whole log.
    """
    settings, paths = resolve(given) if given.suffix == ".toml" else (RunSettings(), find_logs([str(given)], Path()))
    read, report = ingested_jobs(paths, settings)
    capacity = max_procs or settings.site.max_procs or report.facts.get("max_procs")
    if not isinstance(capacity, int):
        raise InputError(printable(str(given)), "no number of processors", "the machine's size", "give --max-procs")
    settings = settings.model_copy(update={"site": settings.site.model_copy(update={"max_procs": capacity})})
    with running_stage("clean and group"):
        flagged, *_ = clean(read, settings.clean, settings.site)
        early = flagged.slice(0, max(1, int(flagged.num_rows * HISTORY_SHARE)))
        templates, _ = choose_template(early, settings.group)
        chosen = with_chosen(settings.group, templates)
        grouped, _ = assign_groups(flagged, chosen)
    return moldable_log(given.name, grouped, capacity, "+".join(chosen.template), settings)


def true_curves(series: Path | None, laws: Path | None) -> TrueCurves:
    """The curves of the one source given; InputError for none or both."""
    if (series is None) == (laws is None):
        found = "neither --series nor --laws" if series is None else "--series and --laws"
        raise InputError("walltime replay --series", found, "one source of true curves", "give --series FILE.csv")
    return measured_series(series) if series else simulated_laws(laws)  # type: ignore[arg-type]


def measured_series(path: Path) -> MeasuredSeries:
    """The series of a CSV that have sizes enough; InputError where none has."""
    return measured_series_of(path, *read_series_and_applications(path))


def simulated_laws(path: Path) -> SimulatedLaws:
    """The laws of a truth file; InputError where it states none."""
    try:
        stated = json.loads(read_text(path, TRUTH_FILE))
    except ValueError:
        stated = None
    return simulated_laws_of(path, stated)


def study(log: MoldableLog, curves: TrueCurves, settings: StudySettings) -> pa.Table:
    """MOLDABLE: the figures of every share, chooser and seed. The same arguments give the same table."""
    rows: list[dict[str, Any]] = []
    for seed in range(settings.seeds):
        with running_stage(f"seed {seed + 1} of {settings.seeds}"):
            rows += one_seed(log, curves, settings, seed)
    names = list(rows[0])
    return MOLDABLE.build(log=[log.name] * len(rows), **{name: [row[name] for row in rows] for name in names})


def shares(text: str) -> tuple[float, ...]:
    """Shares from 0 to 1 of a text of percentages, each once in ascending order; InputError for others."""
    words = [word.strip().removesuffix("%") for word in text.split(",")]
    try:
        found = sorted({float(word) / 100 for word in words})
    except ValueError:
        found = [-1.0]
    if not all(0 <= share <= 1 for share in found):
        raise InputError(
            f"--share {printable(text, 60)}", "no list of percentages", "numbers from 0 to 100, as in 0,20,50"
        )
    return tuple(found)


def write_study(folder: Path, table: pa.Table, page: str) -> dict[str, str]:
    """Write the table and the page; returns the paths by name."""
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = write_any(folder / "moldable.parquet", table, MOLDABLE)
    return {"moldable": str(written), "page": str(write_page(folder / "moldable.md", page))}
