"""Reserved times: those a site names, those a log proves, and ordinary quiet that is neither."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.log_windows import dedicated_facts, dedicated_time, found_windows
from pipeline.settings import CleanSettings, DedicatedWindow, SiteSettings
from tests.rows import jobs_of

HOUR_S = 3_600
BEGIN_S = 1_704_672_000


def job(user: str, submit_s: int, start_s: int, runtime_s: int = HOUR_S, **more: Any) -> dict[str, Any]:
    return {
        "user": user, "submit_s": submit_s, "start_s": start_s, "end_s": start_s + runtime_s,
        "runtime_s": float(runtime_s), "requested_s": 7_200.0, "procs": 8, "queue": "day",
    } | more  # fmt: skip


def reserved(rng: np.random.Generator, **of_those_waiting: Any) -> list[dict[str, Any]]:
    """Two busy days, then twelve hours for one user while eight others wait, then two busy days again."""
    usual = [
        job(f"u{rng.integers(12)}", t - 600, t)
        for day in (0, 3)
        for t in (BEGIN_S + day * 86_400 + rng.integers(0, 40 * HOUR_S, 300)).tolist()
    ]
    since_s = BEGIN_S + 44 * HOUR_S
    few = [job("staff", since_s + k * HOUR_S - 60, since_s + k * HOUR_S) for k in range(12)]
    kept_out = [job(f"u{k}", since_s - 300, BEGIN_S + 72 * HOUR_S) | of_those_waiting for k in range(8)]
    return [*usual, *few, *kept_out]


def window_users(rows: list[dict[str, Any]], **settings: Any) -> set[str]:
    jobs = jobs_of(rows)
    flagged = dedicated_time(JobArrays(jobs, SiteSettings(max_procs=128), settings=CleanSettings(**settings)))
    return {user for user, is_in in zip(jobs.column("user").to_pylist(), flagged, strict=True) if is_in}


@pytest.mark.parametrize("seed", range(5))
def test_hours_for_one_user_while_others_wait_are_found(seed: int) -> None:
    rows = reserved(np.random.default_rng(seed))
    ((since_s, until_s),) = found_windows(JobArrays(jobs_of(rows), SiteSettings(max_procs=128)))
    assert (since_s, until_s) == (BEGIN_S + 44 * HOUR_S, BEGIN_S + 55 * HOUR_S)
    assert window_users(rows) == {"staff"}


@pytest.mark.parametrize(
    "of_those_waiting",
    [
        {"procs": 125},
        {"requested_s": 86_400.0},
        {"requested_s": None},
        {"queue": "night"},
        {"eligible_s": BEGIN_S + 70 * HOUR_S},
        {"submit_s": BEGIN_S + 50 * HOUR_S},
        {"user": "u1"},
    ],
)
def test_others_who_may_wait_for_another_reason_prove_nothing(of_those_waiting: dict[str, Any]) -> None:
    assert window_users(reserved(np.random.default_rng(1), **of_those_waiting)) == set()


def test_a_machine_on_which_another_job_runs_on_is_not_proven_reserved() -> None:
    rows = reserved(np.random.default_rng(1))
    assert window_users([*rows, job("u1", BEGIN_S, BEGIN_S, 80 * HOUR_S)]) == set()


def test_a_window_the_site_names_takes_what_started_in_it() -> None:
    window = DedicatedWindow(
        reason="acceptance\x1btest",
        since=datetime.fromtimestamp(BEGIN_S, UTC),
        until=datetime.fromtimestamp(BEGIN_S + 100, UTC),
    )
    rows = [job("a", BEGIN_S - 9, BEGIN_S), job("b", BEGIN_S, BEGIN_S + 100), job("c", BEGIN_S - 9, BEGIN_S + 99)]
    assert window_users(rows, dedicated=(window,)) == {"a", "c"}
    facts = dedicated_facts(JobArrays(jobs_of(rows), SiteSettings(), settings=CleanSettings(dedicated=(window,))))
    ((name, n_jobs),) = facts.items()
    assert n_jobs == 2
    assert "\x1b" not in name
