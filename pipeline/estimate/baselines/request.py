"""The request as the estimate: what backfilling schedulers have used since EASY (Lifka 1995)."""

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.baselines.whole_log import points, requests_of
from pipeline.estimate.history import History


def request(history: History, _settings: ForecastSettings) -> Floats:
    """The requested runtime as the median, s; NaN where none was requested."""
    return points(requests_of(history))
