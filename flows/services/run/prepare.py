"""Makes a run from a config file and overrides of the command line: its logs, settings and folder.

A rerun is a run over some months with changed settings, kept as a version that is not published.
"""

import glob
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import config_settings
from flows.services.logs.ingesting import accumulated_jobs
from flows.services.quantities import period_s
from pipeline.config_file import parse_settings
from pipeline.errors import ConfigError, InputError, printable
from pipeline.ingest import Window
from pipeline.ingest.sources import compression_of, find_sources
from pipeline.publish import load_manifest
from pipeline.publish.versions import check_given_name
from pipeline.run import Run, start_run
from pipeline.settings import AUTO, RunSettings
from pipeline.storage import read_table
from pipeline.tables import TEMPLATES


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
        table = read_table(manifest.path(TEMPLATES.name), TEMPLATES)
    except InputError:
        # A damaged table must not stop the run that replaces it.
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
    return accumulated_jobs(settings, int(time.time()))


def run_settings(config: Path, site: str | None = None, out: str | None = None) -> RunSettings:
    """The settings of a config; the other arguments override them."""
    settings = config_settings(config)
    if out == "":
        raise ConfigError("--out", "an empty path", "the folder that tables go to")
    changes: dict[str, object] = {"output_dir": out} if out else {}
    if site is not None:
        name = parse_settings({"site": {"name": site}}, "--site").site.name
        changes["site"] = settings.site.model_copy(update={"name": name})
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


@dataclass(frozen=True, slots=True)
class Rerun:
    """What is asked of a rerun: the name of its version, changed settings as in group.template=user, and its window.

    `begin` and `end` are months, days or instants. The other fields override the config, as those of a run do.
    """

    config: Path
    name: str
    changes: Sequence[str] = ()
    begin: str | None = None
    end: str | None = None
    logs: Sequence[str] = ()
    site: str | None = None
    output_dir: str | None = None


def check_rerun(asked: Rerun) -> RunSettings:
    """The changed settings of a rerun; ConfigError or InputError for what can be wrong before a log is read."""
    check_given_name(asked.name)
    settings = run_settings(asked.config, asked.site, asked.output_dir)
    listed_paths(settings, asked.config, asked.logs)
    changed = with_changes(settings, asked.changes)
    window_of(asked.begin, asked.end, changed.site.timezone)
    return changed


def window_of(begin: str | None, end: str | None, timezone: str) -> Window:
    """Begin and end of the window from the texts of --since and --until; a month or day of --until is included."""
    begin_s = None if begin is None else period_s("--since", begin, timezone)[0]
    end_s = None if end is None else period_s("--until", end, timezone)[1]
    if begin_s is not None and end_s is not None and begin_s >= end_s:
        found = f"an end before --since {printable(str(begin))}"
        raise InputError(f"--until {printable(str(end))}", found, "a later time")
    return begin_s, end_s


def with_changes(settings: RunSettings, changes: Sequence[str]) -> RunSettings:
    """The settings with some replaced, each given as in group.template=user; ConfigError names a wrong one.

    The value is read as TOML, and as a text where it is none.
    """
    for change in changes:
        key, is_set, text = change.partition("=")
        where = f"--set {printable(change)}"
        if not is_set or not key.strip():
            raise ConfigError(where, "no key and value", "SECTION.KEY=VALUE, as in group.template=user")
        if key.strip() in ("logs", "output_dir"):
            raise ConfigError(where, f"{key.strip()}, which is no setting of a stage", "--log PATH, or --out DIR")
        *sections, name = (part.strip() for part in key.split("."))
        plain = section = settings.model_dump(exclude_unset=True)
        for part in sections:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise ConfigError(where, f"{printable(part)}, which is no section", "a key in a section")
        section[name] = _value(text.strip())
        settings = parse_settings(plain, where)
    return settings


def _value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A text with a line end could hold more keys.
    return found["value"] if set(found) == {"value"} else text
