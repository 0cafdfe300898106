"""What `walltime export` does: a published version in, the files of one writer out."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flows.services.files.os_errors import config_settings, naming_path
from flows.services.published.published_folder import read_columns
from flows.services.schedulers import controller
from pipeline.errors import InputError
from pipeline.export.lookup_file import newest_end_of
from pipeline.export.published_tables import (
    PublishedTables,
    Writer,
    csv_files,
    known_applications,
    known_gpu_types,
    known_medians,
)
from pipeline.export.scheduler_files import INSTALL_FILE, openpbs_files, slurm_files
from pipeline.limits.soft import MINUTE_S
from pipeline.limits.status import READ, early_kinds
from pipeline.publish import Manifest, reading
from pipeline.settings import ExportSettings
from pipeline.storage import write_bytes
from pipeline.tables import ESTIMATES, JOBS, MEMORY

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
    mode: str
    """What the scheduler does with them."""
    newest_end_s: int
    """End of the newest job behind them, s since 1970."""
    max_age_days: float
    """How long after it they limit jobs (days)."""


def export(
    published: Path, kind: str, folder: Path, config: Path | None = None, environment: Mapping[str, str] | None = None
) -> Exported:  # fmt: skip
    """Write the current version's estimates into a folder; each file is replaced in one step.

    The settings are those of [export] in the config, else those that the run had. Where Slurm's programs in
    `environment` answer, the instructions name the folder of slurm.conf, and the margin follows its OverTimeLimit.
    InputError where a table is missing.
    """
    with reading(published) as manifest:
        own = ExportSettings.model_validate(manifest.settings.get("export", {}))
        tables = published_tables(manifest)
    settings = own if config is None else config_settings(config).export
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
        with naming_path(folder / name):
            write_bytes(folder / name, content)
    sizes = {str(folder / name): len(content) for name, content in files.items()}
    install = files.get(INSTALL_FILE, b"").decode("utf-8")
    return Exported(
        manifest.run_id, manifest.site, tables.estimates.num_rows, len(tables.applications), sizes, install,
        settings.mode, newest_end_of((tables.estimates,)), settings.max_age_days,
    )  # fmt: skip


def published_tables(manifest: Manifest) -> PublishedTables:
    """What writers read of a published version; InputError where a table is missing or is not what was published."""
    settings = manifest.settings
    jobs = JOBS.empty()
    if JOBS.name in manifest.tables:
        columns = dict.fromkeys((*READ, "job_name", "application", "queue", "gpus", "gpu_type"))
        jobs = read_columns(manifest.path(JOBS.name), JOBS, list(columns))
    return PublishedTables(
        estimates=read_columns(manifest.path(ESTIMATES.name), ESTIMATES),
        applications=known_applications(jobs),
        has_hashed_names=bool(settings.get("site", {}).get("anonymise")),
        has_own_name_rules=bool(settings.get("ingest", {}).get("application_rules")),
        memory=read_columns(manifest.path(MEMORY.name), MEMORY) if MEMORY.name in manifest.tables else MEMORY.empty(),
        gpu_types=known_gpu_types(jobs),
        early=[(one["user"], one["what"]) for one in early_kinds(jobs)],
        medians_s=known_medians(jobs),
    )
