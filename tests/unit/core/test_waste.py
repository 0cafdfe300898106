"""What jobs hold and do not use is found to the hour, and what the log does not say is counted."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.large_tables import stored
from pipeline.tables import JOBS
from pipeline.usage.waste import HOURS, NO_WORK, SHARE, carbon, waste
from tests.rows import jobs_of

HOUR_S = 3600.0
GIB = 2**20
PLANTED = (
    # 100 jobs on 128 processors for 2 h, of which 16 were busy: 100 x 112 x 2 h unused.
    *[{"user": "ada", "account": "a", "procs": 128, "runtime_s": 2 * HOUR_S, "cpu_s": HOUR_S / 4}] * 100,
    # 3 jobs with 8 GPUs on 8 processors for 10 h, one processor busy: 3 x 70 processor-hours and GPU-hours unused.
    *[{"user": "bea", "account": "a", "application": "train", "procs": 8, "gpus": 8, "runtime_s": 10 * HOUR_S,
       "cpu_s": 1.25 * HOUR_S}] * 3,
    # 40 jobs that ask for 4 GiB on each of 2 processors for 1 h and use 1 GiB: 40 x 6 GiB-hours unused.
    *[{"user": "bea", "account": None, "application": "small", "procs": 2, "runtime_s": HOUR_S, "cpu_s": HOUR_S,
       "requested_mem_kib": 4.0 * GIB, "used_mem_kib": 1.0 * GIB, "requested_s": 3 * HOUR_S}] * 40,
)  # fmt: skip


def rows_of(jobs: pa.Table) -> dict[tuple[str, str | None], dict]:
    """The rows of WASTE by kind and name."""
    table, report = waste(jobs, "here", "r1")
    assert report.check() is report
    return {(row["kind"], row["name"]): row for row in table.to_pylist()}


def test_planted_waste_is_named_to_the_hour() -> None:
    found = rows_of(jobs_of(PLANTED))
    every = found["all", None]
    assert [every[name] for name in HOURS] == [
        100 * 256 + 240 + 80, 100 * 224 + 210, 240, 210, 320, 240,
    ]  # fmt: skip
    assert found["application", "solver"]["unused_proc_hours"] == found["user", "ada"]["unused_proc_hours"] == 22_400
    assert found["application", "train"]["unused_gpu_hours"] == found["account", "a"]["unused_gpu_hours"] == 210
    assert (every["n_one_proc_gpu"], every["one_proc_gpu_hours"]) == (3, 240)
    assert found["account", None]["unused_gib_hours"] == 240
    assert (every["n_requested"], every["reserved_hours"]) == (40, 40 * 2 * 2)
    assert sorted(name or "" for kind, name in found if kind == "user") == ["ada", "bea"]


def test_what_to_ask_for_instead_rests_on_the_jobs_that_are_counted() -> None:
    found = rows_of(jobs_of(PLANTED))
    solver, small = found["application", "solver"], found["application", "small"]
    assert (solver["usual_procs"], solver["ask_procs"], solver["n_ask_procs"]) == (128, 16, 100)
    assert solver["ask_procs_share"] == pytest.approx(100 / 101)
    assert (small["usual_mem_kib"], small["ask_mem_kib"], small["n_ask_mem"]) == (4 * GIB, GIB, 40)
    assert small["usual_procs"] is None and small["ask_procs"] is None
    assert found["application", "train"]["ask_procs_share"] == pytest.approx(3 / 4)


def test_the_quantile_of_memory_leaves_three_in_a_hundred_jobs_beyond() -> None:
    used = [(1.0 if place >= 4 else 3.0) * GIB for place in range(200)]
    jobs = [{"requested_mem_kib": 4.0 * GIB, "used_mem_kib": kib} for kib in used]
    assert rows_of(jobs_of(jobs))["all", None]["ask_mem_kib"] == GIB
    used = [kib if place not in {4, 5, 6} else 3.0 * GIB for place, kib in enumerate(used)]
    jobs = [{"requested_mem_kib": 4.0 * GIB, "used_mem_kib": kib} for kib in used]
    assert sum(kib > GIB for kib in used) > (1 - SHARE) * len(used)
    assert rows_of(jobs_of(jobs))["all", None]["ask_mem_kib"] == 3 * GIB


def test_unknown_values_are_counted_and_never_taken_for_nothing() -> None:
    known = {"procs": 4, "runtime_s": HOUR_S, "cpu_s": 0.0, "energy_j": 3.6e6}
    found = rows_of(jobs_of([known, {"procs": 4, "runtime_s": HOUR_S}]))["all", None]
    assert (found["n_jobs"], found["proc_hours"], found["n_cpu"], found["unused_proc_hours"]) == (2, 8, 1, 4)
    assert (found["n_energy"], found["energy_kwh"], found["unused_kwh"]) == (1, 1, 1)
    assert found["gpu_hours"] is found["gib_hours"] is found["reserved_hours"] is None
    nothing = rows_of(jobs_of([{"procs": 4, "runtime_s": HOUR_S}]))["all", None]
    assert nothing["unused_proc_hours"] is None and nothing["n_cpu"] == 0


def test_a_job_never_leaves_less_than_nothing_unused() -> None:
    more = {"procs": 2, "runtime_s": HOUR_S, "cpu_s": 2 * HOUR_S, "gpus": 1, "requested_mem_kib": 1.0 * GIB,
            "used_mem_kib": 2.0 * GIB, "requested_s": HOUR_S / 2}  # fmt: skip
    found = rows_of(jobs_of([more]))["all", None]
    assert [found[name] for name in HOURS[1::2]] == [0, 0, 0]
    assert found["reserved_hours"] == 0 and found["usual_procs"] is found["usual_mem_kib"] is None


def test_a_job_out_of_memory_says_nothing_of_memory_used() -> None:
    asked = {"requested_mem_kib": 4.0 * GIB, "used_mem_kib": 1.0 * GIB}
    found = rows_of(jobs_of([asked | {"state": "OUT_OF_MEMORY"}, asked]))["all", None]
    assert found["n_memory"] == found["n_ask_mem"] == 1


def test_records_without_a_job_are_set_aside_and_other_flagged_jobs_count() -> None:
    jobs = jobs_of([{"flag": str(NO_WORK[0])}, {"flag": "flurry"}, {}, {"runtime_s": None}])
    table, report = waste(jobs, "here", "r1")
    assert table.to_pylist()[0]["n_jobs"] == report.kept.rows == 2
    assert report.set_aside["no_work"].rows == 2


def test_a_log_without_jobs_has_no_rows() -> None:
    table, report = waste(jobs_of([{}]).slice(0, 0), "here", "r1")
    assert table.num_rows == report.seen.rows == 0


def test_a_log_on_disk_and_in_any_order_has_the_same_rows(tmp_path: Path) -> None:
    jobs, shuffled = jobs_of(PLANTED), np.random.default_rng(2).permutation(len(PLANTED))
    on_disk = stored([jobs.slice(0, 7), jobs.slice(7)], JOBS, tmp_path, "a 'quoted' name")
    assert waste(on_disk, "here", "r1")[0] == waste(jobs, "here", "r1")[0]
    assert waste(jobs.take(shuffled), "here", "r1")[0] == waste(jobs, "here", "r1")[0]


def test_carbon_is_energy_times_the_intensity_of_the_job() -> None:
    timed = [
        {"start_s": 0, "end_s": 3600, "runtime_s": HOUR_S, "energy_j": 3.6e6, "cpu_s": HOUR_S / 2},
        {"energy_j": 7.0},
    ]
    found = carbon(jobs_of(timed), lambda start_s, _end_s: np.where(start_s < 60, 400.0, np.nan))
    assert found["all", None] == {"carbon_kg": 0.4, "unused_carbon_kg": pytest.approx(0.2), "n_carbon": 1}


def test_memory_is_rounded_up_by_at_most_a_sixteenth() -> None:
    used = np.exp(np.random.default_rng(1).uniform(1, 20, 200))
    jobs = [{"user": f"u{place}", "requested_mem_kib": 1e12, "used_mem_kib": kib} for place, kib in enumerate(used)]
    found = rows_of(jobs_of(jobs))
    asked = np.array([found["user", f"u{place}"]["ask_mem_kib"] for place in range(len(used))])
    assert ((asked >= used) & (asked <= used * (1 + 1 / 16))).all()
