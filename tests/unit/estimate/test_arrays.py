"""Job arrays: ended tasks answer for those that wait, as of the asking time; an array counts as one job in records."""

from typing import Any

import numpy as np
import pytest

from pipeline.estimate.estimate_rules import ESTIMATE_RULES
from pipeline.estimate.history import history
from pipeline.limits.limit_choice import LimitSettings
from pipeline.limits.limits import rows_at
from pipeline.estimate.nightly.table import table_rows
from pipeline.estimate.questions import questions_of
from pipeline.estimate.state import State
from pipeline.estimate.walltime import estimate, learn
from tests.rows import jobs_of

DAY_S, N_TASKS, AT_ONCE = 86_400, 12, 4
ASKED = {"user": "ada", "application": "sweep", "procs": 1, "requested_s": 86_400.0}
Rows = list[dict[str, Any]]


def array(number: int, submit_s: float, runtimes_s: list[float]) -> Rows:
    """Tasks of an array, AT_ONCE of them at a time."""
    free_s, found = [submit_s + 60.0] * AT_ONCE, Rows()
    for task, runtime_s in enumerate(runtimes_s):
        start_s = min(free_s)
        free_s[free_s.index(start_s)] = start_s + runtime_s
        found.append(ASKED | {
            "job_id": f"{number}_{task}", "array_id": str(number), "submit_s": int(submit_s), "start_s": int(start_s),
            "end_s": int(start_s + runtime_s), "runtime_s": runtime_s,
        })  # fmt: skip
    return found


def campaigns(level_sd: float, task_sd: float, n: int = 60) -> Rows:
    """Pairs of arrays of one user and application that run side by side; the last pair's level is 600 s and 6,000 s."""
    rng, found = np.random.default_rng(30), Rows()
    for number in range(n):
        level_s = (600.0, 6_000.0)[number % 2] if number >= n - 2 else 2_000.0 * np.exp(rng.normal(0, level_sd))
        runtimes_s = np.round(level_s * np.exp(rng.normal(0, task_sd, N_TASKS)))
        found += array(number, 1_700_000_000 + DAY_S * (number // 2) + 300 * (number % 2), runtimes_s.tolist())
    return sorted(found, key=lambda row: row["submit_s"])


def asked(state: State, array_id: str | None) -> np.ndarray:
    """The quantiles, s, of a task that waits at the State's time."""
    question = ASKED | {"array_id": array_id}
    return estimate(state, questions_of([question], np.array([state.as_of_s]), "UTC"), ESTIMATE_RULES)[0]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return campaigns(0.8, 0.1)


@pytest.fixture(scope="module")
def state(rows: Rows) -> State:
    """The State when the first tasks of both last arrays have ended."""
    at_s = max(row["end_s"] for row in rows if row["job_id"] in {"58_3", "59_3"})
    return learn(history(jobs_of(rows)), ESTIMATE_RULES, at_s)


@pytest.mark.parametrize(("array_id", "level_s"), [("58", 600.0), ("59", 6_000.0)])
def test_ended_tasks_answer_for_those_that_wait(state: State, array_id: str, level_s: float) -> None:
    assert abs(np.log(asked(state, array_id)[1] / level_s)) < 0.2
    assert asked(state, array_id)[0] < level_s < asked(state, array_id)[4]
    assert abs(np.log(asked(state, None)[1] / level_s)) > 0.5


def test_an_array_without_an_ended_task_changes_no_answer(state: State) -> None:
    assert asked(state, "60").tolist() == asked(state, None).tolist()


def test_what_ends_after_the_asking_time_changes_no_answer(rows: Rows, state: State) -> None:
    later = [
        row | {"runtime_s": 7.0 * row["runtime_s"], "end_s": int(row["start_s"] + 7.0 * row["runtime_s"])}
        if row["end_s"] > state.as_of_s else row
        for row in rows
    ]  # fmt: skip
    again = learn(history(jobs_of(later)), ESTIMATE_RULES, state.as_of_s)
    assert asked(again, "59").tolist() == asked(state, "59").tolist()


def test_tasks_weigh_more_only_where_the_log_shows_that_they_are_alike() -> None:
    mixed = campaigns(0.0, 0.9)
    at_s = max(row["end_s"] for row in mixed if row["job_id"] in {"58_3", "59_3"})
    state = learn(history(jobs_of(mixed)), ESTIMATE_RULES, at_s)
    assert abs(np.log(asked(state, "58")[1] / asked(state, None)[1])) < 0.1


def limit_jobs(*n_tasks: int) -> Rows:
    """Arrays of so many tasks, one a day; of 1 task: a job of its own."""
    found = Rows()
    for number, n in enumerate(n_tasks):
        own = array(number, 1_700_000_000 + DAY_S * number, [600.0] * n)
        found += own if n > 1 else [row | {"array_id": None} for row in own]
    return found


@pytest.mark.parametrize(
    ("n_tasks", "n_jobs"),
    [
        ((50,), None), ((1,) * 9, None), ((1,) * 10, 10), ((50, *(1,) * 8), None), ((50, *(1,) * 9), 10),
        ((4,) * 11, 11),
    ],
)  # fmt: skip
def test_a_limit_rests_on_ten_submits_not_on_ten_tasks(n_tasks: tuple[int, ...], n_jobs: int | None) -> None:
    rows = rows_at(history(jobs_of(limit_jobs(*n_tasks))), 1_700_000_000 + DAY_S * 20.0, LimitSettings())
    assert set(rows.get("n_jobs", np.empty(0)).tolist()) == ({n_jobs} if n_jobs else set())


@pytest.mark.parametrize("part_jobs", [5, 1000])
def test_a_row_of_the_table_counts_arrays_not_tasks(part_jobs: int) -> None:
    """Arrays that run side by side end in turns, and in several parts of the log."""
    own = [row | {"job_id": f"own {place}"} for place, row in enumerate(limit_jobs(1, 1))]
    jobs = campaigns(0.5, 0.5, n=6) + own
    past = history(jobs_of(jobs))
    state = learn(past, ESTIMATE_RULES, float(past.end_s.max()), part_jobs)
    assert set(table_rows(state, ESTIMATE_RULES)["n_jobs"].tolist()) == {8}
