"""Processor counts: those generated, and those to run on next: in a class, in whole nodes, on the machine."""

import numpy as np
import pytest

from pipeline.scaling.series import classes_of, counts_between, favoured_class, next_count, runnable


@pytest.mark.parametrize(
    ("sizes", "machine", "node", "expected"),
    [
        ((1, 4, 9, 16), None, None, 25),
        ((4, 9, 16, 25, 36, 49), None, None, 81),
        ((1, 2, 4, 8), None, None, 16),
        ((1, 4, 16, 64), None, None, 256),
        ((1, 4, 9, 16), 20, None, 0),
        ((24, 48, 96), None, 24, 192),
        ((24, 48, 96), 180, 24, 168),
        ((24, 48, 96), 96, 24, 12),
        ((1, 3, 5, 6, 7), None, None, 14),
        ((7,), None, None, 14),
    ],
)
def test_the_next_count_is_twice_the_largest_in_the_class_the_code_ran_on_else_half_the_smallest(
    sizes: tuple[int, ...], machine: int | None, node: int | None, expected: int
) -> None:
    assert next_count(np.array(sizes, float), machine, node, None) == expected


def test_a_class_needs_four_sizes_and_three_quarters_of_them() -> None:
    assert classes_of(np.array([1.0, 4, 9]), None) == []
    assert classes_of(np.array([1.0, 4, 9, 25]), None) == ["squares"]
    assert classes_of(np.array([1.0, 4, 9, 25, 3, 5]), None) == []


def test_the_class_goes_before_the_node() -> None:
    sizes, counts = np.array([4.0, 9, 16, 25, 36]), np.arange(37.0, 80)
    np.testing.assert_array_equal(runnable(counts, sizes, 24, None), [49, 64])
    np.testing.assert_array_equal(runnable(counts, np.array([4.0, 9]), 24, None), [48, 72])


@pytest.mark.parametrize(("favoured", "expected"), [("squares", 121), ("powers_of_two", 128), (None, 128)])
def test_the_next_count_keeps_to_the_class_found_faster_though_the_code_ran_on_others(
    favoured: str | None, expected: int
) -> None:
    sizes = np.array([4.0, 6, 9, 12, 16, 20, 25, 30, 36, 49, 64])
    assert next_count(sizes, None, None, favoured) == expected


def test_only_a_class_that_was_found_is_favoured() -> None:
    found, weaker = {"pattern": "squares", "status": "found"}, {"pattern": "squares", "status": "weaker"}
    assert favoured_class([{"pattern": "stepwise", "status": "found"}, found]) == "squares"
    assert favoured_class([weaker, {"pattern": "declining", "status": "found"}]) is None


@pytest.mark.parametrize("per_doubling", [1, 4, 64])
def test_every_generated_count_is_whole_inside_and_no_power_of_two_is_missing(per_doubling: int) -> None:
    for low, high in ((1, 1), (3, 100), (5, 5), (1.5, 2**20), (9, 8)):
        found = counts_between(low, high, per_doubling)
        assert (found == np.unique(found)).all() and (found % 1 == 0).all()
        assert ((found >= low) & (found <= high)).all()
        assert {2.0**k for k in range(21) if low <= 2**k <= high} <= set(found)
    assert list(counts_between(3, 100, 1)) == [4, 8, 16, 32, 64]
    assert list(counts_between(20, 90, 64)) == list(range(20, 91)), "every count below 92"
