"""The mean of the last two runtimes (Tsafrir, Etsion & Feitelson 2007), of the user or of the user's jobs alike."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.chains import MAX, MEAN, chain_of, latest
from pipeline.estimate.history import History
from pipeline.estimate.request import request


def last_two(history: History, settings: ForecastSettings) -> Floats:
    """Mean of the user's last two ended jobs, s, at most the request; the request until there are two."""
    return _or_request(latest(history, [history.codes["user"]], 2, MEAN, 2), history, settings)


def last_two_chain(history: History, settings: ForecastSettings) -> Floats:
    """The same, of jobs alike in application, request and processors where two of these have ended."""
    return _or_request(latest(history, chain_of(history), 2, MEAN, 2), history, settings)


def longer_of_two_chain(history: History, settings: ForecastSettings) -> Floats:
    """The longer one of those two, s: underestimates less often."""
    return _or_request(latest(history, chain_of(history), 2, MAX, 2), history, settings)


def _or_request(found_s: Floats, history: History, settings: ForecastSettings) -> Floats:
    return np.where(np.isnan(found_s), request(history, settings), found_s)
