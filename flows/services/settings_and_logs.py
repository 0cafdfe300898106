"""Which settings and logs a command means: those of its config, and what the command line puts in their place."""

import glob
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from flows.services.files.os_errors import config_settings
from flows.services.logs.ingesting import accumulated_jobs
from flows.services.quantities import period_s
from pipeline.errors import ConfigError, InputError, printable
from pipeline.ingest import Window
from pipeline.ingest.sources import find_sources
from pipeline.settings import RunSettings, parse_settings


def resolve(config: Path, logs: Sequence[str] = ()) -> tuple[RunSettings, list[Path]]:
    """The settings and logs of a run: the given logs, or those of the config's source; only sacct's are read here."""
    settings = run_settings(config)
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
        try:
            # A text with a line end could hold more keys.
            (section[name],) = tomllib.loads(f"value = [{text}]")["value"]
        except ValueError:
            section[name] = text.strip()
        settings = parse_settings(plain, where)
    return settings
