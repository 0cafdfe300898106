"""From a config file and the command line's overrides to a run: which logs, which settings, which folder."""

import glob
from collections.abc import Sequence
from pathlib import Path

from pipeline.core.errors import ConfigError, InputError
from pipeline.core.settings import RunSettings, load_settings
from pipeline.core.text import printable
from pipeline.run import Run, start_run


def prepare(
    config: Path, logs: Sequence[str] = (), site: str | None = None, out: str | None = None
) -> tuple[Run, Path]:
    """The run a config describes, and the folder its tables go to; what is given beside the config wins."""
    settings = _overridden(load_settings(config), site, out)
    if not (logs or settings.logs):
        found = "no logs" if "logs" not in settings.model_fields_set else "an empty list of logs"
        raise ConfigError(printable(str(config)), found, "at least one path or glob", "set logs, or give --log PATH")
    paths = find_logs(logs, Path()) if logs else find_logs(settings.logs, config.parent)
    return start_run(settings, paths), Path(settings.output_dir)


def _overridden(settings: RunSettings, site: str | None, out: str | None) -> RunSettings:
    if site == "":
        raise ConfigError("--site", "an empty name", "the cluster's name")
    changes = {"output_dir": out} if out else {}
    if site:
        changes["site"] = settings.site.model_copy(update={"name": site})
    return settings.model_copy(update=changes)


def find_logs(patterns: Sequence[str], base: Path) -> list[Path]:
    """The files that paths and globs name, each once, in order of name; InputError for one that names none."""
    found = {path.resolve(): path for pattern in patterns for path in _matches(pattern, base)}
    return sorted(found.values())


def _matches(pattern: str, base: Path) -> list[Path]:
    where = printable(pattern)
    path = base / Path(pattern).expanduser()
    if path.is_dir():
        raise InputError(where, "a folder", "a log file or a glob", f"name its files, as in {where.rstrip('/')}/*")
    if path.exists():
        return [path]
    if not glob.has_magic(pattern):
        raise InputError(where, "no such file", "an accounting log", "give the path of one")
    matches = [Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file()]  # noqa: PTH207
    if not matches:
        raise InputError(where, "no file that matches", "at least one accounting log", "correct the glob")
    return matches
