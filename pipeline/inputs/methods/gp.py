"""Gaussian processes on log runtimes: one for each fold, learnt without it; predictions are the mean of all."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.gaussian_process import Curves, Problem
from pipeline.inputs.training import Arrays, Facts, Fitted, Method, Prediction, Training

PARAMETER_ROWS = 300
"""Runs that parameters are learnt from. With 400 errors are 0 to 5% smaller, and learning takes 2.5 times as long."""
FIRST_STEPS, MEMBER_STEPS = 100, 15
CHUNK = 256
"""Points predicted at once: their covariances with some hundred runs fit a processor's cache."""


def fit(training: Training) -> Fitted:
    """Parameters of all runs (row 0 of `theta`) and of each member, and the members' weights (0 for their fold).

    The members share the length scales of the curves, which are those found on all runs.
    """
    problem, mean, scale = _problem(training)
    rng = training.rng(1)
    first = process.learn_parameters(_some(problem, rng), process.start(problem.x.shape[1]), FIRST_STEPS)
    curves = _curves(first, problem.x)
    thetas, alphas = [first], []
    held_mean, held_sd = np.empty(len(training.y)), np.empty(len(training.y))
    for fold in range(training.n_folds):
        kept, held = np.flatnonzero(training.fold != fold), np.flatnonzero(training.fold == fold)
        part = problem.rows(kept)
        theta = process.learn_parameters(_some(part, rng), first, MEMBER_STEPS, curves)
        alpha = process.weights(process.factor(theta, curves, part), part.y)
        held_mean[held] = process.covariance(theta, curves, problem.x[held], part.x) @ alpha
        held_sd[held] = _sds(first, curves, process.factor(first, curves, part), part.x, problem.x[held])
        thetas.append(theta)
        alphas.append(np.zeros(len(problem.y)))
        alphas[-1][kept] = alpha
    arrays = {
        "x": problem.x, "theta": np.array(thetas), "alpha": np.array(alphas),
        "lower": process.factor(first, curves, problem), "scale": np.array([mean, scale]),
    }  # fmt: skip
    return Fitted(held_mean * scale + mean, held_sd * scale, arrays)


def predict(arrays: Arrays, facts: Facts, x: Floats) -> Prediction:  # noqa: ARG001  (a Method's signature)
    """The mean of the members, and the standard deviation of one run under the parameters of all runs."""
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
    for k, (theta, alpha) in enumerate(zip(arrays["theta"][1:], arrays["alpha"], strict=True)):
        found[k] = process.joint(theta, x, runs) @ alpha
        found[k] += process.curves_variance(theta, x.shape[1]) * (total @ alpha)
    log_s: Floats = found * scale + mean
    return log_s


def once(training: Training, fitted: Fitted, x: Floats) -> Prediction:
    """One process with the parameters of an earlier fit."""
    problem, mean, scale = _problem(training)
    theta, curves = fitted.arrays["theta"][0], curves_of(fitted.arrays)
    lower = process.factor(theta, curves, problem)
    means = process.covariance(theta, curves, x, problem.x) @ process.weights(lower, problem.y)
    return means * scale + mean, _sds(theta, curves, lower, problem.x, x) * scale


def curves_of(arrays: Arrays) -> Curves:
    """The curves that the members share."""
    return _curves(arrays["theta"][0], arrays["x"])


def _curves(theta: Floats, x: Floats) -> Curves:
    features = process.curved_features(x)
    return Curves(features, theta[features])


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
    found: Floats = sds * float(arrays["scale"][1])
    return found


def _sds(
    theta: Floats, curves: Curves, lower: Floats, x: Floats, points: Floats, total: Floats | None = None
) -> Floats:
    taken = process.reduction(lower, process.covariance(theta, curves, points, x, total).T)
    smooth = np.maximum(process.variance(theta, curves, points) - (taken * taken).sum(axis=0), 0.0)
    found: Floats = np.sqrt(smooth + process.noise_variance(theta))
    return found


GP = Method("gp", fit, predict, members, once)
