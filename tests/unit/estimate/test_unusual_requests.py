"""A request beyond all that the trees have seen does not scale what they say."""

from dataclasses import replace

import numpy as np

from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import history
from pipeline.estimate.registry import ESTIMATORS
from pipeline.estimate.walltime import learn
from tests.unit.evaluate.estimators import log

SETTINGS = EstimateRules(trees=10)
PAST = history(log(1500))
LONGEST_S = float(PAST.requested_s.max())


def test_a_request_of_years_is_no_estimate_of_weeks() -> None:
    """LLNL-Atlas has one of 23 years; the job took 16 s, and the trees' share of the request made it 41 days."""
    last = len(PAST) - 1
    years = replace(PAST, requested_s=np.where(np.arange(len(PAST)) == last, 7.4e8, PAST.requested_s))
    found = ESTIMATORS["boosted"](years, SETTINGS)
    assert 0 < found[last, 1] <= LONGEST_S
    assert np.array_equal(found[:last], ESTIMATORS["boosted"](PAST, SETTINGS)[:last], equal_nan=True)


def test_a_state_knows_the_longest_request_that_its_trees_were_fitted_to() -> None:
    cut = 1100
    state = learn(PAST.take(np.arange(cut)), SETTINGS, float(PAST.submit_s[cut]))
    fitted = PAST.by_end[: state.forest.n_fitted]
    assert state.forest.n_fitted == 1000 and state.forest.longest_s == PAST.requested_s[fitted].max()
