"""Calibration keeps coverage where the ladder is wrong; the blend moves to the method that errs least."""

import numpy as np

from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.blend import Pace, beliefs, blended
from pipeline.estimate.calibrate import calibrated
from pipeline.estimate.history import History, history
from pipeline.estimate.past import Past, past_of
from pipeline.estimate.registry import ESTIMATORS
from pipeline.estimate.score import QUANTILES, scores
from tests.unit.evaluate.estimators import log

DAY_S = 86_400.0


def a_past(n_jobs: int) -> Past:
    return past_of(history(log(n_jobs)))


def test_coverage_is_kept_although_the_ladder_is_far_too_low() -> None:
    past = a_past(6000)
    ladder = np.tile(np.geomspace(10, 1e7, 9), (len(past.user), 1))
    told = calibrated(past, ladder, np.zeros(5), np.array(QUANTILES), 0.05)
    share_below = (past.runtime_s[:, None] <= told)[2000:].mean(axis=0)
    assert np.abs(share_below - QUANTILES).max() < 0.02


def test_the_blend_moves_to_the_method_that_errs_least_for_each_user() -> None:
    past = a_past(1500)
    off = past.runtime_s * 2 + 2000
    is_odd = past.user % 2 == 1
    told_s = np.column_stack([np.where(is_odd, off, past.runtime_s), np.where(is_odd, past.runtime_s, off)])
    pace = Pace(0.02, 0.5, 90 * DAY_S, 365 * DAY_S)
    burst = np.arange(len(past.user))
    found = blended(past, burst, told_s, past.runtime_s, np.zeros(2), beliefs(5, np.zeros(2)), pace)
    relative = np.abs(found - past.runtime_s) / (off - past.runtime_s)
    assert relative[0] == 0.5
    assert np.median(relative[-500:]) < 0.05


def test_the_whole_covers_what_it_says_on_a_log_it_has_never_seen() -> None:
    past: History = history(log(4000, seed=3, requested_s=1_000_000.0))
    told = ESTIMATORS["walltime"](past, ForecastSettings())
    figures = scores(past.runtime_s, told, np.arange(len(past)) >= 1000)
    assert 0.77 <= figures["coverage_80"] <= 0.84
    assert 0.93 <= figures["coverage_q95"] <= 0.97
    request = ESTIMATORS["request"](past, ForecastSettings())
    assert figures["mae_s"] < 0.5 * scores(past.runtime_s, request, np.arange(len(past)) >= 1000)["mae_s"]


def test_a_job_stopped_below_its_estimate_moves_no_weight() -> None:
    """It only says that it would have run longer: how far the estimate was off, nobody knows."""
    past = a_past(400)._replace(is_lower_bound=np.ones(400, np.bool_))
    told_s = np.column_stack([past.runtime_s * 2, past.runtime_s * 6])
    held, pace = beliefs(5, np.zeros(2)), Pace(0.02, 0.5, 90 * DAY_S, 365 * DAY_S)
    found = blended(past, np.arange(400), told_s, past.runtime_s, np.zeros(2), held, pace)
    assert np.allclose(found, past.runtime_s * 4)
    short_s = told_s / 10
    held = beliefs(5, np.zeros(2))
    found = blended(past, np.arange(400), short_s, past.runtime_s, np.zeros(2), held, pace)
    assert found[-1] > short_s[-1].mean() * 1.2
