"""A night from its config to its published tables: lock, read, compute, check and publish, record. A rerun likewise.

A rerun is a run over some months with changed settings, kept as a version that is not published. Here both are done by
plain calls. `flows.prefect` does the same with each call as a task, which may be computed in other processes or on
workers of Dask: all give the same bytes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import naming_path
from flows.services.logs import listed_paths, run_settings, sacct_table, window_of, with_changes
from flows.services.progress import StageEvent, notify, running_stage
from flows.services.run_record import BlockedVersionError, recorded_run
from pipeline import code_version
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.publish import Manifest, checks, load_manifest, manifest, store, versions
from pipeline.publish.mirror import mirror
from pipeline.report import Report, StepResult
from pipeline.run import ON_DISK, PUBLISHED, STEP_TABLES, STEPS, STEPS_BY_NAME, WRITER, Run, start_run, step_key
from pipeline.settings import AUTO, RunSettings
from pipeline.storage import read_table, return_free_memory
from pipeline.tables import TEMPLATES

Results = Mapping[str, StepResult[Path]]
"""The results of steps by the name of the step."""


class Plainly:
    """How the parts of a night are called: here in this process, by `flows.prefect` as tasks."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the function, which is `sacct_table`, `publish_checked` or `keep_unpublished`."""
        return function(*arguments)

    def compute(self, run: Run, folders: Mapping[str, Path]) -> Results:
        """The results of all steps of a run, each in its folder."""
        results: dict[str, StepResult[Path]] = {}
        for name in folders:
            results[name] = followed(name, partial(compute_step, name, run, folders[name], results))
        return results


PLAINLY = Plainly()


def run_and_publish(
    config: str,
    logs: Sequence[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
    by: Plainly = PLAINLY,
) -> Manifest:
    """Run every step over the config's logs and publish the tables; returns the manifest of the published version."""
    settings = run_settings(Path(config), site, output_dir)
    folder = Path(settings.output_dir)
    with recorded_run(settings) as record:
        paths = listed_paths(settings, Path(config), logs or ())
        with naming_path(folder), store.work_folder(folder) as work, record.running(work):
            run = prepare_run(settings, paths or [by.call(sacct_table, settings)])
            record.begin(work, run.run_id)
            folders = folders_of_steps(run, work)
            results = by.compute(run, folders)
            with running_stage("publish"):
                try:
                    by.call(publish_checked, *staged_version(results, run), run.settings)
                finally:
                    # Also of a blocked version: steps must not pile up until a night is published.
                    store.keep_steps(work, {path.name for path in folders.values()})
            if failure := mirror_failure(folder, run.settings.publish.mirror):
                record.warn(failure)
            return load_manifest(folder)


def rerun_and_keep(
    config: str,
    name: str,
    changes: Sequence[str] | None = None,
    begin: str | None = None,
    end: str | None = None,
    logs: Sequence[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
    by: Plainly = PLAINLY,
) -> Manifest:
    """Run every step over the jobs of a window with changed settings; returns the manifest of the version `name`.

    The template is chosen from these jobs alone, whatever the published version uses. What is published stays, and so
    do its steps. InputError where another version has the name.
    """
    settings = run_settings(Path(config), site, output_dir)
    changed = with_changes(settings, changes or ())
    window_s = window_of(begin, end, changed.site.timezone)
    folder = Path(changed.output_dir)
    # Changed settings must not enter the table of jobs that the nightly runs continue.
    paths = listed_paths(settings, Path(config), logs or ()) or [by.call(sacct_table, settings)]
    run = replace(start_run(changed, paths), window_s=window_s)
    versions.check_name(folder, name, run.run_id)
    with naming_path(folder), store.work_folder(folder) as work:
        steps_of_night = store.step_folders(work)
        results = by.compute(run, folders_of_steps(run, work))
        with running_stage("publish"):
            kept: Manifest = by.call(versions.keep_unpublished, *staged_version(results, run, name))
        store.keep_steps(work, steps_of_night)
        return kept


def prepare_run(settings: RunSettings, paths: Sequence[Path]) -> Run:
    """The run over these logs, which goes on from the template of the version before."""
    run = start_run(settings, paths)
    return replace(run, previous_template=previous_template(run, Path(settings.output_dir)))


def previous_template(run: Run, folder: Path) -> str:
    """The template that the folder's current version chose for this site; empty if there is none, or a list is set.

    A run over the same logs as the current version takes that version's own previous template, so that it publishes
    the same bytes.
    """
    # A damaged table must not stop the run that replaces it.
    with suppress(InputError):
        current = load_manifest(folder)
        table = read_table(current.path(TEMPLATES.name), TEMPLATES)
        if run.settings.group.template == AUTO and current.site == run.settings.site.name:
            logs = tuple((log.name, log.sha256) for log in current.logs)
            is_same = logs == tuple(zip(run.log_labels, run.log_digests, strict=True))
            found = table.filter(table.column("is_previous" if is_same else "is_chosen")).column("template").to_pylist()
            return str(found[0]) if found else ""
    return ""


def folders_of_steps(run: Run, work: Path) -> dict[str, Path]:
    """The folder of each step, named by the key of all that its result depends on, in the order of STEPS."""
    folders: dict[str, Path] = {}
    for step in STEPS:
        upstream = [folders[WRITER[table]].name for table in step.reads]
        folders[step.name] = work / f"{step.name}-{step_key(step, run, upstream)}"
    return folders


def followed(name: str, compute: Callable[[], StepResult[Path]]) -> StepResult[Path]:
    """The result of a step; whoever listens is told that the step begins and how it ended."""
    notify(StageEvent(name, "started"))
    result = compute()
    notify(StageEvent(name, "reused" if result.is_reused else "done", result.seconds, result.report))
    return result


def compute_step(name: str, run: Run, folder: Path, upstream: Results) -> StepResult[Path]:
    """The result of a step on the tables of the steps before it; its folder is reused where it is there already."""
    began, step = time.monotonic(), STEPS_BY_NAME[name]
    result = store.find_step(folder)
    if result is None:
        paths = {table: upstream[WRITER[table]].tables[table] for table in step.reads}
        inputs = [
            StoredTable(path, STEP_TABLES[table]) if table in ON_DISK else read_table(path, STEP_TABLES[table])
            for table, path in paths.items()
        ]

        def compute(draft: Path) -> tuple[Mapping[str, LargeTable], Report]:
            *tables, report = step.call(replace(run, folder=draft), *inputs)
            return dict(zip(step.writes, tables, strict=True)), report.check()

        result = store.keep_step(folder, compute, STEP_TABLES)
        # A process that waits for its next step would keep the memory of this one from the others.
        return_free_memory()
    return replace(result, seconds=time.monotonic() - began)


def staged_version(results: Results, run: Run, name: str = "") -> tuple[dict[str, Path], Manifest]:
    """The files that a version of a run is made of, and its manifest; `name` is what a user called it."""
    staged = {table: results[WRITER[table]].tables[table] for table in PUBLISHED}
    facts = {
        "run_id": run.run_id,
        "site": run.settings.site.name,
        "settings": run.settings.model_dump(mode="json", exclude={"logs", "source", "output_dir", "run"}),
        "logs": tuple(map(manifest.LogEntry, run.log_labels, run.log_digests)),
        "code": code_version(),
        "name": name,
        "from_s": run.window_s[0],
        "to_s": run.window_s[1],
    }
    reports = [results[step.name].report for step in STEPS]
    return staged, manifest.made_manifest(staged, reports, facts, Path(run.settings.output_dir), int(time.time()))


def publish_checked(staged: Mapping[str, Path], made: Manifest, settings: RunSettings) -> Path:
    """Check and publish staged tables; returns the manifest's path. The report of the checks is added to the others.

    BlockedVersionError where a check blocks, after the tables were kept.
    """
    before, reason = checks.version_before(manifest.manifest_or_none(made.root), made.site)
    night = checks.Night(made, staged, made.created_s, settings.checks, before.tables if before else None, reason)
    results = checks.check_night(night)
    report = checks.report_of(results)
    made = replace(made, reports=(*made.reports, report.as_dict()))
    if failed := checks.blocking(results):
        modes = f'set checks.{failed[0].check}.mode to "warn"'
        how = modes if len(failed) == 1 else "set their modes under [checks] to warn"
        sentence = (
            f"{' '.join(map(str, failed))} Nothing was published: the tables published before stay, and the blocked "
            f"version is in {printable(str(versions.keep_blocked(staged, made)), 1000)}; "
            f"correct the log or the config, or {how}, and run again."
        )
        raise BlockedVersionError(sentence, report, made.site)
    return versions.publish(staged, made, replace(versions.RETENTION, newest=settings.publish.keep_versions))


def mirror_failure(folder: Path, to: str | None) -> str:
    """Copy the published version to `publish.mirror`; the sentence of a failure, which ends no run, else empty."""
    try:
        if to is not None:
            current = load_manifest(folder)
            mirror(current, to)
    except (WalltimeError, OSError, ValueError) as error:
        place, reason = printable(str(to), 300), printable(str(error).rstrip("."), 300)
        return f"the published version was not copied to {place} ({reason}); the next run tries again."
    return ""
