"""What a series says for each shape of a grid, with unknown scale and noise: conjugate, exact, over whole batches.

Errors e = log t - log shape have variance s^2/w; the scale's prior is flat in its log, s^2 is scaled inverse chi-square
with `freedom` degrees and `log_sd`. Averages over shapes weigh each by prior and likelihood (Gelman et al. 2013,
Bayesian Data Analysis, chapters 3 and 7).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pipeline.core.arrays import Bools, Floats
from pipeline.laws.shapes import Shapes, shapes_for


TURN_LOG = 0.02
"""A curve that rises less than this after its least runtime is flat, not declining (log s)."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What is known of single-run noise: its log sd per series, float64[k], and how many degrees that is worth."""

    log_sd: Floats
    freedom: float = 3.0


@dataclass(frozen=True, slots=True)
class Seen:
    """k series of m sizes each, float64[k, m]: sizes, log runtimes, weights; and the shapes' errors, float64[k, g, m]."""

    procs: Floats
    log_runtime: Floats
    weights: Floats
    shapes: Shapes
    errors: Floats

    @classmethod
    def of(cls, procs: Floats, runtime_s: Floats, weights: Floats, shapes: Shapes | None = None) -> "Seen":
        """The grid is that of the largest size unless `shapes` are given."""
        grid = shapes_for(procs.max(axis=1)) if shapes is None else shapes
        logs = np.log(runtime_s)
        return cls(procs, logs, weights, grid, logs[:, None, :] - grid.log_runtime(procs))

    def rows(self, chosen: Bools) -> "Seen":
        """Some of the series."""
        columns = (self.procs, self.log_runtime, self.weights)
        return Seen(*(values[chosen] for values in columns), self.shapes.rows(chosen), self.errors[chosen])


@dataclass(frozen=True, slots=True)
class Sums:
    """Per series and shape, float64[k, g]: the mean error (log scale), the squares about it; the weights' sum [k, 1]."""

    mean: Floats
    squares: Floats
    weight: Floats


def sums(seen: Seen) -> Sums:
    """Weighted mean of the errors and squares about it."""
    weight = seen.weights.sum(axis=1)[:, None]
    mean = (seen.errors @ seen.weights[:, :, None])[:, :, 0] / weight
    squares = ((seen.errors - mean[:, :, None]) ** 2 @ seen.weights[:, :, None])[:, :, 0]
    return Sums(mean, squares, weight)


def log_likelihood(squares: Floats, n_points: int, noise: Noise) -> Floats:
    """Log marginal likelihood of each shape, up to a constant of the series (same noise, same number of sizes)."""
    known = (noise.freedom * noise.log_sd**2)[:, None]
    likelihood: Floats = -0.5 * (noise.freedom + n_points - 1) * np.log1p(squares / known)
    return likelihood


def held_out(seen: Seen, noise: Noise) -> tuple[Floats, Floats]:
    """Each size predicted from the others: distance in predictive standard deviations, and predicted log runtime.

    float64[k, m] both. The distance follows Student's t with freedom + m - 2 degrees where one shape holds.
    """
    whole, n_points = sums(seen), seen.procs.shape[1]
    places = range(n_points)
    found = [_one_held_out(seen, whole, noise, place, n_points) for place in places]
    return np.column_stack([z for z, _ in found]), np.column_stack([mean for _, mean in found])


def _one_held_out(seen: Seen, whole: Sums, noise: Noise, place: int, n_points: int) -> tuple[Floats, Floats]:
    w, error = seen.weights[:, place][:, None], seen.errors[:, :, place]
    rest = whole.weight - w
    squares = np.maximum(whole.squares - whole.weight * w / rest * (error - whole.mean) ** 2, 0.0)
    mean = (whole.weight * whole.mean - w * error) / rest
    share = posterior(seen.shapes.log_prior + log_likelihood(squares, n_points - 1, noise))
    freedom = noise.freedom + n_points - 2
    variance = (noise.freedom * noise.log_sd[:, None] ** 2 + squares) / freedom * (1 / w + 1 / rest)
    # Predicted minus observed log runtime is mean - error, whatever the shape.
    off = mean - error
    centre = (share * off).sum(axis=1)
    spread = (share * (variance + (off - centre[:, None]) ** 2)).sum(axis=1)
    return -centre / np.sqrt(spread), seen.log_runtime[:, place] + centre


def posterior(log_weights: Floats) -> Floats:
    """Weights along the last axis that sum to 1."""
    weights: Floats = np.exp(log_weights - logsumexp(log_weights, axis=-1, keepdims=True))
    return weights


def log_odds(seen: Seen, noise: Noise, part: Floats, departure_log_sd: float) -> tuple[Floats, Floats]:
    """Log odds, float64[k], that the sizes in `part` share a factor the others lack; its posterior mean in logs.

    `part` is 0 or 1 per size, float64[k, m]. The factor's log is normal about 0 with departure_log_sd. By Markov's
    inequality odds of x come up in at most 1/x of the series that a shape of the grid describes.
    """
    whole, n_points = sums(seen), seen.procs.shape[1]
    inside = (seen.weights * part).sum(axis=1)[:, None]
    # Precision of the difference between the part's mean error and the others'.
    precision = inside * (whole.weight - inside) / whole.weight
    mean_inside = (seen.errors @ (seen.weights * part)[:, :, None])[:, :, 0] / inside
    gain = (mean_inside - whole.mean) * whole.weight / (whole.weight - inside)
    prior_share = (departure_log_sd / noise.log_sd[:, None]) ** 2 * precision
    shrunk = prior_share / (1 + prior_share)
    squares = np.maximum(whole.squares - precision * gain**2 * shrunk, 0.0)
    prior = seen.shapes.log_prior
    without = logsumexp(prior + log_likelihood(whole.squares, n_points, noise), axis=1)
    each = prior + log_likelihood(squares, n_points, noise) - 0.5 * np.log1p(prior_share)
    return logsumexp(each, axis=1) - without, (posterior(each) * gain * shrunk).sum(axis=1)


def overhead_odds(seen: Seen, noise: Noise) -> tuple[Floats, Floats]:
    """Log odds, float64[k], that runtime rises again between two sizes seen; and the size seen where it is least.

    The turn is where most of the posterior weight of the shapes that turn puts it.
    """
    logs = seen.log_runtime[:, None, :] - seen.errors
    turns = logs.argmin(axis=2)
    is_turning = (turns < seen.procs.shape[1] - 1) & (logs.min(axis=2) < logs[:, :, -1] - TURN_LOG)
    each = seen.shapes.log_prior + log_likelihood(sums(seen).squares, seen.procs.shape[1], noise)
    prior = np.broadcast_to(seen.shapes.log_prior, each.shape)
    inside, outside = (np.where(mask, each, -np.inf) for mask in (is_turning, ~is_turning))
    base = [logsumexp(np.where(mask, prior, -np.inf), axis=1) for mask in (is_turning, ~is_turning)]
    odds = logsumexp(inside, axis=1) - base[0] - (logsumexp(outside, axis=1) - base[1])
    share = posterior(np.where(is_turning.any(axis=1, keepdims=True), inside, each))
    votes = np.stack([(share * (turns == place)).sum(axis=1) for place in range(seen.procs.shape[1])], axis=1)
    return odds, np.take_along_axis(seen.procs, votes.argmax(axis=1)[:, None], axis=1)[:, 0]
