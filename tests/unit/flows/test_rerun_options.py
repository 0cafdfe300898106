"""Options of reruns and of earlier versions: changed settings, windows, dates."""

from datetime import UTC, datetime

import pytest

from flows.services.logs import window_of, with_changes
from flows.services.quantities import as_of_seconds, period_s
from pipeline.errors import ConfigError, InputError
from pipeline.settings import RunSettings, parse_settings


def at(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2023-01", at(2023, 1, 1), at(2023, 2, 1)),
        ("2023-12", at(2023, 12, 1), at(2024, 1, 1)),
        ("2024-02-29", at(2024, 2, 29), at(2024, 3, 1)),
        ("2024-12-31", at(2024, 12, 31), at(2025, 1, 1)),
        ("2024-02-29T12:00", at(2024, 2, 29, 12), at(2024, 2, 29, 12)),
        ("2024-02-29T12:00+02:00", at(2024, 2, 29, 10), at(2024, 2, 29, 10)),
    ],
)
def test_a_month_or_a_day_is_a_period(text: str, begin: int, end: int) -> None:
    assert period_s("--to", text, "UTC") == (begin, end)
    assert window_of(None, text, "UTC") == (None, end)
    assert window_of(text, None, "UTC") == (begin, None)
    assert as_of_seconds(text) == max(begin, end - 1)


def test_periods_are_on_the_site_s_clock() -> None:
    assert period_s("--from", "2023-07", "Europe/Oslo") == (at(2023, 6, 30, 22), at(2023, 7, 31, 22))
    assert as_of_seconds(None) is None


@pytest.mark.parametrize("text", ["2023", "2023-13", "2023-02-30", "yesterday", "", "2023-1"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--as-of"):
        as_of_seconds(text)


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(InputError, match="an end before --since 2023-06"):
        window_of("2023-06", "2023-05", "UTC")


def test_settings_are_changed_one_by_one() -> None:
    given = parse_settings({"logs": ["a"], "site": {"max_procs": 3}}, "here")
    sets = ["clean.maximum.queue_runtime_s={'*' = 2}", "scaling.laws=['amdahl']", "group.template = auto"]
    changed = with_changes(given, sets)
    assert (changed.clean.maximum.queue_runtime_s, changed.scaling.laws) == ({"*": 2.0}, ("amdahl",))
    assert (changed.site.max_procs, changed.logs) == (3, ("a",))
    assert with_changes(changed, ["scaling.laws=['constant']"]).scaling.laws == ("constant",)
    assert with_changes(RunSettings(), []) == RunSettings()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("group.templat=user", "did you mean template"),
        ("site.max_procs=far", "site.max_procs"),
        ("site.max_procs", "no key and value"),
        ("=2", "no key and value"),
        ("logs=['b']", "--log PATH"),
        ("site.max_procs.far=2", "found max_procs, which is no section|site.max_procs"),
        ("site.max_procs=2\nsite.name='x'", "site.max_procs"),
    ],
)
def test_a_wrong_change_is_one_sentence(change: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        with_changes(parse_settings({"site": {"max_procs": 3}}, "here"), [change])
