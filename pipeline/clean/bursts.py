"""Finds every burst of the log and assigns each job to at most one of them.

Screens run in a fixed order: probes, timers, flurries (largest lead first), slow flurries. A job belongs to the first
burst that contains it. The rest of a later burst is listed if it is still large enough to be one.
"""

from collections.abc import Callable, Collection, Iterator

import numpy as np
import pyarrow as pa

from pipeline.clean.burst_rows import Burst, BurstRow, Screen, describe_burst
from pipeline.clean.flurries import find_segments
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.routine import find_probes, find_timers
from pipeline.core.arrays import Ints
from pipeline.core.clean_settings import CleanSettings
from pipeline.core.tables import BURSTS


def find_bursts(arrays: JobArrays, settings: CleanSettings, taken: Collection[str] = ()) -> tuple[pa.Table, Ints]:
    """BURSTS with ids that are not `taken`, and for each job the row of its burst there (-1: none)."""
    place = np.full(arrays.jobs.num_rows, -1, np.int64)
    rows: dict[str, BurstRow] = {}
    for burst in (one for screen in SCREENS.values() for one in screen(arrays, settings)):
        own = burst.rows[place[burst.rows] < 0]
        # Without the jobs of earlier bursts this one may be too small.
        if len(own) < min(settings.flurry.min_jobs, len(burst.rows)):
            continue
        place[own] = len(rows)
        one = describe_burst(arrays, settings, burst, own, taken={*taken, *rows})
        rows[one.burst_id] = one
    columns = {column.name: [getattr(one, column.name) for one in rows.values()] for column in BURSTS.columns}
    return BURSTS.build(**columns), place


def _probes(arrays: JobArrays, settings: CleanSettings) -> Iterator[Burst]:
    return (Burst(Screen.PROBE, rows) for rows in find_probes(arrays, settings.probe))


def _timers(arrays: JobArrays, settings: CleanSettings) -> Iterator[Burst]:
    return (Burst(Screen.CRON, rows) for rows in find_timers(arrays, settings.cron))


def _flurries(arrays: JobArrays, settings: CleanSettings) -> Iterator[Burst]:
    return _segments(arrays, settings, Screen.FLURRY, 1.0, settings.flurry.suspect_weeks)


def _slow(arrays: JobArrays, settings: CleanSettings) -> Iterator[Burst]:
    return _segments(arrays, settings, Screen.SLOW, settings.flurry.slow_pace, settings.flurry.slow_weeks)


SCREENS: dict[Screen, Callable[[JobArrays, CleanSettings], Iterator[Burst]]] = {
    Screen.PROBE: _probes,
    Screen.CRON: _timers,
    Screen.FLURRY: _flurries,
    Screen.SLOW: _slow,
}


def _segments(arrays: JobArrays, settings: CleanSettings, screen: Screen, pace: float, weeks: float) -> Iterator[Burst]:
    found = find_segments(arrays, settings.flurry, pace, weeks)
    for k in np.lexsort((found.first, -found.machine_weeks)):
        rows = arrays.by_user[found.first[k] : found.last[k] + 1]
        yield Burst(screen, rows, float(found.machine_weeks[k]), float(found.share[k]))
