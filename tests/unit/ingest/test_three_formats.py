"""One simulated day as SWF, sacct dump, PBS accounting and CSV: the same jobs come out, those of the truth."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings

SAMPLES = Path(__file__).resolve().parents[3] / "data_samples"
TRUTH = json.loads((SAMPLES / "millrace.truth.json").read_text())
RULE = {"text": "job_name", "find": "-n(\\d+)"}
DAY_END_S = 1_704_672_000 + 86_400
Key = tuple[int, int]
SAME = ("start_s", "runtime_s", "procs", "requested_procs", "requested_s", "requested_mem_kib")


def read(format_name: str) -> dict[Key, dict[str, Any]]:
    """The jobs of a sample by number and restart; nothing in it is unreadable."""
    path = SAMPLES / TRUTH["logs"][format_name]
    settings = IngestSettings.model_validate({"problem_size_rules": [RULE]})
    jobs, unreadable, report = ingest([path], SiteSettings(name="millrace"), settings)
    assert unreadable.num_rows == 0 and report.kept.rows == len(TRUTH["attempts"])
    rows = jobs.to_pylist()
    found = {(number_of(row["job_id"]), row["restart"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def number_of(job_id: str) -> int:
    """The simulator's number of a job id, which names a task by its array, as 1110_2 or 1110[2].millrace."""
    first, _, place = job_id.removesuffix(".millrace").rstrip("]").replace("[", "_").partition("_")
    return int(first) + int(place or 0)


@pytest.fixture(scope="module")
def formats() -> dict[str, dict[Key, dict[str, Any]]]:
    return {name: read(name) for name in TRUTH["logs"]}


@pytest.mark.parametrize("name", TRUTH["logs"])
def test_a_format_gives_the_jobs_of_the_truth(name: str, formats: dict[str, dict[Key, dict[str, Any]]]) -> None:
    found = formats[name]
    for one in TRUTH["attempts"]:
        job = found[one["number"], one["restart"]]
        assert job["start_s"] == one["start_s"] and job["requested_s"] == one["requested_s"]
        if one["start_s"] is not None:
            assert job["procs"] == one["procs"]
            if one["end_s"] is not None:
                assert job["runtime_s"] == one["end_s"] - one["start_s"]
            else:  # sacct alone says how long a running job has run
                assert job["runtime_s"] == (DAY_END_S - one["start_s"] if name == "sacct" else None)
        if one["restart"] == 0:
            assert job["submit_s"] == one["submit_s"]
        if name == "swf":
            assert TRUTH["users"][job["user"]] == one["user"]
            # SWF has no words for requeued and running jobs.
            assert job["state"] == {"REQUEUED": "FAILED", "RUNNING": None}.get(one["state"], one["state"])
        else:
            assert (job["user"], job["job_name"], job["state"]) == (one["user"], one["job_name"], one["state"])


def test_the_same_jobs_come_out_of_all_formats(formats: dict[str, dict[Key, dict[str, Any]]]) -> None:
    swf, sacct, pbs, table = (formats[name] for name in ("swf", "sacct", "pbs", "table"))
    assert swf.keys() == sacct.keys() == pbs.keys() == table.keys()
    for key, job in sacct.items():
        for name in SAME:
            has_run = job["start_s"] is not None and job["state"] != "RUNNING"
            if has_run or name not in ("procs", "runtime_s"):
                assert swf[key][name] == job[name] == pbs[key][name] == table[key][name], (key, name)
        for name in ("application", "problem_size", "user_group", "account"):
            assert job[name] == pbs[key][name] == table[key][name], (key, name)


def test_job_names_carry_input_parameters(formats: dict[str, dict[Key, dict[str, Any]]]) -> None:
    sizes = {job["problem_size"] for job in formats["sacct"].values() if job["application"] == "heat"}
    assert sizes == {"512", "1024"}


def test_the_day_holds_what_its_page_promises() -> None:
    attempts = TRUTH["attempts"]
    states = [one["state"] for one in attempts]
    assert {state: states.count(state) for state in set(states)} == {
        "COMPLETED": states.count("COMPLETED"), "CANCELLED": 4, "FAILED": 2, "REQUEUED": 3, "RUNNING": 2,
    }  # fmt: skip
    assert sum(one["restart"] for one in attempts) == 3
    assert sum(one["array_index"] is not None for one in attempts) == 12
    names = {one["job_name"] for one in attempts}
    for hostile in ("<script>", "|", '"', "\u202e", ";", "=", "$(", "[red]"):
        assert any(hostile in name for name in names), hostile
    ends = [(one["end_s"] or 2**40, 0, -one["procs"]) for one in attempts if one["start_s"]]
    starts = [(one["start_s"], 1, one["procs"]) for one in attempts if one["start_s"]]
    held = peak = 0
    for _, _, procs in sorted(starts + ends):
        held += procs
        peak = max(peak, held)
    assert peak <= TRUTH["max_procs"]


def test_the_samples_of_all_formats_are_small() -> None:
    names = [*TRUTH["logs"].values(), "millrace.truth.json"]
    assert sum((SAMPLES / name).stat().st_size for name in names) < 300 * 1024
