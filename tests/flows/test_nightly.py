"""The Prefect flow: the same bytes as the plain run, work done once, artifacts, and no more tasks than it needs."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

from flows.services.progress import StageEvent, listening
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.run import PUBLISHED, STEP_TABLES, STEPS, WRITER
from pipeline.storage import read_metadata, read_table
from tests.flows.support import SAMPLES, Outcome

pytestmark = pytest.mark.usefixtures("prefect")

Walltime = Callable[..., Outcome]


def published(folder: Path) -> dict[str, bytes]:
    manifest = load_manifest(folder)
    return {name: manifest.path(name).read_bytes() for name in manifest.tables}


@pytest.mark.parametrize("log", ["traps.swf", "riverbend.swf.gz"])
def test_flow_and_plain_give_the_same_bytes(config: Path, tmp_path: Path, walltime: Walltime, log: str) -> None:
    logs = ("--log", SAMPLES / log)
    assert walltime("run", config, *logs, "--out", tmp_path / "flow", "--quiet") == Outcome(0, "", "")
    assert walltime("run", config, *logs, "--out", tmp_path / "plain", "--plain", "--quiet") == Outcome(0, "", "")
    flow, plain = published(tmp_path / "flow"), published(tmp_path / "plain")
    assert set(flow) == set(plain) == set(PUBLISHED)
    assert [name for name in flow if flow[name] != plain[name]] == []
    assert load_manifest(tmp_path / "flow").reports == load_manifest(tmp_path / "plain").reports
    records = [json.loads((tmp_path / name / "last_run.json").read_text()) for name in ("flow", "plain")]
    assert [record["state"] for record in records] == ["succeeded"] * 2 and "publish" in records[0]["steps"]
    assert list(records[0]["steps"]) == list(records[1]["steps"])
    left = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert left == ["last_run.json", "manifest.json", "versions", "work"]
    kept = [{path.name for path in (tmp_path / name / "work").iterdir()} for name in ("flow", "plain")]
    assert kept[0] == kept[1] > {".lock"}


def test_the_second_run_does_no_work_again(config: Path, tmp_path: Path) -> None:
    from flows.prefect.nightly import nightly

    states: list[list[str]] = []
    for _ in range(2):
        moments: list[StageEvent] = []
        with listening(moments.append):
            nightly(str(config))
        assert [moment.stage for moment in moments[::2]] == [*(step.name for step in STEPS), "publish"]
        states.append([moment.state for moment in moments if moment.state != "started"])
    assert states == [["done"] * (len(STEPS) + 1), ["reused"] * len(STEPS) + ["done"]]
    assert len(list((tmp_path / "out/versions").glob("[!.]*"))) == 1


def test_a_changed_setting_redoes_what_depends_on_it(config: Path, tmp_path: Path) -> None:
    from flows.prefect.nightly import nightly

    nightly(str(config))
    first = load_manifest(tmp_path / "out")
    config.write_text(config.read_text() + "\n[scaling]\ncounts = [3]\n")
    moments: list[StageEvent] = []
    with listening(moments.append):
        nightly(str(config))
    states = {moment.stage: moment.state for moment in moments}
    assert {stage for stage, state in states.items() if state == "reused"} == {
        "ingest", "clean", "templates", "group", "sort", "describe", "observe", "patterns", "screen", "level",
        "across", "learn", "learn_memory",
    }  # fmt: skip
    second = load_manifest(tmp_path / "out")
    assert second.run_id != first.run_id
    assert [entry.run_id for entry in second.previous] == [first.run_id]


def told_of(client: Any, folder: Path) -> list[Any]:
    """The events of versions in a folder, once there are some."""
    from prefect.events.filters import EventFilter

    asked = EventFilter.model_validate({"event": {"name": ["walltime.version.published"]}})
    for _ in range(60):
        events = client.read_events(asked, limit=50).events
        if found := [one for one in events if one.payload["folder"] == str(folder)]:
            return found
        time.sleep(1)
    return []


def test_a_night_leaves_three_artifacts_a_task_a_step_with_its_edges_and_lines_of_json(
    config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from prefect.client.orchestration import get_client

    from flows.prefect.nightly import nightly

    config.write_text(f"{config.read_text()}[run]\nlog_format = 'json'\n")
    page = "https://example.org/oxbow/site.html"
    state = nightly(str(config), page=page, return_state=True)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    ended = [line["step"] for line in lines if line["event"] == "step_ended"]
    assert ended == [*(step.name for step in STEPS), "publish"] and lines[-1]["state"] == "succeeded"
    tasks: list[dict[str, Any]] = []
    with get_client(sync_client=True) as client:
        run_id = state.state_details.flow_run_id
        asked = {"flow_runs": {"id": {"any_": [str(run_id)]}}}
        found = client.request("POST", "/artifacts/filter", json=asked).json()
        for _ in range(60):  # what happens to tasks is told to the API by events
            tasks = client.request("POST", "/task_runs/filter", json=asked).json()
            if len(tasks) > len(STEPS) and all(task["end_time"] for task in tasks):
                break
            time.sleep(1)
        assert len(told_of(client, config.parent / "out")) == 1
    artifacts = {artifact["key"].removeprefix("walltime-oxbow-night-"): artifact["data"] for artifact in found}
    assert set(artifacts) == {"summary", "changes", "page"}
    assert "set aside\\: cancelled\\_before\\_start" in artifacts["summary"] and page in artifacts["page"]
    assert {row["table"] for row in json.loads(artifacts["changes"])} == set(PUBLISHED)
    names = {task["id"]: task["name"] for task in tasks}
    assert sorted(names.values()) == sorted([*(step.name for step in STEPS), "publish"])
    inputs = {task["name"]: task["task_inputs"] for task in tasks}
    for step in STEPS:
        assert {names[one["id"]] for one in inputs[step.name]["upstream"]} == {WRITER[table] for table in step.reads}
    assert {names[one["id"]] for one in inputs["publish"]["wait_for"]} == {step.name for step in STEPS}


def test_published_tables_open_without_this_project(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    assert walltime("run", config, "--plain", "--quiet").code == 0
    manifest = load_manifest(tmp_path / "out")
    for name, entry in manifest.tables.items():
        path = str(manifest.path(name))
        assert len(pd.read_parquet(path)) == entry.rows
        assert pl.read_parquet(path).columns == [column.name for column in entry.columns]
        assert duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall() == [(entry.rows,)]
        assert read_table(Path(path), STEP_TABLES[name]).num_rows == entry.rows
        assert read_metadata(Path(path))["table"] == STEP_TABLES[name].name
    assert json.loads((tmp_path / "out/manifest.json").read_text())["settings"]["scaling"]["laws"]


def test_a_failed_flow_is_failed_for_prefect_too(config: Path, tmp_path: Path) -> None:
    from flows.prefect.nightly import nightly

    (tmp_path / "empty.swf").write_bytes(b"")
    state = nightly(str(config), logs=[str(tmp_path / "empty.swf")], return_state=True)
    assert state.is_failed()
    assert "empty.swf" in (state.message or "")
    assert not (tmp_path / "out").exists()


def test_a_failure_that_the_api_hands_back_without_its_error_is_the_same_sentence(config: Path, tmp_path: Path) -> None:
    from prefect.exceptions import FailedRun

    from flows.prefect import nightly as module

    def with_a_slow_api(**arguments: Any) -> None:
        raise FailedRun(str(module.nightly(**arguments, return_state=True).message))

    (tmp_path / "empty.swf").write_bytes(b"")
    arguments = {"config": str(config), "logs": [str(tmp_path / "empty.swf")]}
    with pytest.raises(InputError, match=r"empty\.swf, line 1: found an empty file"):
        module.run_flow(with_a_slow_api, arguments, "oxbow")


def test_an_api_that_is_away_at_the_end_costs_the_night_a_warning(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    from flows.prefect import nightly as module

    def away(*_: object) -> None:
        raise httpx.ConnectError("All connection attempts failed")

    monkeypatch.setattr(module, "create_markdown_artifact", away)
    assert module.nightly(str(config), return_state=True).is_completed()
    assert load_manifest(tmp_path / "out").site == "oxbow"
