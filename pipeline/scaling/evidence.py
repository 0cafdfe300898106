"""What a series says for each shape of a grid, with unknown scale and noise: conjugate, exact, over whole batches.

Errors e = log t - log shape have variance s^2/w; the scale's prior is flat in its log, s^2 is scaled inverse chi-square
with `freedom` degrees and `log_sd`. Averages over shapes weigh each by prior and likelihood (Gelman et al. 2013,
Bayesian Data Analysis, chapters 3 and 7).
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel
from pipeline.scaling.shapes import (
    Compared,
    Shapes,
    compare,
    decline_odds,
    fine_shapes_up_to,
    held_out_one,
    log_evidence,
    part_odds,
    shapes_up_to,
    worth_keeping,
)


class Columns(NamedTuple):
    """Series end to end as the kernels read them; see Evidence."""

    offsets: Ints
    procs: Floats
    log_t: Floats
    weights: Floats
    log_sd: Floats
    freedom: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """k series end to end: series i is the slice offsets[i]:offsets[i + 1] of the columns, procs rising.

    `log_sd` is what is known of single-run noise, per series, and `freedom` how many degrees that is worth; a weight is
    the variance of one run over that of the size's runtime.
    """

    offsets: Ints
    procs: Floats
    runtime_s: Floats
    weights: Floats
    log_sd: Floats
    freedom: float

    def __len__(self) -> int:
        """How many series."""
        return len(self.offsets) - 1

    @property
    def n_points(self) -> Ints:
        """Sizes per series."""
        return np.diff(self.offsets)

    def by_span(self, chosen: Ints) -> list[tuple[int, Ints]]:
        """Some of the series, by doublings from their smallest to their largest size, rounded up."""
        first, last = self.procs[self.offsets[chosen]], self.procs[self.offsets[chosen + 1] - 1]
        doublings = np.maximum(np.ceil(np.log2(last / first) - 1e-9), 1).astype(np.int64)
        return [(int(span), chosen[doublings == span]) for span in np.unique(doublings)]

    def columns(self) -> Columns:
        """The columns with log runtimes."""
        return Columns(self.offsets, self.procs, np.log(self.runtime_s), self.weights, self.log_sd, self.freedom)


def held_out(series: Evidence, chosen: Ints, is_kept: Bools) -> tuple[Floats, Floats]:
    """Each kept size of the chosen series predicted from the other kept ones: how far it is off, and the runtime (s).

    How far: in predictive standard deviations, which follow Student's t with freedom + m - 2 degrees where one shape
    holds and m sizes are kept. NaN at other sizes. A chosen series needs two kept sizes.
    """
    z, expected_log = np.full(len(series.procs), np.nan), np.full(len(series.procs), np.nan)
    columns = series.columns()
    for span, some in series.by_span(chosen):
        _held_out(some, is_kept, columns, shapes_up_to(span), z, expected_log)
    return z, np.exp(expected_log)


@entry_kernel
def _held_out(chosen: Ints, is_kept: Bools, series: Columns, shapes: Shapes, z: Floats, expected: Floats) -> None:
    offsets, n_shapes = series.offsets, shapes.prior.size
    errors, kept = np.empty((np.diff(offsets).max(), n_shapes), np.float32), np.empty(n_shapes, np.int64)
    mean, squares, left = np.empty((3, n_shapes), np.float32)
    for i in chosen:
        places = offsets[i] + np.flatnonzero(is_kept[offsets[i] : offsets[i + 1]])
        y, w = series.log_t[places], series.weights[places]
        log2_x = np.log2(series.procs[places] / series.procs[offsets[i]])
        total = compare(log2_x, y, w, shapes.log_runtime, errors, mean, squares)
        known, half = series.freedom * series.log_sd[i] ** 2, 0.5 * (series.freedom + places.size - 2)
        n_kept = worth_keeping(Compared(w, total, known, half, errors, mean, squares), left, kept)
        some = kept[:n_kept]
        one = Compared(w, total, known, half, errors, mean[some], squares[some])
        for j in range(places.size):
            found, off = held_out_one(errors[j][some], w[j], one, shapes.prior[some], left[:n_kept])
            z[places[j]], expected[places[j]] = found, y[j] + off


@dataclass(frozen=True, slots=True)
class Departures:
    """Log odds against a plain curve, per series: an odd size, a step, each class, a decline; NaN: not asked.

    A step's log odds are those of any split; `step_place` is the likeliest place (in the columns) of its first size.
    Gains are posterior means of the log factor: of the sizes from the step on, or outside the class. `least_procs` is
    the size seen where runtime is least, if it declines beyond. By Markov's inequality odds of x come up in at most
    1/x of the series that a shape of the grid describes.
    """

    odd_size: Floats
    step: Floats
    step_gain: Floats
    step_place: Ints
    classes: Floats
    class_gain: Floats
    decline: Floats
    least_procs: Floats

    def with_rows(self, chosen: Ints, other: "Departures") -> "Departures":
        """The chosen series as `other` has them, the rest as here."""
        columns = {field.name: getattr(self, field.name).copy() for field in dataclasses.fields(self)}
        for name, values in columns.items():
            values[chosen] = getattr(other, name)[chosen]
        return Departures(**columns)


def departures(
    series: Evidence, chosen: Ints, in_class: Bools, departure_log_sd: float, least_phase: int, least_class: int,
    is_fine: bool = False,
) -> Departures:  # fmt: skip
    """What the chosen series show; `in_class` is bool[c, n]: whether each size belongs to each class.

    A phase needs `least_phase` sizes on either side of the step, a class `least_class` inside it and outside. With
    `is_fine` the fine grid of shapes is averaged over.
    """
    k, c = len(series), len(in_class)
    found, gains, place = np.full((k, 4 + c), np.nan), np.full((k, 1 + c), np.nan), np.full(k, -1, np.int64)
    columns = series.columns()
    for span, some in series.by_span(chosen):
        shapes = fine_shapes_up_to(span) if is_fine else shapes_up_to(span)
        _departures(some, in_class, departure_log_sd, least_phase, least_class, columns, shapes, found, gains, place)
    odd_size, step, decline, least_procs = found[:, :4].T
    return Departures(odd_size, step, gains[:, 0], place, found[:, 4:], gains[:, 1:], decline, least_procs)


@entry_kernel
def _departures(
    chosen: Ints, in_class: Bools, departure_log_sd: float, least_phase: int, least_class: int, series: Columns,
    shapes: Shapes, found: Floats, gains: Floats, step_place: Ints,
) -> None:  # fmt: skip
    offsets, prior, n_shapes = series.offsets, shapes.prior, shapes.prior.size
    errors = np.empty((np.diff(offsets).max(), n_shapes), np.float32)
    mean, squares, left, gain = np.empty((4, n_shapes), np.float32)
    bent = np.empty(n_shapes)
    for i in chosen:
        own = slice(offsets[i], offsets[i + 1])
        n, y, w = series.procs[own], series.log_t[own], series.weights[own]
        m, sd = n.size, series.log_sd[i]
        total = compare(np.log2(n / n[0]), y, w, shapes.log_runtime, errors, mean, squares)
        one = Compared(w, total, series.freedom * sd**2, 0.5 * (series.freedom + m - 1), errors, mean, squares)
        plain, _ = log_evidence(one.known, one.half, squares, prior)
        departure, part, whole = departure_log_sd / sd, np.zeros(m, np.bool_), 1.0
        for j in range(m):
            part[:] = False
            part[j] = True
            whole += np.exp(min(part_odds(part, one, departure, prior, gain, left, plain)[0], 600.0)) / m
        found[i, 0] = np.log(whole)
        n_splits, best, whole = m - 2 * least_phase + 1, -np.inf, 0.0
        for j in range(least_phase, m - least_phase + 1):
            part[:] = np.arange(m) >= j
            odds, mean_gain = part_odds(part, one, departure, prior, gain, left, plain)
            whole += np.exp(min(odds, 600.0)) / n_splits
            if odds > best:
                best, gains[i, 0], step_place[i] = odds, mean_gain, offsets[i] + j
        if n_splits > 0:
            found[i, 1] = np.log(whole)
        for c in range(in_class.shape[0]):
            part[:] = ~in_class[c, own]
            if least_class <= part.sum() <= m - least_class:
                found[i, 4 + c], gains[i, 1 + c] = part_odds(part, one, departure, prior, gain, left, plain)
        found[i, 2], at = decline_odds(y, one, prior, bent)
        found[i, 3] = n[at]
