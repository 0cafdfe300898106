"""A Gaussian process on standardised inputs: Matern 5/2 with a length scale for each input, a linear kernel, noise.

C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, equations 2.30, 4.17
and 5.9. The parameters are logarithms: length scales, SD of the Matern part, of the linear part, of the batches and of
the noise.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

from pipeline.core.arrays import Floats, Ints

LENGTH_CENTRE, LENGTH_SD = float(np.log(3.0)), 1.5
"""The prior of a log length scale. The inputs have SD 1: 95% of its mass is at 0.15 to 60: steps to straight lines."""
AMPLITUDE_SD = 2.0
START = {"matern": 0.0, "linear": -0.5, "batch": -2.0, "noise": -2.5}
LOWEST_NOISE = 1e-3
"""Least SD of the noise, as a share of the SD of the log runtimes: repeats of a run in a log never agree better."""
BOUNDS = (-6.0, 6.0)
OFFSET = 10.0
"""Variance of the unknown mean, in units of the variance of the log runtimes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Standardised inputs (n, d), centred and scaled targets (n,), and the batch of each run where batches count."""

    x: Floats
    y: Floats
    batch: Ints | None

    def rows(self, chosen: Ints) -> "Problem":
        """The problem of some of its rows."""
        return Problem(self.x[chosen], self.y[chosen], None if self.batch is None else self.batch[chosen])


def n_parameters(problem: Problem) -> int:
    """Length scales, and the SDs of Matern part, linear part, batches and noise."""
    return int(problem.x.shape[1]) + 4


def start(problem: Problem) -> Floats:
    """The parameters to begin a search with."""
    return np.concatenate([np.full(problem.x.shape[1], LENGTH_CENTRE), list(START.values())])


def covariance(theta: Floats, x1: Floats, x2: Floats) -> Floats:
    """(n1, n2) prior covariances of the runtimes' smooth part."""
    d = x1.shape[1]
    root = np.sqrt(_squares(x1 / np.exp(theta[:d]), x2 / np.exp(theta[:d])) * 5.0)
    matern = np.exp(2 * theta[d]) * (1.0 + root + root * root / 3.0) * np.exp(-root)
    found: Floats = matern + np.exp(2 * theta[d + 1]) * (x1 @ x2.T) + OFFSET
    return found


def variance(theta: Floats, x: Floats) -> Floats:
    """(n,) the diagonal of `covariance`."""
    d = x.shape[1]
    found: Floats = np.exp(2 * theta[d]) + np.exp(2 * theta[d + 1]) * (x * x).sum(axis=1) + OFFSET
    return found


def noise_variance(theta: Floats) -> float:
    """Variance of one run around the smooth part, its batch included."""
    return float(np.exp(2 * theta[-2]) + np.exp(2 * theta[-1]))


def factor(theta: Floats, problem: Problem) -> Floats:
    """The lower Cholesky factor of the covariance of the runs."""
    k = covariance(theta, problem.x, problem.x)
    k[np.diag_indices_from(k)] += np.exp(2 * theta[-1])
    if problem.batch is not None:
        k += np.exp(2 * theta[-2]) * (problem.batch[:, None] == problem.batch[None, :])
    lower, failed = lapack.dpotrf(k, lower=1, clean=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError(f"covariance of {len(k)} runs is not positive definite")
    found: Floats = lower
    return found


def weights(lower: Floats, y: Floats) -> Floats:
    """(n,) the weights whose product with `covariance` is the predicted mean."""
    found: Floats = cho_solve((lower, True), y, check_finite=False)
    return found


def reduction(lower: Floats, cross: Floats) -> Floats:
    """(n, m) the triangular solution, whose squares sum to what the runs take from the prior variance of m points."""
    found: Floats = solve_triangular(lower, cross, lower=True, check_finite=False)
    return found


def learn_parameters(problem: Problem, first: Floats, n_steps: int) -> Floats:
    """The parameters of highest posterior density that L-BFGS finds from `first` in at most `n_steps` steps."""
    parts = _Parts(problem)
    bounds = [BOUNDS] * n_parameters(problem)
    bounds[-1] = (float(np.log(LOWEST_NOISE)), BOUNDS[1])
    found = minimize(
        parts.loss, first, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": n_steps, "maxfun": 2 * n_steps, "ftol": 1e-6},
    )  # fmt: skip
    best: Floats = found.x
    return best


class _Parts:
    """What the loss of one problem needs at any parameters: squared differences of each input, products, batches."""

    def __init__(self, problem: Problem) -> None:
        n, d = problem.x.shape
        self.y, self.n, self.d = problem.y, n, d
        self.squares = np.empty((d, n * n))
        for j in range(d):
            self.squares[j] = np.subtract.outer(problem.x[:, j], problem.x[:, j]).reshape(-1) ** 2
        self.products = problem.x @ problem.x.T
        same = np.eye(n) if problem.batch is None else (problem.batch[:, None] == problem.batch[None, :])
        self.has_batch, self.same = problem.batch is not None, same.astype(np.float64)

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Minus the log posterior density, and its gradient."""
        d, n = self.d, self.n
        inverse_squares = np.exp(-2 * theta[:d])
        root = np.sqrt(5.0 * (inverse_squares @ self.squares)).reshape(n, n)
        decay = np.exp(2 * theta[d]) * np.exp(-root)
        matern = decay * (1.0 + root + root * root / 3.0)
        linear = np.exp(2 * theta[d + 1]) * self.products
        batch = np.exp(2 * theta[d + 2]) * self.same if self.has_batch else 0.0
        k = matern + linear + batch + OFFSET
        noise = np.exp(2 * theta[-1])
        k[np.diag_indices_from(k)] += noise
        lower, failed = lapack.dpotrf(k, lower=1, clean=1, overwrite_a=1)
        if failed:
            return 1e25, np.zeros_like(theta)
        alpha = cho_solve((lower, True), self.y, check_finite=False)
        inverse = lapack.dpotri(lower, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        w = np.outer(alpha, alpha) - inverse
        value = 0.5 * self.y @ alpha + np.log(np.diag(lower)).sum()
        gradient = np.empty_like(theta)
        gradient[:d] = -0.5 * (5.0 / 3.0) * inverse_squares * (self.squares @ (w * decay * (1.0 + root)).reshape(-1))
        gradient[d] = -np.vdot(w, matern)
        gradient[d + 1] = -np.vdot(w, linear)
        gradient[d + 2] = -np.vdot(w, batch) if self.has_batch else 0.0
        gradient[d + 3] = -noise * np.trace(w)
        return value + self._prior(theta, gradient), gradient

    def _prior(self, theta: Floats, gradient: Floats) -> float:
        """Minus the log prior density; adds its slope to the gradient."""
        centres = np.concatenate([np.full(self.d, LENGTH_CENTRE), list(START.values())])
        scales = np.concatenate([np.full(self.d, LENGTH_SD), np.full(4, AMPLITUDE_SD)])
        z = (theta - centres) / scales
        gradient += z / scales
        return float(0.5 * z @ z)


def _squares(x1: Floats, x2: Floats) -> Floats:
    found: Floats = (x1 * x1).sum(axis=1)[:, None] + (x2 * x2).sum(axis=1)[None, :] - 2.0 * (x1 @ x2.T)
    return np.maximum(found, 0.0)
