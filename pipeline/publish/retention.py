"""Which versions stay on disk, by age: all at first, then the newest of each day, then the newest of each week."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.publish.version_store import StoredVersion

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


RETENTION = Retention(newest=7, all_days=7, daily_days=7, weekly_weeks=520, named_days=28, grace_s=3600)
"""What a site has unless it sets another `newest` or `daily_days`: the weeks of ten years are one version each."""


def expired(versions: Sequence[StoredVersion], retention: Retention, now_s: int) -> set[str]:
    """The folders of the versions that may go. The published version and pinned versions always stay.

    A version without a name that was never published is what a killed run left: it goes. One that was never published
    and whose manifest cannot be read stays: nobody knows what it is.
    """
    published = [one for one in versions if one.place is not None and not one.is_withdrawn]
    days = _newest_of_each(published, 1)
    weeks = _newest_of_each(published, 7)
    return {one.folder for one in versions if not _stays(one, retention, now_s, days, weeks)}


def _stays(one: StoredVersion, retention: Retention, now_s: int, days: set[str], weeks: set[str]) -> bool:
    # A time ahead of a clock that went back counts as now.
    age_days = max(now_s - (one.created_s or 0), 0) / DAY_S
    if one.is_pinned or one.place == 0:
        return True
    if one.place is None:
        return one.manifest is None or (bool(one.name) and age_days < retention.named_days)
    until_s = one.entry.until_s if one.entry else None
    is_recent = until_s is not None and max(now_s - until_s, 0) < retention.grace_s
    if is_recent or one.place < retention.newest or age_days < retention.all_days:
        return True
    daily_until = retention.all_days + retention.daily_days
    if one.folder in days and age_days < daily_until:
        return True
    return one.folder in weeks and age_days < daily_until + 7 * retention.weekly_weeks


def _newest_of_each(versions: Iterable[StoredVersion], n_days: int) -> set[str]:
    """The folder of the newest version of every day (UTC), or of every week from Monday on."""
    newest: dict[int, StoredVersion] = {}
    for one in sorted(versions, key=lambda one: (one.created_s or 0, one.folder)):
        newest[((one.created_s or 0) // DAY_S + _FIRST_MONDAY) // n_days] = one
    return {one.folder for one in newest.values()}
