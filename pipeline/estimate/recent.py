"""Quantiles of the latest runtimes: the user's last three (RUH), or up to ten or fifty of the user's jobs alike."""

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.chains import QUANTILE, chain_of, latest
from pipeline.estimate.history import History
from pipeline.estimate.past import points


def recent_median(history: History, _settings: ForecastSettings) -> Floats:
    """Median of the user's last three ended jobs, s (recent user history); NaN until there is one."""
    return points(latest(history, [history.codes["user"]], 3, QUANTILE, 1)[:, 1])


def recent_10(history: History, _settings: ForecastSettings) -> Floats:
    """Quantiles of the last 10 jobs of the most specific key that has two, s."""
    return latest(history, chain_of(history), 10, QUANTILE, 2)


def recent_50(history: History, _settings: ForecastSettings) -> Floats:
    """Quantiles of the last 50 jobs of the most specific key that has two, s."""
    return latest(history, chain_of(history), 50, QUANTILE, 2)
