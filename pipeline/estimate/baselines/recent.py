"""Quantiles of the latest runtimes: the submitter's last three (RUH), or up to ten or fifty of its similar jobs."""

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.baselines.whole_log import latest, points
from pipeline.estimate.chains import CROWD, OWN, QUANTILE, ChainQuery
from pipeline.estimate.history import History


def recent_median(history: History, settings: ForecastSettings) -> Floats:
    """Median of the submitter's last three ended jobs, s (recent user history); NaN until there is one."""
    return points(latest(history, settings, ChainQuery(CROWD - 1, CROWD, 3, QUANTILE, 1))[:, 1])


def recent_10(history: History, settings: ForecastSettings) -> Floats:
    """Quantiles of the last 10 jobs of the most specific key that has two, s."""
    return latest(history, settings, ChainQuery(OWN, CROWD, 10, QUANTILE, 2))


def recent_50(history: History, settings: ForecastSettings) -> Floats:
    """Quantiles of the last 50 jobs of the most specific key that has two, s."""
    return latest(history, settings, ChainQuery(OWN, CROWD, 50, QUANTILE, 2))


def everybody(history: History, settings: ForecastSettings) -> Floats:
    """Quantiles of the last 200 jobs of all users with the same program and requested runtime, s."""
    return latest(history, settings, ChainQuery(CROWD, CROWD + 1, 200, QUANTILE, 3))
