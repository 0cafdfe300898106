"""Every burst of the log, told once: which jobs are its own.

A job belongs to at most one burst: to the first that claims it of probes, timers, flurries (furthest ahead first), slow
flurries. What is left of a later burst is listed if it is still large enough to be one.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from pipeline.clean.burst_rows import Burst, BurstRow, Screen, describe_burst
from pipeline.clean.flurries import find_segments
from pipeline.clean.routine import find_probes, find_timers
from pipeline.clean.view import View
from pipeline.core.arrays import Ints
from pipeline.core.clean_settings import CleanSettings
from pipeline.core.tables import BURSTS


def find_bursts(view: View, settings: CleanSettings) -> tuple[pa.Table, Ints]:
    """BURSTS, and per job its burst's row there, -1: none."""
    place = np.full(view.jobs.num_rows, -1, np.int64)
    rows: dict[str, BurstRow] = {}
    for burst in (one for screen in SCREENS.values() for one in screen(view, settings)):
        own = burst.rows[place[burst.rows] < 0]
        # What others have claimed may leave too little of a burst to be one.
        if len(own) < min(settings.flurry.min_jobs, len(burst.rows)):
            continue
        place[own] = len(rows)
        one = describe_burst(view, settings, burst, own, taken=rows.keys())
        rows[one.burst_id] = one
    columns = {column.name: [getattr(one, column.name) for one in rows.values()] for column in BURSTS.columns}
    return BURSTS.build(**columns), place


def _probes(view: View, settings: CleanSettings) -> Iterator[Burst]:
    return (Burst(Screen.PROBE, rows) for rows in find_probes(view, settings.probe))


def _timers(view: View, settings: CleanSettings) -> Iterator[Burst]:
    return (Burst(Screen.CRON, rows) for rows in find_timers(view, settings.cron))


def _flurries(view: View, settings: CleanSettings) -> Iterator[Burst]:
    return _segments(view, settings, Screen.FLURRY, 1.0, settings.flurry.suspect_weeks)


def _slow(view: View, settings: CleanSettings) -> Iterator[Burst]:
    return _segments(view, settings, Screen.SLOW, settings.flurry.slow_pace, settings.flurry.slow_weeks)


SCREENS: dict[Screen, Callable[[View, CleanSettings], Iterator[Burst]]] = {
    Screen.PROBE: _probes,
    Screen.CRON: _timers,
    Screen.FLURRY: _flurries,
    Screen.SLOW: _slow,
}


def _segments(view: View, settings: CleanSettings, screen: Screen, pace: float, weeks: float) -> Iterator[Burst]:
    found = find_segments(view, settings.flurry, pace, weeks)
    for k in np.lexsort((found.first, -found.machine_weeks)):
        rows = view.by_user[found.first[k] : found.last[k] + 1]
        yield Burst(screen, rows, float(found.machine_weeks[k]), float(found.share[k]))
