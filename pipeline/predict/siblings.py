"""Series of one application inform each other: the posteriors of its siblings are part of a series' prior.

Empirical Bayes: the prior over shapes is (1 - r) general + r mean of the siblings' posteriors, with
r = J w/(1 + J w) for J informative siblings and w = SIBLING_WEIGHT. A series never informs itself.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.bma_grid import shape_grid
from pipeline.predict.bma_kernel import add_posteriors
from pipeline.predict.sizes import FREEDOM, Sizes

SIBLING_WEIGHT = 0.1
"""J siblings weigh J * SIBLING_WEIGHT to 1 against the general prior: ten weigh as much as the prior itself. Chosen
from 0, .02, .05, .1 and .2 by leave-one-application-out: twelve of thirteen choices give this value, one .2."""

LEAST_SIZES = 3
"""A series of fewer sizes does not inform its siblings."""


@dataclass(frozen=True, slots=True)
class Kin:
    """Per series: its application (a number; -1: none), and whether it informs its siblings.

    Per application: `posterior_sums`, the sum of its informative series' posteriors over shapes, float64[applications,
    g]; `n_informative`, their number.
    """

    application: Ints
    is_informative: Bools
    posterior_sums: Floats
    n_informative: Floats

    @classmethod
    def of(cls, sizes: Sizes, application: Ints) -> Self:
        """The summed posteriors of each application's informative series."""
        n_applications = int(application.max(initial=-1)) + 1
        posterior_sums = np.zeros((n_applications, shape_grid().prior.size))
        is_informative = (application >= 0) & (np.diff(sizes.offsets) >= LEAST_SIZES)
        add_posteriors(sizes.columns(), shape_grid().shapes(), application, is_informative, FREEDOM, posterior_sums)
        n_informative = np.bincount(application[is_informative], minlength=n_applications).astype(float)
        return cls(application, is_informative, posterior_sums, n_informative)

    @classmethod
    def none(cls, n_series: int) -> Self:
        """Series without siblings."""
        nobody = np.empty((0, shape_grid().prior.size))
        return cls(np.full(n_series, -1), np.zeros(n_series, bool), nobody, np.empty(0))

    def n_siblings(self) -> Floats:
        """Per series, how many others inform it."""
        others: Floats = np.append(self.n_informative, 0.0)[self.application] - self.is_informative
        return np.where(self.application >= 0, others, 0.0)
