"""Interval ends that a law widens stay in order, also where the law leaves an end open."""

import numpy as np
import pytest

from pipeline.scaling.later.later import with_law
from pipeline.tables import PREDICTIONS


@pytest.mark.parametrize(("own_hi95", "law_hi95", "expected"), [(2.0, None, None), (9.0, None, 9.0), (2.0, 8.0, 8.0)])
def test_a_95_percent_end_never_lies_inside_the_80_percent_end(
    own_hi95: float, law_hi95: float | None, expected: float | None
) -> None:
    law = PREDICTIONS.build(
        group_id=["a"], procs=[16], runtime_s=[1.0], runtime_s_lo95=[None if law_hi95 is None else 1 / law_hi95],
        runtime_s_lo80=[0.2], runtime_s_hi80=[5.0], runtime_s_hi95=[law_hi95], is_extrapolated=[True],
        method=["average"], reliability=["far"], run_id=["r"],
    )  # fmt: skip
    own = np.log(np.array([[1 / own_hi95, 0.8, 1.0, 1.25, own_hi95]]))
    found = np.exp(with_law(own, law, np.array([True])))[0]
    assert found[[1, 3]] == pytest.approx([0.2, 5.0])
    wanted = [np.nan, np.nan] if expected is None else [1 / expected, expected]
    assert found[[0, 4]] == pytest.approx(wanted, nan_ok=True)
