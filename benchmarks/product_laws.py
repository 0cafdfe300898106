"""Sums of products of powers and logarithms, t = c0 + sum_k c_k prod_j x_j^i log2(x_j)^l: Extra-P's normal form.

A. Calotoiu, D. Beckingsale, C. W. Earl, T. Hoefler, I. Karlin, M. Schulz and F. Wolf, "Fast multi-parameter performance
modeling", CLUSTER 2016. Terms are added one at a time, each made factor by factor; a term stays where it lowers the
cross-validated error. Ernest's law of every two inputs is tried too. Other inputs than log_numbers multiply the sum.
"""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.inputs.encoding import Training

POWERS = (
    -2.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0, 1.25, 4 / 3, 1.5, 5 / 3, 2.0, 2.5,
    3.0,
)  # fmt: skip
LOGS = (0, 1, 2)
MOST_TERMS, MOST_FACTORS = 4, 3
LEAST_GAIN = 0.02
"""Least relative fall of the error for one more factor or term."""
LEAST_Z = 3.0
RIDGE = 1.0
"""Weight of the prior that an input without logarithm changes nothing, in runs."""
LEAST_SHARE = 1e-3
SMALLEST = 1e-9
"""A share below this is zero, up to rounding of logarithms."""

Factor = tuple[int, float, int]
"""A feature, its power, and the power of its logarithm."""
Term = tuple[Factor, ...]


def predicted(training: Training, x: Floats) -> Floats:
    """(points,) log runtimes."""
    law = learnt_law(training)
    coefficients, effects = np.array(law["coefficients"]), np.array(law["effects"])
    found: Floats = np.log(_sum(law["terms"], coefficients, _decoded(training, x))) + x[:, law["others"]] @ effects
    return found


def _decoded(training: Training, x: Floats) -> Floats:
    """(rows, features) values in the inputs' own units."""
    features = training.encoding.features
    values = x * [one.scale for one in features] + [one.mean for one in features]
    for j, one in enumerate(features):
        if one.type == "log_number":
            values[:, j] = np.exp(np.minimum(values[:, j], 700.0)) - one.shift
    return values


def learnt_law(training: Training) -> dict[str, Any]:
    """The terms, their coefficients, and the factors of the other inputs."""
    is_log = np.array([one.type == "log_number" for one in training.encoding.features], bool)
    logged = np.flatnonzero(is_log)
    values = _decoded(training, training.x)
    others = training.x[:, ~is_log]
    effects, coefficients = np.zeros(others.shape[1]), np.ones(1)
    terms: list[Term] = [()]
    for _ in range(2):
        seconds = np.exp(training.y - others @ effects)
        terms = _terms(values, seconds, logged, training.fold)
        coefficients = _coefficients(_design(terms, values), seconds)
        if not others.shape[1]:
            break
        left = training.y - np.log(_sum(terms, coefficients, values))
        effects = np.linalg.solve(others.T @ others + RIDGE * np.eye(others.shape[1]), others.T @ (left - left.mean()))
    return {"terms": terms, "coefficients": coefficients, "effects": effects, "others": np.flatnonzero(~is_log)}


def _sum(terms: Sequence[Sequence[Factor]], coefficients: Floats, values: Floats) -> Floats:
    return np.maximum(_design(terms, values) @ coefficients, np.finfo(float).tiny)


def _design(terms: Sequence[Sequence[Factor]], values: Floats) -> Floats:
    with np.errstate(all="ignore"):
        columns = [np.prod([_factor(values, one) for one in term] or [np.ones(len(values))], axis=0) for term in terms]
    return np.stack(columns, axis=1)


def _factor(values: Floats, one: Factor) -> Floats:
    feature, power, log_power = one
    value = values[:, int(feature)]
    # A count of zero has no negative power, and the caller drops factors that are not finite.
    with np.errstate(all="ignore"):
        found: Floats = value**power * np.log2(np.maximum(value, 1.0)) ** log_power
    return found


def _coefficients(design: Floats, seconds: Floats) -> Floats:
    """Non-negative coefficients of least relative error."""
    relative = design / seconds[:, None]
    scale = np.linalg.norm(relative, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    from scipy.optimize import nnls  # noqa: PLC0415  (its import takes a sixth of a second)

    found: Floats = nnls(relative / scale, np.ones(len(seconds)))[0] / scale
    if not found.any():
        found[0] = np.exp(np.mean(np.log(seconds))) / max(float(design[:, 0].mean()), np.finfo(float).tiny)
    return found


def _terms(values: Floats, seconds: Floats, logged: Ints, fold: Ints) -> list[Term]:
    path: list[list[Term]] = [[()]]
    while len(path) <= MOST_TERMS:
        term = _next_term(path[-1], values, seconds, logged)
        if not term:
            break
        # A term may make the constant superfluous, which the coefficients then say.
        path.append([*path[-1], term])
    # A count that can be zero divides nothing.
    divides = values.min(axis=0) > SMALLEST * values.max(axis=0)
    path += [ernest_terms(size, machines) for size, machines in permutations(logged.tolist(), 2) if divides[machines]]
    errors = [_errors(terms, values, seconds, fold) for terms in path]
    best = errors[int(np.argmin([one.mean() for one in errors]))]
    return next(terms for terms, one in zip(path, errors, strict=True) if not _is_better(best, one))


def ernest_terms(size: int, machines: int) -> list[Term]:
    """A constant, data by machines, the logarithm of the machines, and their number.

    S. Venkataraman, Z. Yang, M. Franklin, B. Recht and I. Stoica, "Ernest: efficient performance prediction for
    large-scale advanced analytics", NSDI 2016, section 3.2.
    """
    return [(), ((size, 1.0, 0), (machines, -1.0, 0)), ((machines, 0.0, 1),), ((machines, 1.0, 0),)]


def _is_better(found: Floats, before: Floats) -> bool:
    """Whether errors fall by 2% and by three standard errors: one of a thousand terms always fits some noise."""
    fall = before - found
    deviation = float(fall.std()) / np.sqrt(len(fall))
    return bool(fall.mean() > max(LEAST_GAIN * float(before.mean()), LEAST_Z * deviation))


def _errors(terms: Sequence[Sequence[Factor]], values: Floats, seconds: Floats, fold: Ints) -> Floats:
    """Absolute log errors on folds that the coefficients have not seen."""
    design, held = _design(terms, values), np.empty(len(seconds))
    for k in range(int(fold.max()) + 1):
        out = fold == k
        held[out] = design[out] @ _coefficients(design[~out], seconds[~out])
    found: Floats = np.abs(np.log(np.maximum(held, LEAST_SHARE * seconds.min()) / seconds))
    return found


def _next_term(terms: Sequence[Sequence[Factor]], values: Floats, seconds: Floats, logged: Ints) -> Term:
    """The product of factors that lowers the relative squared error most, made one factor at a time."""
    basis = np.linalg.qr(_design(terms, values) / seconds[:, None])[0]
    left = np.ones(len(seconds)) - basis @ basis.sum(axis=0)
    term: Term = ()
    column, gain = 1.0 / seconds, 0.0
    factors = _factors(values, logged)
    for _ in range(MOST_FACTORS):
        free = np.array([one[0] not in [used[0] for used in term] for one, _ in factors], bool)
        if not free.any():
            break
        gains = _gains(column[:, None] * np.stack([one for _, one in factors], axis=1), basis, left)
        best = int(np.argmax(np.where(free, gains, -1.0)))
        if not free[best] or gains[best] <= gain + LEAST_GAIN * (left @ left - gain):
            break
        term, gain = (*term, factors[best][0]), float(gains[best])
        column = column * factors[best][1]
    return term


def _factors(values: Floats, logged: Ints) -> list[tuple[Factor, Floats]]:
    found: list[tuple[Factor, Floats]] = []
    for feature in logged:
        for power in POWERS:
            for log_power in LOGS:
                factor = (int(feature), power, log_power)
                column = _factor(values, factor)
                if (power or log_power) and np.isfinite(column).all() and column.max() > 0:
                    found.append((factor, column))
    return found


def _gains(columns: Floats, basis: Floats, left: Floats) -> Floats:
    """What each column takes from the squared error beside the basis; 0 where its coefficient would be negative."""
    scale = np.linalg.norm(columns, axis=0)
    columns = columns / np.where(scale > 0, scale, 1.0)
    columns = columns - basis @ (basis.T @ columns)
    norms = (columns * columns).sum(axis=0)
    products = left @ columns
    return np.where((norms > 1e-9) & (products > 0), products**2 / np.maximum(norms, 1e-9), 0.0)
