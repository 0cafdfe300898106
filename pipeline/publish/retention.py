"""Which versions stay on disk, by age: all at first, then the newest of each day, then the newest of each week."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DAY_S = 86_400
_FIRST_MONDAY = 3
"""Days from a Monday to 1970-01-01, a Thursday."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long versions stay. `newest`: so many stay whatever their age, the published one included."""

    newest: int
    all_days: float = 0.0
    daily_days: float = 0.0
    weekly_weeks: float = 0.0
    named_days: float = 0.0
    """Days that a version with a name stays which was never published."""

    grace_s: float = 0.0
    """Seconds that a version stays after another one was published, for readers that hold no lock."""


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """What retention needs to know of a version on disk.

    `place`: 0 for the published version, 1 for the one published before, and so on; None: it was never published.
    """

    folder: str
    created_s: int
    place: int | None
    name: str = ""
    until_s: int | None = None
    is_held: bool = False
    is_withdrawn: bool = False


def expired(versions: Sequence[KnownVersion], retention: Retention, now_s: int) -> set[str]:
    """The folders of the versions that may go. The published version and versions on hold always stay.

    A version without a name that was never published is what a killed run left: it goes.
    """
    published = [one for one in versions if one.place is not None and not one.is_withdrawn]
    days = _newest_of_each(published, 1)
    weeks = _newest_of_each(published, 7)
    return {one.folder for one in versions if not _stays(one, retention, now_s, days, weeks)}


def _stays(one: KnownVersion, retention: Retention, now_s: int, days: set[str], weeks: set[str]) -> bool:
    # A time ahead of a clock that went back counts as now.
    age_days = max(now_s - one.created_s, 0) / DAY_S
    if one.is_held or one.place == 0:
        return True
    if one.place is None:
        return bool(one.name) and age_days < retention.named_days
    is_recent = one.until_s is not None and max(now_s - one.until_s, 0) < retention.grace_s
    if is_recent or one.place < retention.newest or age_days < retention.all_days:
        return True
    daily_until = retention.all_days + retention.daily_days
    if one.folder in days and age_days < daily_until:
        return True
    return one.folder in weeks and age_days < daily_until + 7 * retention.weekly_weeks


def _newest_of_each(versions: Iterable[KnownVersion], n_days: int) -> set[str]:
    """The folder of the newest version of every day (UTC), or of every week from Monday on."""
    newest: dict[int, KnownVersion] = {}
    for one in versions:
        period = (one.created_s // DAY_S + _FIRST_MONDAY) // n_days
        if period not in newest or (one.created_s, one.folder) > (newest[period].created_s, newest[period].folder):
            newest[period] = one
    return {one.folder for one in newest.values()}
