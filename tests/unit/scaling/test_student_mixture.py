"""Quantiles of mixtures of Student-t against scipy's."""

import numpy as np
import pytest
from scipy.stats import t as student

from pipeline.scaling.problem_sizes import quantiles

ASKED = np.array([0.025, 0.1, 0.5, 0.9, 0.975])


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 12])
def test_one_term_has_students_quantiles(freedom: int) -> None:
    found = quantiles(np.ones(1), np.array([[3.0, -1.0]]), np.array([0.2]), freedom, ASKED)
    np.testing.assert_allclose(found[:, 0], 3 + 0.2 * student.ppf(ASKED, freedom), atol=1e-4)
    np.testing.assert_allclose(found[:, 1], -1 + 0.2 * student.ppf(ASKED, freedom), atol=1e-4)


def test_a_mixture_lies_below_its_quantiles_as_often_as_asked() -> None:
    rng = np.random.default_rng(1)
    share, where, spread = rng.dirichlet(np.ones(400)), rng.normal(0, 1, (400, 2)), rng.uniform(0.05, 0.1, 400)
    found = quantiles(share, where, spread, 4, ASKED)
    below = [[share @ student.cdf((value - where[:, k]) / spread, 4) for k, value in enumerate(row)] for row in found]
    np.testing.assert_allclose(below, np.column_stack([ASKED, ASKED]), atol=0.003)
