"""Gaussian processes on log runtimes: one of each kernel for each fold, learnt without it. Predictions are their mean.

A process has a Matern 5/2 kernel of all inputs with a length scale each, a sum of Matern 5/2 kernels of one input each,
a linear kernel, and noise; the joint kernel has neither the sum nor the linear kernel. The parameters are logarithms:
length scales, and SDs of the joint part, sum, linear part, batches and noise.

C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, equations 2.30, 4.17
and 5.9; D. Duvenaud, H. Nickisch and C. E. Rasmussen, "Additive Gaussian processes", NIPS 2011, for the sum. Members
count alike, because what chooses among few candidates on few runs has errors of its own: J. M. Bates and
C. W. J. Granger, "The combination of forecasts", Operational Research Quarterly 20, 1969.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from pipeline.arrays import Floats, Ints
from pipeline.inputs.training import Arrays, Facts, Fitted, Method, Prediction, Training

LENGTH_CENTRE, LENGTH_SD = float(np.log(6.0)), 1.5
"""The prior of a log length scale. The inputs have SD 1: 95% of its mass is at 0.3 to 120, nearly straight lines."""
AMPLITUDES = {"joint": 0.0, "sum": -1.0, "linear": -0.5, "batch": -2.0, "noise": -2.5}
"""Centres of the priors of the log SDs, in SDs of the log runtimes."""
AMPLITUDE_SD = 2.0
LOWEST_NOISE = 1e-3
"""Least SD of the noise, in SDs of the log runtimes: it keeps the covariance of equal runs invertible."""
BOUNDS = (-6.0, 6.0)
ABSENT = -np.inf
"""The log SD of a part that a kernel does not have."""
OFFSET = 10.0
"""Variance of the unknown mean, in variances of the log runtimes."""
TOLERANCE = 1e-6


class Kernel(StrEnum):
    """The parts that a process has beside its batches and noise."""

    ADDITIVE = "additive"
    """The joint part, a curve for each input, and the linear part."""
    JOINT = "joint"
    """The joint part alone: far from all runs it falls back to their mean, where curves and lines go on."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The sum of one kernel for each of some inputs: their places, and the logs of their length scales.

    Inputs with two values have no curve: for them the linear kernel is the same.
    """

    features: Ints
    log_lengths: Floats

    def total(self, x1: Floats, x2: Floats) -> Floats:
        """(n1, n2) the sum of the kernels, each of SD 1."""
        found = np.zeros((len(x1), len(x2)))
        for j, log_length in zip(self.features, self.log_lengths, strict=True):
            root = np.subtract.outer(x1[:, j], x2[:, j])
            root *= np.sqrt(5.0) * np.exp(-log_length)
            found += _matern(np.abs(root, out=root))
        return found


def curved_features(x: Floats) -> Ints:
    """The inputs with more than two values."""
    return np.array([j for j in range(x.shape[1]) if len(np.unique(x[:, j])) > 2], np.int64)


def start(n_features: int, kernel: Kernel = Kernel.ADDITIVE) -> Floats:
    """The parameters to begin a search with, which are also the centres of their priors; ABSENT for missing parts."""
    found = np.concatenate([np.full(n_features, LENGTH_CENTRE), list(AMPLITUDES.values())])
    if kernel == Kernel.JOINT:
        found[n_features + 1 : n_features + 3] = ABSENT
    return found


def curves_of(theta: Floats, x: Floats) -> Curves:
    """The curves with the length scales of the joint part; none where the parameters have no curves."""
    features = curved_features(x) if curves_variance(theta, x.shape[1]) else np.empty(0, np.int64)
    return Curves(features, theta[features])


def joint(theta: Floats, x1: Floats, x2: Floats) -> Floats:
    """(n1, n2) prior covariances without those of the curves."""
    d = x1.shape[1]
    rates = np.sqrt(5.0) * np.exp(-theta[:d])
    root = _squares(x1 * rates, x2 * rates)
    found = _matern(np.sqrt(root, out=root))
    found *= np.exp(2 * theta[d])
    if theta[d + 2] != ABSENT:
        found += np.exp(2 * theta[d + 2]) * (x1 @ x2.T)
    found += OFFSET
    return found


def covariance(theta: Floats, curves: Curves, x1: Floats, x2: Floats, total: Floats | None = None) -> Floats:
    """(n1, n2) prior covariances of the runtimes' smooth part; `total` is that of the curves, where it is known."""
    total = curves.total(x1, x2) if total is None else total
    return joint(theta, x1, x2) + curves_variance(theta, x1.shape[1]) * total


def curves_variance(theta: Floats, n_features: int) -> float:
    """The variance of each curve."""
    return float(np.exp(2 * theta[n_features + 1]))


def variance(theta: Floats, curves: Curves, x: Floats) -> Floats:
    """(n,) the diagonal of `covariance`."""
    d = x.shape[1]
    flat = np.exp(2 * theta[d]) + curves_variance(theta, d) * len(curves.features) + OFFSET
    found: Floats = flat + np.exp(2 * theta[d + 2]) * (x * x).sum(axis=1)
    return found


def noise_variance(theta: Floats) -> float:
    """Variance of one run around the smooth part, its batch included."""
    return float(np.exp(2 * theta[-2]) + np.exp(2 * theta[-1]))


def factor(theta: Floats, curves: Curves, problem: Training) -> Floats:
    """The lower Cholesky factor of the covariance of the runs, whose log runtimes are centred and scaled."""
    k = covariance(theta, curves, problem.x, problem.x)
    k[np.diag_indices_from(k)] += np.exp(2 * theta[-1])
    if problem.batch is not None:
        k += np.exp(2 * theta[-2]) * (problem.batch[:, None] == problem.batch[None, :])
    lower, failed = lapack.dpotrf(k, lower=1, clean=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError(f"covariance of {len(k)} runs is not positive definite")
    found: Floats = lower
    return found


def reduction(lower: Floats, cross: Floats) -> Floats:
    """(n, m) the triangular solution, whose squares sum to what the runs take from the prior variance of m points."""
    found: Floats = solve_triangular(lower, cross, lower=True, check_finite=False)
    return found


def learn_parameters(problem: Training, first: Floats, n_steps: int, curves: Curves | None = None) -> Floats:
    """The parameters of highest posterior density that L-BFGS finds from `first` in at most `n_steps` steps.

    Without `curves`, the curves have the length scales of the joint part, which are found with them. Parts that are
    ABSENT in `first` stay so.
    """
    posterior, free, best = Posterior(problem, curves), np.isfinite(first), first.copy()

    def loss(some: Floats) -> tuple[float, Floats]:
        best[free] = some
        value, gradient = posterior.loss(best)
        return value, gradient[free]

    bounds = [BOUNDS] * int(free.sum())
    bounds[-1] = (float(np.log(LOWEST_NOISE)), BOUNDS[1])
    # Here, because its import takes a sixth of a second and most runs learn no process.
    from scipy.optimize import minimize  # noqa: PLC0415

    found = minimize(
        loss, first[free], jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": n_steps, "maxfun": 2 * n_steps, "ftol": TOLERANCE},
    )  # fmt: skip
    best[free] = found.x
    return best


class Posterior:
    """The density of the parameters: squared differences of each input, products and batches, made once."""

    def __init__(self, problem: Training, curves: Curves | None) -> None:
        n, d = problem.x.shape
        self.y, self.n, self.d, self.centres = problem.y, n, d, start(d)
        self.squares = np.empty((d, n * n))
        for j in range(d):
            self.squares[j] = np.subtract.outer(problem.x[:, j], problem.x[:, j]).reshape(-1) ** 2
        self.products = problem.x @ problem.x.T
        self.same = None if problem.batch is None else np.equal.outer(problem.batch, problem.batch).astype(np.float64)
        self.free = curved_features(problem.x) if curves is None else np.empty(0, np.int64)
        self.fixed = None if curves is None else curves.total(problem.x, problem.x)

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Minus the log posterior density, and its gradient."""
        d, n = self.d, self.n
        rates = np.exp(-2 * theta[:d])
        root = np.sqrt(5.0 * (rates @ self.squares)).reshape(n, n)
        joint_part = np.exp(2 * theta[d]) * _matern(root)
        sum_part, slopes = self._curves(theta, rates)
        linear = np.exp(2 * theta[d + 2]) * self.products
        batch = np.exp(2 * theta[d + 3]) * self.same if self.same is not None else np.zeros(1)
        noise = np.exp(2 * theta[d + 4])
        k = joint_part + sum_part + linear + batch + OFFSET
        k[np.diag_indices_from(k)] += noise
        lower, failed = lapack.dpotrf(k, lower=1, clean=1, overwrite_a=1)
        if failed:
            return 1e25, np.zeros_like(theta)
        alpha = cho_solve((lower, True), self.y, check_finite=False)
        w = np.outer(alpha, alpha) - _symmetric_inverse(lower)
        value = 0.5 * self.y @ alpha + np.log(np.diag(lower)).sum()
        gradient = np.empty_like(theta)
        weighted = (w * np.exp(2 * theta[d])) * _matern_slope(root)
        gradient[:d] = -0.5 * rates * (self.squares @ weighted.reshape(-1))
        for j, slope in slopes:
            gradient[j] -= 0.5 * rates[j] * float(np.vdot(w, slope))
        gradient[d:] = [-np.vdot(w, joint_part), -np.vdot(w, sum_part), -np.vdot(w, linear), 0.0, -noise * np.trace(w)]
        if self.same is not None:
            gradient[d + 3] = -np.vdot(w, batch)
        return float(value) + self._prior(theta, gradient), gradient

    def _curves(self, theta: Floats, rates: Floats) -> tuple[Floats, list[tuple[int, Floats]]]:
        """The covariance of the curves, and what its slope by each free length scale is made of."""
        amplitude = curves_variance(theta, self.d)
        total = np.zeros((self.n, self.n))
        slopes: list[tuple[int, Floats]] = []
        if not amplitude:
            return total, slopes
        if self.fixed is not None:
            return amplitude * self.fixed, slopes
        for j in self.free:
            squares = self.squares[j].reshape(self.n, self.n)
            root = np.sqrt(5.0 * rates[j] * squares)
            total += amplitude * _matern(root)
            slopes.append((int(j), amplitude * _matern_slope(root) * squares))
        return total, slopes

    def _prior(self, theta: Floats, gradient: Floats) -> float:
        """Minus the log prior density; adds its slope to the gradient."""
        scales = np.where(np.arange(len(theta)) < self.d, LENGTH_SD, AMPLITUDE_SD)
        z = np.where(theta == ABSENT, 0.0, theta - self.centres) / scales
        gradient += z / scales
        return float(0.5 * z @ z)


def _matern(root: Floats) -> Floats:
    """Matern 5/2 of SD 1 at the square root of five times the scaled distance, squared."""
    # In place, because fresh memory for each step takes longer than the arithmetic.
    found: Floats = root / 3.0
    found += 1.0
    found *= root
    found += 1.0
    decay = np.negative(root)
    found *= np.exp(decay, out=decay)
    return found


def _matern_slope(root: Floats) -> Floats:
    """Minus twice its slope by the squared scaled distance."""
    return (5.0 / 3.0) * (1.0 + root) * np.exp(-root)


def _symmetric_inverse(lower: Floats) -> Floats:
    inverse = lapack.dpotri(lower, lower=1)[0]
    found: Floats = np.tril(inverse) + np.tril(inverse, -1).T
    return found


def _squares(x1: Floats, x2: Floats) -> Floats:
    found: Floats = x1 @ x2.T
    found *= -2.0
    found += (x1 * x1).sum(axis=1)[:, None]
    found += (x2 * x2).sum(axis=1)
    return np.maximum(found, 0.0, out=found)


KERNELS = (Kernel.ADDITIVE, Kernel.JOINT)
"""The standard deviations of predictions are those of the first."""
PARAMETER_ROWS = 300
"""Runs that parameters are learnt from. With 400 errors are 0 to 5% smaller, and learning takes 2.5 times as long."""
FIRST_STEPS, MEMBER_STEPS = 100, 15
CHUNK = 256
"""Points predicted at once: their covariances with some hundred runs fit a processor's cache."""


def fit(training: Training) -> Fitted:
    """The parameters of each kernel on all runs (first rows of `theta`), then of each member, and members' weights.

    Of more than `gp_rows` runs, as many are drawn to condition on; every run is predicted from those of other folds. A
    member's weights are 0 for its fold. Members of a kernel share the length scales of its curves, which are those
    found on all runs.
    """
    every, mean, scale = _scaled(training)
    problem = _some(every, training.rng(3), training.rules.gp_rows)
    rng, (n, d) = training.rng(1), problem.x.shape
    some = _some(problem, rng)
    firsts = [learn_parameters(some, start(d, kernel), FIRST_STEPS) for kernel in KERNELS]
    curves = [curves_of(first, problem.x) for first in firsts]
    thetas, alphas = list(firsts), np.zeros((every.n_folds, len(KERNELS), n))
    held_mean, held_sd = np.empty(len(every.y)), np.empty(len(every.y))
    for fold in range(every.n_folds):
        kept, held = np.flatnonzero(problem.fold != fold), np.flatnonzero(every.fold == fold)
        part, means = problem.rows(kept), []
        some = _some(part, rng)
        for place, (first, own) in enumerate(zip(firsts, curves, strict=True)):
            theta = learn_parameters(some, first, MEMBER_STEPS, own)
            alpha = _weights(factor(theta, own, part), part.y)
            means.append(covariance(theta, own, every.x[held], part.x) @ alpha)
            thetas.append(theta)
            alphas[fold, place, kept] = alpha
        held_mean[held] = np.mean(means, axis=0)
        held_sd[held] = _sds(firsts[0], curves[0], factor(firsts[0], curves[0], part), part.x, every.x[held])
    arrays = {
        "x": problem.x, "theta": np.array(thetas), "alpha": alphas.reshape(-1, n),
        "lower": factor(firsts[0], curves[0], problem), "scale": np.array([mean, scale]),
    }  # fmt: skip
    return Fitted(held_mean * scale + mean, held_sd * scale, arrays)


def predict(arrays: Arrays, facts: Facts, x: Floats) -> Prediction:  # noqa: ARG001  (a Method's signature)
    """The mean of the members, and the standard deviation of one run under the first kernel's parameters."""
    first, runs = arrays["theta"][0], arrays["x"]
    mean, sd, curves = np.empty(len(x)), np.empty(len(x)), curves_of(first, runs)
    for begin in range(0, len(x), CHUNK):
        part = slice(begin, begin + CHUNK)
        total = curves.total(x[part], runs)
        mean[part] = _members(arrays, x[part], total).mean(axis=0)
        sd[part] = _sds(first, curves, arrays["lower"], runs, x[part], total) * float(arrays["scale"][1])
    return mean, sd


def members(arrays: Arrays, facts: Facts, x: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    """(members, points) log runtimes."""
    return _members(arrays, x, curves_of(arrays["theta"][0], arrays["x"]).total(x, arrays["x"]))


def _members(arrays: Arrays, x: Floats, total: Floats) -> Floats:
    (mean, scale), runs = arrays["scale"], arrays["x"]
    found = np.empty((len(arrays["alpha"]), len(x)))
    for k, (theta, alpha) in enumerate(zip(arrays["theta"][len(KERNELS) :], arrays["alpha"], strict=True)):
        found[k] = joint(theta, x, runs) @ alpha
        amplitude = curves_variance(theta, x.shape[1])
        if amplitude:
            found[k] += amplitude * (total @ alpha)
    log_s: Floats = found * scale + mean
    return log_s


def once(training: Training, fitted: Fitted, x: Floats) -> Prediction:
    """One process of each kernel with the parameters of an earlier fit."""
    problem, mean, scale = _scaled(training)
    means: list[Floats] = []
    sds: list[Floats] = []
    for theta in fitted.arrays["theta"][: len(KERNELS)]:
        curves = curves_of(theta, fitted.arrays["x"])
        lower = factor(theta, curves, problem)
        means.append(covariance(theta, curves, x, problem.x) @ _weights(lower, problem.y))
        # Those of the first kernel alone, as in `predict`.
        sds = sds or [_sds(theta, curves, lower, problem.x, x)]
    return np.mean(means, axis=0) * scale + mean, sds[0] * scale


def _weights(lower: Floats, y: Floats) -> Floats:
    """(n,) the weights whose product with `covariance` is the predicted mean."""
    found: Floats = cho_solve((lower, True), y, check_finite=False)
    return found


def _scaled(training: Training) -> tuple[Training, float, float]:
    """The runs with centred and scaled log runtimes, and what these were centred and scaled by."""
    mean, scale = float(training.y.mean()), float(training.y.std()) or 1.0
    return replace(training, y=(training.y - mean) / scale), mean, scale


def _some(problem: Training, rng: np.random.Generator, most: int = PARAMETER_ROWS) -> Training:
    """At most so many of the runs; all folds keep their numbers."""
    if len(problem.y) <= most:
        return problem
    rows = np.sort(rng.choice(len(problem.y), most, replace=False))
    return replace(problem.rows(rows), fold=problem.fold[rows])


def _sds(
    theta: Floats, curves: Curves, lower: Floats, x: Floats, points: Floats, total: Floats | None = None
) -> Floats:
    taken = reduction(lower, covariance(theta, curves, points, x, total).T)
    smooth = np.maximum(variance(theta, curves, points) - (taken * taken).sum(axis=0), 0.0)
    found: Floats = np.sqrt(smooth + noise_variance(theta))
    return found


GP = Method("gp", fit, predict, members, once)
