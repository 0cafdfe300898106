"""Calibration keeps coverage where the ladder is wrong; the blend moves to the method that errs least."""

from dataclasses import replace

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.baselines import WholeLog, whole_log
from pipeline.estimate.blend import Answers, Beliefs, Pace, beliefs, blend
from pipeline.estimate.ensemble import calibrate
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.keys import grown
from pipeline.estimate.registry import ESTIMATORS
from pipeline.estimate.score import QUANTILES, scores
from tests.unit.evaluate.estimators import log

DAY_S = 86_400.0
PACE = Pace(0.02, 0.5, 90 * DAY_S, 365 * DAY_S)
BY_WHO = ("who_log", "who_at_s", "last_burst", "n_burst")


def a_log(n_jobs: int) -> WholeLog:
    return whole_log(history(log(n_jobs)), EstimateRules())


def nobody(n_methods: int) -> Beliefs:
    blank = beliefs(np.zeros(n_methods))
    return blank._replace(**{name: grown(getattr(blank, name), 5) for name in BY_WHO})


def blended(past: WholeLog, method_s: Floats) -> Floats:
    answers = Answers(method_s, past.jobs.runtime_s, np.full(len(method_s), np.nan))
    n_methods = method_s.shape[1]
    blend(past.jobs, past.jobs, past.events, answers, answers, np.zeros(n_methods), nobody(n_methods), PACE)
    return answers.center_s


def test_coverage_is_kept_although_the_ladder_is_far_too_low() -> None:
    past = a_log(6000)
    ladder = np.tile(np.geomspace(10, 1e7, 9), (6000, 1))
    found = np.full((6000, 6), np.nan)
    calibrate(past.jobs, past.events, ladder, found, found, np.zeros(6), np.array(QUANTILES), 0.05)
    share_below = (past.jobs.runtime_s[:, None] <= found)[2000:].mean(axis=0)
    assert np.abs(share_below - QUANTILES).max() < 0.02


def test_the_blend_moves_to_the_method_that_errs_least_for_each_user() -> None:
    past = a_log(1500)
    runtime_s = past.jobs.runtime_s
    off_s, is_odd = runtime_s * 2 + 2000, past.jobs.who % 2 == 1
    found = blended(past, np.column_stack([np.where(is_odd, off_s, runtime_s), np.where(is_odd, runtime_s, off_s)]))
    relative = np.abs(found - runtime_s) / (off_s - runtime_s)
    assert relative[0] == 0.5
    assert np.median(relative[-500:]) < 0.05


def test_the_whole_covers_what_it_says_on_a_log_it_has_never_seen() -> None:
    past: History = history(log(4000, seed=3, requested_s=1_000_000.0))
    found = ESTIMATORS["walltime"](past, EstimateRules())
    figures = scores(past.runtime_s, found, np.arange(len(past)) >= 1000)
    assert 0.77 <= figures["coverage_80"] <= 0.84
    assert 0.93 <= figures["coverage_q95"] <= 0.97
    request = ESTIMATORS["request"](past, EstimateRules())
    assert figures["mae_s"] < 0.5 * scores(past.runtime_s, request, np.arange(len(past)) >= 1000)["mae_s"]


def test_a_job_stopped_below_its_estimate_moves_no_weight() -> None:
    """It only says that it would have run longer: how far the estimate was off, nobody knows."""
    past = whole_log(replace(history(log(400)), is_lower_bound=np.ones(400, np.bool_)), EstimateRules())
    method_s = np.column_stack([past.jobs.runtime_s * 2, past.jobs.runtime_s * 6])
    assert np.allclose(blended(past, method_s), past.jobs.runtime_s * 4)
    short_s = method_s / 10
    assert blended(past, short_s)[-1] > short_s[-1].mean() * 1.2
