"""Gaussian processes on log runtimes: one for each fold, learnt without it; predictions are the mean of all."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.gaussian_process import Problem
from pipeline.inputs.training import Arrays, Facts, Fitted, Method, Prediction, Training

PARAMETER_ROWS = 400
"""Runs that parameters are learnt from. More change the error by less than its deviation, and cost their cube."""
FIRST_STEPS, MEMBER_STEPS = 100, 30
CHUNK = 2048


def fit(training: Training) -> Fitted:
    """Parameters of all runs (row 0 of `theta`) and of each member, and the members' weights (0 for their fold)."""
    problem, mean, scale = _problem(training)
    rng = training.rng(1)
    first = process.learn_parameters(_some(problem, rng), process.start(problem), FIRST_STEPS)
    thetas, alphas = [first], []
    held_mean, held_sd = np.empty(len(training.y)), np.empty(len(training.y))
    for fold in range(training.n_folds):
        kept, held = np.flatnonzero(training.fold != fold), np.flatnonzero(training.fold == fold)
        part = problem.rows(kept)
        theta = process.learn_parameters(_some(part, rng), first, MEMBER_STEPS)
        alpha = process.weights(process.factor(theta, part), part.y)
        held_mean[held] = process.covariance(theta, problem.x[held], part.x) @ alpha
        held_sd[held] = _sds(first, process.factor(first, part), part.x, problem.x[held])
        thetas.append(theta)
        alphas.append(np.zeros(len(problem.y)))
        alphas[-1][kept] = alpha
    arrays = {
        "x": problem.x, "y": problem.y, "theta": np.array(thetas), "alpha": np.array(alphas),
        "lower": process.factor(first, problem), "scale": np.array([mean, scale]),
    }  # fmt: skip
    return Fitted(held_mean * scale + mean, held_sd * scale, arrays)


def predict(arrays: Arrays, facts: Facts, x: Floats) -> Prediction:
    """The mean of the members, and the standard deviation of one run under the parameters of all runs."""
    chunks = [x[start : start + CHUNK] for start in range(0, len(x), CHUNK)]
    means = [members(arrays, facts, part).mean(axis=0) for part in chunks]
    sds = [_sds(arrays["theta"][0], arrays["lower"], arrays["x"], part) * arrays["scale"][1] for part in chunks]
    return np.concatenate([*means, np.empty(0)]), np.concatenate([*sds, np.empty(0)])


def members(arrays: Arrays, facts: Facts, x: Floats) -> Floats:  # noqa: ARG001  (a Method's signature)
    """(members, points) log runtimes."""
    mean, scale = arrays["scale"]
    pairs = zip(arrays["theta"][1:], arrays["alpha"], strict=True)
    return np.array([process.covariance(theta, x, arrays["x"]) @ alpha for theta, alpha in pairs]) * scale + mean


def once(training: Training, fitted: Fitted, x: Floats) -> Prediction:
    """One process with the parameters of an earlier fit."""
    problem, mean, scale = _problem(training)
    theta = fitted.arrays["theta"][0]
    lower = process.factor(theta, problem)
    means = process.covariance(theta, x, problem.x) @ process.weights(lower, problem.y)
    return means * scale + mean, _sds(theta, lower, problem.x, x) * scale


def _problem(training: Training) -> tuple[Problem, float, float]:
    mean, scale = float(training.y.mean()), float(training.y.std()) or 1.0
    return Problem(training.x, (training.y - mean) / scale, training.batch), mean, scale


def _some(problem: Problem, rng: np.random.Generator) -> Problem:
    n = len(problem.y)
    if n <= PARAMETER_ROWS:
        return problem
    chosen: Ints = np.sort(rng.choice(n, PARAMETER_ROWS, replace=False))
    return problem.rows(chosen)


def _sds(theta: Floats, lower: Floats, x: Floats, points: Floats) -> Floats:
    taken = process.reduction(lower, process.covariance(theta, x, points))
    smooth = np.maximum(process.variance(theta, points) - (taken * taken).sum(axis=0), 0.0)
    found: Floats = np.sqrt(smooth + process.noise_variance(theta))
    return found


GP = Method("gp", fit, predict, members, once)
