"""The simulator: deterministic, true to its laws, never beyond its machine; the samples are what it writes."""

import gzip
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools import simulate
from tools.simulate import PLANTED_RECORDS, Job, Law, downey_high, downey_low, simulate_log

SAMPLES = Path(__file__).resolve().parents[2] / "data_samples"
LOGS = {"riverbend": "riverbend.swf.gz", "traps": "traps.swf"}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return simulate.sample_files()


@pytest.fixture(scope="module")
def truths(files: dict[str, bytes]) -> dict[str, dict]:
    return {name: json.loads(files[f"{name}.truth.json"]) for name in LOGS}


def columns_of(data: bytes) -> list[list[float]]:
    """The records of a log by the plainest parser there is: lines of 18 numbers."""
    found = []
    for line in data.decode("latin-1").splitlines():
        words = line.split()
        try:
            found.append([float(word) for word in words])
        except ValueError:
            continue
    return [row for row in found if len(row) == 18]


def raw(files: dict[str, bytes], name: str) -> bytes:
    data = files[LOGS[name]]
    return gzip.decompress(data) if LOGS[name].endswith(".gz") else data


def busiest(jobs: Iterable[tuple[float, float, float]]) -> float:
    """Most processors held at once by jobs of (start, runtime, processors); ends come before starts."""
    events = [event for start, runtime, n in jobs for event in ((start, 1, n), (start + runtime, 0, -n))]
    held = np.cumsum([n for _, _, n in sorted(events)])
    return float(held.max())


# laws


@given(st.floats(1, 500), st.floats(0, 1), st.floats(1, 2000))
def test_low_variance_speedup_starts_at_one_and_stays_under_average_parallelism(a: float, sigma: float, n: float):
    law = downey_low(100.0, a, sigma)
    assert law.speedup(1) == pytest.approx(1)
    assert 1 - 1e-12 <= law.speedup(n) <= min(a, n) * (1 + 1e-12)


@given(st.floats(1, 500), st.floats(1, 20), st.floats(1, 2000))
def test_high_variance_speedup_starts_at_one_and_stays_under_average_parallelism(a: float, sigma: float, n: float):
    law = downey_high(100.0, a, sigma)
    assert law.speedup(1) == pytest.approx(1)
    assert 1 - 1e-12 <= law.speedup(n) <= min(a, n) * (1 + 1e-12)


@given(st.floats(1.01, 500), st.floats(0, 8))
def test_downey_runtimes_are_continuous_where_their_pieces_meet(a: float, sigma: float):
    law = downey_low(100.0, a, sigma) if sigma <= 1 else downey_high(100.0, a, sigma)
    for n in (a, law.bend_procs):
        assert law.runtime_s(n * (1 + 1e-9)) == pytest.approx(law.runtime_s(n), rel=1e-6)
    assert law.runtime_s(law.bend_procs) == pytest.approx(100.0 / a)


@given(st.floats(1, 300), st.floats(1, 1000))
def test_both_downey_modes_agree_at_sigma_one(a: float, n: float):
    assert downey_low(1.0, a, 1.0).speedup(n) == pytest.approx(downey_high(1.0, a, 1.0).speedup(n))


def test_lan_table_5_1_is_reproduced_by_its_own_parameters():
    law = downey_low(1.0, 24.702, 0.739)
    shown = [law.speedup(n) for n in (2, 4, 8, 16, 32, 64)]
    assert shown == pytest.approx([1.97, 3.83, 7.24, 13.07, 20.77, 24.70], abs=0.006)


def test_series_without_noise_is_the_law_and_with_noise_centres_on_it():
    rng = np.random.default_rng(1)
    params = {"t1_s": 3600.0, "serial_fraction": 0.1}
    law = Law("amdahl", **params)
    exact = simulate.series("amdahl", params, [1, 2, 4], 0.0, rng)
    assert exact == pytest.approx([law.runtime_s(n) for n in (1, 2, 4)])
    spread = np.log(simulate.series("amdahl", params, [8] * 4000, 0.1, rng) / law.runtime_s(8))
    assert abs(spread.mean()) < 0.01
    assert spread.std() == pytest.approx(0.1, rel=0.1)


# logs


def test_same_seed_gives_the_same_log_and_another_seed_another():
    first, again, other = (simulate_log(np.random.default_rng(seed), n_jobs=200) for seed in (5, 5, 6))
    assert first == again
    assert first.text != other.text


@pytest.mark.parametrize("seed", range(6))
def test_machine_is_never_exceeded_and_somebody_waits(seed: int):
    log = simulate_log(np.random.default_rng(seed), n_jobs=500, days=7, max_procs=64)
    jobs = [job for job in log.jobs if not job.planted]
    assert busiest((job.submit_s + job.wait_s, job.runtime_s, job.procs) for job in jobs) <= 64
    assert min(job.wait_s for job in jobs) >= 0
    assert max(job.wait_s for job in jobs) > 0


def test_a_log_without_anomalies_has_none_but_the_jobs_its_end_cuts_off():
    log = simulate_log(np.random.default_rng(2))
    assert {job.planted for job in log.jobs} <= {"", "unfinished"}


@pytest.mark.parametrize("kind", [*simulate.BEFORE, *simulate.AFTER])
def test_each_anomaly_alone_plants_as_many_as_asked_and_nothing_else(kind: str):
    log = simulate_log(np.random.default_rng(3), anomalies={kind: 5})
    counts = Counter(job.planted for job in log.jobs if job.planted not in ("", "unfinished", "partial_execution"))
    n_cut_off = sum(job.planted == "unfinished" for job in log.jobs)
    assert set(counts) <= {kind}
    assert 5 - n_cut_off <= counts[kind] <= 5


def test_an_unknown_anomaly_is_refused():
    with pytest.raises(ValueError, match="zero_runtimes"):
        simulate_log(np.random.default_rng(0), anomalies={"zero_runtimes": 1})


def test_parts_of_a_checkpointed_job_add_up_to_its_summary():
    log = simulate_log(np.random.default_rng(4), anomalies={"checkpointed": 20})
    parts: dict[int, list[Job]] = defaultdict(list)
    for job in log.jobs:
        if job.planted == "partial_execution":
            parts[job.job_id].append(job)
    for whole in (job for job in log.jobs if job.planted == "checkpointed"):
        assert sum(part.runtime_s for part in parts[whole.job_id]) == whole.runtime_s
        assert [part.status for part in parts[whole.job_id]][:-1] == [2] * (len(parts[whole.job_id]) - 1)
        assert parts[whole.job_id][-1].status in (3, 4)


def test_write_swf_writes_jobs_of_a_tests_own_making(tmp_path: Path):
    jobs = [Job(60 * k, 100, 2, 3600, 1024, 1, 7, job_id=k + 1, wait_s=0, requested_procs=2) for k in range(3)]
    plain = simulate.write_swf(tmp_path / "own.swf", jobs, max_procs=8, days=1).read_bytes()
    packed = simulate.write_swf(tmp_path / "own.swf.gz", jobs, max_procs=8, days=1).read_bytes()
    assert gzip.decompress(packed) == plain
    assert [row[:5] for row in columns_of(plain)] == [[1, 0, 0, 100, 2], [2, 60, 0, 100, 2], [3, 120, 0, 100, 2]]


# samples


def test_samples_in_the_repository_are_what_the_simulator_writes(files: dict[str, bytes]):
    assert simulate.differing(SAMPLES, files) == []
    assert simulate.main(["--out", str(SAMPLES), "--check"]) == 0


def test_check_names_a_sample_that_differs_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert simulate.main(["--out", str(tmp_path)]) == 0
    (tmp_path / "traps.swf").write_bytes(b"; Version: 2.2\n")
    capsys.readouterr()
    assert simulate.main(["--out", str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out == "differs: traps.swf\n"
    assert (tmp_path / "traps.swf").read_bytes() == b"; Version: 2.2\n"


@pytest.mark.parametrize("name", LOGS)
def test_truth_counts_every_line(files: dict[str, bytes], truths: dict[str, dict], name: str):
    data, truth = raw(files, name), truths[name]["lines"]
    lines = data.decode("latin-1").splitlines()
    assert len(lines) == truth["lines"] == sum(truth.values()) - truth["lines"]
    assert sum(line.startswith(";") for line in lines) == truth["comment"]
    assert sum(not line.strip() for line in lines) == truth["blank"]
    assert len(columns_of(data)) == truth["record"]


@pytest.mark.parametrize("name", LOGS)
def test_planted_records_look_as_their_kind_says(files: dict[str, bytes], truths: dict[str, dict], name: str):
    by_number = defaultdict(list)
    for row in columns_of(raw(files, name)):
        by_number[row[0]].append(row)
    signs = {
        "partial_execution": lambda r: r[10] in (2, 3, 4),
        "unfinished": lambda r: r[3] == -1 and r[2] >= 0 and r[10] == -1,
        "cancelled_before_start": lambda r: r[10] == 5 and r[3] <= 0,
        "zero_runtime": lambda r: r[10] in (0, 1) and r[3] == 0,
        "negative_runtime": lambda r: r[3] < -1,
        "never_started": lambda r: r[2] == r[3] == -1 and r[10] == 0,
        "no_submit": lambda r: r[1] == -1 and r[10] not in (2, 3, 4),
        "starts_before_submit": lambda r: r[2] < -1,
        "no_procs": lambda r: r[4] == r[7] == -1,
        "allocation_unknown": lambda r: r[4] == -1 and r[7] > 0 and r[3] > 0,
        "wait_unknown": lambda r: r[2] == -1 and r[3] > 0,
        "past_request": lambda r: r[3] > r[8] > 0 and r[10] not in (2, 3, 4),
        "cancelled_running": lambda r: r[10] == 5 and r[3] > 0,
        "failed_start": lambda r: r[10] == 0 and 0 < r[3] <= 10,
    }
    also = {"cancelled_running": "hang"}  # a hang is cancelled while it runs, too
    for kind, is_so in signs.items():
        found = Counter(int(n) for n, rows in by_number.items() for row in rows if is_so(row))
        kinds = [kind, also[kind]] if kind in also else [kind]
        assert found == Counter(n for one in kinds for n in truths[name]["planted"][one]["job_ids"]), kind


@pytest.mark.parametrize("name", LOGS)
def test_flags_to_expect_are_the_planted_kinds_added_up(truths: dict[str, dict], name: str):
    flags: Counter[str] = Counter()
    for kind, planted in truths[name]["planted"].items():
        assert planted["records"] == len(planted["job_ids"])
        assert planted["expected_flag"] == PLANTED_RECORDS[kind].expected_flag
        if planted["expected_flag"]:
            flags[planted["expected_flag"]] += planted["records"]
    assert flags == truths[name]["flags"]


def test_expected_flags_are_the_librarys(truths: dict[str, dict]):
    from pipeline.schema import Flag

    known = {str(flag) for flag in Flag}
    assert set(truths["riverbend"]["flags"]) == set(truths["traps"]["flags"])
    assert set(truths["traps"]["flags"]) <= known
    assert {kind.screen for kind in PLANTED_RECORDS.values()} <= known | {None}


def test_traps_holds_every_kind_and_its_truth_names_every_record_by_line(
    files: dict[str, bytes], truths: dict[str, dict]
):
    truth = truths["traps"]
    lines = files["traps.swf"].decode("latin-1").split("\r\n")
    assert set(truth["planted"]) == set(PLANTED_RECORDS)
    assert [float(lines[row["line"] - 1].split()[0]) for row in truth["records"]] == [
        row["job_id"] for row in truth["records"]
    ]
    assert all(len(columns_of(lines[n - 1].encode())) == 0 for n in truth["unreadable_lines"])
    assert {len(lines[trap["line"] - 1].split()) for trap in truth["textual_traps"]} >= {0, 17, 18, 21}
    with pytest.raises(UnicodeDecodeError):
        files["traps.swf"].decode("utf-8")


def test_riverbend_never_exceeds_its_machine(files: dict[str, bytes], truths: dict[str, dict]):
    rows = columns_of(raw(files, "riverbend"))
    ran = [
        (r[1] + r[2], r[3], r[4]) for r in rows if min(r[1], r[2]) >= 0 and min(r[3], r[4]) > 0 and r[10] in (0, 1, 5)
    ]
    assert busiest(ran) <= truths["riverbend"]["max_procs"]


def test_riverbends_medians_follow_their_laws(files: dict[str, bytes], truths: dict[str, dict]):
    truth = truths["riverbend"]
    odd = {number for planted in truth["planted"].values() for number in planted["job_ids"]}
    runs = defaultdict(list)
    for row in columns_of(raw(files, "riverbend")):
        if row[0] not in odd:
            runs[row[11], row[13], row[9], row[4]].append(row[3])
    assert sum(len(runtimes) for runtimes in runs.values()) == truth["clean_records"]
    for app in truth["applications"]:
        law = Law(
            app["law"], **{k: app[k] for k in ("t1_s", "serial_fraction", "avg_parallelism", "sigma") if k in app}
        )
        for procs, n_jobs in app["clean_jobs_by_procs"].items():
            found = runs[app["user"], app["executable"], app["requested_mem_kib"], int(procs)]
            error = math.log(statistics.median(found) / law.runtime_s(int(procs)))
            assert len(found) == n_jobs >= 2
            assert abs(error) < 5 * app["repeat_log_sd"] / math.sqrt(n_jobs) + 1e-3


def test_riverbends_bursts_are_of_the_size_screens_look_for(truths: dict[str, dict]):
    planted = truths["riverbend"]["planted"]
    n_jobs = truths["riverbend"]["lines"]["record"]
    assert truths["riverbend"]["groups"] == len(truths["riverbend"]["applications"]) + 3
    assert planted["probe"]["records"] >= 0.1 * n_jobs
    assert planted["cron"]["records"] >= 500
    assert planted["flurry"]["records"] >= n_jobs / 17


def test_riverbend_offers_enough_of_every_kind_of_series(truths: dict[str, dict]):
    kinds = Counter((app["law"], app["reach"]) for app in truths["riverbend"]["applications"])
    assert min(kinds["downey_low", "bend_inside"], kinds["downey_high", "bend_inside"]) >= 8
    assert kinds["amdahl", "all"] >= 5
    assert sum(n for (_, reach), n in kinds.items() if reach == "tail_open") >= 4
    assert sum(n for (_, reach), n in kinds.items() if reach in ("one_size", "two_sizes")) >= 6


def test_riverbend_is_small_enough_to_keep(files: dict[str, bytes]):
    assert len(files["riverbend.swf.gz"]) < 400_000
