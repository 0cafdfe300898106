"""Faults of a log: planted ones are found with their jobs, and sound logs stay silent."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.records import clock_jump, duplicate, leading_numbers, over_limit, repeated_stretches
from pipeline.settings import CleanSettings, MaximumSettings, SiteSettings
from pipeline.tables import JOBS
from tests.rows import jobs_of

Log = dict[str, Any]


def log(rng: np.random.Generator, n: int = 4_000, mean_gap_s: float = 120.0) -> Log:
    """Jobs numbered in order of submit, as one server gives ids out."""
    submit_s = 1_700_000_000 + np.cumsum(rng.exponential(mean_gap_s, n)).astype(np.int64)
    start_s = submit_s + rng.exponential(3_000, n).astype(np.int64)
    runtime_s = np.maximum(rng.lognormal(7, 1.5, n).round(), 1)
    return {
        "job_id": [str(number) for number in range(1_000, 1_000 + n)], "user": rng.choice(["ada", "bob", "eve"], n),
        "submit_s": submit_s, "start_s": start_s, "end_s": start_s + runtime_s.astype(np.int64),
        "runtime_s": runtime_s, "procs": rng.integers(1, 64, n), "source_file": ["a.log"] * n,
    }  # fmt: skip


def arrays_of(*logs: Log) -> JobArrays:
    whole = {name: np.concatenate([np.asarray(one[name]) for one in logs]) for name in logs[0]}
    n = len(whole["submit_s"])
    same = {"site": ["here"] * n, "restart": np.zeros(n, np.int64), "source_line": np.arange(1, n + 1)}
    texts = {name: whole[name].astype(str).tolist() for name in ("job_id", "user", "source_file")}
    return JobArrays(JOBS.build(**whole | texts | same), SiteSettings())


def set_back(one: Log, at_s: float, back_s: int) -> tuple[Log, np.ndarray]:
    """The log as a clock set back by `back_s` at true time `at_s` writes it; which jobs truly span that instant."""
    spans = (one["submit_s"] < at_s) & (one["end_s"] >= at_s)
    shifted = {name: one[name] - back_s * (one[name] >= at_s) for name in ("submit_s", "start_s", "end_s")}
    return one | shifted, spans


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("back_s", [1_800, 3_600, 86_400])
def test_a_clock_set_back_is_found_with_the_jobs_it_struck(seed: int, back_s: int) -> None:
    one = log(np.random.default_rng(seed))
    at_s = float(one["submit_s"][2_000]) + 1
    shifted, spans = set_back(one, at_s, back_s)
    arrays = arrays_of(shifted)
    ((since_s, until_s),) = repeated_stretches(arrays)
    assert abs(until_s - at_s) <= 3_600
    assert abs(since_s - (at_s - back_s)) <= 3_600
    flagged = clock_jump(arrays)
    assert flagged[spans].mean() >= 0.98
    assert flagged.mean() < 0.1 + 2 * back_s / (4_000 * 120)


@pytest.mark.parametrize("seed", range(10))
def test_a_sound_log_has_no_jump_and_one_in_any_order_neither(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = log(rng)
    assert not clock_jump(arrays_of(one)).any()
    one["submit_s"] = rng.permutation(one["submit_s"])
    assert repeated_stretches(arrays_of(one)) == []


@pytest.mark.parametrize("n_again", [1, 3, 40])
def test_jobs_submitted_anew_under_their_old_ids_are_no_jump(n_again: int) -> None:
    one = log(np.random.default_rng(1))
    for place in (500, 1_500, 2_500):
        one["submit_s"][place : place + n_again] = one["submit_s"][place + n_again] + 7_200 + np.arange(n_again)
    assert repeated_stretches(arrays_of(one)) == []


def test_ids_that_began_anew_are_no_jump() -> None:
    one = log(np.random.default_rng(1))
    one["job_id"] = [str(number) for number in [*range(67_000_000, 67_002_000), *range(1, 2_001)]]
    assert repeated_stretches(arrays_of(one)) == []


def test_a_jump_does_not_depend_on_the_order_of_rows() -> None:
    one = log(np.random.default_rng(3))
    arrays = arrays_of(set_back(one, float(one["submit_s"][2_000]), 3_600)[0])
    order = np.random.default_rng(4).permutation(arrays.jobs.num_rows)
    shuffled = JobArrays(arrays.jobs.take(pa.array(order)), arrays.site)
    assert np.array_equal(clock_jump(arrays)[order], clock_jump(shuffled))


def test_ids_begin_with_numbers() -> None:
    ids = pa.chunked_array([["12", "7.server", "3_4"], ["[5]", "", "a1", "9" * 30]]).slice(1)
    assert leading_numbers(ids).tolist() == [7, 3, -1, -1, -1, 10**18 - 1]


def test_a_log_read_twice_under_other_numbers_is_kept_once() -> None:
    one = log(np.random.default_rng(1), 500)
    again = one | {"job_id": [f"{number}" for number in range(90_000, 90_500)], "source_file": ["b.log"] * 500}
    found = duplicate(arrays_of(one, again))
    assert not found[:500].any()
    assert found[500:].all()


def test_tasks_that_share_every_second_are_all_kept() -> None:
    same = {"job_id": 0, "user": "ada", "submit_s": 10, "start_s": 20, "end_s": 50, "runtime_s": 30.0, "procs": 1}
    tasks = {name: np.full(900, value) for name, value in same.items()} | {"job_id": [f"7_{k}" for k in range(900)]}
    more = tasks | {"job_id": [f"8_{k}" for k in range(900)]}
    apart = [one | {"source_file": [name] * 900} for one, name in ((tasks, "a.log"), (more, "b.log"))]
    assert not duplicate(arrays_of(*apart)).any()


def test_of_two_files_that_share_an_array_more_is_kept() -> None:
    one, other = (log(np.random.default_rng(seed), 400) for seed in (1, 2))
    other |= {"job_id": [str(number) for number in range(5_000, 5_400)], "source_file": ["b.log"] * 400}
    for name in ("user", "submit_s", "start_s", "end_s", "runtime_s", "procs"):
        other[name][:150] = one[name][:150]
    assert not duplicate(arrays_of(one, other)).any()


@pytest.mark.parametrize(("first", "second", "is_same"), [
    ("12.alpha", "12.alpha.example.org", True), ("12", "12.alpha", True), ("12", "alpha-12", True),
    ("12[3].alpha", "12[4].alpha", False), ("12.alpha", "13.alpha", False), ("12_1", "12_2", False),
    ("12.0", "12.1", False),
])  # fmt: skip
def test_ids_that_are_one_number_under_two_names(first: str, second: str, is_same: bool) -> None:
    arrays = JobArrays(jobs_of([{"job_id": first}, {"job_id": second}, {"job_id": "99.x"}]), SiteSettings())
    found = duplicate(arrays)
    assert found.sum() == is_same
    changed = JobArrays(jobs_of([{"job_id": first}, {"job_id": second, "procs": 5}]), SiteSettings())
    assert not duplicate(changed).any()


def queue_of(runtimes_s: list[float], requested_s: float | None, queue: str | None = "day") -> list[dict[str, Any]]:
    return [
        {"runtime_s": t, "requested_s": requested_s, "queue": queue, "end_s": 1_060 + int(t)} for t in runtimes_s
    ]  # fmt: skip


def over(rows: list[dict[str, Any]], **limits: Any) -> list[int]:
    settings = CleanSettings(maximum=MaximumSettings(**limits))
    return np.flatnonzero(over_limit(JobArrays(jobs_of(rows), SiteSettings(), settings=settings))).tolist()


def test_stated_limits_hold_for_queue_and_machine() -> None:
    rows = queue_of([100_000.0, 80_000.0], None) + queue_of([100_000.0], None, None)
    assert over(rows, queue_runtime_s={"day": 86_400}) == [0]
    assert over(rows, queue_runtime_s={"*": 86_400}) == [0, 2]
    assert over(rows, queue_runtime_s={"*": 50_000}) == [0, 1, 2]
    assert over(rows) == []


def test_a_queue_that_ends_jobs_at_their_request_shows_its_limit() -> None:
    usual = queue_of([3_000.0] * 500, 86_400)
    assert over([*usual, *queue_of([200_000.0], 3_600)]) == [500]
    assert over([*usual, *queue_of([50_000.0], 3_600)]) == []
    assert over([*usual, *queue_of([200_000.0], None)]) == []
    assert over([*usual[:50], *queue_of([200_000.0], 3_600)]) == []


def test_a_queue_in_which_overruns_are_usual_shows_none() -> None:
    assert over(queue_of([3_000.0] * 500, 3_600) + queue_of([200_000.0] * 20, 3_600)) == []
