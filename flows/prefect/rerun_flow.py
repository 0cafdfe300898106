"""A rerun over historical logs as a Prefect flow: the nightly run's steps, into a version that is not published."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, tags, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from flows.pages.markdown import facts_markdown
from flows.prefect.nightly import asked_sacct, failed_run, run_steps
from flows.prefect.run_records import recorded_flow_run
from flows.services.files.file_modes import deny_world_writing
from flows.services.progress import running_stage
from flows.services.run.publishing import facts_of
from flows.services.run.run_names import artifact_key, site_tags
from flows.services.run.work_folder import work_folder
from flows.services.versions.rerunning import rerun_of
from pipeline.core.errors import WalltimeError
from pipeline.core.report import Report
from pipeline.core.text import printable
from pipeline.publish.versions import keep_unpublished
from pipeline.run import PUBLISHED, Run


def _run_name() -> str:
    return f"rerun {printable(str(flow_run.parameters.get('name')))}"


@flow(name="rerun", flow_run_name=_run_name, retries=0, persist_result=False)
def rerun(
    config: str,
    name: str,
    changes: list[str] | None = None,
    begin: str | None = None,
    end: str | None = None,
    logs: list[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
) -> str:
    """Run every step over the jobs of a window with changed settings; returns the folder of the version `name`.

    `changes` are settings as in clean.flurry.remove_weeks=2; `begin` and `end` are months, days or instants. The other
    arguments are those of the nightly flow. An expected failure is a Failed run whose message is one sentence.
    """
    deny_world_writing()
    try:
        return _rerun(Path(config), name, changes or [], begin, end, logs or [], site, output_dir)
    except (WalltimeError, OSError) as error:
        return failed_run(error)


def run_rerun(arguments: Mapping[str, Any], site: str) -> str:
    """Call the flow from the command line, with the site's tags."""
    with tags(*site_tags(site)):
        return str(rerun(**arguments))


def _rerun(
    config: Path,
    name: str,
    changes: list[str],
    begin: str | None,
    end: str | None,
    logs: list[str],
    site: str | None,
    output_dir: str | None,
) -> str:
    run, folder = rerun_of(
        config, name, changes, begin, end, logs, site, output_dir, lambda settings: Path(asked_sacct(settings))
    )
    get_run_logger().info("rerun %s over %s", run.run_id, ", ".join(printable(label) for label in run.log_labels))
    # Steps are not recorded as those of a night are: those that no night used are removed at the end.
    with work_folder(folder) as work, recorded_flow_run(work):
        results = run_steps(run, work)
        with running_stage("publish"):
            tables = {table: str(path) for result in results for table, path in result.tables.items()}
            staged = {table: tables[table] for table in PUBLISHED}
            return keep_tables(run, name, staged, [result.report.as_dict() for result in results], str(folder))


@task(name="keep", task_run_name="keep", retries=0, persist_result=False, cache_policy=NO_CACHE)
def keep_tables(run: Run, name: str, tables: Mapping[str, str], reports: list[dict[str, Any]], output_dir: str) -> str:
    """Keep the tables as a version of this name; returns its folder."""
    staged = {table: Path(path) for table, path in tables.items()}
    manifest = keep_unpublished(
        staged,
        [Report.from_dict(plain) for plain in reports],
        facts_of(run, name),
        output_dir=Path(output_dir),
        created_s=int(time.time()),
    )
    rows: dict[str, object] = {"version": manifest.folder, "name": name, "site": manifest.site, "code": manifest.code}
    rows |= {f"{table} (rows)": entry.rows for table, entry in manifest.tables.items()}
    key = artifact_key(manifest.site, "rerun")
    create_markdown_artifact(facts_markdown("Kept, not published", rows), key=key, description="Tables of a rerun")
    return manifest.folder
