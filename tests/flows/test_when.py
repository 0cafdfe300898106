"""`walltime when`: the queue of fake schedulers, with running, waiting, held and hypothetical jobs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flows.services.metrics import folder_metrics
from flows.services.schedulers import SLURM
from flows.services.when import note_starts, read_starts, start_errors
from pipeline.estimate.stage import learn_state
from pipeline.publish import Retention
from pipeline.settings import RunSettings, SiteSettings
from pipeline.storage import write_table
from pipeline.tables import GROUPS, JOBS, PREDICTIONS, STATE
from tests.flows.fake_programs import Program
from tests.flows.support import Outcome, history
from tests.flows.test_guard import slurm_job as queued_job
from tests.flows.test_pbs_queue import as_qstat, pbs_job
from tests.publishing import facts_of, publish
from tests.rows import jobs_of

Walltime = Callable[..., Outcome]
NOW_S = 1_000_000
OWN = ("--user", "ada", "--application", "solver")
AT = ("--at", "1970-01-12T13:46:40")
LIMITS = "8:00:00|7-00:00:00|(null)|1"
NODES = "\n".join(
    f"n{nth}|{'long' if nth < 3 else 'wide'}|{'idle' if nth else 'drained*'}|4|{LIMITS}" for nth in range(5)
)


def slurm_job(number: int, **changes: Any) -> dict[str, Any]:
    return queued_job(number, **{"time_limit": 240, "admin_comment": ""} | changes)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    jobs = history()
    table, _ = learn_state(jobs, SiteSettings(name="here"))
    # A job that a log's end cut is in the queue only if the scheduler tells it.
    cut = {"submit_s": 40_000, "start_s": 50_000, "procs": 8, "requested_procs": 8, "flag": "unfinished"}
    staged = {
        "state": write_table(folder / "state.parquet", table, STATE),
        "jobs": write_table(folder / "jobs.parquet", jobs_of([*jobs.to_pylist(), cut]), JOBS),
    }
    group = {
        "group_id": "g",
        "site": "here",
        "label": "",
        "user": "ada",
        "application": "solver",
        "n_jobs": 60,
        "n_sizes": 4,
        "template": "user",
    }
    row = {"group_id": "g", "axis": "procs", "run_id": "run", "reliability": "ok"}
    curve = [
        row | {
            "procs": procs, "runtime_s": 7200.0 / procs, "is_extrapolated": procs > 8,
            "method": "law" if procs > 8 else "runs",
        }
        for procs in (1, 4, 8, 16)
    ]  # fmt: skip
    for kind, rows in ((GROUPS, [group]), (PREDICTIONS, curve)):
        made = pa.Table.from_pylist(rows, schema=kind.empty().schema)
        staged[kind.name] = write_table(folder / f"{kind.name}.parquet", made, kind)
    facts = facts_of("run", "here", RunSettings().model_dump(mode="json"), [], "code")
    publish(staged, [], facts, output_dir=folder / "out", created_s=0, retention=Retention(newest=2))
    return folder / "out"


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    Program(tmp_path, "sinfo", f"print({NODES!r})")

    def says(*jobs: dict[str, Any]) -> None:
        Program(tmp_path, "squeue", f"print({json.dumps({'jobs': jobs})!r})")

    return says


def running(number: int, since_s: int, **changes: Any) -> dict[str, Any]:
    return slurm_job(number, job_state=["RUNNING"], submit_time=since_s, start_time=since_s, **changes)


def waiting(number: int, **changes: Any) -> dict[str, Any]:
    return slurm_job(number, submit_time=NOW_S - 60 + number, **changes)


def answered(walltime: Walltime, out: Path, *more: str) -> dict[str, Any]:
    shown = walltime("when", "--from", str(out), *AT, *more, "--json")
    assert shown.code == 0, shown.err
    found: dict[str, Any] = json.loads(shown.out)
    return found


def test_running_waiting_and_held_jobs_are_answered(walltime: Walltime, out: Path, squeue: Callable[..., None]) -> None:
    squeue(
        running(1, NOW_S - 600), running(2, NOW_S - 900), waiting(3), waiting(4, state_reason="JobHeldUser"),
        waiting(5, state_reason="Dependency"), slurm_job(6, job_state=["COMPLETED"]),
    )  # fmt: skip
    found = answered(walltime, out)
    rows = {row["id"]: row for row in found["jobs"]}
    assert list(rows) == ["1", "2", "3", "4", "5"]
    assert [row["status"] for row in rows.values()] == ["running", "running", "queued", "queued_held", "queued_held"]
    # Jobs of the user take half an hour: the third waits for one of the two nodes that are up.
    assert 1000 < rows["1"]["left_s_q50"] < 1400 and rows["1"]["dispatch_time"] == NOW_S - 600
    assert 700 < rows["3"]["dispatch_time"] - NOW_S < 1300 and rows["3"]["answered_by"] == "draws"
    assert rows["4"]["dispatch_time"] is None and rows["4"]["note"] == "it is on hold"
    assert rows["5"]["start_s_q50"] is None and rows["5"]["note"] == "it waits for another job"
    assert (found["n_running"], found["n_waiting"], found["processors"]) == (2, 1, 8)


def test_a_partition_has_its_own_nodes(walltime: Walltime, out: Path, squeue: Callable[..., None]) -> None:
    squeue(running(1, NOW_S - 600), running(2, NOW_S - 900), waiting(3), waiting(4, partition="wide"))
    first, second = answered(walltime, out, "--job", "3,4")["jobs"]
    assert first["dispatch_time"] > NOW_S + 600 and second["dispatch_time"] == NOW_S


def test_a_job_larger_than_the_nodes_that_are_up_has_no_start(
    walltime: Walltime, out: Path, squeue: Callable[..., None]
) -> None:
    squeue(running(1, NOW_S - 600), waiting(3, cpus=9), waiting(4))
    rows = {row["id"]: row for row in answered(walltime, out)["jobs"]}
    assert rows["3"]["start_s_q50"] is None and rows["3"]["answered_by"] is None
    assert rows["3"]["note"] == "it asks for more processors than the nodes that are up have"
    assert rows["4"]["start_s_q50"] is not None and rows["4"]["note"] is None
    refused = walltime("when", "--from", str(out), *AT, *OWN, "--queue", "long", "--procs", "9")
    assert refused.code == 2 and "found 9 processors, expected at most 8" in refused.err


def test_an_idle_machine_is_answered_now(walltime: Walltime, out: Path, squeue: Callable[..., None]) -> None:
    # Two nodes of 4 processors are up: the two jobs with most priority fit them.
    priorities = {3: 10, 4: 20, 5: 30}
    squeue(*(waiting(number, priority=priority) for number, priority in priorities.items()))
    third, second, first = answered(walltime, out)["jobs"]
    levels = ("start_s_q10", "start_s_q50", "start_s_q80", "start_s_q95")
    for row in (first, second):
        assert row["answered_by"] == "idle" and {row[name] for name in levels} == {NOW_S}
    assert third["answered_by"] == "draws" and third["dispatch_time"] > NOW_S
    shown = walltime("when", "--from", str(out), *AT)
    assert "no job runs on the nodes" in shown.out
    # Where a job runs on the nodes, the past answers.
    squeue(running(1, NOW_S - 600), waiting(3))
    assert answered(walltime, out, "--job", "3")["jobs"][0]["answered_by"] == "draws"


def test_a_job_that_would_be_submitted_to_an_idle_machine_starts_now(
    walltime: Walltime, out: Path, squeue: Callable[..., None]
) -> None:
    squeue(running(1, NOW_S - 600, partition="wide"))
    found = answered(walltime, out, "--procs", "4", "--requested", "4h", *OWN, "--queue", "wide")
    assert {row["answered_by"] for row in found["choices"]} == {"draws"}
    squeue(running(1, NOW_S - 600))
    found = answered(walltime, out, "--procs", "4", "--requested", "4h", *OWN, "--queue", "wide")
    assert {row["answered_by"] for row in found["choices"]} == {"idle"}
    assert {row["wait_s_q95"] for row in found["choices"]} == {0}
    squeue()
    found = answered(walltime, out, "--procs", "4", "--requested", "4h", *OWN)
    assert {row["answered_by"] for row in found["choices"]} == {"idle"}


def test_a_job_of_a_partition_with_a_higher_tier_is_before_those_with_more_priority(
    walltime: Walltime, out: Path, squeue: Callable[..., None], tmp_path: Path
) -> None:
    lines = [f"n1|{name}|mixed|4|8:00:00|7-00:00:00|(null)|{tier}" for name, tier in (("main", 1), ("urgent", 2))]
    Program(tmp_path, "sinfo", f"print({chr(10).join(lines)!r})")
    queue = [waiting(3, partition="main", priority=900), waiting(4, partition="urgent", priority=10)]
    squeue(running(1, NOW_S - 600, partition="main"), *queue)
    found = {row["id"]: row["dispatch_time"] for row in answered(walltime, out)["jobs"]}
    assert found["4"] + 600 < found["3"]


def test_what_a_node_that_is_drained_holds_does_not_become_free(
    walltime: Walltime, out: Path, squeue: Callable[..., None]
) -> None:
    squeue(running(1, NOW_S - 600, nodes="n[1-2]", cpus=8), running(2, NOW_S - 1500, nodes="n0"), waiting(3))
    (row,) = answered(walltime, out, "--job", "3")["jobs"]
    assert row["dispatch_time"] > NOW_S + 900


def test_another_request_and_size_are_compared(walltime: Walltime, out: Path, squeue: Callable[..., None]) -> None:
    squeue(running(1, NOW_S - 600), running(2, NOW_S - 900))
    found = answered(walltime, out, "--procs", "4", "--requested", "4h", *OWN, "--queue", "long")
    own, *others = found["choices"]
    assert own["is_asked"] and own["procs"] == 4 and 600 < own["wait_s_q50"] < 1300
    assert all(0 <= row["share_longer"] <= 0.5 for row in found["choices"])
    assert {row["requested_s"] for row in others} == {14_400.0, 7200.0, 3600.0, 2400.0}
    # The curve is known from 1 to 8 processors.
    assert {row["procs"] for row in others} == {1, 2, 4, 8}
    on_two = next(row for row in others if row["procs"] == 2)
    assert on_two["runtime_s_q50"] == pytest.approx(2 * own["runtime_s_q50"])
    shown = walltime("when", "--from", str(out), *AT, "--procs", "4", "--requested", "4h", *OWN)
    assert "expected to start" in shown.out and "end first on" in shown.out
    assert "not compared" in walltime("when", "--from", str(out), *AT, "--procs", "4").out


def test_qstat_is_read_from_a_file(walltime: Walltime, out: Path, tmp_path: Path) -> None:
    jobs = {
        "1.pbs": pbs_job(job_state="R", stime="Mon Jan 12 13:36:40 1970", qtime="Mon Jan 12 13:36:40 1970"),
        "2.pbs": pbs_job(qtime="Mon Jan 12 13:40:00 1970"), "3.pbs": pbs_job(job_state="H"),
    }  # fmt: skip
    (tmp_path / "said").write_text(as_qstat(jobs))
    found = answered(walltime, out, "--for", "pbs", "--queue-file", str(tmp_path / "said"))
    assert [row["status"] for row in found["jobs"]] == ["running", "queued", "queued_held"]
    assert found["jobs"][0]["wallclock_time"] == 600


def test_a_file_tells_its_time_and_a_job_that_runs_past_its_limit_has_time_left(
    walltime: Walltime, out: Path, tmp_path: Path
) -> None:
    path = tmp_path / "said"
    asked = ("when", "--from", str(out), "--queue-file", str(path), "--json")
    path.write_text(json.dumps({"jobs": [running(1, 200_000)]}))
    assert "give it with --at" in walltime(*asked).err
    path.write_text(json.dumps({"jobs": [running(1, 200_000)], "last_update": {"set": True, "number": 4_000_000}}))
    found = json.loads(walltime(*asked).out)
    assert found["at_s"] == 4_000_000 and found["n_running"] == 1 and found["jobs"][0]["left_s_q50"] >= 1


def test_a_job_that_is_not_there_is_one_sentence(walltime: Walltime, out: Path, squeue: Callable[..., None]) -> None:
    squeue(waiting(3))
    shown = walltime("when", "--from", str(out), *AT, "--job", "77")
    assert shown.code != 0 and "found no job 77" in shown.err


def test_a_scheduler_that_is_away_is_one_sentence(
    walltime: Walltime, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    Program(tmp_path, "squeue", "sys.exit('slurm_load_jobs error: Unable to contact slurm controller')")
    shown = walltime("when", "--from", str(out))
    assert shown.code == 2 and shown.err.count("\n") == 1
    assert "squeue: found no answer from the scheduler (exit code 1 and 'slurm_load_jobs error" in shown.err
    assert "see whether `squeue --all --json` works in a terminal" in shown.err


def test_an_empty_queue_is_said(walltime: Walltime, out: Path, squeue: Callable[..., None]) -> None:
    squeue()
    assert "No job waits or runs." in walltime("when", "--from", str(out), *AT).out


def test_rounds_keep_first_and_newest_answers_and_score_them(out: Path, squeue: Callable[..., None]) -> None:
    squeue(running(1, NOW_S - 600), running(2, NOW_S - 900), waiting(3), waiting(4))
    for nth in range(3):
        note_starts(out, SLURM, os.environ, NOW_S + 300.0 * nth)
    rows = read_starts(out).to_pylist()
    kept = sorted((row["job_id"], row["made_s"] - NOW_S, row["is_newest"]) for row in rows)
    assert kept == [("3", 0, False), ("3", 600, True), ("4", 0, False), ("4", 600, True)]
    assert start_errors(out) == {}
    squeue(running(2, NOW_S - 900), running(3, NOW_S + 1100), waiting(4))
    note_starts(out, SLURM, os.environ, NOW_S + 1200.0)
    errors = start_errors(out)
    first = next(row for row in rows if row["job_id"] == "3" and not row["is_newest"])
    assert errors["median_error_s"] == abs(first["start_s_q50"] - NOW_S - 1100) and errors["n_started"] == 1
    assert "walltime_starts_median_error_seconds" in folder_metrics(out, NOW_S)
