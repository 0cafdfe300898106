"""What `walltime serve` serves, and what its watch does for nights that Prefect cannot run."""

import re
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

from flows.services.run import run_record
from flows.services.run.run_record import LAST_RUN, RUNNING, LastRun, RunState, unreported, write_ended, write_run
from flows.services.run_log import recorded_run
from pipeline.errors import ConfigError, InputError
from pipeline.publish import load_manifest
from pipeline.publish.store import WORK, RunInProgressError, work_folder
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
    settings = config_settings(config)
    served = serving.served_of(settings, MINUTELY, None)
    for deployment in serving.deployments_of(served, settings, config, None):
        deployment.apply()
    (tmp_path / "out" / serving.SERVING).mkdir(parents=True)
    return serving.Watch(served, config, tmp_path / "out", print)


def record(state: str, began_s: float, ended_s: float | None = None) -> LastRun:
    return LastRun("oxbow", "x", state, "done", 0, began_s, ended_s, 1, {})


def runs_of(name: str) -> list[Any]:
    """The flow runs of a deployment that have begun, the latest first."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter
    from prefect.client.schemas.sorting import FlowRunSort

    named = DeploymentFilter.model_validate({"name": {"any_": [name]}})
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(deployment_filter=named, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=200)
    return [run for run in found if run.state_name not in ("Scheduled", "Late")]


def test_a_night_due_while_the_api_is_away_runs_without_it_and_is_reported(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect import serving

    out = tmp_path / "out"
    write_run(out / LAST_RUN, record(RunState.SUCCEEDED, time.time() - 3600, time.time() - 3500))
    with monkeypatch.context() as patch:
        patch.setattr(serving, "answers", lambda _: False)
        watch.look()
    assert load_manifest(out).site == "oxbow"
    monkeypatch.setattr(serving, "REPORT_S", 0.0)
    assert [one.state for one in unreported(out).values()] == ["succeeded"]
    n_before = len(runs_of("oxbow"))
    watch.report()
    found = runs_of("oxbow")
    assert len(found) == n_before + 1 and found[0].state_name == "Completed"
    assert re.fullmatch(r"oxbow 20\d\d-\d\d-\d\d \d\d:\d\d", found[0].name)
    assert "`walltime run --plain` ran this night" in found[0].state.message
    assert not unreported(out)
    watch.report()
    assert len(runs_of("oxbow")) == n_before + 1


def test_a_night_that_ran_here_ends_the_flow_run_that_was_scheduled_for_it_and_no_other(
    watch: Any, tmp_path: Path
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    now_s = int(time.time()) // 60 * 60
    began, until = (datetime.fromtimestamp(at_s, UTC) for at_s in (now_s - 180, now_s))
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("nightly/oxbow")
        asked = {"start_time": began.isoformat(), "end_time": until.isoformat()}
        client.request("POST", "/deployments/{id}/schedule", path_params={"id": str(deployment.id)}, json=asked)
        by_hand = client.create_flow_run_from_deployment(deployment.id, state=Scheduled(scheduled_time=began))
        write_ended(tmp_path / "out", record("succeeded", now_s - 75.0, now_s - 70.0))
        watch.report()
        asked = {"deployments": {"name": {"any_": ["oxbow"]}}, "flow_runs": {"expected_start_time": {
            "after_": began.isoformat(), "before_": until.isoformat()}}}  # fmt: skip
        found = client.request("POST", "/flow_runs/filter", json=asked).json()
        assert client.read_flow_run(by_hand.id).state_name in ("Scheduled", "Late")
    ended = [run for run in found if run["state_type"] == "COMPLETED" and run["auto_scheduled"]]
    assert [datetime.fromisoformat(run["expected_start_time"]).timestamp() for run in ended] == [now_s - 120.0]
    assert f"{datetime.fromtimestamp(now_s - 120, UTC):%H:%M}" in ended[0]["name"]


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
    monkeypatch.setattr(serving.Watch, "_run_plainly", lambda _: ran.append(True))
    watch.look()
    watch.look()
    assert len(ran) == int(runs)


def test_a_night_that_began_a_moment_early_is_not_run_again(watch: Any, tmp_path: Path) -> None:
    """Prefect waits for whole seconds: a run may begin up to half a second before it is due."""
    due_s, last = time.time() - 120, tmp_path / "out" / LAST_RUN
    watch.began_s, watch.is_away = due_s - 3600, True
    write_run(last, record("succeeded", due_s - 0.4, due_s + 5))
    assert watch._missing(due_s) is None
    write_run(last, record("succeeded", due_s - 30, due_s - 20))
    assert watch._missing(due_s) == due_s


def test_a_killed_night_has_its_event_though_prefect_has_its_end(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Crashed, Running

    from flows.prefect import serving

    said: list[Any] = []
    monkeypatch.setattr(serving, "emit_failure", lambda *facts: said.append(facts))
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("nightly/oxbow")
        run = client.create_flow_run_from_deployment(deployment.id)
        for state in (Running(), Crashed()):
            client.set_flow_run_state(run.id, state, force=True)
        killed = replace(record("killed", time.time() - 200), flow_run=str(run.id))
        serving._tell(client, deployment, killed, tmp_path / "out")
    assert [site for site, _ in said] == ["oxbow"]


def test_a_paused_schedule_and_a_first_start_run_nothing(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client

    from flows.prefect import serving

    ran: list[bool] = []
    monkeypatch.setattr(serving.Watch, "_run_plainly", lambda _: ran.append(True))
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


def test_each_night_is_reported_with_its_own_version(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect import serving

    out, told, now_s = tmp_path / "out", [], float(int(time.time()))
    jobs = JOBS.build(site=["oxbow"], job_id=["1"], restart=[0], source_file=["a"], source_line=[1])
    staged = {"jobs": write_table(tmp_path / "jobs.parquet", jobs, JOBS)}
    for number, run_id in enumerate(("first", "second")):
        facts = facts_of(run_id, "oxbow")
        publish(staged, [], facts, output_dir=out, created_s=int(now_s) + number, retention=RETENTION)
        write_ended(out, replace(record("succeeded", now_s - 60 + number, now_s), run_id=run_id))
    monkeypatch.setattr(serving, "emit_version", lambda manifest, _: told.append(manifest.run_id))
    watch.report()
    assert told == ["first", "second"]


def test_a_killed_run_is_reported_though_the_next_run_has_begun(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "serve").mkdir(parents=True)
    settings = RunSettings.model_validate({"output_dir": str(out)})
    with recorded_run(settings) as run, work_folder(out) as work:
        write_run(work / RUNNING, replace(record("running", time.time() - 9), flow_run="killed"))
        with run.running(work):
            run.begin(work, "next")
    assert [(one.state, one.flow_run) for one in unreported(out).values()] == [("killed", "killed"), ("succeeded", "")]


def test_records_of_a_site_that_nobody_serves_any_more_do_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_record, "_KEPT", 2)
    write_ended(tmp_path, record("succeeded", 1.0, 2.0))
    assert not unreported(tmp_path)
    (tmp_path / "serve").mkdir()
    for began_s in (10.0, 20.0, 30.0):
        write_ended(tmp_path, record("succeeded", began_s, began_s + 1))
    assert [one.began_s for one in unreported(tmp_path).values()] == [20.0, 30.0]


def test_a_killed_run_is_crashed_also_where_it_sent_no_heartbeat(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Running

    from flows.prefect import serving

    monkeypatch.setattr(serving, "program", lambda: ["true"])
    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(client.read_deployment_by_name("nightly/oxbow").id)
        client.set_flow_run_state(run.id, Running(), force=True)
        (tmp_path / "out" / WORK).mkdir()
        write_run(tmp_path / "out" / WORK / RUNNING, replace(record("running", time.time() - 9), flow_run=str(run.id)))
        watch.look()
        found = client.read_flow_run(run.id)
    assert found.state_name == "Crashed" and "an unknown time: killed" in (found.state.message or "")


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
        # The next night has another record.
        write_ended(tmp_path / "out", ended)
        write_run(tmp_path / "out" / LAST_RUN, record("succeeded", time.time() - 50, time.time()))
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
