"""What is told of a kind is what a loop over all earlier jobs finds, and nothing of a job that has not ended."""

from dataclasses import replace

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate import job_classes
from pipeline.estimate.baselines import whole_log
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.registry import job_class_features_of
from tests.unit.evaluate.estimators import log

PAST = replace(history(log(400)), requested_s=np.where(np.arange(400) % 3 == 0, 7200.0, np.nan))


def job_class_features(past: History) -> Floats:
    return job_class_features_of(whole_log(past, EstimateRules()))


def test_what_is_told_is_what_a_plain_loop_finds() -> None:
    told = job_class_features(PAST)
    user, start_s = PAST.codes["who"], PAST.start_s
    asked_s = np.nan_to_num(PAST.requested_s)
    for job in range(len(PAST)):
        now_s, before = PAST.submit_s[job], np.arange(len(PAST)) < job
        is_over, is_begun = before & (PAST.end_s <= now_s), before & (start_s <= now_s)
        same = before & (user == user[job]) & (asked_s == asked_s[job]) & (PAST.procs == PAST.procs[job])
        is_running = is_begun & ~is_over
        counts = [(same & is_over).sum(), (same & is_running).sum(), (same & ~is_begun).sum()]
        assert told[job, job_classes.N_ENDED : job_classes.N_QUEUED + 1].tolist() == counts
        elapsed_s = (now_s - start_s)[same & is_running]
        assert np.isclose(told[job, job_classes.LONGEST_RUNNING], np.log1p(elapsed_s.max(initial=0.0)))
        assert np.isclose(told[job, job_classes.ALL_RUNNING], np.log1p(PAST.procs[is_running].sum()))
        ended = PAST.by_end[: PAST.ended[job]]
        latest = ended[same[ended]][-2:]
        runtimes_s = np.append(np.full(2 - len(latest), np.nan), PAST.runtime_s[latest])
        assert np.allclose(told[job, [job_classes.ONE_BEFORE, job_classes.LATEST]], np.log(runtimes_s), equal_nan=True)


def test_an_unknown_user_has_no_kind() -> None:
    nobody = replace(PAST, codes=PAST.codes | {"who": np.full(len(PAST), -1)})
    told = job_class_features(nobody)
    assert np.isnan(told[:, : job_classes.ALL_RUNNING]).all()
    assert not np.isnan(told[:, job_classes.ALL_RUNNING :]).any()


def test_no_jobs_have_no_features() -> None:
    none = history(log(10).slice(0, 0))
    assert job_class_features(none).shape == (0, job_classes.N_FEATURES)
