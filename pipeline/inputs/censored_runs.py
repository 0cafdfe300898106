"""Runs that were stopped: their runtime is a lower bound.

Each is given the runtime that is expected beyond its bound, by what the other folds predict of it, and the method
learns again: J. Buckley and I. James, "Linear regression with censored data", Biometrika 66, 1979.
"""

from dataclasses import replace

import numpy as np
from scipy.special import erfcx

from pipeline.core.arrays import Bools, Floats
from pipeline.inputs.training import Fitted, Method, Training

ROUNDS = 3


def fit_with_bounds(method: Method, training: Training, censored: Bools) -> tuple[Training, Fitted]:
    """The method's fit and the runs it learnt from, in which lower bounds are replaced by expected runtimes."""
    if not censored.any():
        return training, method.fit(training)
    bounds = training.y.copy()
    known = training.rows(np.flatnonzero(~censored))
    first = method.fit(known)
    mean, sd = method.predict(first.arrays, first.facts, training.x)
    for _ in range(ROUNDS):
        y = np.where(censored, expected_beyond(bounds, mean, sd), bounds)
        training = replace(training, y=y)
        fitted = method.fit(training)
        mean, sd = fitted.held_mean, fitted.held_sd
    return training, fitted


def expected_beyond(bounds: Floats, mean: Floats, sd: Floats) -> Floats:
    """The mean of a normal variable given that it exceeds its bound; never below the bound."""
    z = (bounds - mean) / sd
    # phi(z)/(1 - Phi(z)), in a form that neither overflows nor divides zero by zero.
    hazard = np.sqrt(2.0 / np.pi) / erfcx(np.clip(z, -25.0, 1e6) / np.sqrt(2.0))
    found: Floats = np.maximum(mean + sd * hazard, bounds)
    return found
