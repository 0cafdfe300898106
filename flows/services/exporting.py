"""What `walltime export` does: a published version in, the files of one writer out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import config_settings, naming_path
from flows.services.published.published_folder import read_columns
from pipeline.export.published_tables import Files, PublishedTables, Writer, csv_files, known_applications
from pipeline.export.scheduler_files import INSTALL_FILE, openpbs_files, slurm_files
from pipeline.publish import Manifest, reading
from pipeline.settings import ExportSettings
from pipeline.storage import expecting_table, write_bytes
from pipeline.tables import ESTIMATES, JOBS

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
    """Write the current version's estimates into a folder, each file in one step; files that are there are replaced.

    The settings are those of [export] in the config, else those that the run had. InputError where a table is missing.
    """
    with reading(published) as manifest:
        settings = _settings_of_run(manifest) if config is None else config_settings(config).export
        tables = published_tables(manifest)
    files = WRITERS[kind](tables, settings)
    sizes = {str(path): len(files[path.name]) for path in _written(files, folder)}
    install = files.get(INSTALL_FILE, b"").decode("utf-8")
    return Exported(manifest.run_id, manifest.site, tables.estimates.num_rows, len(tables.applications), sizes, install)


def published_tables(manifest: Manifest) -> PublishedTables:
    """What writers read of a published version; InputError where it has no estimates."""
    settings = manifest.settings
    return PublishedTables(
        estimates=read_columns(manifest.path(ESTIMATES.name), ESTIMATES),
        applications=known_applications(_names(manifest.path(JOBS.name))) if JOBS.name in manifest.tables else {},
        has_hashed_names=bool(settings.get("site", {}).get("anonymise")),
        has_own_name_rules=bool(settings.get("ingest", {}).get("application_rules")),
    )


def _names(path: Path) -> pa.Table:
    with expecting_table(path, JOBS):
        return pq.read_table(path, columns=["job_name", "application"], partitioning=None)


def _settings_of_run(manifest: Manifest) -> ExportSettings:
    return ExportSettings.model_validate(manifest.settings.get("export", {}))


def _written(files: Files, folder: Path) -> list[Path]:
    for name, content in files.items():
        with naming_path(folder / name):
            write_bytes(folder / name, content)
    return [folder / name for name in files]
