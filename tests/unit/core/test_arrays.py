"""Small sums over arrays that stand in for numpy's, where numpy's load more than they need."""

import numpy as np
import pytest

from pipeline.arrays import median


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (4, 7), (7, 4), (30, 30)])
@pytest.mark.parametrize("is_odd", [False, True])
def test_the_median_is_numpys_to_the_bit(axis: int, shape: tuple[int, int], is_odd: bool) -> None:
    values = np.random.default_rng(1).lognormal(5, 4, shape)
    if is_odd:
        values[0, 0], values[-1, -1] = np.nan, np.inf
    np.testing.assert_array_equal(median(values, axis), np.median(values, axis))


def test_the_median_of_nothing_is_unknown() -> None:
    assert np.isnan(median(np.empty(0)))
