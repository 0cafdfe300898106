"""The four commands on phases, and `walltime query --platform`, from two traces to an answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flows.support import Outcome
from tools.simulation.mpi_steps import HERE, THERE, simulated_run
from tools.simulation.trace_csv import csv_lines, write_csv

Walltime = Callable[..., Outcome]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("traces")
    here, there = (csv_lines(simulated_run(1205, 4, machine, seed)[0]) for machine, seed in ((HERE, 1), (THERE, 2)))
    return {"here": write_csv(folder / "steps.csv.gz", here), "there": write_csv(folder / "there.csv", there)}


@pytest.fixture
def planned(traces: dict[str, Path], tmp_path: Path, walltime: Walltime) -> Path:
    out = tmp_path / "phases"
    assert walltime("phases", "find", traces["here"], "--out", out, "--application", "steps").code == 0
    assert walltime("phases", "plan", out, "--budget", "10%").code == 0
    return out


def answer(outcome: Outcome) -> dict[str, Any]:
    assert (outcome.code, outcome.err) == (0, "")
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_from_two_traces_to_a_prediction(traces: dict[str, Path], tmp_path: Path, walltime: Walltime) -> None:
    out = tmp_path / "phases"
    found = answer(walltime("phases", "find", traces["here"], "--out", out, "--application", "steps", "--json"))
    assert (found["unmatched"], found["status"], found["trace_id"]) == (0, "ok", "steps")
    assert found["coverage"] >= 0.95
    plan = answer(walltime("phases", "plan", out, "--budget", "10%", "--json"))
    assert plan["set_share"] <= 0.1
    assert {"rank", "from_event", "to_event"} <= set(plan["plan"][0])
    times = answer(walltime("phases", "time", out, traces["there"], "--platform", "new", "--json"))
    assert times["measured_s"] > 0
    row = answer(walltime("phases", "predict", out, "--platform", "new", "--json"))
    assert row["measured_s"] == times["measured_s"]
    assert abs(row["error"]) < 0.05
    assert row["runtime_s_lo95"] < row["runtime_s_lo80"] < row["runtime_s"] < row["runtime_s_hi80"]
    assert row["control_s"] > 0 and row["control_factor_s"] > 0
    said = answer(walltime("query", "--platform", "new", "--from", out, "--application", "steps", "--json"))
    assert said["predictions"] == [{name: row[name] for name in said["predictions"][0]}]


def test_kept_calls_are_read_again(planned: Path, tmp_path: Path, walltime: Walltime) -> None:
    again = answer(walltime("phases", "find", planned / "mpi_calls.parquet", "--out", tmp_path / "again", "--json"))
    assert again["trace_id"] == "mpi_calls" and again["unmatched"] == 0
    expected = answer(walltime("phases", "find", planned / "mpi_calls.parquet", "--out", tmp_path / "more", "--json"))
    assert again["phases"] == expected["phases"]
    times = answer(walltime("phases", "time", planned, planned / "mpi_calls.parquet", "--platform", "same", "--json"))
    assert all(row["time_s"] == pytest.approx(row["reference_s"], rel=1e-9) for row in times["times"])


def test_people_read_the_same(planned: Path, traces: dict[str, Path], walltime: Walltime) -> None:
    shown = walltime("phases", "plan", planned, "--samples", "3").out
    assert "from_event" in shown and "start" not in shown.splitlines()[-3]
    assert "Time spent measuring" in walltime("phases", "time", planned, traces["there"], "--platform", "new").out
    assert "95% interval" in walltime("phases", "predict", planned, "--platform", "new").out
    assert "95% interval" in walltime("query", "--platform", "new", "--from", planned).out


def test_the_same_traces_give_the_same_bytes(traces: dict[str, Path], tmp_path: Path, walltime: Walltime) -> None:
    written = []
    for name in ("a", "b"):
        out = tmp_path / name
        walltime("phases", "find", traces["here"], "--out", out)
        walltime("phases", "plan", out)
        walltime("phases", "time", out, traces["there"], "--platform", "new")
        walltime("phases", "predict", out, "--platform", "new")
        written.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert written[0] == written[1]
    assert "platform_predictions.parquet" in written[0]


def test_a_trace_up_to_the_plan_s_end_is_enough(
    planned: Path, traces: dict[str, Path], tmp_path: Path, walltime: Walltime
) -> None:
    whole = answer(walltime("phases", "time", planned, traces["there"], "--platform", "whole", "--json"))
    last = max(
        row["to_event"] for row in answer(walltime("phases", "plan", planned, "--budget", "10%", "--json"))["plan"]
    )
    header, *lines = traces["there"].read_text().splitlines()
    begun = [line for line in lines if int(line.split(",")[1]) <= last]
    assert len(begun) < len(lines)
    part = write_csv(tmp_path / "part.csv", [header, *begun])
    times = answer(walltime("phases", "time", planned, part, "--platform", "part", "--json"))
    assert times["measured_s"] is None
    used = [row["time_s"] for row in times["times"] if not row["is_control"]]
    assert used == [row["time_s"] for row in whole["times"] if not row["is_control"]]
    row = answer(walltime("phases", "predict", planned, "--platform", "part", "--json"))
    assert row["error"] is None and row["control_s"] is None and row["runtime_s"] > 0


def test_measured_times_of_a_csv_are_taken(
    planned: Path, traces: dict[str, Path], tmp_path: Path, walltime: Walltime
) -> None:
    rows = answer(walltime("phases", "time", planned, traces["there"], "--platform", "new", "--json"))["times"]
    lines = ["phase_id,occurrence,time_s,is_warmup"]
    lines += [
        f"{row['phase_id']},{row['occurrence']},{row['time_s']},{row['is_warmup']}"
        for row in rows
        if not row["is_control"]
    ]
    path = write_csv(tmp_path / "times.csv", lines)
    walltime("phases", "time", planned, path, "--platform", "typed")
    one, other = (
        answer(walltime("phases", "predict", planned, "--platform", name, "--json")) for name in ("new", "typed")
    )
    assert other["runtime_s"] == pytest.approx(one["runtime_s"], rel=1e-12)
    assert other["set_s"] == pytest.approx(one["set_s"], rel=1e-12)
    few = answer(walltime("phases", "time", planned, write_csv(path, lines[:-2]), "--platform", "typed", "--json"))
    assert few["missing"] == 2 and few["notes"] == ["2 planned occurrences have no time; those that have one count."]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("9,0,1.0", "line 2: found phase 9, occurrence 0"),
        ("1,0,fast", "line 2: found time_s fast"),
        ("1,0,-1", "line 2: found time_s -1"),
        ("1,0", "line 2: found time_s empty"),
    ],
)
def test_wrong_times_are_named_by_line(
    planned: Path, tmp_path: Path, walltime: Walltime, line: str, named: str
) -> None:
    path = write_csv(tmp_path / "times.csv", ["phase_id,occurrence,time_s", line])
    done = walltime("phases", "time", planned, path, "--platform", "new")
    assert done.code == 2 and named in done.err


def test_another_program_is_refused_by_rank_and_event(planned: Path, tmp_path: Path, walltime: Walltime) -> None:
    other = write_csv(tmp_path / "other.csv", csv_lines(simulated_run(1195, 4, THERE, 2)[0]))
    done = walltime("phases", "time", planned, other, "--platform", "new")
    assert done.code == 2 and "rank 0, event" in done.err and done.err.count("\n") == 1
    fewer = write_csv(tmp_path / "fewer.csv", csv_lines(simulated_run(1205, 3, THERE, 2)[0]))
    assert "found 3 ranks, expected 4" in walltime("phases", "time", planned, fewer, "--platform", "new").err


def test_a_run_of_few_steps_is_to_be_run_whole(tmp_path: Path, walltime: Walltime) -> None:
    out = tmp_path / "phases"
    here, there = (
        write_csv(tmp_path / f"{name}.csv", csv_lines(simulated_run(8, 3, machine, 1)[0]))
        for name, machine in (("here", HERE), ("there", THERE))
    )
    assert "not repetitive, run it whole" in walltime("phases", "find", here, "--out", out).out
    assert answer(walltime("phases", "plan", out, "--json"))["status"] == "not_repetitive"
    walltime("phases", "time", out, there, "--platform", "new")
    row = answer(walltime("phases", "predict", out, "--platform", "new", "--json"))
    assert row["status"] == "not_repetitive" and "run it whole" in row["notes"][0]
    assert "not repetitive, run it whole" in walltime("query", "--platform", "new", "--from", out).out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("phases", "plan", "{out}", "--budget", "many"), "--budget many"),
        (("phases", "plan", "{out}", "--budget", "0%"), "--budget 0%"),
        (("phases", "plan", "{out}", "--budget", "5%", "--samples", "3"), "--samples"),
        (("phases", "plan", "{out}/absent"), "no phases.parquet"),
        (("phases", "time", "{out}", "{out}/absent.csv", "--platform", "new"), "no such file"),
        (("phases", "time", "{out}", "{out}/absent.csv", "--platform", "../new"), "--platform ../new"),
        (("phases", "predict", "{out}", "--platform", "old"), "no times"),
        (("query", "--platform", "old", "--from", "{out}"), "no predictions for other platforms"),
        (("query", "--platform", "old", "--user", "u1", "--from", "{out}"), "--user beside it"),
    ],
)
def test_wrong_calls_are_one_sentence(
    planned: Path, walltime: Walltime, arguments: tuple[str, ...], named: str
) -> None:
    done = walltime(*(word.replace("{out}", str(planned)) for word in arguments))
    assert done.code == 2 and named in done.err and done.err.count("\n") == 1
