"""Gaussian processes on log runtimes: one of each kernel for each fold, learnt without it. Predictions are their mean.

Equal weights, because what chooses among few candidates on few runs has errors of its own: J. M. Bates and
C. W. J. Granger, "The combination of forecasts", Operational Research Quarterly 20, 1969.
"""

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.gaussian_process import Curves, Kernel, Problem
from pipeline.inputs.training import Arrays, Facts, Fitted, Method, Prediction, Training

KERNELS = (Kernel.ADDITIVE, Kernel.JOINT)
"""The standard deviations of predictions are those of the first."""
PARAMETER_ROWS = 300
"""Runs that parameters are learnt from. With 400 errors are 0 to 5% smaller, and learning takes 2.5 times as long."""
FIRST_STEPS, MEMBER_STEPS = 100, 15
CHUNK = 256
"""Points predicted at once: their covariances with some hundred runs fit a processor's cache."""


def fit(training: Training) -> Fitted:
    """The parameters of each kernel on all runs (first rows of `theta`), then of each member, and members' weights.

    A member's weights are 0 for its fold. Members of a kernel share the length scales of its curves, which are those
    found on all runs.
    """
    problem, mean, scale = _problem(training)
    rng, d = training.rng(1), problem.x.shape[1]
    some = _some(problem, rng)
    firsts = [process.learn_parameters(some, process.start(d, kernel), FIRST_STEPS) for kernel in KERNELS]
    curves = [process.curves_of(first, problem.x) for first in firsts]
    members: list[tuple[Floats, Floats]] = []
    held_mean, held_sd = np.empty(len(training.y)), np.empty(len(training.y))
    for fold in range(training.n_folds):
        kept, held = np.flatnonzero(training.fold != fold), np.flatnonzero(training.fold == fold)
        part = problem.rows(kept)
        some = _some(part, rng)
        own = [_member(*kernel, part, some, problem.x[held]) for kernel in zip(firsts, curves, strict=True)]
        held_mean[held] = np.mean([means for _, _, means in own], axis=0)
        lower = process.factor(firsts[0], curves[0], part)
        held_sd[held] = _sds(firsts[0], curves[0], lower, part.x, problem.x[held])
        members += [(theta, _at(alpha, kept, len(problem.y))) for theta, alpha, _ in own]
    arrays = {
        "x": problem.x, "theta": np.array([*firsts, *(theta for theta, _ in members)]),
        "alpha": np.array([alpha for _, alpha in members]),
        "lower": process.factor(firsts[0], curves[0], problem),
        "scale": np.array([mean, scale]),
    }  # fmt: skip
    return Fitted(held_mean * scale + mean, held_sd * scale, arrays)


def _member(first: Floats, curves: Curves, part: Problem, some: Problem, x: Floats) -> tuple[Floats, Floats, Floats]:
    """Parameters searched from those of all runs, the weights of the part's runs, and the means at points."""
    theta = process.learn_parameters(some, first, MEMBER_STEPS, curves)
    alpha = process.weights(process.factor(theta, curves, part), part.y)
    return theta, alpha, process.covariance(theta, curves, x, part.x) @ alpha


def _at(values: Floats, places: Ints, n: int) -> Floats:
    found = np.zeros(n)
    found[places] = values
    return found


def predict(arrays: Arrays, facts: Facts, x: Floats) -> Prediction:  # noqa: ARG001  (a Method's signature)
    """The mean of the members, and the standard deviation of one run under the first kernel's parameters."""
    mean, sd = np.empty(len(x)), np.empty(len(x))
    for begin in range(0, len(x), CHUNK):
        part = slice(begin, begin + CHUNK)
        total = curves_of(arrays).total(x[part], arrays["x"])
        mean[part] = _members(arrays, x[part], total).mean(axis=0)
        sd[part] = _sds_of(arrays, x[part], total)
    return mean, sd


def members(arrays: Arrays, facts: Facts, x: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    """(members, points) log runtimes."""
    return _members(arrays, x, curves_of(arrays).total(x, arrays["x"]))


def _members(arrays: Arrays, x: Floats, total: Floats) -> Floats:
    (mean, scale), runs = arrays["scale"], arrays["x"]
    found = np.empty((len(arrays["alpha"]), len(x)))
    for k, (theta, alpha) in enumerate(zip(arrays["theta"][n_kernels(arrays) :], arrays["alpha"], strict=True)):
        found[k] = process.joint(theta, x, runs) @ alpha
        amplitude = process.curves_variance(theta, x.shape[1])
        if amplitude:
            found[k] += amplitude * (total @ alpha)
    log_s: Floats = found * scale + mean
    return log_s


def once(training: Training, fitted: Fitted, x: Floats) -> Prediction:
    """One process of each kernel with the parameters of an earlier fit."""
    problem, mean, scale = _problem(training)
    means: list[Floats] = []
    sds: list[Floats] = []
    for theta in fitted.arrays["theta"][: n_kernels(fitted.arrays)]:
        curves = process.curves_of(theta, fitted.arrays["x"])
        lower = process.factor(theta, curves, problem)
        means.append(process.covariance(theta, curves, x, problem.x) @ process.weights(lower, problem.y))
        # Those of the first kernel alone, as in `predict`.
        sds = sds or [_sds(theta, curves, lower, problem.x, x)]
    return np.mean(means, axis=0) * scale + mean, sds[0] * scale


def n_kernels(arrays: Arrays) -> int:
    """How many kernels were learnt: `theta` has a row for each, and one for each member."""
    return len(arrays["theta"]) - len(arrays["alpha"])


def curves_of(arrays: Arrays) -> Curves:
    """The curves that the members of the first kernel share."""
    return process.curves_of(arrays["theta"][0], arrays["x"])


def _problem(training: Training) -> tuple[Problem, float, float]:
    mean, scale = float(training.y.mean()), float(training.y.std()) or 1.0
    return Problem(training.x, (training.y - mean) / scale, training.batch), mean, scale


def _some(problem: Problem, rng: np.random.Generator) -> Problem:
    n = len(problem.y)
    if n <= PARAMETER_ROWS:
        return problem
    chosen: Ints = np.sort(rng.choice(n, PARAMETER_ROWS, replace=False))
    return problem.rows(chosen)


def _sds_of(arrays: Arrays, x: Floats, total: Floats) -> Floats:
    sds = _sds(arrays["theta"][0], curves_of(arrays), arrays["lower"], arrays["x"], x, total)
    return sds * float(arrays["scale"][1])


def _sds(
    theta: Floats, curves: Curves, lower: Floats, x: Floats, points: Floats, total: Floats | None = None
) -> Floats:
    taken = process.reduction(lower, process.covariance(theta, curves, points, x, total).T)
    smooth = np.maximum(process.variance(theta, curves, points) - (taken * taken).sum(axis=0), 0.0)
    found: Floats = np.sqrt(smooth + process.noise_variance(theta))
    return found


GP = Method("gp", fit, predict, members, once)
