"""Candidate curves of another problem size of one application, made by rescaling the series of a base size.

The base's runtime is the sum of work shared by n processors and overhead: T_b(n)/T_b(n_1) = 1/x + h(x), x = n/n_1, with
n_1 its smallest size. Another problem size then takes, up to a constant factor,

    1/x + theta h(x) max(x/x_1, 1)^-c

theta = 1, c = 0 is the base's own shape. If overhead grows as the power b of the serial time, theta = rho^(b - 1) with
rho the ratio of serial times; average parallelism then grows as rho^(1 - b). With c > 0 overhead falls faster with n,
because messages shrink as the problem is divided. x_1 is the largest size of the target.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.laws.shapes import shapes_up_to

LEAST_LOG_THETA, MOST_LOG_THETA, N_THETA = -6.0, 3.0, 61
FALLS = (-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Values of c."""

FALL, FALL_SD = 0.2, 0.4
"""Prior of c: messages shrink as a larger problem is cut up, latency does not."""

POWER, POWER_SD = 1 / 3, 0.5
"""Prior of b: half-way between 0 (latency) and 2/3 (the surface of a volume), wide enough for either and for 1."""

LEAST_THETA_SD = 0.4
"""Prior standard deviation of log theta even where the serial times agree: sizes differ in steps, too (log)."""

COMMON = 0.2
"""Prior weight of the base's own shape, not rescaled."""

LEAST_PARALLEL = 0.3
"""A curve is at most 1 / 0.3 times as fast as linear speed-up allows."""


@dataclass(frozen=True, slots=True)
class RescaledCurves:
    """g curves at m sizes: log runtime up to a scale, float64[g, m]; log prior, float64[g]; their theta, float64[g]."""

    log_shape: Floats
    log_prior: Floats
    log_theta: Floats


def base_log_runtime(base_procs: Floats, base_s: Floats, procs: Floats, log_sd: float) -> Floats:
    """log T of the base on `procs`: interpolated in logs between its sizes, beyond the largest by an average of shapes.

    Below its smallest size the base scales linearly.
    """
    x = base_procs / base_procs[0]
    beyond = np.maximum(procs / base_procs[0], x[-1])
    span = int(np.ceil(np.log2(max(float(beyond.max(initial=1.0)), 2.0)) - 1e-9))
    shapes = shapes_up_to(span)
    logs = shapes.at(np.concatenate([x, beyond]))
    share = weights(np.log(shapes.prior), logs[:, : len(x)], np.log(base_s), log_sd)
    mean = share @ logs
    ahead = mean[len(x) :] - mean[len(x) - 1]
    below = np.maximum(np.log(base_procs[0] / procs), 0.0)
    inside = np.interp(np.log(procs), np.log(base_procs), np.log(base_s))
    found: Floats = inside + ahead + below
    return found


def rescaled_curves(
    base_procs: Floats, base_s: Floats, procs: Floats, n_target: int, log_rho: float, log_sd: float
) -> RescaledCurves:
    """The curves at `procs`; the target ran on the first `n_target` of these. rho is target over base."""
    x = procs / base_procs[0]
    rest = np.exp(base_log_runtime(base_procs, base_s, procs, log_sd) - np.log(base_s[0])) - 1 / x
    log_theta = np.linspace(LEAST_LOG_THETA, MOST_LOG_THETA, N_THETA)
    log_prior = -0.5 * ((log_theta - (POWER - 1) * log_rho) / np.hypot(POWER_SD * log_rho, LEAST_THETA_SD)) ** 2
    falls = np.array(FALLS)
    beyond = np.maximum(x / x[:n_target].max(), 1.0)
    overhead = np.exp(log_theta)[None, :, None] * rest * beyond ** -falls[:, None, None]
    curves = np.log(np.maximum(1 / x + overhead, LEAST_PARALLEL / x)).reshape(-1, len(x))
    prior = (-0.5 * ((falls - FALL) / FALL_SD) ** 2)[:, None] + log_prior
    flat = prior.ravel() - np.logaddexp.reduce(prior.ravel()) + np.log(1 - COMMON)
    common = np.log(1 / x + rest)[None, :]
    return RescaledCurves(
        np.vstack([common, curves]), np.append(np.log(COMMON), flat), np.append(0.0, np.tile(log_theta, len(falls)))
    )


def misfit(log_shape: Floats, log_t: Floats) -> tuple[Floats, Floats]:
    """Per curve, the log scale that fits best and the squares about it; log_t has the first sizes of log_shape."""
    errors = log_t - log_shape[:, : len(log_t)]
    scale = errors.mean(axis=1)
    squares: Floats = ((errors - scale[:, None]) ** 2).sum(axis=1)
    return scale, squares


FREEDOM = 3
"""Prior degrees of freedom of the given noise (the prototype's nu0)."""


def weights(log_prior: Floats, log_shape: Floats, log_t: Floats, log_sd: float) -> Floats:
    """Posterior weights of curves, with unknown scale and noise."""
    _, squares = misfit(log_shape, log_t)
    logs = log_prior - 0.5 * (FREEDOM + len(log_t) - 1) * np.log1p(squares / (FREEDOM * log_sd**2))
    share: Floats = np.exp(logs - np.logaddexp.reduce(logs))
    return share
