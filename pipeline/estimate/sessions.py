"""Session-based prediction (Talby, Tsafrir, Goldberg & Feitelson 2006): one sitting's jobs are most alike."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.chains import QUANTILE, chain_of, latest
from pipeline.estimate.history import History
from pipeline.estimate.past import joined, points


def sessions(history: History, settings: ForecastSettings) -> Floats:
    """Median of the last three, s: of jobs alike in this session, else of this session, else of jobs alike before it.

    A session ends where its user submits nothing for `session_gap_min` minutes.
    """
    chain = chain_of(history)
    session = session_codes(history, 60.0 * settings.session_gap_min)
    keys = [joined(session, chain[0]), session, *chain]
    return points(latest(history, keys, 3, QUANTILE, 1)[:, 1])


def session_codes(history: History, gap_s: float, *others: Ints) -> Ints:
    """A code per run of one user's submits with no gap longer than this (and no other change); -1: unknown user."""
    user = history.codes["user"]
    order = np.argsort(user, kind="stable")
    is_new = np.diff(history.submit_s[order], prepend=-np.inf) > gap_s
    for column in (user, *others):
        is_new |= np.diff(column[order], prepend=-2) != 0
    codes = np.empty(len(user), np.int64)
    codes[order] = np.cumsum(is_new) - 1
    return np.where(user < 0, -1, codes)
