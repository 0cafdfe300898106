"""Harm by limits of ours: counted by user and week, and where it is too much limiting switches itself off."""

from typing import Any

import pytest

from pipeline.limits.limit_harm import EVERYBODY, WEEK_S, make_harm, switched_off, with_switched_off
from pipeline.report import Report, Tally
from pipeline.tables import LIMIT_HARM, LIMITS
from tests.rows import jobs_of

MONDAY_S = 1_767_571_200 + 0
HOUR_S = 3600


def job(n: int, user: str | None = "ada", beyond: bool = False, week: int = 0, **changes: Any) -> dict[str, Any]:
    end_s = MONDAY_S + week * WEEK_S + 600 * n
    return {
        "job_id": f"{user}{week}-{n}", "user": user, "submit_s": end_s - 7200, "start_s": end_s - 3600, "end_s": end_s,
        "runtime_s": 3600.0 if beyond else 1800.0, "procs": 4, "requested_s": 4.0 * HOUR_S, "limit_set_s": 3600.0,
        "limit_set_by": "plug-in 0a1b", "state": "TIMEOUT" if beyond else "COMPLETED",
    } | changes  # fmt: skip


def harm(rows: list[dict[str, Any]], **again: float) -> list[dict[str, Any]]:
    return LIMIT_HARM.check(make_harm(jobs_of(rows), "here", again)[0]).to_pylist()


def test_harm_is_counted_by_user_and_week() -> None:
    rows = [job(1), job(2, beyond=True), job(3, "bob", week=1), job(4, None), job(5, limit_set_s=None)]
    found = {(row["user"], row["week_s"]): row for row in harm(rows)}
    assert set(found) == {
        (None, MONDAY_S), (None, MONDAY_S + WEEK_S), ("ada", MONDAY_S), ("bob", MONDAY_S + WEEK_S),
    }  # fmt: skip
    assert (found["ada", MONDAY_S]["n_limited"], found["ada", MONDAY_S]["n_beyond"]) == (2, 1)
    assert found["ada", MONDAY_S]["freed_proc_hours"] == pytest.approx(2 * 3 * 4)
    assert found[None, MONDAY_S]["n_limited"] == 3 and found["ada", MONDAY_S]["off_since_s"] is None
    _, report = make_harm(jobs_of(rows), "here", {})
    assert report.facts["limited"] == 4 and report.facts["beyond"] == 1 and report.facts["users_off"] == 0


@pytest.mark.parametrize(
    ("n_jobs", "n_beyond", "is_off"),
    [(1, 1, False), (5, 5, True), (5, 2, True), (6, 2, False), (20, 3, False), (15, 3, True), (199, 12, False),
     (199, 13, True), (200, 13, False)],
)  # fmt: skip
def test_more_than_chance_explains_switches_off(n_jobs: int, n_beyond: int, is_off: bool) -> None:
    """Of 199 jobs up to 12 may exceed limits that hold for 97%, at 99%; of 5 one; of 200 and more 9%."""
    rows = [job(n, beyond=n > n_jobs - n_beyond) for n in range(1, n_jobs + 1)]
    table, report = make_harm(jobs_of(rows), "here", {})
    assert ("ada" in switched_off(table)) is is_off and report.facts["users_off"] == int(is_off)


def test_jobs_that_were_not_limited_count_as_in_the_promise() -> None:
    """Three of three limited jobs are beyond: too many of three jobs, and not of 60 of the same user."""
    limited = [job(n, beyond=n > 0) for n in range(4)]
    others = [job(n, limit_set_s=None, state="TIMEOUT", runtime_s=14_400.0) for n in range(4, 60)]
    assert "ada" in switched_off(make_harm(jobs_of(limited), "here", {})[0])
    earlier = [one | {"end_s": one["end_s"] - WEEK_S} for one in others]
    assert "ada" in switched_off(make_harm(jobs_of(earlier + limited), "here", {})[0])
    late = [one | {"end_s": MONDAY_S + 60_000 + one["end_s"]} for one in limited[1:]]
    table, report = make_harm(jobs_of([limited[0], *others, *late]), "here", {})
    assert "ada" not in switched_off(table) and report.facts["beyond"] == 3 and report.facts["limited"] == 4


def test_it_stays_off_until_a_person_switches_it_on_again() -> None:
    rows = [job(n, beyond=n <= 2) for n in range(1, 3)] + [job(n, week=1) for n in range(400)]
    (since_s,) = {row["off_since_s"] for row in harm(rows) if row["user"] == "ada"}
    assert since_s == MONDAY_S + 1200
    again = {"ada": MONDAY_S + 3600.0, EVERYBODY: MONDAY_S + 3600.0}
    assert switched_off(make_harm(jobs_of(rows), "here", again)[0]) == frozenset()


def test_a_bad_week_switches_the_site_off_where_no_user_is() -> None:
    """Each of 30 users has one job of five beyond its limit."""
    rows = [job(7 * k + n, f"u{k:02}", beyond=n == 0) for k in range(30) for n in range(5)]
    assert switched_off(make_harm(jobs_of(rows), "here", {})[0]) == {EVERYBODY}


def test_a_soft_walltime_that_was_passed_counts_and_a_log_without_limits_has_no_harm() -> None:
    rows = [job(n, runtime_s=4000.0) for n in range(3)]
    assert switched_off(make_harm(jobs_of(rows), "here", {})[0]) == {"ada", EVERYBODY}
    assert harm([job(1, limit_set_s=None, state="TIMEOUT")]) == []


def test_limits_of_those_who_are_off_are_none_and_say_so() -> None:
    rows = [{"who": who, "requested_s": 3600.0, "limit_s": 600.0, "status": "limited"} for who in ("ada", "bob")]
    names = {name: [row[name] for row in rows] for name in rows[0]}
    both = {
        "site": "here",
        "template": "who",
        "chain_rank": 0,
        "n_jobs": 20,
        "newest_end_s": 1,
        "most_jobs": 9,
        "run_id": "r",
    }
    limits = LIMITS.build(**names | {name: [value] * 2 for name, value in both.items()})
    report = Report("limits", "row", Tally(2), Tally(2), {}, {"rows limited": 2, "rows user_off": 0})

    def left(**off: int) -> list[tuple[Any, Any]]:
        users = [{"*": None}.get(name, name) for name in off]
        harm = LIMIT_HARM.build(
            site=["here"] * len(off), user=users, week_s=[0] * len(off), n_limited=[5] * len(off),
            freed_proc_hours=[1.0] * len(off), n_beyond=[5] * len(off), off_since_s=list(off.values()),
        )  # fmt: skip
        made, said = with_switched_off((limits, report), harm)
        assert said.facts["rows limited"] == made["limit_s"].to_pylist().count(600.0)
        return list(zip(made["limit_s"].to_pylist(), map(str, made["status"].to_pylist()), strict=True))

    assert left(ada=7) == [(None, "user_off"), (600.0, "limited")]
    assert left(**{"*": 7}) == [(None, "site_off"), (None, "site_off")]
    assert left() == [(600.0, "limited")] * 2
