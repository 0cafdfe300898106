"""The runtime of a run from timed occurrences of its phases: stratified sampling of a finite population.

Source: Cochran, Sampling Techniques (1977), chapters 5 (strata), 6 (ratio) and 7; Satterthwaite (1946) for the
degrees of freedom.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from pipeline.core.probe_settings import Expansion

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PhaseSample:
    """The timed occurrences of one phase, of which there are `n_occurrences`.

    `target_s` holds their times on the machine in question, and `reference_s` the times of the same occurrences on the
    reference. `population_s` holds the times of all occurrences on the reference. Both are None where the reference
    was not timed.
    """

    n_occurrences: int
    target_s: Floats
    reference_s: Floats | None = None
    population_s: Floats | None = None


@dataclass(frozen=True, slots=True)
class RuntimeEstimate:
    """A runtime with its intervals, s; the bounds are None where no spread is known."""

    runtime_s: float
    lo80: float | None
    hi80: float | None
    lo95: float | None
    hi95: float | None


@dataclass(frozen=True, slots=True)
class _Part:
    """The estimate of one phase: its time, the variance of that time, and the degrees of freedom of the variance."""

    time_s: float
    variance: float
    freedom: int


def estimate_runtime(samples: Sequence[PhaseSample], coverage: float, expansion: Expansion) -> RuntimeEstimate:
    """The runtime from the phases that were timed, divided by the share of the run that they cover.

    The intervals hold the error of sampling. They do not hold what the phases outside `coverage` do differently.
    Raises ValueError without a timed occurrence, or for the ratio form without times on the reference.
    """
    if not any(len(sample.target_s) for sample in samples):
        raise ValueError("no occurrence was timed")
    timed = [sample for sample in samples if len(sample.target_s)]
    pooled = _pooled_spread(timed, expansion)
    parts = [_part(sample, expansion, pooled) for sample in timed]
    runtime_s = sum(part.time_s for part in parts) / coverage
    lo80, hi80 = _bounds(parts, runtime_s, coverage, 0.8)
    lo95, hi95 = _bounds(parts, runtime_s, coverage, 0.95)
    return RuntimeEstimate(runtime_s, lo80, hi80, lo95, hi95)


def _part(sample: PhaseSample, expansion: Expansion, pooled: float | None) -> _Part:
    n, mean_s = len(sample.target_s), float(sample.target_s.mean())
    time_s = sample.n_occurrences * mean_s
    if expansion is Expansion.RATIO:
        time_s = _population(sample).sum() * sample.target_s.sum() / _reference(sample).sum()
    unseen = 1 - n / sample.n_occurrences
    if unseen <= 0:
        return _Part(time_s, 0.0, 1)
    spread, freedom = _spread(sample, expansion, pooled)
    return _Part(time_s, time_s**2 * unseen * spread / n, freedom)


def _spread(sample: PhaseSample, expansion: Expansion, pooled: float | None) -> tuple[float, int]:
    """The squared relative spread of occurrences (NaN where unknown) with its degrees of freedom.

    Half of it comes from all occurrences on the reference where these were timed: few samples miss rare slow ones.
    """
    squares, freedom = _own_squares(sample, expansion), len(sample.target_s) - 1
    if expansion is Expansion.COUNT and sample.population_s is not None and len(sample.population_s) > 1:
        weight = max(freedom, 1)
        known = float(sample.population_s.var(ddof=1) / sample.population_s.mean() ** 2)
        return (squares + weight * known) / (freedom + weight), freedom + weight
    if freedom == 0:
        return (math.nan if pooled is None else pooled), 1
    return squares / freedom, freedom


def _own_squares(sample: PhaseSample, expansion: Expansion) -> float:
    """The sum of squared relative residuals of the samples about their mean, or about their ratio."""
    relative = sample.target_s / sample.target_s.mean()
    expected = np.ones_like(relative)
    if expansion is Expansion.RATIO:
        expected = _reference(sample) / _reference(sample).mean()
    return float(np.square(relative - expected).sum())


def _pooled_spread(samples: Sequence[PhaseSample], expansion: Expansion) -> float | None:
    """The squared relative spread over all phases with two samples or more, for the phases with one."""
    freedom = sum(len(sample.target_s) - 1 for sample in samples)
    return sum(_own_squares(sample, expansion) for sample in samples) / freedom if freedom else None


def _bounds(
    parts: Sequence[_Part], runtime_s: float, coverage: float, level: float
) -> tuple[float | None, float | None]:
    variance = sum(part.variance for part in parts)
    if math.isnan(variance):
        return None, None
    if variance == 0:
        return runtime_s, runtime_s
    freedom = variance**2 / sum(part.variance**2 / part.freedom for part in parts)
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(variance) / coverage
    return max(runtime_s - half, 0.0), runtime_s + half


def _reference(sample: PhaseSample) -> Floats:
    if sample.reference_s is None:
        raise ValueError("the ratio form needs times of the sampled occurrences on the reference")
    return sample.reference_s


def _population(sample: PhaseSample) -> Floats:
    if sample.population_s is None:
        raise ValueError("the ratio form needs times of all occurrences on the reference")
    return sample.population_s
