"""Batches of series, and repeats merged without loss."""

import numpy as np
import pytest

from pipeline.scaling.series import SeriesBatch


def test_arrays_that_do_not_fit_together_are_refused():
    three = np.ones(3)
    for offsets in ([0, 2], [1, 3], [0, 2, 1, 3], []):
        with pytest.raises(ValueError, match="offsets"):
            SeriesBatch(np.array(offsets, np.int64), three, three, three)
    with pytest.raises(ValueError, match="one length"):
        SeriesBatch(np.array([0, 3]), three, three, np.ones(2))
    with pytest.raises(ValueError, match="float64"):
        SeriesBatch(np.array([0, 3]), np.ones(3, np.int64), three, three)
