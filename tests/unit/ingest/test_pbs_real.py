"""Real accounting files, beside the checkout: each job against what is known of it otherwise."""

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ingest.pbs_logs import Outcome, read_paths

SHARED = Path(__file__).resolve().parents[4] / "shared/data/pbs"
REAL = SHARED / "real-openpbs-23.06.06"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not SHARED.is_dir(), reason="the real PBS logs are not beside this checkout: nothing is checked"
    ),
]
SLACK_S = 3.0
"""PBS counts a job's walltime in whole seconds of its MoM's polls; the truth is when the script itself slept."""


@pytest.fixture(scope="module")
def real() -> Outcome:
    return read_paths(REAL / "20261121.gz")


def truth() -> dict[str, dict[str, str]]:
    """What was submitted, by job id; submissions that qsub refused have none."""
    with gzip.open(REAL / "truth.tsv.gz", "rt", encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = next(rows)
        return {row[0]: dict(zip(header, row, strict=False)) for row in rows if row and "pbshead" in row[0]}


def clock_s(text: str) -> float:
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return float(hours * 3600 + minutes * 60 + seconds)


def test_every_line_of_the_real_logs_is_accounted_for(real: Outcome) -> None:
    assert (real.n_lines, real.jobs.num_rows, real.unreadable.num_rows) == (567, 196, 0)
    assert real.lines == {
        "array_parent": 6, "other_r": 1, "event_Q": 164, "event_S": 180, "event_D": 18, "event_A": 1, "event_z": 1,
    }  # fmt: skip
    davinci = read_paths(SHARED / "davinci-20050201.acct", timezone="America/Los_Angeles")
    assert (davinci.n_lines, davinci.jobs.num_rows, davinci.unreadable.num_rows) == (62, 6, 0)
    assert davinci.lines == {"continued": 48, "event_Q": 4, "event_S": 4}
    torque = read_paths(SHARED / "torque-20130819.gz", timezone="Europe/Stockholm")
    assert (torque.n_lines, torque.jobs.num_rows, torque.unreadable.num_rows) == (714, 257, 0)
    assert torque.lines == {"event_Q": 235, "event_S": 217, "event_D": 5}
    assert [outcome.remarks["odd_values"] for outcome in (real, davinci, torque)] == [0, 0, 0]


def test_jobs_equal_what_was_submitted(real: Outcome) -> None:
    """Processors and runtime of every job of a known law, within SLACK_S of its sleep."""
    jobs, n_checked = real.rows(), 0
    for job_id, told in truth().items():
        job = jobs.get(job_id)
        if told["app"] == "odd" or job is None or told["note"].strip():
            continue
        n_checked += 1
        assert job["requested_procs"] == int(told["p"]), job_id
        assert (job["user"], job["job_name"]) == (told["user"], told["app"])
        if job["state"] != "CANCELLED":
            assert (job["state"], job["procs"]) == ("COMPLETED", int(told["p"])), job_id
            assert abs(job["runtime_s"] - float(told["slept_seconds"])) <= SLACK_S, job_id
    assert n_checked >= 140


def test_odd_jobs_end_as_they_were_made_to(real: Outcome) -> None:
    jobs, told = real.rows(), truth()
    for job_id, row in told.items():
        note = row["note"].strip()
        if note in ("qdel while running", "held then deleted", "afterok of a failed job: deleted", "cannot ever run"):
            assert jobs[job_id]["state"] == "CANCELLED", job_id
        if note == "exit 3":
            assert (jobs[job_id]["state"], jobs[job_id]["exit_code"]) == ("FAILED", 3)
    assert (jobs["181.pbshead"]["state"], jobs["181.pbshead/1"]["state"]) == ("REQUEUED", "COMPLETED")
    assert (jobs["182.pbshead"]["suspended_s"], jobs["182.pbshead"]["runtime_s"]) == (8.0, 12.0)
    assert jobs["186.pbshead"]["requested_s"] is None
    assert jobs["188.pbshead"]["account"] == 'with "quotes" = x'
    assert {jobs[f"{k}.pbshead"]["state"] for k in (166, 167, 168)} == {"TIMEOUT"}
    assert len([key for key in jobs if key.startswith("170[")]) == 10


def asked(job: dict[str, Any]) -> dict[str, Any]:
    """What qstat tells of a job, in our words."""
    listed = job["Resource_List"]
    used = job.get("resources_used", {})
    walltime = used.get("walltime") if job.get("exec_host") else None
    hosts = [part.split("/")[0] for part in job["exec_host"].split("+")] if job.get("exec_host") else []
    vnodes = re.findall(r"ncpus=(\d+)", job.get("exec_vnode", ""))
    return {
        "user": job["Job_Owner"].split("@")[0],
        "queue": job["queue"],
        "job_name": job["Job_Name"],
        "requested_procs": int(listed["ncpus"]),
        "requested_nodes": int(listed["nodect"]),
        "requested_s": clock_s(listed["walltime"]) if "walltime" in listed else None,
        "procs": sum(map(int, vnodes)) if vnodes else None,
        "nodes": len(set(hosts)) or None,
        "runtime_s": clock_s(walltime) if walltime else None,
        "exit_code": job.get("Exit_status"),
    }


def test_jobs_equal_what_qstat_told_of_them(real: Outcome) -> None:
    told = json.loads(gzip.decompress((REAL / "qstat-xf.json.gz").read_bytes()))["Jobs"]
    last = {job["job_id"]: job for job in real.jobs.to_pylist()}
    singles = {job_id: job for job_id, job in told.items() if "[]" not in job_id}
    assert set(singles) <= set(last)
    for job_id, job in singles.items():
        expected = asked(job)
        assert {name: last[job_id][name] for name in expected} == expected, job_id
    assert len(singles) >= 170
