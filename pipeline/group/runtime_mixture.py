"""A mixture of normal distributions about one curve over processor counts: log t = curve(n) + offset(class) + noise."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel

ROUNDS = 100
LEAST_VARIANCE = 1e-4
"""Lower bound of the variance of log runtime: a standard deviation of 1%."""

ENOUGH = 1e-6
"""Iterations end when the relative gain of the log likelihood is smaller."""


@entry_kernel
def maximise(
    size: Ints, log_t: Floats, n_in: Floats, curve: Floats, offsets: Floats, variance: float, share: Floats
) -> float:
    """The log likelihood after expectation-maximisation; `curve` and `offsets` are start values and updated in place.

    A cell is one size and one runtime with n_in jobs. `share` is set to the probability of each class for each cell.
    """
    n_classes, n_jobs = len(offsets), n_in.sum()
    weight, likelihood = np.full(n_classes, 1.0 / n_classes), -np.inf
    for _ in range(ROUNDS):
        before, likelihood = likelihood, expect(size, log_t, n_in, curve, offsets, weight, variance, share)
        if likelihood - before < ENOUGH * abs(likelihood):
            break
        variance = improve(size, log_t, n_in, n_jobs, curve, offsets, weight, share)
    return likelihood


@kernel
def expect(
    size: Ints, log_t: Floats, n_in: Floats, curve: Floats, offsets: Floats, weight: Floats, variance: float,
    share: Floats,
) -> float:  # fmt: skip
    """Set the probability of each class for each cell; returns the log likelihood of all jobs."""
    total, flat = 0.0, 0.5 * np.log(2.0 * np.pi * variance)
    log_weight = np.log(weight)
    for i in range(len(log_t)):
        most = -np.inf
        for c in range(len(offsets)):
            off = log_t[i] - curve[size[i]] - offsets[c]
            share[i, c] = log_weight[c] - 0.5 * off * off / variance
            most = max(most, share[i, c])
        whole = 0.0
        for c in range(len(offsets)):
            share[i, c] = np.exp(share[i, c] - most)
            whole += share[i, c]
        for c in range(len(offsets)):
            share[i, c] /= whole
        total += n_in[i] * (np.log(whole) + most - flat)
    return total


@kernel
def improve(
    size: Ints, log_t: Floats, n_in: Floats, n_jobs: float, curve: Floats, offsets: Floats, weight: Floats,
    share: Floats,
) -> float:  # fmt: skip
    """Update weights, curve and offsets from the probabilities; returns the residual variance."""
    at_size, held, off = np.zeros(len(curve)), np.zeros(len(offsets)), np.zeros(len(offsets))
    new_curve, squares = np.zeros(len(curve)), 0.0
    for i in range(len(log_t)):
        at_size[size[i]] += n_in[i]
        for c in range(len(offsets)):
            held[c] += n_in[i] * share[i, c]
            new_curve[size[i]] += n_in[i] * share[i, c] * (log_t[i] - offsets[c])
    for s in range(len(curve)):
        curve[s] = new_curve[s] / at_size[s]
    for i in range(len(log_t)):
        for c in range(len(offsets)):
            off[c] += n_in[i] * share[i, c] * (log_t[i] - curve[size[i]])
    for c in range(len(offsets)):
        weight[c] = max(held[c] / n_jobs, 1e-12)
        offsets[c] = off[c] / max(held[c], 1e-12)
    for i in range(len(log_t)):
        for c in range(len(offsets)):
            residual = log_t[i] - curve[size[i]] - offsets[c]
            squares += n_in[i] * share[i, c] * residual * residual
    return max(squares / n_jobs, LEAST_VARIANCE)
