"""The posterior over curve shapes given a few sizes, averaged into a runtime and its quantiles at other sizes."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logit

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.bma_grid import shape_grid
from pipeline.predict.bma_kernel import Targets, mixtures
from pipeline.predict.bma_posterior import Kindred
from pipeline.predict.bma_quantiles import student_table
from pipeline.predict.exactness import exact_log_s
from pipeline.predict.siblings import SIBLING_WEIGHT, Kin
from pipeline.predict.sizes import FREEDOM, Sizes

QUANTILES = np.array([0.025, 0.1, 0.5, 0.9, 0.975])
"""Which quantiles are asked for, in the columns' order."""


@dataclass(frozen=True, slots=True)
class Averaged:
    """Per target: log runtime at QUANTILES, float64[t, 5]; `split`, how far the surviving shapes disagree there.

    Split is the variance between shapes over the variance within one: what a run there would tell. Per series,
    `log_bayes`: log of the likelihood under the siblings' mean posterior over that under the general prior; 0 without.
    """

    log_s: Floats
    split: Floats
    log_bayes: Floats


def average(sizes: Sizes, series: Ints, procs: Floats, new_variance: Floats, kin: Kin | None = None) -> Averaged:
    """The model average at every target (a series and a processor count), in the targets' order.

    `new_variance` (log s squared, per target) is added for what a new observation scatters; 0 asks for the curve.
    `kin` are the series' siblings (see siblings.py), where they have any. A series without sizes gives NaN.
    """
    order = np.argsort(series, kind="stable")
    starts = np.searchsorted(series[order], np.arange(sizes.n_series + 1)).astype(np.int64)
    log_s, split = np.full((series.size, QUANTILES.size), np.nan), np.full(series.size, np.nan)
    at, log_bayes = sizes.log2_from_least(series, procs)[order], np.zeros(sizes.n_series)
    known = kin or Kin.none(sizes.n_series)
    kindred = Kindred(
        known.application, known.is_informative, known.posterior_sums, known.n_informative, SIBLING_WEIGHT
    )
    targets = Targets(starts, at, new_variance[order])
    mixtures(sizes.columns(), shape_grid().shapes(), kindred, targets, logit(QUANTILES), FREEDOM, _student(),
             log_s, split, log_bayes)  # fmt: skip
    back = np.empty(series.size, np.int64)
    back[order] = np.arange(series.size)
    return Averaged(_exact_where_known(log_s[back], sizes, series, procs), split[back], log_bayes)


def _exact_where_known(log_s: Floats, sizes: Sizes, series: Ints, procs: Floats) -> Floats:
    """Quantiles moved to the exact curve of series that have one; their distances from the median stay."""
    is_exact, curve = exact_log_s(sizes, series, procs)
    shift = np.where(is_exact, curve - log_s[:, 2], 0.0)
    moved: Floats = log_s + shift[:, None]
    return moved


@cache
def _student() -> Floats:
    return student_table()
