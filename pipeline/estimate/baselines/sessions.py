"""Session-based prediction (Talby, Tsafrir, Goldberg & Feitelson 2006): jobs of one session are most similar."""

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.baselines.whole_log import latest, points
from pipeline.estimate.chains import CROWD, QUANTILE, ChainQuery
from pipeline.estimate.history import History


def sessions(history: History, settings: ForecastSettings) -> Floats:
    """Median of the last three, s: of similar jobs in this session, else of this session, else of earlier similar jobs.

    A session ends where its submitter submits nothing for `session_gap_min` minutes.
    """
    return points(latest(history, settings, ChainQuery(0, CROWD, 3, QUANTILE, 1))[:, 1])
