"""Inner loops of evidence.py: one series against every shape of a grid.

Arrays over shapes are innermost, because those loops vectorise.
"""

import numpy as np

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.kernels import kernel
from pipeline.scaling.screens.shapes import ROWS_PER_DOUBLING

NEGLIGIBLE_LOG = 7.0
"""A shape e^7 (a thousand) times less likely than the best takes no part in an average."""


TURN_LOG = 0.02
"""A curve that rises less than this after its least runtime is flat, not declining (log s)."""


@kernel
def compare(
    log2_x: Floats, log_t: Floats, weight: Floats, table: Array, errors: Array, mean: Array, squares: Array
) -> float:
    """Fills errors[j, g] = log t - log shape, their weighted means and squares about these; returns the weights' sum.

    All float32, counted from the mean log t: a series spans few powers of e, and half the bytes are half the time.
    """
    n_shapes, total, centre = table.shape[1], weight.sum(), (weight * log_t).sum() / weight.sum()
    mean[:] = 0.0
    for j in range(log_t.size):
        at = log2_x[j] * ROWS_PER_DOUBLING
        row = min(int(at + 1e-9), table.shape[0] - 2)
        share, w, y = np.float32(max(at - row, 0.0)), np.float32(weight[j] / total), np.float32(log_t[j] - centre)
        low, high, error = table[row], table[row + 1], errors[j]
        for g in range(n_shapes):
            e = y - (low[g] + share * (high[g] - low[g]))
            error[g] = e
            mean[g] += w * e
    squares[:] = 0.0
    for j in range(log_t.size):
        w, error = np.float32(weight[j]), errors[j]
        for g in range(n_shapes):
            d = error[g] - mean[g]
            squares[g] += w * d * d
    return float(total)


@kernel
def worth_keeping(
    weight: Floats,
    total: float,
    known: float,
    half: float,
    errors: Array,
    mean: Array,
    squares: Array,
    most: Array,
    kept: Ints,
) -> int:
    """Fills `kept` with the shapes that may count once any one size is left out; returns how many."""
    most[:] = 0.0
    for j in range(weight.size):
        factor, error = np.float32(total * weight[j] / (total - weight[j])), errors[j]
        for g in range(mean.size):
            d = error[g] - mean[g]
            most[g] = max(most[g], factor * d * d)
    best = squares.min()
    cut = (known + best) * np.exp(NEGLIGIBLE_LOG / half) - known
    n_kept = 0
    for g in range(mean.size):
        if squares[g] - most[g] <= cut:
            kept[n_kept] = g
            n_kept += 1
    return n_kept


@kernel
def held_out_one(
    error: Array,
    w: float,
    total: float,
    known: float,
    freedom: float,
    mean: Array,
    squares: Array,
    prior: Floats,
    left: Array,
) -> tuple[float, float]:
    """One size from the others: distance in predictive standard deviations, and predicted minus seen log runtime.

    `freedom` counts noise and the sizes left, less one for the scale; `error` is per shape, `left` scratch.
    """
    rest = total - w
    best = np.inf
    for g in range(mean.size):
        d = error[g] - mean[g]
        left[g] = max(squares[g] - total * w / rest * d * d, 0.0)
        best = min(best, left[g])
    half = 0.5 * freedom
    cut = (known + best) * np.exp(NEGLIGIBLE_LOG / half) - known
    whole, first, second = 0.0, 0.0, 0.0
    spread = (1.0 / w + 1.0 / rest) / freedom
    for g in range(mean.size):
        if left[g] <= cut:
            p = prior[g] * ((known + left[g]) / (known + best)) ** -half
            off = (mean[g] - error[g]) * total / rest
            whole += p
            first += p * off
            second += p * ((known + left[g]) * spread + off * off)
    centre = first / whole
    return -centre / np.sqrt(second / whole - centre * centre), centre


@kernel
def log_evidence(known: float, half: float, squares: Array, prior: Array) -> tuple[float, float]:
    """Log of the prior-weighted mean of (1 + squares/known)^-half, and the least of the squares."""
    best = np.inf
    for g in range(squares.size):
        if prior[g] > 0.0:
            best = min(best, squares[g])
    cut = (known + best) * np.exp(NEGLIGIBLE_LOG / half) - known
    whole = 0.0
    for g in range(squares.size):
        if squares[g] <= cut:
            whole += prior[g] * ((known + squares[g]) / (known + best)) ** -half
    return np.log(whole) - half * np.log1p(best / known), best


@kernel
def part_odds(
    part: Bools,
    weight: Floats,
    total: float,
    known: float,
    half: float,
    departure: float,
    errors: Array,
    mean: Array,
    squares: Array,
    prior: Floats,
    gain: Array,
    left: Array,
    plain: float,
) -> tuple[float, float]:
    """Log odds that the sizes in `part` (0 or 1 each) share a factor, against `plain` evidence; its mean in logs.

    The factor's log is normal about 0; `departure` is its standard deviation over that of a run's noise.
    """
    inside = 0.0
    gain[:] = 0.0
    for j in range(part.size):
        if part[j]:
            inside += weight[j]
            for g in range(mean.size):
                gain[g] += weight[j] * (errors[j, g] - mean[g])
    precision = inside * (total - inside) / total
    prior_share = departure * departure * precision
    shrunk = prior_share / (1.0 + prior_share)
    for g in range(mean.size):
        gain[g] *= total / (inside * (total - inside))
        left[g] = max(squares[g] - precision * shrunk * gain[g] * gain[g], 0.0)
    best = left.min()
    cut = (known + best) * np.exp(NEGLIGIBLE_LOG / half) - known
    whole, first = 0.0, 0.0
    for g in range(mean.size):
        if left[g] <= cut:
            p = prior[g] * ((known + left[g]) / (known + best)) ** -half
            whole += p
            first += p * gain[g] * shrunk
    evidence = np.log(whole) - half * np.log1p(best / known)
    return evidence - 0.5 * np.log1p(prior_share) - plain, first / whole


@kernel
def decline_odds(
    log_t: Floats, known: float, half: float, errors: Array, squares: Array, prior: Floats, bent: Array
) -> tuple[float, int]:
    """Log odds that runtime rises again between two sizes seen; the place where most of the posterior weight turns."""
    last, votes = log_t.size - 1, np.zeros(log_t.size)
    share = 0.0
    turn = np.zeros(prior.size, np.int64)
    for g in range(prior.size):
        at = 0
        for j in range(1, last + 1):
            if log_t[j] - errors[j, g] < log_t[at] - errors[at, g]:
                at = j
        is_turning = at < last and (log_t[last] - errors[last, g]) - (log_t[at] - errors[at, g]) > TURN_LOG
        bent[g] = prior[g] if is_turning else 0.0
        turn[g] = at
        share += bent[g]
    if share == 0.0:
        return -np.inf, last
    turning, best = log_evidence(known, half, squares, bent / share)
    other, _ = log_evidence(known, half, squares, np.where(bent > 0.0, 0.0, prior) / (1.0 - share))
    for g in range(prior.size):
        votes[turn[g]] += bent[g] * ((known + squares[g]) / (known + best)) ** -half
    return turning - other, int(np.argmax(votes))
