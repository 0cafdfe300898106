"""Rules in production or in simulators: the largest share of their requests that the submitter's last jobs ran.

An estimate by these is meant not to be too short: they are compared as limits as well as by their error.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.baselines.whole_log import latest, or_request, requests_of
from pipeline.estimate.chains import CROWD, SHARE, ChainQuery
from pipeline.estimate.history import History
from pipeline.estimate.submits import capped

DAY_S = 86_400.0
MARGIN_S = 900.0


def largest_of_15(history: History, settings: ForecastSettings) -> Floats:
    """MetaCentrum's soft-walltime rule for OpenPBS: the largest of 15 shares, times the request, s, plus 900 s.

    Doubled for requests over 24 h; at most the request, and the request until a job has ended.
    """
    rule_s = _largest(history, settings, 15)
    rule_s = np.where(requests_of(history) > DAY_S, 2 * rule_s, rule_s) + MARGIN_S
    return or_request(capped(rule_s, history.requested_s), history)


def largest_of_5(history: History, settings: ForecastSettings) -> Floats:
    """The largest of five shares times the request, s, at most the request (the simulator Alea's)."""
    return or_request(_largest(history, settings, 5), history)


def _largest(history: History, settings: ForecastSettings, memory: int) -> Floats:
    found_s = latest(history, settings, ChainQuery(CROWD - 1, CROWD, memory, SHARE, 1))[:, 1]
    return np.where(requests_of(history) > 0, found_s, np.nan)
