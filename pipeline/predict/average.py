"""The posterior over curve shapes given a few sizes, averaged into a runtime and its quantiles at other sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.bma_grid import LEAST_LOG2, STEPS_PER_OCTAVE, shape_grid
from pipeline.predict.bma_kernel import mixtures, posteriors, student_table

FREEDOM = 2.0
"""Degrees of freedom of the noise before any size is seen: few, because measured runs have heavy tails. Of 1, 2, 3, 5
the value with the best interval score on real applications, each scored with what the others chose."""

QUANTILES = np.array([0.025, 0.1, 0.5, 0.9, 0.975])
"""Which quantiles are asked for, in the columns' order."""

CHUNK = 4096
"""Series whose own priors are in memory at once: 27 MB."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """k series end to end: series i is the slice offsets[i]:offsets[i + 1], by rising procs.

    Per size the runtime (s) and how far it may lie off the curve, as a variance of log s: noise. Per series the
    drift: the variance of log s per doubling by which the truth walks away from any law's curve.
    """

    offsets: Ints
    procs: Floats
    runtime_s: Floats
    variance: Floats
    drift: Floats

    @property
    def n_series(self) -> int:
        """How many series there are."""
        return self.offsets.size - 1

    def log2_from_least(self, series: Ints, procs: Floats) -> Floats:
        """Doublings of procs over the smallest size of their series; NaN where it has none."""
        least = np.append(self.procs, np.nan)[np.where(np.diff(self.offsets) > 0, self.offsets[:-1], -1)]
        logs: Floats = np.log2(procs / least[series])
        return logs

    def part(self, first: int, last: int) -> "Sizes":
        """Series first to last - 1."""
        rows = slice(self.offsets[first], self.offsets[last])
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return Sizes(offsets, self.procs[rows], self.runtime_s[rows], self.variance[rows], self.drift[first:last])


@dataclass(frozen=True, slots=True)
class Averaged:
    """Per target: log runtime at QUANTILES, float64[t, 5]; `split`, how far the surviving shapes disagree there.

    Split is the variance between shapes over the variance within one: what a run there would tell.
    """

    log_s: Floats
    split: Floats


def average(sizes: Sizes, series: Ints, procs: Floats, new_variance: Floats, log_prior: Floats) -> Averaged:
    """The model average at every target (a series and a processor count), in the targets' order.

    `new_variance` (log s squared, per target) is added for what a new observation scatters; 0 asks for the curve.
    `log_prior` is float64[1, g] for all series or float64[k, g]. A series without sizes gives NaN.
    """
    order = np.argsort(series, kind="stable")
    starts = np.searchsorted(series[order], np.arange(sizes.n_series + 1)).astype(np.int64)
    log_s, split = np.full((series.size, QUANTILES.size), np.nan), np.full(series.size, np.nan)
    at = sizes.log2_from_least(series, procs)[order]
    mixtures(*_columns(sizes), starts, at, new_variance[order], QUANTILES, shape_grid().log_shape, log_prior,
             FREEDOM, float(LEAST_LOG2), float(STEPS_PER_OCTAVE), _student(), log_s, split)  # fmt: skip
    back = np.empty(series.size, np.int64)
    back[order] = np.arange(series.size)
    return Averaged(log_s[back], split[back])


def shape_posteriors(sizes: Sizes, log_prior: Floats) -> Floats:
    """Posterior weight of every shape, float64[k, g], rows sum to 1."""
    out = np.empty((sizes.n_series, shape_grid().log_prior.size))
    posteriors(*_columns(sizes), shape_grid().log_shape, log_prior, FREEDOM, float(LEAST_LOG2),
               float(STEPS_PER_OCTAVE), out)  # fmt: skip
    return out


def chunks(n_series: int) -> Iterator[tuple[int, int]]:
    """First and last + 1 of runs of series that fit into memory with a prior each."""
    return ((first, min(first + CHUNK, n_series)) for first in range(0, n_series, CHUNK))


def general_prior() -> Floats:
    """The prior of a series that nothing else informs, float64[1, g]."""
    return shape_grid().log_prior[None, :]


def _columns(sizes: Sizes) -> tuple[Ints, Floats, Floats, Floats, Floats]:
    of = np.repeat(np.arange(sizes.n_series), np.diff(sizes.offsets))
    log2_x = sizes.log2_from_least(of, sizes.procs)
    return sizes.offsets, log2_x, np.log(sizes.runtime_s), sizes.variance, sizes.drift


@cache
def _student() -> Floats:
    return student_table()
