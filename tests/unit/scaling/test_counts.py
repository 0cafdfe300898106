"""Processor counts: those generated, and those to run on next: in a class, in whole nodes, on the machine."""

import numpy as np
import pytest

from pipeline.scaling.counts import candidates, classes_of, counts_between, favoured_class, runnable


@pytest.mark.parametrize(
    ("sizes", "machine", "node", "expected"),
    [
        ((1, 4, 9, 16), None, None, [25]),
        ((4, 9, 16, 25, 36, 49), None, None, [81, 1]),
        ((1, 2, 4, 8), None, None, [16]),
        ((1, 4, 16, 64), None, None, [256]),
        ((1, 4, 9, 16), 20, None, []),
        ((24, 48, 96), None, 24, [192, 72, 12]),
        ((24, 48, 96), 180, 24, [168, 72, 12]),
        ((1, 3, 5, 6, 7), None, None, [14, 4, 2]),
        ((7,), None, None, [14, 4]),
    ],
)
def test_candidates_keep_to_the_class_the_code_ran_on(
    sizes: tuple[int, ...], machine: int | None, node: int | None, expected: list[int]
) -> None:
    assert list(candidates(sizes, machine, node, None)) == expected


def test_a_class_needs_four_sizes_and_three_quarters_of_them() -> None:
    assert classes_of(np.array([1.0, 4, 9]), None) == []
    assert classes_of(np.array([1.0, 4, 9, 25]), None) == ["squares"]
    assert classes_of(np.array([1.0, 4, 9, 25, 3, 5]), None) == []


def test_the_class_goes_before_the_node() -> None:
    sizes, counts = np.array([4.0, 9, 16, 25, 36]), np.arange(37.0, 80)
    np.testing.assert_array_equal(runnable(counts, sizes, 24, None), [49, 64])
    np.testing.assert_array_equal(runnable(counts, np.array([4.0, 9]), 24, None), [48, 72])


def test_counts_far_apart_are_searched_quickly_and_in_their_class() -> None:
    found = candidates(tuple(2.0 ** np.arange(10, 40, 5)), None, None, None)
    assert all(np.log2(n) % 1 == 0 for n in found)


@pytest.mark.parametrize(
    ("favoured", "expected"),
    [
        ("squares", [121, 1]),
        ("powers_of_two", [128, 32, 8, 2]),
        (None, [128, 56, 42, 33, 27, 22, 18, 14, 10, 7, 5, 2]),
    ],
)
def test_candidates_keep_to_the_class_found_faster_though_the_code_ran_on_others(
    favoured: str | None, expected: list[int]
) -> None:
    sizes = (4, 6, 9, 12, 16, 20, 25, 30, 36, 49, 64)
    found = candidates(sizes, None, None, favoured)
    if favoured:
        inside = {"squares": lambda n: np.sqrt(n) % 1, "powers_of_two": lambda n: np.log2(n) % 1}
        assert all(inside[favoured](n) == 0 for n in found)
    assert list(found) == expected


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
