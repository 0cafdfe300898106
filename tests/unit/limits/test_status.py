"""What is told of shorter limits from JOBS: weeks, and kinds of jobs that stop themselves before limits."""

import numpy as np
import pytest

from pipeline.limits.status import EARLY_JOBS, early_kinds, planned_weeks
from tests.rows import jobs_of

WEEK_S, REQUEST_S, LIMIT_S = 7 * 86_400, 36_000.0, 7200.0
Row = dict[str, object]


def job(
    nth: int, run_s: float, *, user: str = "ada", name: str | None = "solve", by: str | None = "plug-in 0a1b"
) -> Row:
    end_s = 1_700_000_000 + 600 * nth
    start_s = int(end_s - run_s)
    return {
        "user": user, "application": name, "submit_s": start_s, "start_s": start_s, "end_s": end_s,
        "runtime_s": run_s, "requested_s": REQUEST_S, "procs": 2, "state": "COMPLETED",
        "limit_set_s": LIMIT_S if by else None, "limit_set_by": by,
    }  # fmt: skip


def kinds_of(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(one.values()) for one in early_kinds(jobs_of(rows))]


@pytest.mark.parametrize(
    ("run_s", "n", "by", "wanted"),
    [
        (LIMIT_S - 300, EARLY_JOBS, "plug-in 0a1b", [("ada", "solve", EARLY_JOBS, EARLY_JOBS)]),
        (LIMIT_S - 300, EARLY_JOBS - 1, "plug-in 0a1b", []),
        (LIMIT_S - 300, EARLY_JOBS, "dry_run 0a1b", []),
        (LIMIT_S - 1000, EARLY_JOBS, "plug-in 0a1b", []),
        (LIMIT_S + 600, EARLY_JOBS, "guard", []),
    ],
)
def test_a_kind_whose_planned_runs_end_just_before_their_limits_is_named(
    run_s: float, n: int, by: str, wanted: list[tuple[object, ...]]
) -> None:
    before = [job(nth, 20_000.0, by=None) for nth in range(30)]
    assert kinds_of(before + [job(40 + nth, run_s, by=by) for nth in range(n)]) == wanted


def test_a_kind_that_has_always_run_so_long_is_not_named() -> None:
    runs = [job(nth, LIMIT_S - 300, by=None) for nth in range(30)]
    assert kinds_of(runs + [job(40 + nth, LIMIT_S - 300) for nth in range(20)]) == []


def test_a_fifth_is_enough_and_users_are_apart() -> None:
    rows = [job(nth, 20_000.0 if nth % 5 else LIMIT_S - 60) for nth in range(50)]
    rows += [job(nth, 20_000.0 if nth % 6 else LIMIT_S - 60, user="bob") for nth in range(60)]
    assert kinds_of(rows) == [("ada", "solve", 50, 10)]


def test_a_week_counts_planned_raised_and_ended_jobs() -> None:
    rows = [job(0, 3600.0), job(1, 20_000.0), job(2, 3600.0, by="dry_run 0a1b"), job(3, 100.0, by=None)]
    rows += [job(4, LIMIT_S, name=None) | {"state": "TIMEOUT"}]
    (week,) = planned_weeks(jobs_of(rows))
    hours = 4 * 2 * (REQUEST_S - LIMIT_S) / 3600
    assert week["n_planned"] == 4 and week["n_dry_run"] == 1 and week["n_raised"] == 2 and week["n_ended"] == 1
    assert week["n_extensions"] >= 2 and np.isclose(week["earlier_proc_hours"], hours)
    assert planned_weeks(jobs_of([job(3, 100.0, by=None)])) == [] == kinds_of([job(3, 100.0, by=None)])
