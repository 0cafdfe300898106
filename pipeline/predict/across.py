"""Predicts runtimes of one problem size from the series of a base size and a few points of the target size.

The thesis's way (Deshmeh 2013, 3.12 to 3.15, by the project's notes): one ratio, at the smallest common count. Beyond
it: an average over rescaled curves of the base (rescaled_curves.py) and over all shapes, as if the two sizes were
different applications. Each curve is weighted by its fit to the target's points. The ratio is published beside it, for
comparison. The guard of borrowing.py decides from the two series alone how much of this average is published.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.core.screen_settings import AcrossSettings
from pipeline.laws.shapes import shapes_up_to
from pipeline.predict.average import QUANTILES
from pipeline.predict.borrowing import borrows, guarded, own_runtime
from pipeline.predict.rescaled_curves import FREEDOM, base_log_runtime, misfit, rescaled_curves
from pipeline.predict.student_mixture import quantiles

MIN_BASE_POINTS, MIN_TARGET_POINTS = 4, 2

GAMMA = 5.0
"""An odd size of the base counts a fifth as a guiding point (prediction.md, decision 11)."""


@dataclass(frozen=True, slots=True)
class SizePair:
    """Runtimes (s) of one application at two problem sizes, by processors, rising."""

    base_procs: Floats
    base_s: Floats
    target_procs: Floats
    target_s: Floats


@dataclass(frozen=True, slots=True)
class Across:
    """Predictions of the target on the requested counts, and how the two problem sizes are related.

    `same` is the posterior probability that the two are one application whose shape may change. `power` is the mean of
    b: overhead grows as this power of the serial time. `ratio` is the target's runtime over the base's at their
    smallest common count. `ratio_s` is the base's runtime times this ratio. `own_s` is the model average of the
    target's own points. All are NaN where there are too few points.
    """

    runtime_s: Floats
    lo80_s: Floats
    hi80_s: Floats
    lo95_s: Floats
    hi95_s: Floats
    ratio_s: Floats
    own_s: Floats
    same: float
    power: float
    ratio: float

    def status(self, settings: AcrossSettings) -> str:
        """same_shape, shape_moves (a constant ratio misleads), larger_base, two_applications or too_few_points.

        With larger_base and two_applications the target's own prediction is published; it borrows nothing.
        """
        if np.isnan(self.same):
            return "too_few_points"
        if self.same < settings.apart:
            return "two_applications"
        if not borrows(self.ratio, self.same, settings):
            return "larger_base"
        off = np.abs(np.log(self.ratio_s / self.runtime_s))
        return "shape_moves" if np.median(off) > settings.ratio_log_error else "same_shape"


def across(pairs: Sequence[SizePair], procs: Sequence[Floats], settings: AcrossSettings) -> list[Across]:
    """One prediction a pair, each at its own sizes."""
    return [_one(pair, at, settings) for pair, at in zip(pairs, procs, strict=True)]


def ratio_at_common(pair: SizePair, log_sd: float) -> float:
    """Target over base at the smallest count both ran on; at the target's smallest where they share none."""
    common = np.intersect1d(pair.base_procs, pair.target_procs)
    at = common[:1] if len(common) else pair.target_procs[:1]
    base = base_log_runtime(pair.base_procs, pair.base_s, at, log_sd)
    return float(pair.target_s[pair.target_procs == at][0] / np.exp(base[0]))


def guiding_points(pair: SizePair, is_odd: Bools, log_sd: float) -> tuple[Floats, Floats, Floats]:
    """Sizes of the base, runtimes (s) they would have at the target's size by the ratio, and weights.

    Where the target itself ran its own runtime stands, with weight 1; an odd size of the base weighs 1/GAMMA.
    """
    guided_s, weights = pair.base_s * ratio_at_common(pair, log_sd), np.where(is_odd, 1 / GAMMA, 1.0)
    is_guide = ~np.isin(pair.base_procs, pair.target_procs)
    procs = np.concatenate([pair.base_procs[is_guide], pair.target_procs])
    order = np.argsort(procs)
    runtime_s = np.concatenate([guided_s[is_guide], pair.target_s])
    weights = np.concatenate([weights[is_guide], np.ones(len(pair.target_procs))])
    return procs[order], runtime_s[order], weights[order]


def _one(pair: SizePair, procs: Floats, settings: AcrossSettings) -> Across:
    if len(pair.base_procs) < MIN_BASE_POINTS or len(pair.target_procs) < MIN_TARGET_POINTS:
        nothing = np.full(len(procs), np.nan)
        return Across(nothing, nothing, nothing, nothing, nothing, nothing, nothing, np.nan, np.nan, np.nan)
    log_sd = settings.run_log_sd
    log_t, n_target = np.log(pair.target_s), len(pair.target_procs)
    everywhere = np.concatenate([pair.target_procs, procs])
    ratio = ratio_at_common(pair, log_sd)
    rescaled = rescaled_curves(pair.base_procs, pair.base_s, everywhere, n_target, float(np.log(ratio)), log_sd)
    x = everywhere / everywhere.min()
    shapes = shapes_up_to(int(np.ceil(np.log2(max(x.max(), 2.0)) - 1e-9)))
    curves = np.concatenate([shapes.at(x), rescaled.log_shape])
    is_rescaled = np.arange(len(curves)) >= len(shapes.prior)
    variance = log_sd**2 + np.where(is_rescaled, settings.size_log_sd**2, 0.0)
    prior = np.concatenate(
        [np.log(shapes.prior) + np.log(1 - settings.same_prior), rescaled.log_prior + np.log(settings.same_prior)]
    )
    share, scale, spread = _posterior(prior, curves, log_t, variance)
    same = float(share[is_rescaled].sum())
    where = curves[:, n_target:] + scale[:, None]
    kept = share > share.max() * 1e-5
    ends = quantiles(share[kept], where[kept], spread[kept], FREEDOM + n_target - 1, QUANTILES)
    base = np.exp(base_log_runtime(pair.base_procs, pair.base_s, procs, log_sd))
    theta = float(share[is_rescaled] @ rescaled.log_theta) / same if same else np.nan
    power = 1 + theta / np.log(ratio) if abs(np.log(ratio)) > 0.1 else np.nan
    own_s, centre = own_runtime(pair.target_procs, pair.target_s, procs), ends[2]
    published = np.log(own_s)
    if borrows(ratio, same, settings):
        # A mixture of all shapes holds far more than its share where the curve borrowed is right.
        ends = centre + (1 - settings.agreement * same) * (ends - centre)
        shaped = _base_shaped(pair, procs, log_sd)
        published = guarded(centre, published, shaped, pair.target_s[-1], settings)
    lo95_s, lo80_s, runtime_s, hi80_s, hi95_s = np.exp(ends + (published - centre))
    return Across(runtime_s, lo80_s, hi80_s, lo95_s, hi95_s, base * ratio, own_s, same, power, ratio)


def _base_shaped(pair: SizePair, procs: Floats, log_sd: float) -> Floats:
    """Log runtimes that the base's shape gives from the target's largest size on."""
    log_s = base_log_runtime(pair.base_procs, pair.base_s, np.append(procs, pair.target_procs[-1]), log_sd)
    shaped: Floats = log_s[:-1] - log_s[-1] + np.log(pair.target_s[-1])
    return shaped


def _posterior(log_prior: Floats, curves: Floats, log_t: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Per curve its weight, its log scale, and the log standard deviation of one more runtime."""
    scale, squares = misfit(curves, log_t)
    logs = log_prior + _log_evidence(squares, len(log_t) - 1, variance)
    freedom = FREEDOM + len(log_t) - 1
    spread = np.sqrt((FREEDOM * variance + squares) / freedom * (1 + 1 / len(log_t)))
    return np.exp(logs - np.logaddexp.reduce(logs)), scale, spread


def _log_evidence(squares: Floats, free: int, variance: Floats | float) -> Floats:
    """Log marginal likelihood of curves that leave such squares, with `free` points to spare."""
    logs: Floats = -0.5 * (FREEDOM + free) * np.log1p(squares / (FREEDOM * variance)) - 0.5 * free * np.log(variance)
    return logs
