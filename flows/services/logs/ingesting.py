"""What `walltime ingest` does: logs in, tables JOBS and UNREADABLE out."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from flows.services.files.config import config_settings
from flows.services.files.os_errors import naming_path
from flows.services.files.process_guards import unwinding_on_signals
from flows.services.files.table_files import check_suffix, write_any_batches
from pipeline.config_file import parse_settings
from pipeline.errors import InputError, printable
from pipeline.ingest import OnDisk, Source, ingest
from pipeline.ingest.jobs_tables import is_table
from pipeline.ingest.sources import find_sources
from pipeline.publish.folders import spill_folder
from pipeline.report import Report
from pipeline.settings import IngestSettings, RunSettings, SiteSettings


def settings_of(
    config: Path | None,
    format: str | None = None,
    site: str | None = None,
    timezone: str | None = None,
    key_file: str | None = None,
) -> RunSettings:
    """The settings of a config, or the defaults; the other arguments override them. ConfigError for a wrong value."""
    plain = config_settings(config).model_dump() if config else {"site": {}, "ingest": {}}
    given = {"name": site, "timezone": timezone, "key_file": key_file, "anonymise": True if key_file else None}
    plain["site"] |= {name: value for name, value in given.items() if value is not None}
    plain["ingest"] |= {"format": format} if format is not None else {}
    return parse_settings(plain, "the command line" if config is None else printable(str(config)))


def write_jobs(
    logs: Sequence[Path | Source], site: SiteSettings, how: IngestSettings, out: Path, *, is_update: bool = False
) -> tuple[Report, dict[str, Path]]:
    """Ingest logs; returns the report, and the tables' paths by name. Spill files beside `out` are removed."""
    check_suffix(out)
    if is_update and out.suffix != ".parquet":
        raise InputError(f"--out {printable(str(out))}", "a CSV table to update", "a .parquet one")
    return write_updated(logs, site, how, out, out if is_update and out.exists() else None)


def write_updated(
    logs: Sequence[Path | Source], site: SiteSettings, how: IngestSettings, out: Path, earlier: Path | None
) -> tuple[Report, dict[str, Path]]:
    """The same, with the jobs of an earlier table, which may be `out` itself."""
    if table := next(filter(is_table, find_sources(logs)), None):
        do = "give the table itself to walltime run, backtest or clean"
        raise InputError(printable(table.label), "a table, not a log", "logs to make one of", do)
    beside = out.with_name(f"{out.stem}.unreadable{out.suffix}")
    created = [folder for folder in (out.parent, *out.parent.parents) if not folder.exists()]
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with naming_path(out), unwinding_on_signals(), spill_folder(out.parent) as scratch:
            to = OnDisk(out, beside, scratch, write_any_batches)
            *_, report = ingest(logs, site, how, earlier, to=to)
    finally:
        for folder in created:
            with suppress(OSError):
                folder.rmdir()
    return report, {"jobs": out} | ({"unreadable": beside} if beside.exists() else {})
