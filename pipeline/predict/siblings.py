"""Series of one application inform each other: what its other series believe is part of a series' prior."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.predict.average import Averaged, Sizes, average, chunks, general_prior, shape_posteriors

WORTH = 0.05
"""Siblings weigh J * WORTH to 1 against the general prior: one moves little, twenty as much as the prior itself."""

LEAST_SIZES = 3
"""A series of fewer sizes knows too little of its shape to tell others."""


@dataclass(frozen=True, slots=True)
class Kin:
    """Per series: its application (a number; -1: none), and per application what its telling series believe.

    `told` is the sum of their posteriors over shapes, float64[applications, g]; `n_told` how many there are.
    """

    application: Ints
    told: Floats
    n_told: Floats

    @classmethod
    def of(cls, sizes: Sizes, application: Ints) -> "Kin":
        """What the series of each application say together."""
        n_applications = int(application.max(initial=-1)) + 1
        told, tells = np.zeros((n_applications, general_prior().size)), _tells(sizes, application)
        for first, last in chunks(sizes.n_series):
            rows = np.flatnonzero(tells[first:last])
            if rows.size:
                found = shape_posteriors(sizes.part(first, last), general_prior())
                np.add.at(told, application[first:last][rows], found[rows])
        return cls(application, told, np.bincount(application[tells], minlength=n_applications).astype(np.float64))


@dataclass(frozen=True, slots=True)
class Prior:
    """Log prior over shapes per series (or one row for all); per series its siblings, and how well they foretold it.

    `log_bayes`: log of the likelihood under the siblings' mean posterior over that under the general prior; 0 for none.
    """

    log_prior: Floats
    n_siblings: Floats
    log_bayes: Floats


def average_with_siblings(sizes: Sizes, kin: Kin, series: Ints, procs: Floats, new_variance: Floats) -> Averaged:
    """As average.average, with a prior per series that its application's other series inform (see prior_of)."""
    order = np.argsort(series, kind="stable")
    cuts = np.searchsorted(series[order], np.arange(sizes.n_series + 1))
    log_s, split = np.empty((series.size, 5)), np.empty(series.size)
    for first, last in chunks(sizes.n_series):
        part, rows = sizes.part(first, last), order[cuts[first] : cuts[last]]
        if rows.size:
            prior = prior_of(part, kin, first, last).log_prior
            found = average(part, series[rows] - first, procs[rows], new_variance[rows], prior)
            log_s[rows], split[rows] = found.log_s, found.split
    return Averaged(log_s, split)


def prior_of(part: Sizes, kin: Kin, first: int, last: int) -> Prior:
    """Empirical Bayes: (1 - r) general + r mean of the siblings' posteriors, r = J WORTH/(1 + J WORTH), J siblings.

    `part` are series first to last - 1 of those `kin` was made of. A series never informs itself.
    """
    application = kin.application[first:last]
    tells = _tells(part, application)
    n_siblings = np.where(application >= 0, np.append(kin.n_told, 0.0)[application], 0.0) - tells
    if not (n_siblings > 0).any():
        return Prior(general_prior(), n_siblings, np.zeros(part.n_series))
    share = (n_siblings * WORTH / (1 + n_siblings * WORTH))[:, None]
    general, own = np.exp(general_prior()), shape_posteriors(part, general_prior())
    mean = (kin.told[np.maximum(application, 0)] - own * tells[:, None]) / np.maximum(n_siblings, 1.0)[:, None]
    mean = np.maximum(mean, 0.0) * (n_siblings > 0)[:, None]
    with np.errstate(divide="ignore"):
        foretold = np.log((own * mean / general).sum(axis=1))
    return Prior(np.log((1 - share) * general + share * mean), n_siblings, np.where(n_siblings > 0, foretold, 0.0))


def _tells(sizes: Sizes, application: Ints) -> Bools:
    tells: Bools = (application >= 0) & (np.diff(sizes.offsets) >= LEAST_SIZES)
    return tells
