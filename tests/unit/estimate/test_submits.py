"""What had started by a submit is no more than what was known then."""

from dataclasses import replace

import numpy as np

from pipeline.estimate.baselines import whole_log
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import history
from pipeline.estimate.walltime import walltime
from tests.unit.evaluate.estimators import log

PAST = replace(history(log(300)), submit_s=np.repeat(np.arange(75) * 3600.0, 4))
SETTINGS = EstimateRules()
AT_ONCE = np.random.default_rng(1).random(300) < 0.5


def test_earlier_jobs_that_had_started_are_counted_and_the_job_itself_is_not() -> None:
    start_s = PAST.submit_s + np.where(AT_ONCE, 0, 1800)
    past = replace(PAST, start_s=start_s, end_s=start_s + PAST.runtime_s)
    events = whole_log(past, SETTINGS).events
    for job in range(300):
        known = np.flatnonzero(past.start_s[:job] <= past.submit_s[job])
        assert sorted(events.by_start[: events.started[job]]) == known.tolist()


def test_whether_a_job_starts_at_once_changes_nothing_said_of_it() -> None:
    """How long it waits is known after its submit; jobs of its second stand for the job itself."""
    waits_s = np.where(np.arange(300) == 299, 1800.0, 0.0)
    told = []
    for wait_s in (np.zeros(300), waits_s):
        start_s = PAST.submit_s + wait_s
        known = replace(PAST, start_s=start_s, end_s=start_s + PAST.runtime_s)
        told.append(walltime(known, SETTINGS)[299])
    assert np.array_equal(told[0], told[1], equal_nan=True)
