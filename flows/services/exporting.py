"""What `walltime export` does: a published version in, the files of one writer out."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import config_settings
from flows.services.published.published_folder import read_columns
from flows.services.schedulers import controller
from pipeline.errors import InputError
from pipeline.export.lookup_file import newest_end_of
from pipeline.export.scheduler_files import INSTALL_FILE, JOBS_READ, WRITERS, PublishedTables, known_applications
from pipeline.limits.soft import MINUTE_S
from pipeline.publish import Manifest, reading
from pipeline.settings import ExportSettings
from pipeline.storage import write_bytes
from pipeline.tables import ESTIMATES, JOBS, MEMORY


def export(
    published: Path, kind: str, folder: Path, config: Path | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Write the current version's estimates into a folder; each file is replaced in one step.

    The settings are those of [export] in the config, else those that the run had. Where Slurm's programs in
    `environment` answer, the instructions name the folder of slurm.conf, and the margin follows its OverTimeLimit.
    Returns of which version and what was written (bytes by path), how to install it (empty where nothing is to be
    installed), and what the scheduler does with it until when. InputError where a table is missing.
    """
    with reading(published) as manifest:
        settings = ExportSettings.model_validate(manifest.settings.get("export", {}))
        tables = published_tables(manifest)
    if config is not None:
        settings = config_settings(config).export
    conf = ""
    if kind == "slurm":
        with suppress(InputError):
            slurm = controller(environment or {})
            conf = slurm.conf
            # The plug-in gets the margin that the guard will have.
            settings = settings.model_copy(update={"over_time_limit_min": slurm.over_time_limit_s / MINUTE_S})
    files = dict(WRITERS[kind](tables, settings))
    if conf:
        files[INSTALL_FILE] = files[INSTALL_FILE].replace(b"/etc/slurm", str(Path(conf).parent).encode())
    for name, content in files.items():
        write_bytes(folder / name, content)
    return {
        "run_id": manifest.run_id, "site": manifest.site, "n_estimates": tables.estimates.num_rows,
        "n_names": len(known_applications(tables.jobs)),
        "files": {str(folder / name): len(content) for name, content in files.items()},
        "install": files.get(INSTALL_FILE, b"").decode("utf-8"), "mode": settings.mode,
        "newest_end_s": newest_end_of((tables.estimates,)), "max_age_days": settings.max_age_days,
    }  # fmt: skip


def published_tables(manifest: Manifest) -> PublishedTables:
    """What writers read of a published version; InputError where a table is missing or is not what was published."""
    settings, tables = manifest.settings, manifest.tables
    return PublishedTables(
        read_columns(manifest.path(ESTIMATES.name), ESTIMATES),
        read_columns(manifest.path(JOBS.name), JOBS, JOBS_READ) if JOBS.name in tables else JOBS.empty(),
        read_columns(manifest.path(MEMORY.name), MEMORY) if MEMORY.name in tables else MEMORY.empty(),
        bool(settings.get("site", {}).get("anonymise")),
        bool(settings.get("ingest", {}).get("application_rules")),
    )
