"""At which hours a site starts jobs: starts per waiting hour, by class of request and hour, working days and weekends.

Some sites start long jobs at some hours only. A class's rates over the coming hours say when the next start is likely.
"""

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.schedule.queues import Log

DAYS, N_CLASSES, LEAST_REQUEST_S = 56, 10, 900.0
"""Days that count; classes of requests, each twice as long as the one before, the first one under twice 900 s."""

PRIOR_STARTS = 2.0
"""Starts at the class's mean rate that are added to each hour, so that few starts say little."""

HOUR_S, AHEAD_H = 3600.0, 14 * 24
LEVELS = (0.1, 0.5, 0.8)


class StartHours:
    """Starts and waiting hours by class, day and hour of a log; each question knows the days before its own."""

    def __init__(self, log: Log) -> None:
        past = log.past
        self._zone_s = float(past.local_s[0] - past.submit_s[0])
        self._first_day = int((past.submit_s[0] + self._zone_s) // 86_400)
        n_days = int((past.submit_s[-1] + self._zone_s) // 86_400) - self._first_day + 1
        day = np.arange(n_days) + self._first_day
        self.is_weekend: Bools = (day % 7 == 2) | (day % 7 == 3)
        self.of_job = classes(log.limit_s)
        is_started = np.isfinite(past.start_s)
        self._starts = self._by_hour(past.start_s[is_started], self.of_job[is_started], n_days, steps=False)
        until_s = np.minimum(log.leave_s, past.submit_s[-1])
        joined, left = (self._by_hour(one, self.of_job, n_days, steps=True) for one in (past.submit_s, until_s))
        self._waits = joined - left

    def _by_hour(self, at_s: Floats, of_class: Ints, n_days: int, *, steps: bool) -> Floats:
        """(classes, days, 24) events in each hour; or with `steps` the hours that have passed since the events."""
        hour = (at_s + self._zone_s) / HOUR_S - 24 * self._first_day
        is_inside = (hour >= 0) & (hour < 24 * n_days)
        hour, of_class = hour[is_inside], of_class[is_inside]
        found = np.zeros((N_CLASSES, 24 * n_days + 1))
        place = hour.astype(np.int64)
        if not steps:
            np.add.at(found, (of_class, place), 1.0)
        else:
            np.add.at(found, (of_class, place), 1.0 - (hour - place))
            np.add.at(found, (of_class, place + 1), hour - place)
            found = np.cumsum(found, axis=1)
        return found[:, :-1].reshape(N_CLASSES, n_days, 24)

    def rates(self, at_s: float) -> Floats:
        """(2, classes, 24): starts per waiting hour on working days and weekends, over the days before an instant's."""
        today = int((at_s + self._zone_s) // 86_400) - self._first_day
        days = slice(max(today - DAYS, 0), max(today, 0))
        free = self.is_weekend[days]
        found = []
        for kind in (~free, free):
            starts, waits = (counts[:, days][:, kind].sum(axis=1) for counts in (self._starts, self._waits))
            overall = (starts.sum() + 1.0) / (waits.sum() + 1.0)
            mean = (starts.sum(axis=1) + 5.0) / (waits.sum(axis=1) + 5.0 / overall)
            found.append((starts + PRIOR_STARTS * mean[:, None]) / (waits + PRIOR_STARTS))
        return np.array(found)

    def expected(self, rates: Floats, at_s: float, of_class: Ints) -> Floats:
        """(jobs, LEVELS + 1): waits from an instant at LEVELS, s, and the rate in its hour over the mean one."""
        hour = (at_s + self._zone_s) / HOUR_S
        hours = int(hour) + np.arange(AHEAD_H)
        is_weekend = np.isin(hours // 24 % 7, (2, 3)).astype(np.int64)
        lasts = np.where(np.arange(AHEAD_H) == 0, int(hour) + 1 - hour, 1.0)
        rate = rates[is_weekend, :, hours % 24].T
        reached = np.cumsum(rate * lasts, axis=1)
        ends_s = np.cumsum(lasts) * HOUR_S
        sought = -np.log1p(-np.array(LEVELS))
        waits_s = np.array([np.interp(sought, [0.0, *own], [0.0, *ends_s]) for own in reached])
        return np.column_stack([waits_s, rate[:, 0] / rates.mean()])[of_class]


def classes(limit_s: Floats) -> Ints:
    """The class of each request."""
    return np.clip(np.floor(np.log2(limit_s / LEAST_REQUEST_S)), 0, N_CLASSES - 1).astype(np.int64)
