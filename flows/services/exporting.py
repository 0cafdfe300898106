"""What `walltime export` does: a published version in, the files of one writer out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from flows.services.files.os_errors import config_settings, naming_path
from flows.services.published.published_folder import read_columns
from pipeline.errors import InputError, printable
from pipeline.export.published_tables import PublishedTables, Writer, csv_files, known_applications
from pipeline.export.scheduler_files import INSTALL_FILE, openpbs_files, slurm_files
from pipeline.publish import Manifest, reading
from pipeline.settings import ExportSettings
from pipeline.storage import expecting_table, file_sha256, write_bytes
from pipeline.tables import ESTIMATES, JOBS, LIMITS

WRITERS: Mapping[str, Writer] = {"csv": csv_files, "pbs": openpbs_files, "slurm": slurm_files}
"""The schedulers and programs that exports are written for. A new one is a file in pipeline/export and a word here."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    run_id: str
    site: str
    n_estimates: int
    n_names: int
    """Job names that are listed with their application."""
    files: Mapping[str, int]
    """Bytes, by path."""
    install: str
    """How to install them; empty where nothing is to be installed."""


def export(published: Path, kind: str, folder: Path, config: Path | None = None) -> Exported:
    """Write the current version's estimates and limits into a folder, each file in one step; files that are there are replaced.

    The settings are those of [export] in the config, else those that the run had. InputError where a table is missing.
    """
    with reading(published) as manifest:
        own = ExportSettings.model_validate(manifest.settings.get("export", {}))
        tables = published_tables(manifest)
    files = WRITERS[kind](tables, own if config is None else config_settings(config).export)
    for name, content in files.items():
        with naming_path(folder / name):
            write_bytes(folder / name, content)
    sizes = {str(folder / name): len(content) for name, content in files.items()}
    install = files.get(INSTALL_FILE, b"").decode("utf-8")
    return Exported(manifest.run_id, manifest.site, tables.estimates.num_rows, len(tables.applications), sizes, install)


def whole_table(manifest: Manifest, name: str) -> Path:
    """The path of a published table; InputError where its SHA-256 is not that of the manifest."""
    path = manifest.path(name)
    with naming_path(path):
        found = file_sha256(path)
    if found != manifest.tables[name].sha256:
        do = "nothing was written; run walltime run again, or go back with walltime rollback"
        raise InputError(printable(str(path)), f"SHA-256 {found[:16]}...", f"{manifest.tables[name].sha256[:16]}...", do)
    return path


def published_tables(manifest: Manifest) -> PublishedTables:
    """What writers read of a published version; InputError where a table is missing or is not what was published."""
    settings = manifest.settings
    applications: Mapping[str, str] = {}
    if JOBS.name in manifest.tables:
        path = whole_table(manifest, JOBS.name)
        with expecting_table(path, JOBS):
            names = pq.read_table(path, columns=["job_name", "application"], partitioning=None)
        applications = known_applications(names)
    return PublishedTables(
        estimates=read_columns(whole_table(manifest, ESTIMATES.name), ESTIMATES),
        limits=read_columns(whole_table(manifest, LIMITS.name), LIMITS),
        applications=applications,
        has_hashed_names=bool(settings.get("site", {}).get("anonymise")),
        has_own_name_rules=bool(settings.get("ingest", {}).get("application_rules")),
    )
