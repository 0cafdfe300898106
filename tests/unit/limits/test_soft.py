"""Tests of the formulas of soft limits, by numbers worked out by hand."""

import numpy as np
import pytest

from pipeline.limits.soft import (
    SoftRules,
    extensions_of,
    margin_of,
    next_limits,
    planned_limits,
    waits_too_long,
)

RULES = SoftRules()


@pytest.mark.parametrize(
    ("quantile_s", "request_s", "limit_s"),
    [
        (3601.0, 86_400.0, 3660.0),  # whole minutes, rounded up
        (10.0, 86_400.0, 1800.0),  # at least twice the margin
        (10.0, 2400.0, 1800.0),  # ten minutes and a quarter are just saved
        (10.0, 2399.0, np.nan),
        (64_800.0, 86_400.0, 64_800.0),  # a quarter is just saved
        (64_801.0, 86_400.0, np.nan),
        (90_000.0, 86_400.0, np.nan),
        (np.nan, 86_400.0, np.nan),
        (3600.0, np.nan, np.nan),
        (3600.0, 0.0, np.nan),
    ],
)
def test_planned_limit(quantile_s, request_s, limit_s):
    found = planned_limits(np.array([quantile_s]), np.array([request_s]), RULES)
    np.testing.assert_array_equal(found, [limit_s])


@pytest.mark.parametrize(
    ("n_extensions", "median_left_s", "limit_s"),
    [
        (0, np.nan, 1800.0 + 900.0),  # the increment of a minute is below the margin
        (3, np.nan, 1800.0 + 1800.0),
        (7, np.nan, 1800.0 + 36_000.0),
        (99, np.nan, 1800.0 + 36_000.0),
        (0, 4001.0, 5820.0),  # the median is longer, and rounded up to minutes
        (0, 1e9, 43_200.0),  # never above the request
    ],
)
def test_next_limit(n_extensions, median_left_s, limit_s):
    found = next_limits(
        np.array([1800.0]), np.array([43_200.0]), np.array([n_extensions]), np.array([median_left_s]), RULES
    )
    np.testing.assert_array_equal(found, [limit_s])


def test_a_short_margin_gives_short_increments():
    rules = RULES._replace(margin_s=margin_of(900.0))
    found = next_limits(np.full(3, 600.0), np.full(3, 7200.0), np.arange(3), np.full(3, np.nan), rules)
    np.testing.assert_array_equal(found, [780.0, 900.0, 1500.0])


def test_extensions_are_counted_from_the_limits_alone():
    """A guard that was killed counts on where it was; a long extension counts as several."""
    limit_s, first_s = np.array([1800.0]), np.array([1800.0])
    for n_extensions in range(7):
        assert extensions_of(limit_s, first_s, RULES) == n_extensions
        limit_s = next_limits(limit_s, np.array([1e6]), np.array([n_extensions]), np.array([np.nan]), RULES)
    assert extensions_of(np.array([1800.0 + 2000.0]), first_s, RULES) == 2


@pytest.mark.parametrize(("over_time_limit_s", "margin_s"), [(0.0, 900.0), (899.0, 900.0), (900.0, 180.0)])
def test_margin(over_time_limit_s, margin_s):
    assert margin_of(over_time_limit_s) == margin_s


def test_waits_too_long():
    expected_s = np.array([0.0, 0.0, np.nan, 0.0])
    request_s = np.array([0.0, 10_000.0, 0.0, 9_000.0])
    np.testing.assert_array_equal(waits_too_long(4600.0, expected_s, request_s, RULES), [True, False, False, True])
