"""Gaussian processes on log runtimes: of each kernel, one for each fifth of the folds. Predictions are their mean.

A process has a Matern 5/2 kernel of all inputs with a length scale each, a sum of Matern 5/2 kernels of one input each,
a linear kernel, a part that runs of the same inputs share, and noise; the joint kernel has neither the sum nor the
linear kernel. The parameters are logarithms: length scales, and SDs of the parts.

C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, equations 2.30, 4.17,
5.9 and, for the folds, 5.12; D. Duvenaud, H. Nickisch and C. E. Rasmussen, "Additive Gaussian processes", NIPS 2011,
for the sum; V. Tresp, "A Bayesian committee machine", Neural Computation 12, 2000, for processes on parts of many runs.
Processes count alike: J. M. Bates and C. W. J. Granger, "The combination of forecasts", 1969.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.inputs.encoding import Training

LENGTH_CENTRE, LENGTH_SD = float(np.log(6.0)), 1.5
"""The prior of a log length scale. The inputs have SD 1: 95% of its mass is at 0.3 to 120, nearly straight lines."""
AMPLITUDES = {"joint": 0.0, "sum": -1.0, "linear": -0.5, "repeat": -2.0, "batch": -2.0, "noise": -2.5}
"""Centres of the priors of the log SDs, in SDs of the log runtimes."""
JOINT, SUM, LINEAR, REPEAT, BATCH, NOISE = range(-len(AMPLITUDES), 0)
AMPLITUDE_SD = 2.0
LOWEST_NOISE = 1e-3
"""Least SD of the noise, in SDs of the log runtimes: it keeps the covariance of equal runs invertible."""
BOUNDS = (-6.0, 6.0)
ABSENT = -np.inf
"""The log SD of a part that a kernel does not have."""
OFFSET = 10.0
"""Variance of the unknown mean, in variances of the log runtimes."""
TOLERANCE = 1e-6
KERNELS: tuple[list[int], ...] = ([], [SUM, LINEAR])
"""The parts that each kernel lacks beside those that no run needs. Far from all runs the second falls back to their
mean, where curves and lines go on. The standard deviations of predictions are those of the first."""
GROUPS = 5
"""Groups of folds. Each has a process of each kernel, whose parameters are learnt from the other groups."""
PARAMETER_ROWS = 500
"""Runs that parameters are learnt from: 1,000 in place of 300 lower the error of 2,048 runs by 5%, for six times as
long."""
FIRST_STEPS, GROUP_STEPS = 100, 15
TRIAL_ROWS, TRIAL_STEPS = 300, 40
CHUNK = 256
"""Points predicted at once: their covariances with some hundred runs fit a processor's cache."""

Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was learnt. `held_mean` and `held_sd` (runs,) predict each run from the other folds (log s)."""

    held_mean: Floats
    held_sd: Floats
    arrays: Arrays


def fit(training: Training) -> Fitted:
    """The parameters and weights of each process, its runs, and the factor of the first, which tells the spread.

    A process is conditioned on all runs, or on `gp_rows` of them, drawn for each group. Every run is predicted by the
    processes of its group without the runs of its fold.
    """
    # Parameters of each kernel, from which every group begins its own search.
    every, mean, scale = _scaled(training)
    n_groups, rng = min(GROUPS, every.n_folds), training.rng(1)
    first = every.some(rng, PARAMETER_ROWS)
    firsts = [learn_parameters(first, start(every, lacking), FIRST_STEPS) for lacking in KERNELS]
    held_mean, held_sd = np.zeros(len(every.y)), np.empty(len(every.y))
    arrays: dict[str, list[Array]] = {"x": [], "theta": [], "alpha": [], "lower": []}
    for group in range(n_groups):
        problem = every.some(rng, training.rules.gp_rows)
        others = problem.rows(np.flatnonzero(problem.fold % n_groups != group)).some(rng, PARAMETER_ROWS)
        arrays["x"].append(problem.x)
        for place, theta in enumerate(learn_parameters(others, one, GROUP_STEPS) for one in firsts):
            kernel = Kernel(theta, problem.x)
            lower = kernel.factor(problem)
            arrays["theta"].append(theta)
            arrays["alpha"].append(cho_solve((lower, True), problem.y, check_finite=False))
            arrays["lower"] = arrays["lower"] or [lower]
            # What the processes predict of the folds of the group, without them.
            folds = range(group, every.n_folds, n_groups)
            for held, means, sds in held_folds(kernel, lower, problem, every, folds):
                held_mean[held] += means / len(KERNELS)
                held_sd[held] = sds if place == 0 else held_sd[held]
    if len(every.y) <= training.rules.gp_rows:
        del arrays["x"][1:]
    found = {name: np.array(values) for name, values in arrays.items()}
    return Fitted(held_mean * scale + mean, held_sd * scale, {**found, "scale": np.array([mean, scale])})


def predict(arrays: Arrays, x: Floats) -> tuple[Floats, Floats]:
    """(points,) the mean of the processes, and the standard deviation of one run under the first, log s."""
    (mean, scale), runs, mean_y, sd = arrays["scale"], arrays["x"], np.zeros(len(x)), np.empty(len(x))
    for place, (theta, alpha) in enumerate(zip(arrays["theta"], arrays["alpha"], strict=True)):
        own = runs[min(place // len(KERNELS), len(runs) - 1)]
        kernel = Kernel(theta, own)
        for begin in range(0, len(x), CHUNK):
            part = slice(begin, begin + CHUNK)
            cross = kernel.covariance(x[part], own)
            mean_y[part] += cross @ alpha / len(arrays["theta"])
            if place == 0:
                sd[part] = kernel.sds(arrays["lower"][0], x[part], cross)
    return mean_y * scale + mean, sd * scale


def once(training: Training, fitted: Fitted, x: Floats) -> tuple[Floats, Floats]:
    """What processes predict that were learnt from these runs, one of each kernel, with the parameters of a fit."""
    problem, mean, scale = _scaled(training)
    thetas = fitted.arrays["theta"][: len(KERNELS)]
    factors = [Kernel(theta, problem.x).factor(problem) for theta in thetas]
    alphas = [cho_solve((lower, True), problem.y, check_finite=False) for lower in factors]
    arrays = {"x": [problem.x], "theta": thetas, "alpha": alphas, "lower": factors[:1], "scale": [mean, scale]}
    return predict({name: np.array(values) for name, values in arrays.items()}, x)


def trial_errors(training: Training) -> Floats:
    """(runs,) errors on held folds, log s, of one process with parameters learnt once: quick, to compare inputs."""
    problem, _, scale = _scaled(training)
    some = problem.some(training.rng(6), TRIAL_ROWS)
    kernel = Kernel(learn_parameters(some, start(some, KERNELS[0]), TRIAL_STEPS), problem.x)
    errors = np.empty(len(problem.y))
    for held, means, _ in held_folds(kernel, kernel.factor(problem), problem, problem, range(problem.n_folds)):
        errors[held] = means - problem.y[held]
    return errors * scale


def posterior_covariance(arrays: Arrays, x: Floats) -> tuple[Floats, float]:
    """(points, points) covariances of the smooth part under the first process, and the variance of a run around it.

    In squares of log seconds.
    """
    runs, unit = arrays["x"][0], float(arrays["scale"][1]) ** 2
    kernel = Kernel(arrays["theta"][0], runs)
    taken = reduction(arrays["lower"][0], kernel.covariance(runs, x))
    return (kernel.covariance(x, x) - taken.T @ taken) * unit, kernel.noise_variance * unit


def held_folds(
    kernel: "Kernel", lower: Floats, problem: Training, every: Training, folds: Iterable[int]
) -> Iterator[tuple[Bools, Floats, Floats]]:
    """For each fold its runs, and what the process predicts of them without the runs of the fold: means and SDs."""
    inverse = _symmetric_inverse(lower)
    alpha = inverse @ problem.y
    for fold in folds:
        out, held = np.flatnonzero(problem.fold == fold), every.fold == fold
        cross = kernel.covariance(every.x[held], problem.x)
        own = np.linalg.inv(inverse[np.ix_(out, out)])
        taken = cross @ inverse
        means = cross @ alpha - taken[:, out] @ own @ alpha[out]
        smooth = kernel.variance(every.x[held]) - (taken * cross).sum(axis=1)
        smooth += ((taken[:, out] @ own) * taken[:, out]).sum(axis=1)
        yield held, means, np.sqrt(np.maximum(smooth, 0.0) + kernel.noise_variance)


def _scaled(training: Training) -> tuple[Training, float, float]:
    """The runs with centred and scaled log runtimes, and what these were centred and scaled by."""
    mean, scale = float(training.y.mean()), float(training.y.std()) or 1.0
    return replace(training, y=(training.y - mean) / scale), mean, scale


class Kernel:
    """Prior covariances of log runtimes, under the parameters `theta` of a process on the runs x."""

    def __init__(self, theta: Floats, x: Floats) -> None:
        self.theta, self.curved = theta, curved_features(x)
        self.noise_variance = float(np.exp(2 * theta[BATCH:]).sum())
        """Variance of one run around the smooth part, its batch included."""

    def covariance(self, x1: Floats, x2: Floats) -> Floats:
        """(n1, n2) covariances without batches and noise."""
        theta, rates = self.theta, np.sqrt(5.0) * np.exp(-self.theta[:JOINT])
        root = _squares(x1 * rates, x2 * rates)
        found = _matern(np.sqrt(root, out=root))
        found *= np.exp(2 * theta[JOINT])
        found += OFFSET
        if theta[SUM] != ABSENT:
            found += np.exp(2 * theta[LINEAR]) * (x1 @ x2.T)
            for j in self.curved:
                root = np.abs(np.subtract.outer(x1[:, j] * rates[j], x2[:, j] * rates[j]))
                found += np.exp(2 * theta[SUM]) * _matern(root)
        if theta[REPEAT] != ABSENT:
            found += np.exp(2 * theta[REPEAT]) * _are_equal(x1, x2)
        return found

    def variance(self, x: Floats) -> Floats:
        """(n,) the diagonal of `covariance`."""
        joint, curve, line, repeat = np.exp(2 * self.theta[JOINT:BATCH])
        found: Floats = joint + curve * len(self.curved) + repeat + OFFSET + line * (x * x).sum(axis=1)
        return found

    def factor(self, problem: Training) -> Floats:
        """The lower Cholesky factor of the covariance of the runs, whose log runtimes are centred and scaled."""
        k = self.covariance(problem.x, problem.x)
        if problem.batch is not None:
            k += np.exp(2 * self.theta[BATCH]) * np.equal.outer(problem.batch, problem.batch)
        k[np.diag_indices_from(k)] += np.exp(2 * self.theta[NOISE])
        found: Floats = cholesky(k, lower=True, overwrite_a=True, check_finite=False)
        return found

    def sds(self, lower: Floats, x: Floats, cross: Floats) -> Floats:
        """(n,) standard deviations of one run at each point; `cross` are the points' covariances with the runs."""
        taken = reduction(lower, cross.T)
        smooth = np.maximum(self.variance(x) - (taken * taken).sum(axis=0), 0.0)
        found: Floats = np.sqrt(smooth + self.noise_variance)
        return found


def curved_features(x: Floats) -> Ints:
    """The inputs with more than two values: for others a curve is the same as the linear kernel."""
    return np.array([j for j in range(x.shape[1]) if len(np.unique(x[:, j])) > 2], np.int64)


def reduction(lower: Floats, cross: Floats) -> Floats:
    """(n, m) the triangular solution, whose squares sum to what the runs take from the prior variance of m points."""
    found: Floats = solve_triangular(lower, cross, lower=True, check_finite=False)
    return found


def start(problem: Training, lacking: list[int]) -> Floats:
    """The parameters to begin a search with, which are also the centres of their priors; ABSENT for missing parts."""
    found = np.concatenate([np.full(problem.x.shape[1], LENGTH_CENTRE), list(AMPLITUDES.values())])
    found[lacking] = ABSENT
    if len(np.unique(problem.x, axis=0)) == len(problem.x):
        found[REPEAT] = ABSENT
    if problem.batch is None:
        found[BATCH] = ABSENT
    return found


def learn_parameters(problem: Training, first: Floats, n_steps: int) -> Floats:
    """The parameters of highest posterior density that L-BFGS finds from `first` in at most `n_steps` steps.

    Parts that are ABSENT in `first` stay so.
    """
    posterior, free, best = Posterior(problem), np.isfinite(first), first.copy()

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
    """The density of the parameters: squared differences of each input, products and equal runs, made once."""

    def __init__(self, problem: Training) -> None:
        x, n = problem.x, len(problem.x)
        self.y, self.curved = problem.y, curved_features(x)
        self.centres = np.array([LENGTH_CENTRE] * x.shape[1] + list(AMPLITUDES.values()))
        self.squares = np.array([np.subtract.outer(column, column).reshape(-1) ** 2 for column in x.T])
        self.linear = {LINEAR: x @ x.T, NOISE: np.eye(n)}
        if len(np.unique(x, axis=0)) < n:
            self.linear[REPEAT] = _are_equal(x, x).astype(np.float64)
        if problem.batch is not None:
            self.linear[BATCH] = np.equal.outer(problem.batch, problem.batch).astype(np.float64)

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Minus the log posterior density, and its gradient."""
        n, rates, gradient = len(self.y), np.exp(-2 * theta[:JOINT]), np.zeros_like(theta)
        root = np.sqrt(5.0 * (rates @ self.squares)).reshape(n, n)
        parts = {JOINT: np.exp(2 * theta[JOINT]) * _matern(root)}
        parts |= {at: np.exp(2 * theta[at]) * same for at, same in self.linear.items() if theta[at] != ABSENT}
        # The curves, and what the slope by each length scale is made of.
        amplitude, slopes = float(np.exp(2 * theta[SUM])), {}
        parts[SUM] = np.zeros((n, n))
        for j in self.curved if amplitude else ():
            squares = self.squares[j].reshape(n, n)
            curve = np.sqrt(5.0 * rates[j] * squares)
            parts[SUM] += amplitude * _matern(curve)
            slopes[j] = amplitude * _matern_slope(curve) * squares
        lower, failed = lapack.dpotrf(sum(parts.values()) + OFFSET, lower=1, clean=1, overwrite_a=1)
        if failed:
            return 1e25, gradient
        alpha = cho_solve((lower, True), self.y, check_finite=False)
        w = np.outer(alpha, alpha) - _symmetric_inverse(lower)
        value = 0.5 * self.y @ alpha + np.log(np.diag(lower)).sum()
        weighted = (w * np.exp(2 * theta[JOINT])) * _matern_slope(root)
        gradient[:JOINT] = -0.5 * rates * (self.squares @ weighted.reshape(-1))
        for j, slope in slopes.items():
            gradient[j] -= 0.5 * rates[j] * float(np.vdot(w, slope))
        for at, part in parts.items():
            gradient[at] = -np.vdot(w, part)
        # The priors of the parameters that the kernel has.
        scales = np.where(np.arange(len(theta)) < len(theta) + JOINT, LENGTH_SD, AMPLITUDE_SD)
        z = np.where(theta == ABSENT, 0.0, theta - self.centres) / scales
        return float(value + 0.5 * z @ z), gradient + z / scales


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


def _are_equal(x1: Floats, x2: Floats) -> Bools:
    """(n1, n2) whether two rows are the same."""
    codes = np.unique(np.concatenate([x1, x2]), axis=0, return_inverse=True)[1].reshape(-1)
    return np.equal.outer(codes[: len(x1)], codes[len(x1) :])


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS has one thread meanwhile; afterwards it has as many as before. Also a decorator."""
    # Here, because threadpoolctl sets a variable of the environment, which an import of Walltime must not do.
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    with threadpool_limits(limits=1, user_api="blas"):
        yield
