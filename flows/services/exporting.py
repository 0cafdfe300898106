"""What `walltime export` does: a published version in, the files of one writer out."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flows.services.files.os_errors import config_settings, naming_path
from flows.services.initialising import slurm_value
from flows.services.published.published_folder import read_columns
from pipeline.export.lookup_file import lookup_file, newest_end_of
from pipeline.export.lookup_reader import Lookup, open_lookup
from pipeline.export.published_tables import PublishedTables, Writer, csv_files, known_applications
from pipeline.export.scheduler_files import INSTALL_FILE, openpbs_files, slurm_files
from pipeline.publish import Manifest, reading
from pipeline.settings import ExportSettings
from pipeline.storage import write_bytes
from pipeline.tables import ESTIMATES, JOBS, LIMITS

WRITERS: Mapping[str, Writer] = {"csv": csv_files, "pbs": openpbs_files, "slurm": slurm_files}
"""The schedulers and programs that exports are written for. A new one is a file in pipeline/export and a word here."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    run_id: str
    site: str
    n_estimates: int
    n_limits: int
    """Kinds of jobs that get a limit."""
    n_names: int
    """Job names that are listed with their application."""
    files: Mapping[str, int]
    """Bytes, by path."""
    install: str
    """How to install them; empty where nothing is to be installed."""
    mode: str
    """What the scheduler does with them."""
    newest_end_s: int
    """End of the newest job behind them, s since 1970."""
    max_age_days: float
    """How long after it they limit jobs (days)."""


def export(
    published: Path, kind: str, folder: Path, config: Path | None = None, environment: Mapping[str, str] | None = None
) -> Exported:  # fmt: skip
    """Write the current version's estimates and limits into a folder; each file is replaced in one step.

    The settings are those of [export] in the config, else those that the run had. The instructions name the folder of
    slurm.conf as Slurm's programs in `environment` know it. InputError where a table is missing.
    """
    with reading(published) as manifest:
        own = ExportSettings.model_validate(manifest.settings.get("export", {}))
        tables = published_tables(manifest)
    settings = own if config is None else config_settings(config).export
    files = dict(WRITERS[kind](tables, settings))
    if kind == "slurm" and (conf := slurm_value("SLURM_CONF", environment or {})):
        files[INSTALL_FILE] = files[INSTALL_FILE].replace(b"/etc/slurm", str(Path(conf).parent).encode())
    for name, content in files.items():
        with naming_path(folder / name):
            write_bytes(folder / name, content)
    sizes = {str(folder / name): len(content) for name, content in files.items()}
    install = files.get(INSTALL_FILE, b"").decode("utf-8")
    n_limits = tables.limits.num_rows - tables.limits.column("limit_s").null_count
    return Exported(
        manifest.run_id, manifest.site, tables.estimates.num_rows, n_limits, len(tables.applications), sizes, install,
        settings.mode, newest_end_of((tables.estimates, tables.limits)), settings.max_age_days,
    )  # fmt: skip


def published_tables(manifest: Manifest) -> PublishedTables:
    """What writers read of a published version; InputError where a table is missing or is not what was published."""
    settings = manifest.settings
    return PublishedTables(
        estimates=read_columns(manifest.path(ESTIMATES.name), ESTIMATES),
        limits=read_columns(manifest.path(LIMITS.name), LIMITS),
        applications=_applications(manifest),
        has_hashed_names=bool(settings.get("site", {}).get("anonymise")),
        has_own_name_rules=_has_own_name_rules(manifest),
    )


def _applications(manifest: Manifest) -> Mapping[str, str]:
    if JOBS.name not in manifest.tables:
        return {}
    return known_applications(read_columns(manifest.path(JOBS.name), JOBS, ["job_name", "application"]))


def _has_own_name_rules(manifest: Manifest) -> bool:
    return bool(manifest.settings.get("ingest", {}).get("application_rules"))


@dataclass(frozen=True, slots=True)
class PublishedLimits:
    """The limits of a published version, as they are exported."""

    run_id: str
    file: Lookup | None
    """None where the version has no limit at all."""
    has_own_name_rules: bool

    def what(self, job_name: str | None) -> str | None:
        """The value of `what` of a job's name; None where that cannot be told."""
        if self.file is None or job_name is None:
            return None
        if self.has_own_name_rules and not self.file.lists(job_name):
            return None
        return self.file.what(job_name)


def published_limits(published: Path) -> PublishedLimits:
    """The limits of the current version; InputError where they are missing or damaged."""
    with reading(published) as manifest:
        table = read_columns(manifest.path(LIMITS.name), LIMITS)
        names = _applications(manifest) if table.num_rows else {}
    file = open_lookup(io.BytesIO(lookup_file(ESTIMATES.empty(), table, names))) if table.num_rows else None
    return PublishedLimits(manifest.run_id, file, _has_own_name_rules(manifest))
