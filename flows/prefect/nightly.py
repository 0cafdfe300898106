"""The nightly run and the rerun as Prefect flows, with what each leaves there: artifacts for a person, and an event.

No server is needed: without PREFECT_API_URL Prefect starts a temporary one. A run makes about two dozen tasks
(`flows.prefect.tasks`), because a local server stalls at thousands.

A night leaves three artifacts (how well it predicts and its checks, what changed, a link to the site's page) and the
event `walltime.version.published`, by which other deployments can be started. What cannot reach Prefect's API is left
out with a warning: the tables are published.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
from prefect import flow, get_run_logger, tags
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Failed

from flows.pages.markdown import changed_rows, checks_markdown, version_markdown
from flows.prefect.session import artifact_key, nightly_run_name, site_and_zone, site_tags, without_sigint
from flows.prefect.tasks import NightTasks
from flows.services.files.os_errors import os_failure
from flows.services.files.process_guards import deny_world_writing
from flows.services.initialising import site_slug
from flows.services.run.prepare import Rerun
from flows.services.run.publishing import BlockedVersionError
from flows.services.run.run_record import read_last_run
from flows.services.run.running import rerun_and_keep, run_and_publish
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.publish import Manifest, load_manifest
from pipeline.report import Report

PUBLISHED = "walltime.version.published"
FAILED = "walltime.night.failed"


def _night_name() -> str:
    return nightly_run_name(flow_run.parameters, flow_run.scheduled_start_time)


def _rerun_name() -> str:
    return f"rerun {printable(str(flow_run.parameters.get('name')))}"


@flow(name="nightly", flow_run_name=_night_name, retries=0, persist_result=False)
def nightly(
    config: str,
    logs: list[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
    page: str | None = None,
) -> str:
    """Run every step over the config's logs and publish the tables; returns the path of the manifest.

    `config` is the path of a TOML file; `logs` (paths or globs), `site` and `output_dir` override it. `page` is the
    address of the site's page, to which the run links. An expected failure, as of a bad config, is a Failed run whose
    message is one sentence.
    """

    def publish() -> str:
        tasks = NightTasks()
        path = run_and_publish(config, logs, site, output_dir, tasks.call, tasks.compute, str(flow_run.id or ""))
        manifest = load_manifest(Path(path).parent)
        show(show_version, manifest, "night", page)
        return path

    return _ended(publish)


@flow(name="rerun", flow_run_name=_rerun_name, retries=0, persist_result=False)
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

    `changes` are settings as in group.template=user; `begin` and `end` are months, days or instants. The other
    arguments are those of the nightly flow. An expected failure is a Failed run whose message is one sentence.
    """
    asked = Rerun(Path(config), name, changes or (), begin, end, logs or (), site, output_dir)

    def keep() -> str:
        tasks = NightTasks()
        kept = rerun_and_keep(asked, tasks.call, tasks.compute)
        show(show_version, kept, "rerun", None)
        return kept.folder

    return _ended(keep)


def _ended(call: Callable[[], str]) -> str:
    """What a flow returns: the result of the call, or after an expected failure a Failed run with one sentence.

    Prefect would log the traceback of an exception. It takes a returned state as the run's, and raises its data.
    """
    # A worker starts the flow without the command line.
    deny_world_writing()
    try:
        return call()
    except (WalltimeError, OSError) as error:
        failure = os_failure(error) if isinstance(error, OSError) else error
        show(_show_failure, error, str(failure))
        return cast("str", Failed(message=str(failure), data=failure))


def run_flow(called: Any, arguments: dict[str, Any], site: str) -> str:
    """Call a flow from the command line, with the tags that a deployment of the site has.

    Prefect's temporary server is started here where no other is configured, so that processes of the run find it.
    """
    with without_sigint():
        client = get_client(sync_client=True)
    with temporary_settings({PREFECT_API_URL: str(client.api_url)}), tags(*site_tags(site)):
        return str(called(**arguments))


def show(call: Callable[..., None], *arguments: Any) -> None:
    """Tell Prefect's API something; where it is away, that is a warning in the log of the flow run."""
    try:
        call(*arguments)
    except (httpx.HTTPError, RuntimeError) as error:
        get_run_logger().warning("not shown, because Prefect's API is away: %s", printable(str(error)))


def show_version(manifest: Manifest, kind: str, page: str | None) -> None:
    """The artifacts of a version and, of a night, the event that it is published."""
    checks = manifest.report("checks")
    for note in Report.from_dict(checks).notes if checks else ():
        get_run_logger().warning("%s", printable(note, 2000))
    before = None
    for entry in manifest.previous[:1]:
        try:
            before = load_manifest(manifest.root, entry.folder)
        except InputError:
            get_run_logger().warning("the version before, %s, cannot be read", printable(entry.folder))
    link = page or manifest.place("predictions").parent.absolute().as_uri()
    about = f"of the version {printable(manifest.folder)}"
    key = artifact_key(manifest.site, kind)
    create_markdown_artifact(version_markdown(manifest, link), f"{key}-summary", f"Accuracy and checks {about}")
    create_table_artifact(changed_rows(manifest, before), f"{key}-changes", f"Rows of the tables {about}")
    create_link_artifact(link, "the site's page" if page else "the tables", f"{key}-page", f"Where to look {about}")
    if kind == "night" and (last := read_last_run(manifest.root)):
        emit_version(manifest, last.began_s)


def emit_version(manifest: Manifest, since_s: float) -> None:
    """Emit the event that a version is published, unless it was made before: a night without new jobs makes none."""
    if manifest.created_s < int(since_s):
        return
    facts = {"version": manifest.folder, "run_id": manifest.run_id, "newest_job_end_s": manifest.data_newest_end_s}
    _emit(PUBLISHED, manifest.site, {**facts, "folder": str(manifest.root.absolute())})


def emit_failure(site: str, message: str) -> None:
    """Emit the event that a night failed."""
    _emit(FAILED, site, {"message": message})


def _emit(event: str, site: str, payload: dict[str, Any]) -> None:
    name = printable(site)
    resource = {"prefect.resource.id": f"walltime.site.{site_slug(site)}", "prefect.resource.name": name}
    emit_event(event, resource, payload={"site": name, **payload})


def _show_failure(error: Exception, sentence: str) -> None:
    """The checks of a blocked version as an artifact; the event that a night failed."""
    if isinstance(error, BlockedVersionError):
        for note in error.report.notes:
            get_run_logger().warning("%s", printable(note, 2000))
        key = artifact_key(error.site, "night-summary")
        create_markdown_artifact(checks_markdown(error.report), key, "The checks that blocked the version")
    if flow_run.flow_name == "nightly":
        emit_failure(site_and_zone(flow_run.parameters)[0], sentence)
