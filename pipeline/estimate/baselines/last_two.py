"""The mean of the last two runtimes (Tsafrir, Etsion & Feitelson 2007), of the submitter or of its similar jobs."""

from dataclasses import replace

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.baselines.whole_log import latest, or_request
from pipeline.estimate.chains import CROWD, MAX, MEAN, OWN, ChainQuery
from pipeline.estimate.history import History

WHO = CROWD - 1


def last_two(history: History, settings: ForecastSettings) -> Floats:
    """Mean of the submitter's last two ended jobs, s, at most the request; the request until there are two."""
    return or_request(latest(history, settings, ChainQuery(WHO, CROWD, 2, MEAN, 2))[:, 1], history)


def last_two_account(history: History, settings: ForecastSettings) -> Floats:
    """The same of the account: what remains of it where a log names no users."""
    by_account = replace(history, codes=history.codes | {"who": history.codes["account"]})
    return last_two(by_account, settings)


def last_two_chain(history: History, settings: ForecastSettings) -> Floats:
    """The same, of jobs with the same application, request and processors where two of these have ended."""
    return or_request(latest(history, settings, ChainQuery(OWN, CROWD, 2, MEAN, 2))[:, 1], history)


def longer_of_two_chain(history: History, settings: ForecastSettings) -> Floats:
    """The longer one of those two, s: underestimates less often."""
    return or_request(latest(history, settings, ChainQuery(OWN, CROWD, 2, MAX, 2))[:, 1], history)
