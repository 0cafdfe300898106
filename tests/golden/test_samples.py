"""The samples through the whole program: planted anomalies are flagged, planted laws recovered, tables as they were."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.clean.stage import RECORD_FLAGS
from pipeline.laws import LAWS
from pipeline.report import Report
from pipeline.run import start_run
from pipeline.settings import RunSettings, SiteSettings
from tests.golden.write import GOLDEN, golden_text
from tools.plain_run import run_plain

SAMPLES = Path(__file__).parents[2] / "data_samples"
LOGS = {"riverbend": "riverbend.swf.gz", "traps": "traps.swf"}


@cache
def done(sample: str) -> tuple[dict[str, pa.Table], dict[str, Report]]:
    """Every table and report of a sample's run."""
    run = start_run(RunSettings(site=SiteSettings(name=sample)), [SAMPLES / LOGS[sample]])
    tables, reports = {}, {}
    for step, written, report in run_plain(run):
        tables |= written
        reports[step.name] = report
    return tables, reports


@cache
def truth(sample: str) -> dict[str, Any]:
    return json.loads((SAMPLES / f"{sample}.truth.json").read_text())


def rows_by_group(sample: str, table: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in done(sample)[0][table].to_pylist():
        found.setdefault(row["group_id"], []).append(row)
    return found


def applications(*reaches: str) -> list[tuple[dict[str, Any], str]]:
    """Applications of the sample's truth with the id of the group each should have become."""
    ids = {
        (row["user"], row["application"], row["requested_mem_kib"]): row["group_id"]
        for row in done("riverbend")[0]["groups"].to_pylist()
    }
    known = [one for one in truth("riverbend")["applications"] if one["reach"] in reaches]
    return [(one, ids[str(one["user"]), str(one["executable"]), one["requested_mem_kib"]]) for one in known]


def true_runtime_s(one: dict[str, Any], procs: np.ndarray) -> np.ndarray:
    serial = one.get("serial_fraction")
    given = {"t1_s": one["t1_s"], "serial_fraction": serial}
    given |= {name: one.get(name) for name in ("avg_parallelism", "sigma")}
    return LAWS[one["law"]].runtime_s({k: np.float64(v) for k, v in given.items() if v is not None}, procs)


@pytest.mark.parametrize("sample", LOGS)
def test_every_record_that_cannot_be_right_gets_its_flag(sample: str) -> None:
    tables, reports = done(sample)
    by_record = {reason: tally.rows for reason, tally in reports["clean"].set_aside.items() if reason in RECORD_FLAGS}
    assert by_record == truth(sample)["flags"]
    flags: dict[str, set[str | None]] = {}
    for row in tables["jobs"].to_pylist():
        flags.setdefault(row["job_id"], set()).add(row["flag"])
    for kind, planted in truth(sample)["planted"].items():
        allowed = {planted["expected_flag"], planted["screen"]} - ({None} if planted["expected_flag"] else set())
        for job_id in set(planted["job_ids"]):
            assert flags[str(job_id)] & allowed, (kind, job_id)


def test_screens_find_what_is_planted_and_nothing_else() -> None:
    """Failed starts and hangs in groups too small to tell stay; the flurry is only listed."""
    jobs = {row["job_id"]: row for row in done("riverbend")[0]["jobs"].to_pylist()}
    planted = truth("riverbend")["planted"]
    least = {"probe": 1.0, "cron": 1.0, "failed_start": 0.8, "hang": 0.8}
    for kind, share in least.items():
        found = [jobs[str(number)]["flag"] == kind for number in planted[kind]["job_ids"]]
        assert sum(found) >= share * len(found), kind
    bursts = {jobs[str(number)]["burst_id"] for number in planted["flurry"]["job_ids"]}
    assert len(bursts) == 1
    assert None not in bursts
    everything_planted = {str(number) for one in planted.values() for number in one["job_ids"]}
    assert {row["flag"] for job_id, row in jobs.items() if job_id not in everything_planted} == {None}


@pytest.mark.parametrize("sample", LOGS)
def test_every_line_is_accounted_for(sample: str) -> None:
    report = done(sample)[1]["ingest"]
    lines = truth(sample)["lines"]
    assert (report.seen.rows, report.kept.rows) == (lines["lines"], lines["record"])
    assert done(sample)[0]["unreadable"].num_rows == lines["unreadable"]


def test_planted_laws_are_recovered() -> None:
    """Curves within three standard errors of the noise planted; the average parallelism within 15%."""
    chosen = {row["group_id"]: row for row in done("riverbend")[0]["fits"].to_pylist() if row["is_chosen"]}
    for one, group_id in applications("bend_inside", "all"):
        fit = chosen[group_id]
        procs = np.array([float(n) for n in one["clean_jobs_by_procs"]])
        fitted_s = LAWS[fit["law"]].runtime_s({k: np.float64(v) for k, v in fit.items() if isinstance(v, float)}, procs)
        error = np.abs(np.log(fitted_s / true_runtime_s(one, procs))).max()
        assert error < 3 * one["repeat_log_sd"], (one, fit["law"], error)
        if one["reach"] == "bend_inside" and fit["law"].startswith("downey"):
            assert fit["avg_parallelism"] == pytest.approx(one["avg_parallelism"], rel=0.15), one


def test_the_kind_of_law_is_recovered() -> None:
    """Amdahl and constants by name; a bend inside the sizes is a Downey law, either mode where sigma is near 1."""
    chosen = {row["group_id"]: row["law"] for row in done("riverbend")[0]["fits"].to_pylist() if row["is_chosen"]}
    missed = [
        (one["law"], chosen[group_id])
        for one, group_id in applications("bend_inside", "all")
        if chosen[group_id] != one["law"] and not one["law"].startswith("downey")
    ]
    bends = [chosen[group_id] for one, group_id in applications("bend_inside") if one["law"].startswith("downey")]
    assert missed == []
    assert sum(law.startswith("downey") for law in bends) >= len(bends) - 1


def test_intervals_hold_the_runs_that_were_predicted() -> None:
    """80% intervals at observed sizes cover 74-90% of the ordinary jobs of the applications with planted laws."""
    odd = {str(i) for planted in truth("riverbend")["planted"].values() for i in planted["job_ids"]}
    known = {group_id for _, group_id in applications("bend_inside", "all")}
    ends = {
        (row["group_id"], row["procs"]): (row["runtime_s_lo80"], row["runtime_s_hi80"])
        for row in done("riverbend")[0]["predictions"].to_pylist()
    }
    inside = [
        ends[job["group_id"], job["procs"]][0] <= job["runtime_s"] <= ends[job["group_id"], job["procs"]][1]
        for job in done("riverbend")[0]["jobs"].to_pylist()
        if job["group_id"] in known and job["job_id"] not in odd
    ]
    assert 0.74 <= np.mean(inside) <= 0.90


def test_predictions_of_counts_that_ran_look_like_their_runs() -> None:
    """A row with 20 runs in the last half-year lies within three times their median."""
    jobs = [job for job in done("riverbend")[0]["jobs"].to_pylist() if job["group_id"] is not None]
    since_s = max(job["submit_s"] for job in jobs) - 182 * 86_400
    runs: dict[tuple[str, int], list[float]] = {}
    for job in jobs:
        if job["submit_s"] > since_s and job["runtime_s"]:
            runs.setdefault((job["group_id"], job["procs"]), []).append(job["runtime_s"])
    rows = {(row["group_id"], row["procs"]): row for row in done("riverbend")[0]["predictions"].to_pylist()}
    ratios = [rows[key]["runtime_s"] / np.median(own) for key, own in runs.items() if len(own) >= 20]
    assert len(ratios) > 50 and min(ratios) > 1 / 3 and max(ratios) < 3


def test_open_tails_are_called_open() -> None:
    predictions = rows_by_group("riverbend", "predictions")
    for one, group_id in applications("tail_open"):
        beyond = [row for row in predictions[group_id] if row["is_extrapolated"] and row["procs"] > 1]
        largest = max(int(n) for n in one["clean_jobs_by_procs"])
        beyond = [row for row in beyond if row["procs"] > largest]
        assert beyond and all(row["reliability"] == "far" for row in beyond), one


@pytest.mark.parametrize("name", GOLDEN)
def test_tables_of_the_small_sample_are_as_they_were(name: str) -> None:
    """A difference that is meant: python -m tests.golden.write, and read the diff."""
    expected = (Path(__file__).parent / f"traps.{name}.csv").read_text()
    assert golden_text(done("traps")[0][name], name) == expected
