"""What `walltime rerun` does: a run over some months with changed settings, kept as a version that is not published."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.services.quantities import period_s
from flows.services.run.prepare import listed_paths, run_settings, sacct_table
from flows.services.run.running import Runner, run_and_keep
from pipeline.config_file import parse_settings
from pipeline.errors import ConfigError, InputError, printable
from pipeline.ingest.window import Window
from pipeline.publish import Manifest
from pipeline.publish.versions import check_given_name, check_name_free
from pipeline.run import Run, start_run
from pipeline.settings import RunSettings


def rerun_and_keep(
    config: Path,
    name: str,
    changes: Sequence[str] = (),
    begin: str | None = None,
    end: str | None = None,
    logs: Sequence[str] = (),
    site: str | None = None,
    output_dir: str | None = None,
    runner: Runner | None = None,
) -> Manifest:
    """Run every step over the jobs of a window and keep the tables as a version of that name; returns its manifest.

    The template is chosen from these jobs alone, whatever the published version uses. What is published stays.
    """
    runner = runner or Runner()
    run, folder = rerun_of(config, name, changes, begin, end, logs, site, output_dir, runner)
    runner.say(f"rerun {run.run_id} over {', '.join(run.log_labels)}")
    return run_and_keep(run, folder, name, runner)


def check_rerun(
    config: Path,
    name: str,
    changes: Sequence[str],
    begin: str | None,
    end: str | None,
    logs: Sequence[str] = (),
    site: str | None = None,
    output_dir: str | None = None,
) -> RunSettings:
    """The changed settings of a rerun; ConfigError or InputError for what can be wrong before a log is read."""
    check_given_name(name)
    settings = run_settings(config, site, output_dir)
    listed_paths(settings, config, logs)
    changed = with_changes(settings, changes)
    window_of(begin, end, changed.site.timezone)
    return changed


def rerun_of(
    config: Path,
    name: str,
    changes: Sequence[str],
    begin: str | None,
    end: str | None,
    logs: Sequence[str],
    site: str | None,
    output_dir: str | None,
    runner: Runner,
) -> tuple[Run, Path]:
    """The run that a config with changed settings and a window describes, and its output folder.

    InputError where another version has the name.
    """
    changed = check_rerun(config, name, changes, begin, end, logs, site, output_dir)
    # Changed settings must not enter the table of jobs that the nightly runs continue.
    settings, folder = run_settings(config, site, output_dir), Path(changed.output_dir)
    paths = listed_paths(settings, config, logs)
    if paths is None:
        paths = [runner.part("sacct", lambda: sacct_table(settings))]
    run = start_run(changed, paths)
    run = replace(run, window_s=window_of(begin, end, changed.site.timezone))
    check_name_free(folder, name, run.run_id)
    return run, folder


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
        plain = settings.model_dump(exclude_unset=True)
        _put(plain, [part.strip() for part in key.split(".")], _value(text.strip()), where)
        settings = parse_settings(plain, where)
    return settings


def _put(plain: dict[str, Any], path: list[str], value: Any, where: str) -> None:
    for part in path[:-1]:
        plain = plain.setdefault(part, {})
        if not isinstance(plain, dict):
            raise ConfigError(where, f"{printable(part)}, which is no section", "a key in a section")
    plain[path[-1]] = value


def _value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A text with a line end could hold more keys.
    return found["value"] if set(found) == {"value"} else text
