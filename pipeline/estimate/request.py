"""The request as the estimate: what backfilling schedulers have used since EASY (Lifka 1995)."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.history import History
from pipeline.estimate.past import points


def request(history: History, _settings: ForecastSettings) -> Floats:
    """The requested runtime as the median, s; NaN where none was requested."""
    return points(np.where(history.requested_s > 0, history.requested_s, np.nan))
