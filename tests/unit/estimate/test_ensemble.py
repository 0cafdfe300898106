"""Calibration keeps coverage where the ladder is wrong; the method that errs least answers."""

from dataclasses import replace

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.baselines import WholeLog, whole_log
from pipeline.estimate.blend import blended, no_errors
from pipeline.estimate.ensemble import calibrate
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.keys import grown
from pipeline.estimate.registry import ESTIMATORS
from pipeline.estimate.score import QUANTILES, scores
from pipeline.estimate.state import no_outputs
from tests.unit.evaluate.estimators import jobs_of, log


def a_log(n_jobs: int) -> WholeLog:
    return whole_log(history(log(n_jobs)), EstimateRules())


def answered(past: WholeLog, method_s: Floats) -> Floats:
    nobody = no_errors(method_s.shape[1])
    held = nobody._replace(of_who=grown(nobody.of_who, 5), n_of_who=grown(nobody.n_of_who, 5))
    return blended(past.jobs, past.jobs, past.events, method_s, method_s, held, 4.0)


def test_coverage_is_kept_although_the_ladder_is_far_too_low() -> None:
    past = a_log(6000)
    ladder = np.tile(np.geomspace(10, 1e7, 9), (6000, 1))
    held = no_outputs(6000, (1, 6, 6, 1))
    held.kinds[:] = 1.0
    calibrate(past.jobs, past.events, ladder, held, held, np.zeros((1, 6)), np.array(QUANTILES), 0.05)
    share_below = (past.jobs.runtime_s[:, None] <= held.rung_s)[2000:].mean(axis=0)
    assert np.abs(share_below - QUANTILES).max() < 0.02


def test_the_jobs_of_a_kind_keep_what_is_promised_to_them() -> None:
    """Every tenth job runs thirty times as long as its ladder says: one position for all would cover few of these."""
    past = a_log(6000)
    is_odd = np.arange(6000) % 10 == 0
    base_s = np.where(is_odd, past.jobs.runtime_s / 30, past.jobs.runtime_s)
    ladder = base_s[:, None] * np.random.default_rng(1).lognormal(0, 0.5, 6000)[:, None] * np.geomspace(0.01, 100, 15)
    held = no_outputs(6000, (1, 6, 6, 2))
    held.kinds[:] = np.column_stack([np.ones(6000), is_odd])
    calibrate(past.jobs, past.events, ladder, held, held, np.zeros((2, 6)), np.array(QUANTILES), 0.05)
    share_below = (past.jobs.runtime_s[:, None] <= held.rung_s)[3000:][is_odd[3000:]].mean(axis=0)
    assert np.abs(share_below - QUANTILES).max() < 0.06


def test_the_method_that_errs_least_answers_for_each_user() -> None:
    past = a_log(1500)
    runtime_s = past.jobs.runtime_s
    off_s, is_odd = runtime_s * 2 + 2000, past.jobs.who % 2 == 1
    found = answered(past, np.column_stack([np.where(is_odd, off_s, runtime_s), np.where(is_odd, runtime_s, off_s)]))
    assert np.array_equal(found[-500:], runtime_s[-500:])


def test_methods_without_a_record_have_equal_weights() -> None:
    past = a_log(1)
    assert answered(past, np.array([[10.0, 30.0, 20.0]]))[0] == 20.0


def test_a_method_far_above_the_best_answers_nothing_although_two_agree_with_it() -> None:
    past = a_log(1500)
    runtime_s = past.jobs.runtime_s
    off_s = runtime_s * 9
    found = answered(past, np.column_stack([runtime_s, off_s, off_s * 1.01]))
    assert np.array_equal(found[-500:], runtime_s[-500:])


def test_the_whole_covers_what_it_says_on_a_log_it_has_never_seen() -> None:
    past: History = history(log(4000, seed=3, requested_s=1_000_000.0))
    found = ESTIMATORS["walltime"](past, EstimateRules())
    figures = scores(past.runtime_s, found, np.arange(len(past)) >= 1000)
    assert 0.77 <= figures["coverage_80"] <= 0.84
    assert 0.93 <= figures["coverage_q95"] <= 0.97
    request = ESTIMATORS["request"](past, EstimateRules())
    assert figures["mae_s"] < 0.5 * scores(past.runtime_s, request, np.arange(len(past)) >= 1000)["mae_s"]


def test_a_job_stopped_below_an_answer_moves_no_weight() -> None:
    """It only says that it would have run longer: how far the answer was off, nobody knows."""
    past = whole_log(replace(history(log(400)), is_lower_bound=np.ones(400, np.bool_)), EstimateRules())
    runtime_s = past.jobs.runtime_s
    stopped_s = np.column_stack([runtime_s * 2, runtime_s * 6, runtime_s * 7])
    assert np.array_equal(answered(past, stopped_s), runtime_s * 6)
    short_s = stopped_s / 10
    assert np.array_equal(answered(past, short_s)[-200:], short_s[-200:, 2])


def test_jobs_of_nobody_are_not_answered_by_the_last_burst() -> None:
    """Of a log without users that comes in bursts, each of one runtime, the typical runtime errs less than the last."""
    rng, n = np.random.default_rng(3), 6000
    burst = np.arange(n) // 60
    runtime_s = np.round(np.exp(rng.normal(6.0, 1.5, n // 60))[burst] * rng.lognormal(0, 0.1, n)) + 1
    submit_s = 1_600_000_000 + 3600 * burst
    columns = zip(submit_s.tolist(), (submit_s + runtime_s).tolist(), runtime_s.tolist(), strict=True)
    jobs = [
        {"user": None, "submit_s": at, "start_s": at, "end_s": int(end), "runtime_s": took, "procs": 1}
        for at, end, took in columns
    ]
    found = ESTIMATORS["walltime"](history(jobs_of(jobs)), EstimateRules())[:, 1]
    later = np.arange(n) >= n // 3
    constant = np.abs(np.median(runtime_s[~later]) - runtime_s)[later].mean()
    assert np.abs(found - runtime_s)[later].mean() < 1.1 * constant
