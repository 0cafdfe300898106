"""What `walltime ingest` does, apart from printing."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from flows.config import config_settings
from flows.failures import naming
from flows.signals import unwinding_on_signals
from flows.tables_out import check_suffix, write_any_batches
from pipeline.core.errors import InputError
from pipeline.core.report import Report
from pipeline.core.settings import IngestSettings, RunSettings, SiteSettings, parse_settings
from pipeline.core.text import printable
from pipeline.ingest import Source, ingest_to
from pipeline.publish.spill_folder import spill_folder


def settings_of(
    config: Path | None,
    format: str | None = None,
    site: str | None = None,
    timezone: str | None = None,
    key_file: str | None = None,
) -> RunSettings:
    """A config's settings, or the defaults; what is given beside it wins. ConfigError for what cannot be used."""
    plain = config_settings(config).model_dump() if config else {"site": {}, "ingest": {}}
    given = {"name": site, "timezone": timezone, "key_file": key_file, "anonymise": True if key_file else None}
    plain["site"] |= {name: value for name, value in given.items() if value is not None}
    plain["ingest"] |= {"format": format} if format is not None else {}
    return parse_settings(plain, "the command line" if config is None else printable(str(config)))


def write_jobs(
    logs: Sequence[Path | Source], site: SiteSettings, how: IngestSettings, out: Path, *, is_update: bool = False
) -> tuple[Report, dict[str, Path]]:
    """Logs to tables; the report, and the paths by name. Spill files stand beside `out` and go in the end."""
    check_suffix(out)
    if is_update and out.suffix != ".parquet":
        raise InputError(f"--out {printable(str(out))}", "a CSV table to update", "a .parquet one")
    beside = out.with_name(f"{out.stem}.unreadable{out.suffix}")
    created = [folder for folder in (out.parent, *out.parent.parents) if not folder.exists()]
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with naming(out), unwinding_on_signals(), spill_folder(out.parent) as scratch:
            earlier = out if is_update and out.exists() else None
            report = ingest_to(logs, site, how, out, beside, scratch, earlier, write_any_batches)
    finally:
        for folder in created:
            with suppress(OSError):
                folder.rmdir()
    return report, {"jobs": out} | ({"unreadable": beside} if beside.exists() else {})
