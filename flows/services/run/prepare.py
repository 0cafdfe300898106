"""Makes a run from a config file and overrides of the command line: its logs, settings and folder."""

import glob
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flows.services.files.config import config_settings
from flows.services.logs.accumulated_jobs import accumulated_jobs
from pipeline.errors import ConfigError, InputError, printable
from pipeline.ingest.sources import compression_of, find_sources
from pipeline.publish import load_manifest
from pipeline.run import Run, start_run
from pipeline.settings import AUTO, RunSettings
from pipeline.storage import file_sha256, read_table
from pipeline.tables import TEMPLATES


def prepare(config: Path, logs: Sequence[str] = (), site: str | None = None, out: str | None = None) -> Run:
    """The run that a config describes; the other arguments override the config."""
    return prepare_run(*resolve(config, logs, site, out))


def prepare_run(settings: RunSettings, paths: Sequence[Path]) -> Run:
    """The run over these logs; InputError where one of them cannot be opened."""
    for source in find_sources(paths):
        compression_of(source)  # fails for a file that cannot be opened
    run = start_run(settings, paths)
    return replace(run, previous_template=previous_template(run, Path(settings.output_dir)))


def previous_template(run: Run, folder: Path) -> str:
    """The template that the folder's current version chose for this site; empty if there is none, or a list is set.

    A run over the same logs as the current version takes that version's own previous template, so that it publishes
    the same bytes.
    """
    if run.settings.group.template != AUTO:
        return ""
    try:
        manifest = load_manifest(folder)
        path = manifest.path(TEMPLATES.name)
        # A damaged table must not stop the run that replaces it.
        if file_sha256(path) != manifest.tables[TEMPLATES.name].sha256:
            return ""
        table = read_table(path, TEMPLATES)
    except InputError:
        return ""
    if manifest.site != run.settings.site.name:
        return ""
    logs = tuple((log.name, log.sha256) for log in manifest.logs)
    is_same = logs == tuple(zip(run.log_labels, run.log_digests, strict=True))
    found = table.filter(table.column("is_previous" if is_same else "is_chosen")).column("template").to_pylist()
    return str(found[0]) if found else ""


def resolve(
    config: Path, logs: Sequence[str] = (), site: str | None = None, out: str | None = None
) -> tuple[RunSettings, list[Path]]:
    """The settings and logs of a run: the given logs, or those of the config's source; only sacct's are read here."""
    settings = run_settings(config, site, out)
    paths = listed_paths(settings, config, logs)
    return settings, [sacct_table(settings)] if paths is None else paths


def settings_and_logs(given: Path) -> tuple[str, RunSettings, list[Path]]:
    """Name, settings and logs of a config (.toml), or of a log, which is read with the default settings."""
    if given.suffix == ".toml":
        settings, paths = resolve(given)
        return settings.site.name, settings, paths
    return given.name, RunSettings(), find_logs([str(given)], Path())


def sacct_table(settings: RunSettings) -> Path:
    """The table of all jobs that sacct has recorded so far; the records since the last reading are added to it."""
    return accumulated_jobs(settings, int(time.time())).table


def run_settings(config: Path, site: str | None = None, out: str | None = None) -> RunSettings:
    """The settings of a config; the other arguments override them."""
    settings = config_settings(config)
    if site == "":
        raise ConfigError("--site", "an empty name", "the cluster's name")
    if out == "":
        raise ConfigError("--out", "an empty path", "the folder that tables go to")
    changes: dict[str, object] = {"output_dir": out} if out else {}
    if site:
        changes["site"] = settings.site.model_copy(update={"name": site})
    return settings.model_copy(update=changes)


def listed_paths(settings: RunSettings, config: Path, logs: Sequence[str] = ()) -> list[Path] | None:
    """The given logs, else the files of the config's source; None where sacct has to be asked (`sacct_table`)."""
    if logs:
        return find_logs(logs, Path())
    source, where = settings.source, printable(str(config))
    if source.kind != "logs" and settings.logs:
        raise ConfigError(where, f"logs beside source.kind = {source.kind}", "one of them", "remove the other")
    match source.kind:
        case "sacct":
            return None
        case "folder":
            folder = _given(str(source.folder), config.parent)
            if not folder.is_dir():
                raise ConfigError(where, f"source.folder = {printable(str(folder))}", "a folder of logs")
            return find_logs([str(Path(glob.escape(str(folder.absolute()))) / source.pattern)], Path())
        case "jobs":
            return find_logs([str(source.path)], config.parent)
    if not settings.logs:
        found = "no logs" if "logs" not in settings.model_fields_set else "an empty list of logs"
        do = "set logs or [source], or give --log PATH"
        raise ConfigError(where, found, "at least one path or glob", do)
    return find_logs(settings.logs, config.parent)


def find_logs(patterns: Sequence[str], base: Path) -> list[Path]:
    """The files of paths, folders and globs below `base`, each once; InputError for one without files."""
    return [source.path for source in find_sources([_given(pattern, base) for pattern in patterns])]


def _given(pattern: str, base: Path) -> Path:
    """The pattern below `base`, as a path; if it is a glob, the magic characters of `base` itself are escaped."""
    path = Path(pattern).expanduser()
    is_plain = path.is_absolute() or (base / path).exists() or not glob.has_magic(pattern)
    return base / path if is_plain else Path(glob.escape(str(base))) / path
