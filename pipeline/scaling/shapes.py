"""A grid of curve shapes wide enough for any series: Downey's law in both modes, with and without overhead; power laws.

Screens and comparisons of sizes average over it instead of trusting one best fit: with a handful of sizes many curves
fit alike. Downey's law and its limits: CSD-97-933; the declining piece that it lacks: an overhead in n or in log n.
Sizes count in multiples of the series' smallest, so that 1, 2, 4 and 64, 128, 256 are the same question.
The kernels compare one series with every shape.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.kernels import kernel
from pipeline.laws import downey_s

BEYOND = 16.0
"""The largest A, in multiples of the largest size: its curve is linear to within 6% there."""

MOST_OVERHEAD = 300.0
"""At the largest size, in multiples of what the law without it takes there."""

EXPONENTS = tuple(np.arange(0.025, 1.11, 0.025))
"""Of power laws x^-b."""

ROWS_PER_DOUBLING = 16
"""Between rows log T is interpolated, less than 0.0002 off where the law is smooth and 0.01 at its sharpest bend."""


class Shapes(NamedTuple):
    """g shapes: `log_runtime[row, g]`, log T(x)/T(1) at x = 2^(row/16), as float32; prior weights that sum to 1."""

    log_runtime: npt.NDArray[np.float32]
    prior: Floats


@dataclass(frozen=True, slots=True)
class _Family:
    """Part of the grid: its shapes, their prior share, whether sigma is free (else Amdahl), what overhead grows as.

    `n_fine` is how many shapes the fine grid has.
    """

    n_shapes: int
    n_fine: int
    share: float
    is_downey: bool
    overhead: str | None = None


_FAMILIES = (
    _Family(150, 150, 0.25, False),
    _Family(1500, 6000, 0.35, True),
    _Family(800, 3200, 0.1, False, "linear"),
    _Family(800, 3200, 0.1, False, "log"),
    _Family(1500, 12000, 0.06, True, "linear"),
    _Family(1500, 12000, 0.06, True, "log"),
)


@cache
def shapes_up_to(doublings: int) -> Shapes:
    """The grid for series whose largest size is at most 2^doublings smallest ones."""
    return _grid(doublings, [family.n_shapes for family in _FAMILIES])


@lru_cache(maxsize=1)
def fine_shapes_up_to(doublings: int) -> Shapes:
    """The same with six times as many shapes, where three parameters ask for most: to judge small departures by."""
    return _grid(doublings, [family.n_fine for family in _FAMILIES])


def _grid(doublings: int, n_shapes: list[int]) -> Shapes:
    x = 2.0 ** (np.arange(ROWS_PER_DOUBLING * max(doublings, 1) + 1) / ROWS_PER_DOUBLING)[:, None]
    parts = [np.log(_runtime(family, n, x)).astype(np.float32) for family, n in zip(_FAMILIES, n_shapes, strict=True)]
    parts.append(-np.array(EXPONENTS) * np.log(x))
    shares = [family.share for family in _FAMILIES]
    shares.append(1.0 - sum(shares))
    prior = np.concatenate(
        [np.full(part.shape[1], share / part.shape[1]) for part, share in zip(parts, shares, strict=True)]
    )
    return Shapes(np.ascontiguousarray(np.hstack(parts), np.float32), prior)


def _runtime(family: _Family, n_shapes: int, x: Floats) -> Floats:
    """T(x)/T(1) of so many shapes of a family, overhead counted from the first size on."""
    u, v, w = _spread_evenly(n_shapes, 1 + family.is_downey + (family.overhead is not None))
    top = x[-1:]
    A = (BEYOND * top) ** u
    # Half of them low variance, half high; the last of these comes close to Amdahl's law.
    sigma = np.where(v < 0.5, 2.0 * v, 0.5 / (1.0 - v)) if family.is_downey else np.full(len(u), np.inf)
    law = downey_s(x, np.ones(1), A, sigma)
    if family.overhead is None:
        return law
    grown = x - 1.0 if family.overhead == "linear" else np.log(x)
    extra = np.expm1((w if family.is_downey else v) * np.log1p(MOST_OVERHEAD))
    runtime: Floats = law + extra * law[-1:] * grown / grown[-1:]
    return runtime


def _spread_evenly(n_points: int, n_axes: int) -> Floats:
    """Points that fill the unit cube evenly, a row an axis and three rows always: additive recurrence.

    Better than crossed grids, where most shapes repeat one another's values. Its steps are powers of the root of
    x^(d+1) = x + 1.
    """
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n_axes + 1))
    place = np.arange(n_points) + 0.5
    axes = [np.mod(place * root**-axis, 1.0) for axis in range(1, n_axes)]
    # One axis is filled in order: it needs no recurrence.
    return np.array([place / n_points, *axes, *[np.zeros(n_points)] * (3 - n_axes)])


NEGLIGIBLE_LOG = 7.0
"""A shape e^7 (a thousand) times less likely than the best takes no part in an average."""

TURN_LOG = 0.02
"""A curve that rises less than this after its least runtime is flat, not declining (log s)."""


class Compared(NamedTuple):
    """One series against every shape.

    `known` is what the noise counts before any size is seen, and `half` half the degrees of freedom; `errors` by size
    and shape, `mean` and `squares` by shape. Arrays over shapes are innermost, because those loops vectorise.
    """

    weight: Floats
    total: float
    known: float
    half: float
    errors: Array
    mean: Array
    squares: Array


@kernel
def beyond_notice(one: Compared, best: float) -> float:
    """Squares from which a shape takes no part beside one that leaves `best`."""
    cut: float = (one.known + best) * np.exp(NEGLIGIBLE_LOG / one.half) - one.known
    return cut


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
def worth_keeping(one: Compared, most: Array, kept: Ints) -> int:
    """Fills `kept` with the shapes that may count once any one size is left out; returns how many."""
    mean, squares = one.mean, one.squares
    most[:] = 0.0
    for j in range(one.weight.size):
        factor, error = np.float32(one.total * one.weight[j] / (one.total - one.weight[j])), one.errors[j]
        for g in range(mean.size):
            d = error[g] - mean[g]
            most[g] = max(most[g], factor * d * d)
    cut, n_kept = beyond_notice(one, squares.min()), 0
    for g in range(mean.size):
        if squares[g] - most[g] <= cut:
            kept[n_kept] = g
            n_kept += 1
    return n_kept


@kernel
def held_out_one(error: Array, w: float, one: Compared, prior: Floats, left: Array) -> tuple[float, float]:
    """One size from the others: distance in predictive standard deviations, and predicted minus seen log runtime.

    Degrees of freedom count noise and the sizes left, less one for the scale; `error` is per shape, `left` scratch.
    """
    mean, squares, total, known, half = one.mean, one.squares, one.total, one.known, one.half
    rest, best = total - w, np.inf
    for g in range(mean.size):
        d = error[g] - mean[g]
        left[g] = max(squares[g] - total * w / rest * d * d, 0.0)
        best = min(best, left[g])
    cut, whole, first, second = beyond_notice(one, best), 0.0, 0.0, 0.0
    spread = (1.0 / w + 1.0 / rest) / (2.0 * half)
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
    part: Bools, one: Compared, departure: float, prior: Floats, gain: Array, left: Array, plain: float
) -> tuple[float, float]:
    """Log odds that the sizes in `part` (0 or 1 each) share a factor, against `plain` evidence; its mean in logs.

    The factor's log is normal about 0; `departure` is its standard deviation over that of a run's noise.
    """
    mean, squares, total, known, half = one.mean, one.squares, one.total, one.known, one.half
    inside = 0.0
    gain[:] = 0.0
    for j in range(part.size):
        if part[j]:
            inside += one.weight[j]
            for g in range(mean.size):
                gain[g] += one.weight[j] * (one.errors[j, g] - mean[g])
    precision = inside * (total - inside) / total
    prior_share = departure * departure * precision
    shrunk = prior_share / (1.0 + prior_share)
    for g in range(mean.size):
        gain[g] *= total / (inside * (total - inside))
        left[g] = max(squares[g] - precision * shrunk * gain[g] * gain[g], 0.0)
    best = left.min()
    cut, whole, first = beyond_notice(one, best), 0.0, 0.0
    for g in range(mean.size):
        if left[g] <= cut:
            p = prior[g] * ((known + left[g]) / (known + best)) ** -half
            whole += p
            first += p * gain[g] * shrunk
    evidence = np.log(whole) - half * np.log1p(best / known)
    return evidence - 0.5 * np.log1p(prior_share) - plain, first / whole


@kernel
def decline_odds(log_t: Floats, one: Compared, prior: Floats, bent: Array) -> tuple[float, int]:
    """Log odds that runtime rises again between two sizes seen; the place where most of the posterior weight turns."""
    last, votes, errors, squares = log_t.size - 1, np.zeros(log_t.size), one.errors, one.squares
    share, turn = 0.0, np.zeros(prior.size, np.int64)
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
    turning, best = log_evidence(one.known, one.half, squares, bent / share)
    other, _ = log_evidence(one.known, one.half, squares, np.where(bent > 0.0, 0.0, prior) / (1.0 - share))
    for g in range(prior.size):
        votes[turn[g]] += bent[g] * ((one.known + squares[g]) / (one.known + best)) ** -one.half
    return turning - other, int(np.argmax(votes))
