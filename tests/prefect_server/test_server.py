"""Under a standing server: served on a cron, run by a work pool, killed and marked, failed in a sentence, seen."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest

from pipeline.publish import load_manifest
from pipeline.publish.store import is_held
from pipeline.publish.versions import find_version
from tests.flows.fake_programs import Sacct, job
from tests.prefect_server.conftest import PREFECT, ROOT, Server, process, wait_for

WALLTIME = [sys.executable, "-m", "flows.cli"]
PICTURE = "WALLTIME_PICTURE"


def config_of(server: Server, site: str, source: str) -> Path:
    path = server.folder / f"{site}.toml"
    path.write_text(f"{source}\noutput_dir = '{server.folder / site}'\n[site]\nname = '{site}'\n")
    return path


def logs_of(name: str) -> str:
    return f"logs = ['{ROOT / 'data_samples' / name}']"


@contextmanager
def served(server: Server, config: Path, cron: str = "15 2 * * *") -> Iterator["subprocess.Popen[bytes]"]:
    """`walltime serve` of a config, once its deployment is there."""
    log, site = server.folder / f"{config.stem}-serve.log", config.stem
    command = [*WALLTIME, "serve", str(config), "--cron", cron, "--timezone", "Europe/Oslo"]
    with process(command, log, server.environment, server.folder) as serving:
        asked = {"name": {"any_": [site]}}
        wait_for(f"the deployment {site}", lambda: server.ask("/deployments/filter", deployments=asked))
        yield serving


def is_over(server: Server, run_id: str) -> bool:
    return server.state(run_id)[0] in ("Completed", "Failed", "Crashed", "Cancelled")


def finished(server: Server, run_id: str) -> str:
    wait_for("the end of the run", lambda: is_over(server, run_id))
    return server.state(run_id)[0]


def test_a_site_is_served_on_its_cron(server: Server) -> None:
    config = config_of(server, "riverbend", logs_of("riverbend.swf.gz"))
    with served(server, config, "* * * * *"):
        known = server.deployment("riverbend")
        assert known["tags"] == ["walltime", "site:riverbend"] and not known["paused"]
        assert [(one["schedule"]["cron"], one["schedule"]["timezone"]) for one in known["schedules"]] == [
            ("* * * * *", "Europe/Oslo")
        ]
        ended = wait_for("a run of the cron", lambda: [run for run in server.runs("riverbend") if run["end_time"]])
    (run, *_) = ended
    assert run["state_name"] == "Completed" and run["auto_scheduled"]
    assert re.fullmatch(r"riverbend 20\d\d-\d\d-\d\d \d\d:\d\d", run["name"])
    assert {"walltime", "site:riverbend"} <= set(run["tags"])
    assert load_manifest(server.folder / "riverbend").site == "riverbend"
    found = server.artifacts(run["id"])
    assert set(found) == {f"walltime-riverbend-night-{name}" for name in ("summary", "changes", "page")}
    assert "set aside" in found["walltime-riverbend-night-summary"]
    events = server.ask("/events/filter", filter={"event": {"name": ["walltime.version.published"]}})["events"]
    assert any(event["resource"]["prefect.resource.id"] == "walltime.site.riverbend" for event in events)
    automations = {one["name"] for one in server.ask("/automations/filter")}
    assert {f"Walltime riverbend: {what}" for what in ("killed run", "failed night", "late night")} <= automations
    # Serving ends without pausing the schedule, which a restart would have to undo.
    assert not server.deployment("riverbend")["paused"]
    # A cron of every minute that nobody serves would keep the server busy with late runs.
    server.ask(f"/deployments/{known['id']}/pause_deployment")


def test_two_sites_on_one_server_keep_their_artifacts(server: Server) -> None:
    configs = [config_of(server, site, logs_of("traps.swf")) for site in ("oxbow", "delta")]
    with served(server, configs[0]), served(server, configs[1]):
        runs = {site: server.start_run(site) for site in ("oxbow", "delta")}
        assert {site: finished(server, run_id) for site, run_id in runs.items()} == dict.fromkeys(runs, "Completed")
    keys = {site: set(server.artifacts(run_id)) for site, run_id in runs.items()}
    assert keys["oxbow"] and keys["delta"] and not keys["oxbow"] & keys["delta"]


def test_a_bad_parameter_is_refused_and_a_bad_config_is_one_sentence(server: Server) -> None:
    config = config_of(server, "eddy", logs_of("traps.swf"))
    with served(server, config):
        with pytest.raises(OSError, match=r"HTTP Error 4\d\d"):
            server.ask(f"/deployments/{server.deployment('eddy')['id']}/create_flow_run", parameters={"config": [1]})
        config.write_text(config.read_text().replace("name =", "nam ="))
        run_id = server.start_run("eddy", config=str(config))
        assert finished(server, run_id) == "Failed"
        end = "Finished in state Failed"
        wait_for("the log of its end", lambda: end in server.logs(run_id), 60)
    state, message = server.state(run_id)
    assert state == "Failed" and message.startswith(f"{config}: found unknown key site.nam, expected one of ")
    # What Prefect's engine logs when its process ends comes after that.
    assert "Traceback" not in server.logs(run_id).partition(end)[0]


def test_only_sacct_is_asked_again(server: Server) -> None:
    sacct = Sacct(server.folder / "bin", [job(n) for n in range(8)])
    sacct.fails(True)
    source = "kind = 'sacct'\nsince = '2026-01-01'"
    path = server.folder / "fjord.toml"
    site = f"[site]\nname = 'fjord'\n[ingest]\nsacct_command = '{sacct.path}'\n"
    path.write_text(f"output_dir = '{server.folder / 'fjord'}'\n[source]\n{source}\n{site}")
    with served(server, path):
        run_id = server.start_run("fjord")
        wait_for("two questions", lambda: len(sacct.windows) >= 2)
        sacct.fails(False)
        assert finished(server, run_id) == "Completed"
    tasks = server.ask("/task_runs/filter", flow_runs={"id": {"any_": [run_id]}}, limit=200)
    counts = {task["name"]: task["run_count"] for task in tasks}
    assert counts.pop("sacct") >= 3 and set(counts.values()) == {1}


def test_a_run_that_is_killed_with_serve_is_run_again_and_marked_for_want_of_heartbeats(server: Server) -> None:
    # A sacct that says nothing for a while holds the run in its midst.
    sacct = Sacct(server.folder / "slow", [job(n) for n in range(8)])
    site = f"[site]\nname = 'gorge'\n[ingest]\nsacct_command = '{sacct.path}'\n"
    path = server.folder / "gorge.toml"
    path.write_text(f"output_dir = '{server.folder / 'gorge'}'\n[source]\nkind = 'sacct'\nsince = '2026-01-01'\n{site}")
    script, body = sacct.path.with_name("sacct.py"), sacct.path.with_name("sacct.py").read_text()
    script.write_text(f"import time\ntime.sleep(600)\n{body}")
    with served(server, path) as serving:
        run_id = server.start_run("gorge")
        out = server.folder / "gorge"
        wait_for("the lock of the run", lambda: is_held(out / "work"))
        beat = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": [f"prefect.flow-run.{run_id}"]}}
        wait_for("a first heartbeat", lambda: server.ask("/events/filter", filter=beat)["events"])
        # As where the machine stops: the process that serves cannot report anything either.
        os.killpg(serving.pid, signal.SIGKILL)
        serving.wait()
    wait_for("the end of all of it", lambda: not children_of(run_id))
    assert server.state(run_id)[0] == "Running"
    script.write_text(body)
    with served(server, path):
        assert finished(server, server.start_run("gorge")) == "Completed"
        wait_for("the automation", lambda: is_over(server, run_id), 600)
    state, message = server.state(run_id)
    assert state == "Crashed" and "No heartbeat" in message


def test_nights_that_were_due_while_the_server_was_away_run_when_it_is_back(server: Server) -> None:
    """The server is stopped, so that nothing answers, for longer than Prefect's runner bears by itself."""
    config = config_of(server, "mere", logs_of("traps.swf"))
    with served(server, config, "* * * * *") as serving:
        wait_for("a first night", lambda: [run for run in server.runs("mere") if run["end_time"]])
        with server.stopped():
            time.sleep(180)
        missed = [run["id"] for run in server.runs("mere") if run["state_name"] in ("Scheduled", "Late", "Pending")][:2]
        wait_for("the nights of the outage", lambda: all(is_over(server, one) for one in missed), 600)
        assert serving.poll() is None
    assert {server.state(one)[0] for one in missed} == {"Completed"}
    server.ask(f"/deployments/{server.deployment('mere')['id']}/pause_deployment")


def children_of(run_id: str) -> list[int]:
    """The processes of a flow run, which may have groups of their own; they are killed."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if f"PREFECT__FLOW_RUN_ID={run_id}".encode() in environment.split(b"\0"):
            found.append(int(folder.name))
            os.kill(found[-1], signal.SIGKILL)
    return found


def test_a_work_pool_runs_the_shipped_prefect_yaml(server: Server) -> None:
    config = config_of(server, "lagoon", logs_of("traps.swf"))
    settings = {"WALLTIME_CONFIG": str(config), "WALLTIME_SITE": "lagoon", "PWD": str(ROOT)}

    def call(*words: str) -> None:
        done = subprocess.run(
            [str(PREFECT), "--no-prompt", *words], env=server.environment | settings, cwd=ROOT, check=False,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    call("work-pool", "create", "--type", "process", "walltime")
    call("deploy", "--all")
    worker = [str(PREFECT), "worker", "start", "--pool", "walltime"]
    with process(worker, server.folder / "worker.log", server.environment, server.folder):
        run_id = server.start_run("lagoon")
        assert finished(server, run_id) == "Completed"
        run_id = server.start_run("lagoon-rerun", name="try-7")
        assert finished(server, run_id) == "Completed", server.state(run_id)
    tried = find_version(server.folder / "lagoon", "try-7")
    assert tried.place is None and "walltime-lagoon-rerun-summary" in server.artifacts(run_id)
    assert set(server.deployment("lagoon")["tags"]) == {"walltime", "site:lagoon"}
    assert load_manifest(server.folder / "lagoon").site == "lagoon"


def test_the_ui_lists_the_deployment_the_run_and_its_artifact(server: Server) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium (Debian: apt-get install chromium): the server's pages are not looked at")
    run = next(run for run in server.runs("riverbend") if run["state_name"] == "Completed")
    (artifact,) = server.ask(
        "/artifacts/filter",
        artifacts={"key": {"any_": ["walltime-riverbend-night-summary"]}},
        flow_runs={"id": {"any_": [run["id"]]}},
    )
    picture = Path(os.environ.get(PICTURE, str(server.folder / "run.png")))
    listed = picture.with_stem(f"{picture.stem}-deployments")
    assert "riverbend" in page(chromium, server, "/deployments", listed)
    shown = page(chromium, server, f"/runs/flow-run/{run['id']}?tab=Artifacts", picture)
    assert run["name"] in shown and "Completed" in shown
    shown = page(
        chromium, server, f"/artifacts/artifact/{artifact['id']}", picture.with_stem(f"{picture.stem}-artifact")
    )
    assert "processor-hours" in shown and "set aside: hang" in shown


def page(chromium: str, server: Server, path: str, picture: Path) -> str:
    """The text of a page of the server's UI, once it has loaded, and a picture of it."""
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,900",
        f"--user-data-dir={server.folder / 'chromium'}", "--virtual-time-budget=20000", f"--screenshot={picture}",
        "--dump-dom", f"{server.address}{path}",
    ]  # fmt: skip
    for _ in range(3):
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        text = unescape(re.sub("<[^>]+>", " ", done.stdout))
        if len(text.split()) > 20:
            return text
        time.sleep(2)
    return text
