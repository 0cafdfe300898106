"""Parses instants as Slurm, PBS and exports write them, and converts a zone's local time to UTC."""

from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from pipeline.arrays import Ints
from pipeline.errors import ConfigError, printable
from pipeline.ingest.spans.kernels import INVALID, NULL, OK, Bytes
from pipeline.kernels import uncounted

LOCAL, TIME_ONLY, SLASHED = 3, 4, 5
"""Beside NULL, OK (UTC already) and INVALID: local time, a time without a date, local time from a date with slashes."""

_DAY_S = 86_400
_FIRST_YEAR, _LAST_YEAR = 1970, 2200


@uncounted
def parse_instants(data: Bytes, start: Ints, end: Ints, day_first: bool, values: Ints, kinds: Bytes) -> None:
    """Seconds since 1970-01-01 of each span's clock, and how to read them; words are left INVALID."""
    before = -1
    for row in range(start.size):
        at, stop = start[row], end[row]
        if at >= stop:
            values[row], kinds[row] = 0, NULL
            continue
        # Submit and eligible, and the steps of a job, repeat each other's text: the same bytes need no second look.
        if before >= 0 and stop - at == end[before] - start[before]:
            low, k = start[before], stop - at - 1
            while k >= 0 and data[at + k] == data[low + k]:
                k -= 1
            if k < 0:
                values[row], kinds[row] = values[before], kinds[before]
                continue
        values[row], kinds[row] = _slurms_own(data, at) if stop - at == 19 else (0, INVALID)
        if kinds[row] == INVALID:
            values[row], kinds[row] = _instant(data, at, stop, day_first)
        before = row


@uncounted
def _slurms_own(data: Bytes, at: int) -> tuple[int, int]:
    """2024-01-31T23:59:59, which nearly all times are; anything else is INVALID here."""
    if data[at + 4] != 45 or data[at + 7] != 45 or data[at + 10] != 84 or data[at + 13] != 58 or data[at + 16] != 58:
        return 0, INVALID
    century, year, month = _pair(data, at), _pair(data, at + 2), _pair(data, at + 5)
    day, hour, minute, second = _pair(data, at + 8), _pair(data, at + 11), _pair(data, at + 14), _pair(data, at + 17)
    year += century * 100
    if min(century, month, day, hour, minute, second) < 0 or hour > 23 or minute > 59 or second > 60:
        return 0, INVALID
    if not _is_date(year, month, day):
        return 0, INVALID
    return _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second, LOCAL


@uncounted
def _pair(data: Bytes, at: int) -> int:
    """A number of two digits; far below zero where there is none."""
    tens, ones = data[at], data[at + 1]
    return tens * 10 + ones - 528 if 48 <= tens <= 57 and 48 <= ones <= 57 else -100_000


@uncounted
def _instant(data: Bytes, at: int, stop: int, day_first: bool) -> tuple[int, int]:
    first, n, at = _digits(data, at, stop)
    if at == stop:
        return (first, OK if first else NULL) if 0 < n < 12 else (0, INVALID)
    if data[at] == 46:
        _, n_fraction, after = _digits(data, at + 1, stop)
        return (first, OK) if 8 < n < 12 and n_fraction and after == stop else (0, INVALID)
    if n <= 2 and data[at] == 58:
        seconds, after, good = _clock(data, at - n, stop)
        return 0, TIME_ONLY if good and after == stop else INVALID
    is_slashed = data[at] == 47
    days, at = _date(data, first, n, at, stop, day_first)
    seconds, good = 0, at >= 0
    if good and at < stop and (data[at] == 84 or data[at] == 32):
        seconds, at, good = _clock(data, at + 1, stop)
    total = days * 86400 + seconds
    if good and at == stop:
        return total, SLASHED if is_slashed else LOCAL
    offset, at = _offset(data, at, stop) if good else (0, -1)
    return (total - offset, OK) if at == stop else (0, INVALID)


@uncounted
def _date(data: Bytes, first: int, n: int, at: int, stop: int, day_first: bool) -> tuple[int, int]:
    """Days since 1970-01-01 of a date whose first number is read already; the place after it, -1 where it is none."""
    mark = data[at]
    second, n2, at = _digits(data, at + 1, stop)
    if (mark != 45 and mark != 47) or not 0 < n2 <= 2 or at >= stop or data[at] != mark:  # noqa: PLR1714
        return 0, -1
    third, n3, at = _digits(data, at + 1, stop)
    if n == 4 and 0 < n3 <= 2:
        year, month, day = first, second, third
    elif mark == 47 and n <= 2 and n3 == 4:
        year, month, day = (third, second, first) if day_first else (third, first, second)
    else:
        return 0, -1
    return (_days(year, month, day), at) if _is_date(year, month, day) else (0, -1)


@uncounted
def _digits(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    value, n = 0, 0
    while at < stop and 48 <= data[at] <= 57 and n < 13:
        value = value * 10 + (data[at] - 48)
        n += 1
        at += 1
    return value, n, at


@uncounted
def _clock(data: Bytes, at: int, stop: int) -> tuple[int, int, bool]:
    """HH:MM[:SS[.fraction]][ AM|PM] in seconds (the fraction is dropped), the place after it, whether it is a time."""
    hour, n1, at = _digits(data, at, stop)
    if not 0 < n1 <= 2 or at >= stop or data[at] != 58:
        return 0, at, False
    minute, n2, at = _digits(data, at + 1, stop)
    second = 0
    if at < stop and data[at] == 58:
        second, n3, at = _digits(data, at + 1, stop)
        if n3 != 2:
            return 0, at, False
        if at + 1 < stop and data[at] == 46 and 48 <= data[at + 1] <= 57:
            at += 1
            while at < stop and 48 <= data[at] <= 57:
                at += 1
    if n2 != 2 or hour > 23 or minute > 59 or second > 60:
        return 0, at, False
    place = at + 1 if at < stop and data[at] == 32 else at
    if place + 2 <= stop and (data[place + 1] | 32) == 109 and ((data[place] | 32) == 97 or (data[place] | 32) == 112):
        # `%H ... %p` writes 13:05 PM, `%I ... %p` 01:05 PM: only hours up to 12 take the mark's word.
        if 1 <= hour <= 12:
            hour = hour % 12 + (12 if (data[place] | 32) == 112 else 0)
        at = place + 2
    return hour * 3600 + minute * 60 + second, at, True


@uncounted
def _offset(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Z, UTC, +HH, +HHMM or +HH:MM, a blank before it or not, in seconds; the place after it, -1 where it is none."""
    if data[at] == 32:
        at += 1
    if at < stop and data[at] == 90:
        return 0, at + 1
    if at + 3 <= stop and data[at] == 85 and data[at + 1] == 84 and data[at + 2] == 67:
        return 0, at + 3
    if at >= stop or (data[at] != 43 and data[at] != 45):
        return 0, -1
    sign = -1 if data[at] == 45 else 1
    value, n, at = _digits(data, at + 1, stop)
    if n == 4:
        value = value // 100 * 60 + value % 100
    elif n == 2:
        value *= 60
        if at < stop and data[at] == 58:
            minutes, n2, at = _digits(data, at + 1, stop)
            value += minutes
            if n2 != 2:
                return 0, -1
    else:
        return 0, -1
    return (sign * value * 60, at) if value <= 1080 else (0, -1)


@uncounted
def _is_date(year: int, month: int, day: int) -> bool:
    if not 1970 <= year < 2200 or not 1 <= month <= 12 or day < 1:
        return False
    if month == 2:
        is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return day <= (29 if is_leap else 28)
    return day <= (30 if (month < 8 and month % 2 == 0) or (month > 8 and month % 2) else 31)


@uncounted
def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the Gregorian calendar (Hinnant, chrono-compatible low-level date algorithms)."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def utc_of_local(local_s: Ints, timezone: str) -> tuple[Ints, int, int]:
    """UTC seconds of a zone's wall-clock seconds; how many were ambiguous (read as the first); how many never were.

    An hour that a clock skips is read as the same span after the change: 02:30 becomes 03:30. ConfigError for a zone
    that is not known.
    """
    if not len(local_s) or timezone == "UTC":
        zone(timezone)
        return local_s, 0, 0
    years = (_year(int(local_s.min())) - 1, _year(int(local_s.max())) + 1)
    at, offset = _changes(timezone, *years)
    early, late = at + np.minimum(offset[:-1], offset[1:]), at + np.maximum(offset[:-1], offset[1:])
    place = np.searchsorted(late, local_s, side="right")
    unsure = np.searchsorted(early, local_s, side="right") > place
    is_back = np.append(offset[1:] < offset[:-1], False)[place[unsure]]
    n_ambiguous = int(np.count_nonzero(is_back))
    return local_s - offset[place], n_ambiguous, len(is_back) - n_ambiguous


def repeats_s(utc_s: Ints, timezone: str) -> Ints:
    """After how many seconds a zone's clock shows the same time again, for each first reading; 0: it never does."""
    at, offset = _changes(timezone, _year(int(utc_s.min())) - 1, _year(int(utc_s.max())) + 1)
    next_change = np.searchsorted(at, utc_s, side="right")
    back_s = np.append(np.maximum(offset[:-1] - offset[1:], 0), 0)[next_change]
    begins: Ints = np.append(at, np.iinfo(np.int64).max)[next_change] - back_s
    return np.where(utc_s >= begins, back_s, 0)


def zone(timezone: str) -> ZoneInfo:
    """The IANA zone of this name; ConfigError where there is none."""
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        found = f"'{printable(timezone)}'"
        raise ConfigError("site.timezone", found, "an IANA zone, as in Europe/Stockholm", "correct it") from None


def _year(seconds: int) -> int:
    return 1970 + seconds // (365 * _DAY_S + _DAY_S // 4)


@lru_cache(maxsize=64)
def _changes(timezone: str, first_year: int, last_year: int) -> tuple[Ints, Ints]:
    """UTC seconds of a zone's changes of offset in these years, and its offsets: one more than changes."""
    from datetime import UTC, datetime  # noqa: PLC0415

    place = zone(timezone)

    def offset_at(second: int) -> int:
        there = datetime.fromtimestamp(second, UTC).astimezone(place).utcoffset()
        assert there is not None  # nosec B101 # for the type checker
        return int(there.total_seconds())

    start = int(datetime(max(first_year, _FIRST_YEAR), 1, 1, tzinfo=UTC).timestamp()) - 2 * _DAY_S
    stop = int(datetime(min(last_year, _LAST_YEAR) + 1, 1, 1, tzinfo=UTC).timestamp())
    offsets, changes = [offset_at(start)], []
    for day in range(start, stop, _DAY_S):
        after = offset_at(day + _DAY_S)
        if after != offsets[-1]:
            low, high = day, day + _DAY_S
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if offset_at(middle) == after else (middle, high)
            changes.append(high)
            offsets.append(after)
    return np.array(changes, np.int64), np.array(offsets, np.int64)
