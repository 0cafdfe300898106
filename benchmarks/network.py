"""The ensemble of networks of Singh, Ipek, McKee, de Supinski, Schulz and Caruana, "Predicting parallel application
performance via machine learning approaches", Concurrency and Computation 19(17), 2007.

One hidden layer of sigmoid units, weights from -0.01 to 0.01, inputs and runtimes scaled to [0, 1], rprop, early
stopping on a fold. Stratification weights each run by 1/runtime. All members are trained at once. Rprop is iRprop-:
C. Igel and M. Huesken, "Improving the Rprop learning algorithm", 2000.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Array, Floats
from pipeline.inputs.encoding import Training
from pipeline.inputs.gaussian_process import Arrays

Facts = Mapping[str, float]

HIDDEN = 16
FIRST_WEIGHT, FIRST_STEP, LEAST_STEP, LARGEST_STEP, GROWTH, SHRINKAGE = 0.01, 0.01, 1e-6, 1.0, 1.2, 0.5
MOST_EPOCHS, PATIENCE = 3000, 300
LEAST_RUNTIME = 0.5
"""Least prediction, as a share of the shortest runtime: a network of seconds may go below zero."""


@dataclass(frozen=True, slots=True)
class Data:
    """Scaled inputs and targets of all runs, and for each member the weights of its training and stopping runs."""

    x: Floats
    target: Floats
    train: Floats
    stop: Floats


def predicted(training: Training, x: Floats) -> Floats:
    """(points,) logarithms of the members' mean runtimes. Of the ten folds each tests a member, and stops another."""
    arrays, seconds = _scaling(training), np.exp(training.y)
    facts = {"low": float(seconds.min()), "span": float(np.ptp(seconds)) or 1.0}
    scaled = (_raw(arrays, training.x) - arrays["input_low"]) / arrays["input_span"]
    n_folds, fold = training.n_folds, training.fold
    test = np.array([fold == k for k in range(n_folds)])
    stop = np.array([fold == (k - 1) % n_folds for k in range(n_folds)])
    weight = (1.0 / seconds) / np.mean(1.0 / seconds)
    train = (~test & ~stop) * weight
    arrays |= _trained(Data(scaled, (seconds - facts["low"]) / facts["span"], train, stop * weight), training.rng(2))
    found: Floats = np.log(np.exp(_members(arrays, facts, x)).mean(axis=0))
    return found


def _members(arrays: Arrays, facts: Facts, x: Floats) -> Floats:
    """(members, points) log runtimes."""
    values = np.clip(_raw(arrays, x), -1e12, 1e12)
    seconds = _forward(arrays, (values - arrays["input_low"]) / arrays["input_span"])[1] * facts["span"] + facts["low"]
    found: Floats = np.log(np.maximum(seconds, LEAST_RUNTIME * facts["low"]))
    return found


def _scaling(training: Training) -> dict[str, Array]:
    """How inputs are decoded, and their least value and span."""
    features = training.encoding.features
    arrays: dict[str, Array] = {
        "feature_mean": np.array([one.mean for one in features]),
        "feature_scale": np.array([one.scale for one in features]),
        "feature_exp": np.array([one.type == "log_number" for one in features], np.float64),
    }
    values = _raw(arrays, training.x)
    span = np.ptp(values, axis=0)
    return arrays | {"input_low": values.min(axis=0), "input_span": np.where(span > 0, span, 1.0)}


def _raw(arrays: Arrays, x: Floats) -> Floats:
    """Inputs in their own units, as the paper scales them."""
    values = x * arrays["feature_scale"] + arrays["feature_mean"]
    return np.where(arrays["feature_exp"] > 0, np.exp(np.minimum(values, 700.0)), values)


def _forward(weights: Arrays, x: Floats) -> tuple[Floats, Floats]:
    hidden = _sigmoid(np.matmul(x, weights["w1"]) + weights["b1"])
    output = np.matmul(hidden, weights["w2"])[..., 0] + weights["b2"]
    return hidden, output


def _gradients(weights: Arrays, data: Data) -> tuple[dict[str, Floats], Floats]:
    """Slopes of the weighted squared errors of the training runs, and the stopping runs' weighted squared errors."""
    hidden, output = _forward(weights, data.x)
    error = output - data.target
    slope = error * data.train
    back = slope[..., None] * weights["w2"].transpose(0, 2, 1) * hidden * (1.0 - hidden)
    gradients = {
        "w1": np.matmul(data.x.T, back),
        "b1": back.sum(axis=1, keepdims=True),
        "w2": np.matmul(hidden.transpose(0, 2, 1), slope[..., None]),
        "b2": slope.sum(axis=1, keepdims=True),
    }
    return gradients, (error * error * data.stop).sum(axis=1)


def _trained(data: Data, rng: np.random.Generator) -> dict[str, Floats]:
    """Each member's weights at the epoch where its stopping error was least."""
    n_members, d = len(data.train), data.x.shape[1]
    shapes = {"w1": (d, HIDDEN), "b1": (1, HIDDEN), "w2": (HIDDEN, 1), "b2": (1,)}
    weights = {name: rng.uniform(-FIRST_WEIGHT, FIRST_WEIGHT, (n_members, *shape)) for name, shape in shapes.items()}
    steps = {name: np.full_like(value, FIRST_STEP) for name, value in weights.items()}
    before = {name: np.zeros_like(value) for name, value in weights.items()}
    best = {name: value.copy() for name, value in weights.items()}
    least, when = np.full(n_members, np.inf), np.zeros(n_members)
    for epoch in range(MOST_EPOCHS):
        gradients, errors = _gradients(weights, data)
        better = errors < least * (1.0 - 1e-5)
        least, when = np.where(better, errors, least), np.where(better, epoch, when)
        for name, value in weights.items():
            best[name][better] = value[better]
        if (epoch - when > PATIENCE).all():
            break
        _step(weights, steps, before, gradients)
    return best


def _step(
    weights: dict[str, Floats], steps: dict[str, Floats], before: dict[str, Floats], gradients: Mapping[str, Floats]
) -> None:
    """One step of iRprop-, in place."""
    for name, slope in gradients.items():
        agreement = slope * before[name]
        factor = np.where(agreement > 0, GROWTH, np.where(agreement < 0, SHRINKAGE, 1.0))
        steps[name] = np.clip(steps[name] * factor, LEAST_STEP, LARGEST_STEP)
        before[name] = np.where(agreement < 0, 0.0, slope)
        weights[name] = weights[name] - np.sign(before[name]) * steps[name]


def _sigmoid(value: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(value, -50.0, 50.0)))
