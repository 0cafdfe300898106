"""Flagged jobs for commands that score or replay a log: from logs, ingested and cleaned, or from a table of jobs."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa

from flows.services.progress import running_stage
from pipeline.clean import clean
from pipeline.errors import InputError, TableError, printable
from pipeline.ingest import ingest
from pipeline.ingest.jobs_tables import OWN_TABLE
from pipeline.report import Report
from pipeline.settings import RunSettings
from pipeline.storage import read_metadata, read_table
from pipeline.tables import JOBS

_EXPECTED = "a table of jobs, as walltime ingest writes it"


def flagged_jobs(paths: Sequence[Path], settings: RunSettings, log: str = "") -> tuple[pa.Table, Report]:
    """JOBS of some logs with their flags, and the report of ingest; InputError where a log cannot be read.

    `log` is the name that progress shows.
    """
    jobs, report = ingested_jobs(paths, settings, log)
    flagged, *_ = clean(jobs, settings.clean, settings.site)
    return flagged, report


def ingested_jobs(paths: Sequence[Path], settings: RunSettings, log: str = "") -> tuple[pa.Table, Report]:
    """The same before cleaning."""
    with running_stage(f"{printable(log, 40)}: read" if log else "read") as stage:
        jobs, _, report = ingest(paths, settings.site, settings.ingest)
        stage.report = report
    return jobs, report


def jobs_of_table(path: Path, only: Collection[str] | None = None) -> pa.Table:
    """JOBS as a Parquet file has them, with the flags that are set there; InputError where it is no table of jobs.

    With `only`, the other columns are null and not read.
    """
    where = printable(str(path))
    if not path.is_file():
        raise InputError(where, "a folder" if path.is_dir() else "no such file", _EXPECTED, "give the path of one")
    try:
        if (named := read_metadata(path).get("table", "another")) != JOBS.name:
            raise InputError(where, f"{printable(named, 40)} table", _EXPECTED, OWN_TABLE)
        return read_table(path, JOBS, only=only)
    except pa.ArrowInvalid:
        raise InputError(where, "a file that is no Parquet table", _EXPECTED) from None
    except TableError as error:
        found = f"a table of jobs that breaks its own rules ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, found, _EXPECTED, "make it anew with walltime ingest") from None
