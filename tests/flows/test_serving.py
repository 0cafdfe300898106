"""What `walltime serve` serves, and what its watch does for nights that Prefect cannot run."""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from flows.services.run.run_record import LAST_RUN, RUNNING, LastRun, RunState, write_run
from pipeline.errors import ConfigError, InputError
from pipeline.publish import load_manifest
from pipeline.publish.store import WORK, RunInProgressError
from pipeline.publish.versions import RETENTION
from pipeline.settings import RunSettings
from pipeline.storage import write_table
from pipeline.tables import JOBS
from tests.publishing import facts_of, publish

pytestmark = pytest.mark.usefixtures("prefect")

SETTINGS = RunSettings.model_validate({"site": {"name": "Oxbow", "timezone": "Europe/Oslo"}})
MINUTELY = "* * * * *"


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


def test_a_server_answers_or_it_does_not() -> None:
    from prefect.settings import PREFECT_API_URL

    from flows.prefect import serving

    assert serving.answers(str(PREFECT_API_URL.value())) and not serving.answers("http://127.0.0.1:9/api")


def test_a_server_without_its_database_is_away() -> None:
    """Its `/health` still says that all is well, as when PostgreSQL is stopped."""
    from flows.prefect import serving

    class WithoutDatabase(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/health" else 503)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), WithoutDatabase) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        assert not serving.answers(f"http://127.0.0.1:{server.server_port}/api")
        server.shutdown()


def test_a_second_serve_of_a_site_says_so_and_ends(config: Path, tmp_path: Path, walltime: Callable[..., Any]) -> None:
    from flows.prefect.serving import serving_lock

    with serving_lock(tmp_path / "out"):
        with pytest.raises(RunInProgressError, match="another `walltime serve` of it"), serving_lock(tmp_path / "out"):
            pass
        done = walltime("serve", config, "--cron", "15 2 * * *")
    assert done.code == 75 and "another `walltime serve` of it (process " in done.err and done.err.count("\n") == 1


@pytest.fixture
def watch(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A watch over a site with a night every minute, whose deployments the API knows."""
    from flows.prefect import serving
    from flows.services.files.os_errors import config_settings

    monkeypatch.setattr(serving, "GRACE", timedelta(0))
    # The code of these tests, whatever is installed.
    monkeypatch.setattr(serving, "program", lambda: [sys.executable, "-m", "flows.cli"])
    settings = config_settings(config)
    served = serving.served_of(settings, MINUTELY, None)
    for deployment in serving.deployments_of(served, settings, config, None):
        deployment.apply()
    (tmp_path / "out" / serving.SERVING).mkdir(parents=True)
    return serving.Watch(served, config, tmp_path / "out", print)


def record(state: str, began_s: float, ended_s: float | None = None) -> LastRun:
    return LastRun("oxbow", "x", state, "done", 0, began_s, ended_s, 1, {})


def waiting() -> list[Any]:
    """The flow runs of the nightly deployment that Prefect's runner starts next, the earliest first."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("nightly/oxbow")
        return list(client.get_scheduled_flow_runs_for_deployments([deployment.id], datetime.now(UTC)))


def drop_waiting() -> None:
    """Leave the deployment of the watch with no flow run that is due, as where a scheduler has made none."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for one in waiting():
            client.delete_flow_run(one.id)


def test_a_night_due_while_the_api_is_away_runs_without_it_and_prefect_is_asked_for_it(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect import serving
    from flows.prefect.nightly import nightly

    out = tmp_path / "out"
    write_run(out / LAST_RUN, record(RunState.SUCCEEDED, time.time() - 3600, time.time() - 3500))
    with monkeypatch.context() as patch:
        patch.setattr(serving, "answers", lambda _: False)
        watch.look()
    made = load_manifest(out)
    drop_waiting()
    watch.report()
    (asked,) = waiting()
    watch.report()
    assert [one.id for one in waiting()] == [asked.id]
    due = asked.expected_start_time
    assert made.created_s - 120 < due.timestamp() < made.created_s
    # The run finds what was published, and tells of it as of the night that was due.
    told: list[float] = []
    monkeypatch.setattr("flows.prefect.nightly.emit_version", lambda manifest, _: told.append(manifest.run_id))
    assert nightly(str(watch.config), return_state=True).is_completed()
    assert load_manifest(out).folder == made.folder and told == [made.run_id]
    drop_waiting()


def test_no_run_is_asked_for_where_one_is_late(watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("nightly/oxbow")
        late: Any = Scheduled(scheduled_time=datetime.now(UTC) - timedelta(minutes=5))
        client.create_flow_run_from_deployment(deployment.id, state=late)
    before = [one.id for one in waiting()]
    watch._is_untold = True
    watch.report()
    assert [one.id for one in waiting()] == before and not watch._is_untold
    drop_waiting()


def test_a_version_is_told_of_by_the_run_that_was_due_before_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect import nightly

    emitted: list[str] = []
    monkeypatch.setattr(nightly, "emit_event", lambda event, *_, **more: emitted.append(more["payload"]["version"]))
    jobs = JOBS.build(site=["oxbow"], job_id=["1"], restart=[0], source_file=["a"], source_line=[1])
    staged = {"jobs": write_table(tmp_path / "jobs.parquet", jobs, JOBS)}
    publish(staged, [], facts_of("r", "oxbow"), output_dir=tmp_path / "out", created_s=1000, retention=RETENTION)
    manifest = load_manifest(tmp_path / "out")
    for due_s in (900.0, 1000.9, 1001.0):
        nightly.emit_version(manifest, due_s)
    assert emitted == [manifest.folder] * 2


@pytest.mark.parametrize(
    ("state", "age_s", "is_away", "of_prefect", "runs"),
    [
        ("succeeded", 3600, False, False, False),  # Prefect will run it
        ("succeeded", 3600, True, False, True),
        ("succeeded", -1, True, False, False),
        ("failed", -1, True, True, False),
        ("stopped", -1, True, True, True),  # with the runner that had begun it
        ("killed", -1, False, True, True),
        ("killed", -1, False, False, False),  # while the watch ran it: not again
        ("killed", 3600, False, False, True),  # before this process served
    ],
)
def test_only_a_night_that_nobody_else_runs_is_run(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, age_s: float, is_away: bool,
    of_prefect: bool, runs: bool,
) -> None:  # fmt: skip
    from flows.prefect import serving

    out, ran = tmp_path / "out", []
    (out / WORK).mkdir()
    # A run in progress whose lock nobody holds was killed.
    path = out / WORK / RUNNING if state == "killed" else out / LAST_RUN
    write_run(path, replace(record(state, time.time() - age_s), flow_run=str(uuid4()) if of_prefect else ""))
    watch.broke_s = time.time() + 10
    monkeypatch.setattr(serving, "answers", lambda _: not is_away)
    monkeypatch.setattr(serving.Watch, "_run_plainly", lambda _: ran.append(time.time()))
    watch.look()
    watch.look()
    assert len(ran) == int(runs)


def test_a_night_that_began_early_is_not_run_again_and_a_killed_one_keeps_its_time(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect begins a run up to half a second before its time."""
    from flows.prefect import serving

    now = datetime.now(UTC)
    watch.served = replace(watch.served, cron=f"{(now - timedelta(minutes=2)).minute} * * * *", timezone="UTC")
    due_s = (now - timedelta(minutes=2)).replace(second=0, microsecond=0).timestamp()
    watch.began_s = due_s - 60
    ran: list[float] = []
    monkeypatch.setattr(serving.Watch, "_run_plainly", lambda self: ran.append(self._tried_s))
    monkeypatch.setattr(serving, "answers", lambda _: False)
    write_run(tmp_path / "out" / LAST_RUN, record("succeeded", due_s - 0.4))
    watch.look()
    assert ran == []
    (tmp_path / "out" / WORK).mkdir()
    write_run(tmp_path / "out" / WORK / RUNNING, replace(record("running", due_s - 0.4), flow_run=str(uuid4())))
    watch.look()
    assert ran == [due_s]


def test_a_paused_schedule_and_a_first_start_run_nothing(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client

    from flows.prefect import serving

    ran: list[float] = []
    monkeypatch.setattr(serving.Watch, "_run_plainly", lambda _: ran.append(time.time()))
    monkeypatch.setattr(serving, "answers", lambda _: False)
    watch.look()
    write_run(tmp_path / "out" / LAST_RUN, record("succeeded", time.time() - 3600))
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("nightly/oxbow")
        client.request("POST", "/deployments/{id}/pause_deployment", path_params={"id": str(deployment.id)})
        watch.report()
        watch.look()
        assert ran == []
        client.request("POST", "/deployments/{id}/resume_deployment", path_params={"id": str(deployment.id)})
        watch.report()
    watch.look()
    assert len(ran) == 1


def test_a_killed_run_is_crashed_also_where_it_sent_no_heartbeat(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Running

    from flows.prefect import serving

    told: list[str] = []
    monkeypatch.setattr(serving, "program", lambda: ["true"])
    monkeypatch.setattr(serving, "emit_failure", lambda _, reason: told.append(reason))
    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(client.read_deployment_by_name("nightly/oxbow").id)
        client.set_flow_run_state(run.id, Running(), force=True)
        (tmp_path / "out" / WORK).mkdir()
        write_run(tmp_path / "out" / WORK / RUNNING, replace(record("running", time.time() - 9), flow_run=str(run.id)))
        watch.look()
        watch.report()
        found = client.read_flow_run(run.id)
    assert found.state_name == "Crashed" and "an unknown time: killed" in (found.state.message or "")
    assert told == ["signal"]


@pytest.mark.parametrize("name", ["Running", "Failed", "Cancelled"])
def test_a_run_that_could_not_report_its_end_is_given_that_of_its_record(watch: Any, tmp_path: Path, name: str) -> None:
    from prefect import states
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(client.read_deployment_by_name("nightly/oxbow").id)
        for one in dict.fromkeys(("Running", name)):
            client.set_flow_run_state(run.id, getattr(states, one)(), force=True)
        state = "stopped" if name == "Cancelled" else "succeeded"
        ended = replace(record(state, time.time() - 200, time.time() - 100), flow_run=str(run.id))
        write_run(tmp_path / "out" / LAST_RUN, ended)
        watch.report()
        found = client.read_flow_run(run.id)
    if name == "Cancelled":
        assert found.state_name == "Cancelled"
    else:
        assert found.state_name == "Completed" and "could not report its end" in (found.state.message or "")


def test_the_form_of_a_run_in_prefects_pages_says_what_each_parameter_means() -> None:
    from flows.prefect.nightly import nightly, rerun

    for flow in (nightly, rerun):
        assert [name for name, one in flow.parameters.properties.items() if not one.get("description")] == []


def test_automations_are_made_once_and_a_block_that_is_not_there_is_a_sentence(watch: Any) -> None:
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
