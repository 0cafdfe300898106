"""What `walltime rerun` does: a run over some months with changed settings, kept as a version that is not published."""

import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.services.progress import running_stage
from flows.services.quantities import period_s
from flows.services.run.plain_run import run_steps
from flows.services.run.prepare import listed_paths, run_settings, sacct_table
from flows.services.run.publishing import facts_of
from flows.services.run.work_folder import work_folder
from pipeline.core.errors import ConfigError, InputError
from pipeline.core.settings import RunSettings, parse_settings
from pipeline.core.text import printable
from pipeline.ingest.window import Window
from pipeline.publish import Manifest
from pipeline.publish.folders import scratch
from pipeline.publish.version_names import check_given_name
from pipeline.publish.versions import check_name_free, keep_unpublished
from pipeline.run import PUBLISHED, Run, start_run


def rerun_and_keep(
    config: Path,
    name: str,
    changes: Sequence[str] = (),
    begin: str | None = None,
    end: str | None = None,
    logs: Sequence[str] = (),
    site: str | None = None,
    output_dir: str | None = None,
) -> Manifest:
    """Run every step over the jobs of a window and keep the tables as a version of that name; returns its manifest.

    The template is chosen from these jobs alone, whatever the published version uses. What is published stays.
    """
    run, folder = rerun_of(config, name, changes, begin, end, logs, site, output_dir)
    with work_folder(folder) as work, scratch(work / run.run_id) as staging_dir:
        tables, reports = run_steps(run, staging_dir)
        with running_stage("publish"):
            staged = {table: tables[table] for table in PUBLISHED}
            now_s = int(time.time())
            return keep_unpublished(staged, reports, facts_of(run, name), output_dir=folder, created_s=now_s)


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
    logs: Sequence[str] = (),
    site: str | None = None,
    output_dir: str | None = None,
    ask_sacct: Callable[[RunSettings], Path] = sacct_table,
) -> tuple[Run, Path]:
    """The run that a config with changed settings and a window describes, and its output folder.

    `ask_sacct` gives the table of sacct's jobs where they are the config's source. InputError where another version has
    the name.
    """
    changed = check_rerun(config, name, changes, begin, end, logs, site, output_dir)
    # Changed settings must not enter the table of jobs that the nightly runs continue.
    settings, folder = run_settings(config, site, output_dir), Path(changed.output_dir)
    paths = listed_paths(settings, config, logs)
    run = start_run(changed, [ask_sacct(settings)] if paths is None else paths)
    run = replace(run, window_s=window_of(begin, end, changed.site.timezone))
    check_name_free(folder, name, run.run_id)
    return run, folder


def window_of(begin: str | None, end: str | None, timezone: str) -> Window:
    """Begin and end of the window from the texts of --from and --to; a month or day of --to is included."""
    begin_s = None if begin is None else period_s("--from", begin, timezone)[0]
    end_s = None if end is None else period_s("--to", end, timezone)[1]
    if begin_s is not None and end_s is not None and begin_s >= end_s:
        raise InputError(f"--to {printable(str(end))}", f"an end before --from {printable(str(begin))}", "a later time")
    return begin_s, end_s


def with_changes(settings: RunSettings, changes: Sequence[str]) -> RunSettings:
    """The settings with some replaced, each given as in clean.flurry.remove_weeks=2; ConfigError names a wrong one.

    The value is read as TOML, and as a text where it is none.
    """
    for change in changes:
        key, is_set, text = change.partition("=")
        where = f"--set {printable(change)}"
        if not is_set or not key.strip():
            raise ConfigError(where, "no key and value", "SECTION.KEY=VALUE, as in clean.flurry.remove_weeks=2")
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
