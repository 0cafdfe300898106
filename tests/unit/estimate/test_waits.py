"""Waits from similar cases: as-of, with jobs that still wait as lower bounds, and ascending quantiles."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.estimate.history import History, history
from pipeline.estimate.waits import (
    LEVELS,
    Answers,
    calibrated,
    cases_of,
    offsets,
    questions,
    survivor_quantiles,
    wait_quantiles,
)
from tests.unit.evaluate.estimators import log

N_JOBS, CAPACITY = 300, 64.0


def _past() -> History:
    random = np.random.default_rng(3)
    submit_s = np.sort(random.uniform(0, 20 * 86_400, N_JOBS).round())
    past = replace(history(log(N_JOBS)), submit_s=submit_s)
    start_s = submit_s + random.choice([0.0, 600.0, 7200.0, 90_000.0], N_JOBS)
    return replace(past, start_s=start_s, end_s=start_s + np.nan_to_num(past.runtime_s, nan=60.0))


PAST = _past()


def _said(past: History, jobs: list[int], at_s: list[float]) -> np.ndarray:
    asked = questions(past, np.array(jobs), np.array(at_s), CAPACITY)
    return wait_quantiles(cases_of(past, CAPACITY), asked)


def test_quantiles_ascend_and_are_never_negative() -> None:
    jobs = list(range(100, 200))
    said_s = _said(PAST, jobs, PAST.submit_s[jobs].tolist())
    assert (said_s >= 0).all()
    assert (np.diff(said_s, axis=1) >= 0).all()


def test_with_too_few_cases_nothing_is_said() -> None:
    assert np.isnan(_said(PAST, [1], [float(PAST.submit_s[1])])).all()


@pytest.mark.parametrize("job", [60, 150, 280])
def test_nothing_that_happens_after_the_instant_changes_what_is_said(job: int) -> None:
    at_s = float(PAST.submit_s[job]) + 300.0
    was = _said(PAST, [job], [at_s])
    later = PAST.start_s > at_s
    start_s = np.where(later, at_s + 1e6, PAST.start_s)
    end_s = np.where(PAST.end_s > at_s, start_s + 2e6, PAST.end_s)
    procs = np.where(PAST.submit_s > at_s, 64.0, PAST.procs)
    changed = replace(PAST, start_s=start_s, end_s=end_s, procs=procs)
    assert _said(changed, [job], [at_s]).tolist() == was.tolist()
    assert _said(PAST.known_by(at_s), [job], [at_s]).tolist() == was.tolist()


def test_survivors_raise_quantiles_and_all_known_values_are_plain_quantiles() -> None:
    values, ones = np.arange(1.0, 11.0), np.ones(10)
    known = survivor_quantiles(values, ones > 0, ones, LEVELS)
    assert known.tolist() == [1.0, 5.0, 8.0, 10.0]
    cut = survivor_quantiles(values, values % 2 == 0, ones, LEVELS)
    assert (cut >= known).all()
    assert (cut > known).any()


def test_a_kaplan_meier_curve_by_hand() -> None:
    values, known = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True])
    # Reached: 1/4 at 1; 1 - 3/4 * 1/2 = 5/8 at 3; all at 4.
    found = survivor_quantiles(values, known, np.ones(4), (0.25, 0.26, 0.62, 0.63))
    assert found.tolist() == [1.0, 3.0, 3.0, 4.0]


def test_no_known_wait_says_the_longest_so_far() -> None:
    assert survivor_quantiles(np.array([3.0, 9.0]), np.array([False, False]), np.ones(2), (0.1,)).tolist() == [9.0]


def test_answers_that_were_too_short_are_lengthened_and_the_median_stays() -> None:
    at_s = np.arange(200.0) * 3600
    said_s = np.tile([60.0, 120.0, 180.0, 240.0], (200, 1))
    past = Answers(at_s, said_s, at_s + 3000.0, at_s + 3000.0)
    moved = offsets(past, 200 * 3600.0)
    assert moved[1] == 0.0
    assert (moved[[0, 2, 3]] > 1.0).all()
    found = calibrated(past)
    assert found[0].tolist() == said_s[0].tolist()
    assert (np.diff(found, axis=1) >= 0).all()


def test_offsets_know_only_what_had_started() -> None:
    at_s, said_s = np.array([0.0, 10.0]), np.full((2, 4), 60.0)
    started = Answers(at_s, said_s, np.array([5.0, 1e6]), np.array([5.0, 1e6]))
    other = started._replace(start_s=np.array([5.0, 9e6]), leave_s=np.array([5.0, 9e6]))
    assert offsets(started, 100.0).tolist() == offsets(other, 100.0).tolist()
