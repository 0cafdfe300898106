"""From a config file and the command line's overrides to a run: which logs, which settings, which folder."""

import glob
from collections.abc import Sequence
from pathlib import Path

from flows.config import config_settings
from pipeline.core.errors import ConfigError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable
from pipeline.ingest.sources import compression_of, find_sources
from pipeline.run import Run, start_run


def prepare(
    config: Path, logs: Sequence[str] = (), site: str | None = None, out: str | None = None
) -> tuple[Run, Path]:
    """The run a config describes, and the folder its tables go to; what is given beside the config wins."""
    settings, paths = resolve(config, logs, site, out)
    for source in find_sources(paths):
        compression_of(source)  # in passing, that it can be opened
    return start_run(settings, paths), Path(settings.output_dir)


def resolve(
    config: Path, logs: Sequence[str] = (), site: str | None = None, out: str | None = None
) -> tuple[RunSettings, list[Path]]:
    """The settings and logs of a run, without reading a log."""
    settings = _overridden(config_settings(config), site, out)
    if not (logs or settings.logs):
        found = "no logs" if "logs" not in settings.model_fields_set else "an empty list of logs"
        raise ConfigError(printable(str(config)), found, "at least one path or glob", "set logs, or give --log PATH")
    return settings, find_logs(logs, Path()) if logs else find_logs(settings.logs, config.parent)


def _overridden(settings: RunSettings, site: str | None, out: str | None) -> RunSettings:
    if site == "":
        raise ConfigError("--site", "an empty name", "the cluster's name")
    if out == "":
        raise ConfigError("--out", "an empty path", "the folder that tables go to")
    changes = {"output_dir": out} if out else {}
    if site:
        changes["site"] = settings.site.model_copy(update={"name": site})
    return settings.model_copy(update=changes)


def find_logs(patterns: Sequence[str], base: Path) -> list[Path]:
    """The files behind paths, folders and globs below `base`, each once; InputError for one that leads to none."""
    return [source.path for source in find_sources([_given(pattern, base) for pattern in patterns])]


def _given(pattern: str, base: Path) -> Path:
    """The pattern below `base`; where it is a glob, what looks like one in `base` itself stays plain."""
    path = Path(pattern).expanduser()
    is_plain = path.is_absolute() or (base / path).exists() or not glob.has_magic(pattern)
    return base / path if is_plain else Path(glob.escape(str(base))) / path
