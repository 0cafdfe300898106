"""Which versions stay by their age."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.arrays import DAY_S
from pipeline.publish import Retention
from pipeline.publish.versions import StoredVersion, expired
from tests.unit.publish.numbered_versions import NOON


def version(
    folder: str, created_s: int, place: int | None, name: str = "", *, is_pinned: bool = False, **published: object
) -> StoredVersion:
    facts: dict[str, Any] = {"name": name, "path": Path(folder), "place": place, "is_pinned": is_pinned, **published}
    found = StoredVersion("r", folder, created_s, **facts)
    # As a cached property would set it.
    found.__dict__["manifest"] = SimpleNamespace(name=name, created_s=created_s)
    return found


def known(age_days: float, place: int | None = 1, name: str = "", **more: Any) -> StoredVersion:
    return version(f"{name}{age_days}", int(NOON - age_days * DAY_S), place, name, **more)


WEEKS = Retention(newest=1, all_days=7, daily_days=7, weekly_weeks=4, named_days=28)


def test_retention_keeps_all_then_a_version_a_day_then_one_a_week() -> None:
    hourly = [known(hours / 24, place) for place, hours in enumerate(range(0, 24 * 60, 6))]
    gone = expired(hourly, WEEKS, NOON)
    ages = [(NOON - one.created_s) / DAY_S for one in hourly if one.folder not in gone]
    assert sum(age < 7 for age in ages) == 28
    days = [age for age in ages if 7 <= age < 14]
    assert len(days) == 7 and all(later - one == 1 for one, later in pairwise(days))
    weeks = [age for age in ages if age >= 14]
    assert len(weeks) == 4 and max(weeks) < 42 and all(b - a == 7 for a, b in pairwise(weeks))


def test_a_version_kept_for_its_week_stays_until_the_end() -> None:
    """Each night removes what that night's rule removes: no version that a later night would need is gone by then."""
    kept: list[StoredVersion] = []
    for night in range(120):
        now_s = NOON + night * DAY_S
        newest = version(str(night), now_s, 0)
        kept = [newest, *(version(one.folder, one.created_s or 0, place) for place, one in enumerate(kept, 1))]
        gone = expired(kept, WEEKS, now_s)
        kept = [one for one in kept if one.folder not in gone]
        ages = [night - int(one.folder) for one in kept]
        assert set(range(min(14, night + 1))) <= set(ages)
        assert all(later - one <= 7 for one, later in pairwise(ages))
    assert len(kept) == 14 + 4


@pytest.mark.parametrize(
    ("one", "stays"),
    [
        (known(900, 0), True),
        (known(900, 5), False),
        (known(900, 5, is_pinned=True), True),
        (known(900, None, "try", is_pinned=True), True),
        (known(27, None, "try"), True),
        (known(29, None, "try"), False),
        (known(1, None), False),
        (known(900, 5, until_s=int(NOON - 7 * DAY_S + 1)), True),
        (known(900, 5, until_s=int(NOON - 7 * DAY_S)), False),
        (known(20, 5, is_withdrawn=True), False),
        (known(6, 5, is_withdrawn=True), True),
        (known(-30, 5), True),
    ],
)
def test_what_stays_whatever_its_age(one: StoredVersion, stays: bool) -> None:
    assert (expired([one], WEEKS, NOON) == set()) is stays


def test_a_clock_that_went_back_keeps_no_more_than_the_settings_say() -> None:
    ahead = [known(-1, place, until_s=NOON + 60) for place in range(1, 4)]
    assert len(expired(ahead[:1], Retention(newest=1), NOON)) == 1
    assert expired(ahead, Retention(newest=1, all_days=1), NOON) == set()


def test_the_newest_stay_though_no_night_ran_for_a_year() -> None:
    old = [known(400 + place, place) for place in range(9)]
    few = Retention(newest=7, all_days=7)
    assert expired(old, few, NOON) == {one.folder for one in old[7:]}


def test_a_version_that_nobody_knows_stays() -> None:
    unknown = known(900, None)
    unknown.__dict__["manifest"] = None
    assert expired([unknown], WEEKS, NOON) == set() and expired([known(900, None)], WEEKS, NOON) != set()
