"""Rows of groups, as PREDICTIONS have them: what they ask, and intervals that hold for the jobs of the next week."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Bools, Value
from pipeline.estimate.history import History, history
from pipeline.estimate.nightly.rows import GROUP, GROUP_KEYS, NEWEST, as_asked, group_key, taken
from pipeline.estimate.questions import questions_of
from pipeline.estimate.score import N_QUANTILES
from pipeline.estimate.state import State
from pipeline.estimate.walltime import answers
from tests.rows import jobs_of
from tests.unit.estimate.table_log import DAY_S, SETTINGS, state_at

WEEK_S = 7 * DAY_S
JOB: dict[str, Value] = {"user": "ada", "application": "solver", "procs": 4}


def log_of(submit_s: Sequence[float], runtime_s: Sequence[float], requested_s: Sequence[float | None]) -> History:
    columns = zip(submit_s, runtime_s, requested_s, strict=True)
    rows = [
        JOB | {"submit_s": int(s), "start_s": int(s), "end_s": int(s + run), "runtime_s": run, "requested_s": asked}
        for s, run, asked in columns
    ]
    return history(jobs_of(rows))


def weekly_log(weeks: int = 60, a_week: int = 24, seed: int = 0) -> History:
    """Jobs whose level changes each week, by more than they vary within it."""
    random = np.random.default_rng(seed)
    submit_s = np.sort(random.uniform(0, weeks * WEEK_S, weeks * a_week))
    level = random.normal(0, 0.5, weeks)[(submit_s // WEEK_S).astype(int)]
    runtime_s = np.round(600 * np.exp(level + random.normal(0, 0.3, len(level))), 1) + 1
    return log_of(submit_s.tolist(), runtime_s.tolist(), [None] * len(level))


def test_intervals_hold_for_the_jobs_of_the_next_week_and_those_of_a_submit_do_not() -> None:
    log = weekly_log()
    weeks = np.arange(30, 59)
    held: dict[bool, list[Bools]] = {False: [], True: []}
    for week_s in weeks * WEEK_S:
        state = state_at(log, float(week_s))
        later = log.runtime_s[(log.submit_s >= week_s) & (log.submit_s < week_s + WEEK_S)]
        for is_later, found in held.items():
            asked = questions_of([JOB], np.array([week_s]), "UTC")
            low_s, median_s, _, high_s, *_ = answers(state, asked, SETTINGS, np.array([is_later])).quantiles_s[0]
            assert low_s <= median_s <= high_s
            found.append((low_s <= later) & (later <= high_s))
    at_submit, later_on = (float(np.concatenate(held[one]).mean()) for one in (False, True))
    assert 0.7 < later_on < 0.9 and at_submit < later_on - 0.1, (at_submit, later_on)


def test_the_median_of_a_later_job_is_that_of_one_now() -> None:
    log = weekly_log(12)
    asked = questions_of([JOB, JOB], np.full(2, 12.0 * WEEK_S), "UTC")
    found = answers(state_at(log), asked, SETTINGS, np.array([False, True])).quantiles_s
    assert found[0, 1] == found[1, 1] and (found[0] != found[1]).any()
    assert (found[0] == answers(state_at(log), asked, SETTINGS).quantiles_s[0]).all()


def test_nobody_is_surer_of_a_later_job_than_of_one_now() -> None:
    state = state_at(weekly_log(12))
    certain = np.zeros_like(state.served.rungs)
    certain[::2, [0, N_QUANTILES]] = 99.0
    narrow = replace(state, served=state.served._replace(rungs=certain))
    asked = questions_of([JOB, JOB], np.full(2, 12.0 * WEEK_S), "UTC")
    now_s, later_s = answers(narrow, asked, SETTINGS, np.array([False, True])).quantiles_s
    assert (now_s == later_s).all() and len(set(now_s)) > 1


def group_rows(state: State, key: str) -> tuple[list[float], list[int]]:
    """Requests of the questions of a key's rows, s (0: unknown), and their ended jobs, the oldest first."""
    rows = as_asked(taken(state.rows, np.flatnonzero(state.rows.kind == GROUP + GROUP_KEYS.index(key))))
    return rows.limit_s.tolist(), rows.n_jobs.tolist()


@pytest.mark.parametrize("parts", [1, 3])
def test_a_row_of_a_group_asks_with_the_request_that_its_newest_jobs_share(parts: int) -> None:
    requests = [3600.0] * 3 + [7200.0] * NEWEST
    log = log_of(np.arange(8) * 3600.0, [60.0] * 8, requests)
    for n_jobs, expected_s in ((3, 3600.0), (4, 0.0), (7, 0.0), (8, 7200.0)):
        state = state_at(log.take(np.arange(n_jobs)))
        assert group_rows(state, "uamsp") == group_rows(state, "up") == ([expected_s], [n_jobs])
    assert group_rows(state_at(log), "urp") in (([3600.0, 7200.0], [3, 5]), ([7200.0, 3600.0], [5, 3]))


def test_every_seventh_midnight_a_row_of_a_group_is_asked_and_none_is_in_the_table() -> None:
    log = log_of(np.arange(40) * DAY_S / 2, [600.0] * 40, [3600.0] * 40)
    rows = state_at(log).rows
    own = taken(rows, np.flatnonzero(rows.kind >= GROUP))
    assert (own.at_s % WEEK_S == 0).all() and len(np.unique(own.at_s)) > 1


def test_the_key_of_rows_follows_the_template() -> None:
    assert [GROUP_KEYS[group_key(one)] for one in (("user", "requested_s"), ("user", "application"), ("account",))] == [
        "urp", "uamsp", "up",
    ]  # fmt: skip


def test_a_log_without_jobs_of_a_user_has_no_row_of_a_group() -> None:
    log = replace(weekly_log(3), codes={name: np.full(72, -1) for name in weekly_log(3).codes})
    assert not (state_at(log).rows.kind >= GROUP).any()
