"""Local time of a site: its offset from UTC at each instant."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np

from pipeline.core.arrays import Ints

DAY_S = 86_400
EARLIEST_S, LATEST_S = 0, 7_258_118_400
"""1970 to 2200. An instant outside is an error in the log and counts as unknown."""
QUARTER_S = 900
"""Offsets of zones are multiples of a quarter of an hour and change at such multiples."""


def offset_s(instants: Ints, zone: str) -> Ints:
    """Offset of a zone from UTC (s, positive east) at each instant (s since 1970)."""
    clock = ZoneInfo(zone)
    days: Ints = instants // DAY_S
    if not len(days):
        return days
    at_midnight = _looked_up(np.arange(days.min(), days.max() + 2), DAY_S, clock)
    offsets: Ints = at_midnight[days - days.min()]
    changing = np.flatnonzero((np.diff(at_midnight) != 0)[days - days.min()])
    offsets[changing] = _looked_up(instants[changing] // QUARTER_S, QUARTER_S, clock)
    return offsets


def _looked_up(units: Ints, unit_s: int, clock: ZoneInfo) -> Ints:
    there, place = np.unique(units, return_inverse=True)
    offsets = [datetime.fromtimestamp(int(unit) * unit_s, clock).utcoffset() for unit in there]
    by_unit = np.array([int(offset.total_seconds()) for offset in offsets if offset is not None], np.int64)
    found: Ints = by_unit[place]
    return found
