"""The blend gives way to the best single method where that has clearly erred less, and only there."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.estimate.baselines import WholeLog, whole_log
from pipeline.estimate.blend import Advantage, Pair, favour, no_advantage
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import history
from tests.unit.evaluate.estimators import log

DAY_S = 86_400.0
N_JOBS = 1500
PAST = whole_log(history(log(N_JOBS)), EstimateRules())
RUNTIME_S = PAST.jobs.runtime_s
LATER = slice(N_JOBS // 2, None)


def answered(method_s: Floats, blend_s: Floats, past: WholeLog = PAST, half_life_days: float = 1e4) -> Floats:
    pair = Pair(method_s, blend_s)
    return favour(past.jobs, past.events, pair, pair, no_advantage(), DAY_S * half_life_days, 5.0)


def mae_s(found_s: Floats, places: slice = LATER) -> float:
    return float(np.abs(found_s - RUNTIME_S)[places].mean())


def noise(scale: float, seed: int) -> Floats:
    return RUNTIME_S * np.exp(np.random.default_rng(seed).normal(0, scale, N_JOBS))


def test_nothing_known_leaves_the_answer_to_the_blend() -> None:
    assert answered(RUNTIME_S, RUNTIME_S * 3)[0] == RUNTIME_S[0] * 3


def test_a_better_method_answers_alone_in_the_end() -> None:
    method_s, blend_s = noise(0.2, 1), noise(0.8, 2)
    found = answered(method_s, blend_s)
    assert np.array_equal(found[LATER], method_s[LATER])


def test_a_worse_method_never_answers() -> None:
    method_s, blend_s = noise(0.8, 1), noise(0.2, 2)
    assert np.array_equal(answered(method_s, blend_s)[LATER], blend_s[LATER])


@pytest.mark.parametrize("seed", range(5))
def test_equals_cost_nothing(seed: int) -> None:
    method_s, blend_s = noise(0.5, seed), noise(0.5, seed + 100)
    assert mae_s(answered(method_s, blend_s)) <= 1.02 * max(mae_s(method_s), mae_s(blend_s))


def test_the_lead_is_forgotten_when_the_blend_becomes_better() -> None:
    is_late = np.arange(N_JOBS) >= N_JOBS // 2
    method_s = np.where(is_late, noise(0.8, 1), noise(0.2, 2))
    blend_s = np.where(is_late, noise(0.2, 3), noise(0.8, 4))
    days = float(np.ptp(PAST.jobs.submit_s)) / DAY_S / 20
    found, last = answered(method_s, blend_s, half_life_days=days), slice(9 * N_JOBS // 10, None)
    assert mae_s(found, last) < 1.05 * mae_s(blend_s, last) < mae_s(method_s, last)


def test_a_job_stopped_below_an_answer_tells_nothing() -> None:
    stopped = whole_log(replace(history(log(N_JOBS)), is_lower_bound=np.ones(N_JOBS, np.bool_)), EstimateRules())
    assert np.array_equal(answered(RUNTIME_S, RUNTIME_S * 3, stopped), RUNTIME_S * 3)
    below = answered(RUNTIME_S * 0.9, RUNTIME_S * 0.3, stopped)
    assert np.allclose(below[LATER], RUNTIME_S[LATER] * 0.9)


def test_the_weight_is_the_lead_in_standard_errors() -> None:
    held = Advantage(np.array([30.0]), np.array([100.0]), np.zeros(1))
    none = PAST.events._replace(ended=np.zeros(N_JOBS + 1, np.int64))
    pair = Pair(np.full(N_JOBS, 10.0), np.full(N_JOBS, 20.0))
    assert favour(PAST.jobs, none, pair, pair, held, DAY_S, 5.0)[0] == pytest.approx(20.0 - 10.0 * 3 / 5)
