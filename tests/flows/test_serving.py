"""What `walltime serve` serves, what it runs again, and which versions have their event."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from flows.services.run_record import LastRun, read_last_run, write_run
from pipeline.errors import ConfigError, InputError
from pipeline.publish import load_manifest
from pipeline.publish.store import RunInProgressError
from pipeline.publish.versions import RETENTION
from pipeline.settings import RunSettings
from pipeline.storage import write_table
from pipeline.tables import JOBS
from tests.publishing import facts_of, publish

pytestmark = pytest.mark.usefixtures("prefect")

SETTINGS = RunSettings.model_validate({"site": {"name": "Oxbow", "timezone": "Europe/Oslo"}})


@pytest.mark.parametrize(
    ("cron", "zone", "sentence"),
    [("1 2 3", None, "no cron schedule"), ("", None, "no cron schedule"), ("15 2 * * *", "Oslo", "no time zone")],
)
def test_a_bad_schedule_is_one_sentence(cron: str, zone: str | None, sentence: str) -> None:
    from flows.prefect.serving import served_of

    with pytest.raises(InputError, match=sentence):
        served_of(SETTINGS, cron, zone)


def test_the_schedule_is_in_the_sites_zone_under_a_name_of_its_own() -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.prefect.serving import served_of
    from flows.services.initialising import site_slug

    found = served_of(SETTINGS, "15 2 * * *", None)
    assert (found.name, found.timezone) == (site_slug("Oxbow"), "Europe/Oslo")
    assert found.api == PREFECT_API_URL.value()
    assert served_of(SETTINGS, "15 2 * * *", "UTC").timezone == "UTC"
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert served_of(SETTINGS, "15 2 * * *", None).api == "http://127.0.0.1:4200/api"


def test_serving_waits_for_a_night_that_is_about_to_be_due() -> None:
    from flows.prefect.serving import served_of, until_due

    served = served_of(SETTINGS, "15 2 * * *", None)  # 01:15 UTC
    ahead = {seconds: until_due(served, datetime(2026, 11, 27, 1, 14, seconds, tzinfo=UTC)) for seconds in (10, 40, 59)}
    assert ahead == {10: 0.0, 40: 20.0, 59: 1.0}
    assert until_due(served, datetime(2026, 11, 27, 1, 15, 1, tzinfo=UTC)) == 0.0


def test_a_server_without_its_database_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `/health` still says that all is well, as when PostgreSQL is stopped."""
    from flows.prefect import nightly as module

    asked, said = [], list[str]()

    class WithoutDatabase(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/api/health" or len(asked) > 2 else 503)
            self.end_headers()

    monkeypatch.setattr(module, "ANSWER_S", 0.5)
    with HTTPServer(("127.0.0.1", 0), WithoutDatabase) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        module.wait_for_api(f"http://127.0.0.1:{server.server_port}/api", said.append)
        server.shutdown()
    assert asked == ["/api/ready"] * 3 and len(said) == 1 and "does not answer" in said[0]


def test_a_second_serve_of_a_site_says_so_and_ends(config: Path, tmp_path: Path, walltime: Callable[..., Any]) -> None:
    from flows.prefect.serving import serving_lock

    with serving_lock(tmp_path / "out"):
        with pytest.raises(RunInProgressError, match="another `walltime serve` of it"), serving_lock(tmp_path / "out"):
            pass
        done = walltime("serve", config, "--cron", "15 2 * * *")
    assert done.code == 75 and "another `walltime serve` of it (process " in done.err and done.err.count("\n") == 1


def deployment_of(config: Path) -> Any:
    """What is served of a site with a yearly night, once the API knows its deployment."""
    from flows.prefect import serving
    from flows.services.files.os_errors import config_settings

    settings = config_settings(config)
    served = serving.served_of(settings, "15 2 1 1 *", None)
    for deployment in serving.deployments_of(served, settings.site.name, {"config": str(config), "page": None}):
        deployment.apply()
    return served


def runs_of(name: str) -> list[Any]:
    """The flow runs of a deployment that the schedule has not made."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter

    named = DeploymentFilter.model_validate({"name": {"any_": [name]}})
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(deployment_filter=named, limit=200)
    return [run for run in found if not run.auto_scheduled]


@pytest.mark.parametrize(
    ("file", "state", "is_run"),
    [
        ("work/running.json", "running", True),  # nobody holds its lock: it was killed
        ("last_run.json", "stopped", True),
        ("last_run.json", "failed", False),
        ("last_run.json", "succeeded", False),
    ],
)
def test_a_night_that_did_not_end_by_itself_is_run_again_when_a_site_is_served_again(
    config: Path, tmp_path: Path, file: str, state: str, *, is_run: bool
) -> None:
    from flows.prefect import serving

    served, out = deployment_of(config), tmp_path / "out"
    serving.run_again(served, read_last_run(out))
    before = len(runs_of("oxbow"))
    (out / "work").mkdir(parents=True)
    write_run(out / file, LastRun("oxbow", "x", state, "none", None, time.time() - 9, None, 1, {}))
    serving.run_again(served, read_last_run(out))
    assert len(runs_of("oxbow")) == before + is_run


@pytest.mark.parametrize("path", ["/deployments/{id}/pause_deployment", "/deployments/{id}/schedules/{schedule}"])
def test_a_paused_schedule_stays_paused_when_a_site_is_served_again(config: Path, path: str) -> None:
    from prefect.client.orchestration import get_client

    deployment_of(config)
    with get_client(sync_client=True) as client:
        known = client.read_deployment_by_name("nightly/oxbow")
        assert not known.paused and known.schedules[0].active
        paths = {"id": str(known.id), "schedule": str(known.schedules[0].id)}
        method = "PATCH" if "schedule}" in path else "POST"
        client.request(method, path, path_params=paths, json={"active": False})
        deployment_of(config)
        again = client.read_deployment_by_name("nightly/oxbow")
        assert again.paused or not again.schedules[0].active
        client.request("POST", "/deployments/{id}/resume_deployment", path_params=paths)
        if not client.read_deployment_by_name("nightly/oxbow").schedules[0].active:
            schedule = client.read_deployment_by_name("nightly/oxbow").schedules[0].id
            client.request(
                "PATCH", path.replace("pause_deployment", "schedules/{schedule}"),
                path_params=paths | {"schedule": str(schedule)}, json={"active": True},
            )  # fmt: skip
        deployment_of(config)
        resumed = client.read_deployment_by_name("nightly/oxbow")
        assert not resumed.paused and resumed.schedules[0].active


def test_a_first_start_runs_nothing_though_a_plain_run_was_killed(config: Path, tmp_path: Path) -> None:
    from flows.prefect import serving

    (tmp_path / "out" / "work").mkdir(parents=True)
    record = LastRun("oxbow", "x", "running", "none", None, time.time() - 9, None, 1, {})
    write_run(tmp_path / "out" / "work" / "running.json", record)
    serving.run_again(
        serving.Served("never-served", "15 2 * * *", "UTC", "http://127.0.0.1:9/api"), read_last_run(tmp_path / "out")
    )
    assert not runs_of("never-served")


def test_each_version_of_the_last_day_has_its_event_once(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from prefect.client.orchestration import SyncPrefectClient

    from flows.prefect import nightly as module

    out, told, now_s = tmp_path / "out", list[str](), int(time.time())
    jobs = JOBS.build(site=["oxbow"], job_id=["1"], restart=[0], source_file=["a"], source_line=[1])
    staged = {"jobs": write_table(tmp_path / "jobs.parquet", jobs, JOBS)}
    for run_id, age_s in (("old", 200_000), ("killed", 3600), ("told", 1800), ("new", 0)):
        facts = facts_of(run_id, "oxbow")
        publish(staged, [], facts, output_dir=out, created_s=now_s - age_s, retention=RETENTION)
    manifest = load_manifest(out)
    of_run = {one.run_id: one.folder for one in manifest.history}
    known = [SimpleNamespace(payload={"version": of_run["told"], "folder": str(out)})]
    monkeypatch.setattr(SyncPrefectClient, "read_events", lambda *_, **__: SimpleNamespace(events=known))
    monkeypatch.setattr(module, "emit_event", lambda *_, payload: told.append(payload["run_id"]))
    module.announce(manifest)
    assert told == ["killed", "new"]


def test_the_form_of_a_run_in_prefects_pages_says_what_each_parameter_means() -> None:
    from flows.prefect.nightly import nightly, rerun

    for flow in (nightly, rerun):
        assert [name for name, one in flow.parameters.properties.items() if not one.get("description")] == []


def test_automations_are_made_once_and_a_block_that_is_not_there_is_a_sentence() -> None:
    from prefect.client.orchestration import get_client

    from flows.prefect import serving

    with pytest.raises(ConfigError, match="no such block"):
        serving.make_automations("oxbow", "oxbow", "slack-webhook/none")
    for _ in range(2):
        serving.make_automations("oxbow", "oxbow", None)
    with get_client(sync_client=True) as client:
        found = [one for one in client.read_automations() if one.name.startswith("Walltime oxbow: ")]
    assert sorted(one.name.partition(": ")[2] for one in found) == ["failed night", "killed run", "late night"]


def test_the_scheduler_of_the_installed_prefect_makes_runs(config: Path) -> None:
    """SQLAlchemy 2.1 breaks that of Prefect 3.8: its server then starts no run, ever."""
    from prefect.client.orchestration import get_client
    from prefect.schedules import Cron

    from flows.prefect.nightly import nightly

    deployment = nightly.to_deployment("oxbow-cron", schedule=Cron("15 2 * * *", timezone="Europe/Oslo"))
    deployment_id = str(deployment.apply())
    asked = {"deployments": {"id": {"any_": [deployment_id]}}}
    with get_client(sync_client=True) as client:
        client.request("POST", "/deployments/{id}/schedule", path_params={"id": deployment_id}, json={"min_runs": 2})
        runs = client.request("POST", "/flow_runs/filter", json=asked).json()
    assert len(runs) >= 2 and {run["state_name"] for run in runs} == {"Scheduled"}
    assert datetime.fromisoformat(runs[0]["expected_start_time"]) > datetime.now(UTC)


def test_the_shipped_prefect_yaml_names_flows_that_exist() -> None:
    from prefect.flows import load_flow_from_entrypoint

    text = (Path(__file__).parents[2] / "prefect.yaml").read_text()
    entrypoints = re.findall(r"entrypoint: (\S+)", text)
    assert {load_flow_from_entrypoint(one.replace(":", ".")).name for one in entrypoints} == {"nightly", "rerun"}
