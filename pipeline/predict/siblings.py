"""Series of one application inform each other: what its other series believe is part of a series' prior.

Empirical Bayes: the prior over shapes is (1 - r) general + r mean of the siblings' posteriors, with
r = J WORTH/(1 + J WORTH) for J siblings that tell. A series never informs itself.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.bma_grid import shape_grid
from pipeline.predict.bma_kernel import add_posteriors
from pipeline.predict.sizes import FREEDOM, Sizes

WORTH = 0.1
"""Siblings weigh J * WORTH to 1 against the general prior: one moves little, ten as much as the prior itself. Of 0,
.02, .05, .1 and .2 what the others of thirteen applications prefer, whichever is left out but one (.2)."""

LEAST_SIZES = 3
"""A series of fewer sizes knows too little of its shape to tell others."""


@dataclass(frozen=True, slots=True)
class Kin:
    """Per series: its application (a number; -1: none), and whether it tells its siblings its shape.

    Per application, what its telling series believe: `told` is the sum of their posteriors over shapes,
    float64[applications, g]; `n_told` how many there are.
    """

    application: Ints
    tells: Bools
    told: Floats
    n_told: Floats

    @classmethod
    def of(cls, sizes: Sizes, application: Ints) -> Self:
        """What the series of each application say together."""
        n_applications = int(application.max(initial=-1)) + 1
        told = np.zeros((n_applications, shape_grid().prior.size))
        tells = (application >= 0) & (np.diff(sizes.offsets) >= LEAST_SIZES)
        add_posteriors(sizes.columns(), shape_grid().shapes(), application, tells, FREEDOM, told)
        return cls(application, tells, told, np.bincount(application[tells], minlength=n_applications).astype(float))

    @classmethod
    def none(cls, n_series: int) -> Self:
        """Series that nobody informs."""
        nobody = np.empty((0, shape_grid().prior.size))
        return cls(np.full(n_series, -1), np.zeros(n_series, bool), nobody, np.empty(0))

    def n_siblings(self) -> Floats:
        """Per series, how many others inform it."""
        others: Floats = np.append(self.n_told, 0.0)[self.application] - self.tells
        return np.where(self.application >= 0, others, 0.0)
