"""Quantiles of rows: positions on a row's ladder, learnt from rows that were as old when they were read.

A row keeps the quantiles of the midnight at which it was asked. A job that ends moves the positions by what the rows
of each age had said to it at its submit, and so do the rows of its groups, which are those of PREDICTIONS. The shares
that hold are thus those of rows as they are read, however late their errors are known: they balance over the moves
(Gibbs & Candes 2021, Adaptive conformal inference, section 4).
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.blend import blended
from pipeline.estimate.ensemble import BLEND_POWER, SLACK, Views, is_above, ladder_around, on_ladder
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.nightly.rows import (
    AGES_DAYS,
    Rows,
    classes_of,
    group_classes,
    ratio_base_s,
)
from pipeline.estimate.score import CALIBRATED, N_QUANTILES, QUANTILES
from pipeline.estimate.state import Learnt, State
from pipeline.estimate.submits import Events, Jobs, capped, part
from pipeline.kernels import kernel, uncounted_kernel

FIRST_STEPS, LONGEST_STEP = 5.0, 0.05
"""A step of a position is at least this over the jobs learnt from, and at most so long, in rungs."""

MIDDLE = QUANTILES.index(0.5)
N_AGES = len(AGES_DAYS)


class Reading(NamedTuple):
    """What the questions of a part stand for: submits that read rows, and rows that are asked."""

    job: Ints
    """Per question the place of its submit among the jobs; -1: it asks a row."""
    place: Ints
    """(jobs, columns) per submit the places of the rows that it reads; -1: none."""
    divisor_s: Floats
    factor_s: Floats
    """(jobs, columns) what a row's quantiles are divided by and multiplied with for the job."""
    asked: Ints
    """The rows that are asked, by place, in order of their questions."""
    question: Ints
    """Of each of these its question."""
    own_class: Ints
    """Per row its class."""
    quantiles_s: Floats
    """Per row its quantiles, s; those of rows that are asked are set."""


def reading_of(
    rows: Rows, place: Ints, jobs: Jobs, first: int, n_questions: int, submits: Ints, asked: Ints, question: Ints
) -> Reading:
    """The Reading of a part, whose submits are the jobs from `first` on; `question`: per row `asked`."""
    job = np.full(n_questions, -1, np.int64)
    job[submits] = first + np.arange(len(submits))
    base_s = np.append(ratio_base_s(rows), np.nan)[place]
    limit_s = np.broadcast_to(jobs.limit_s[:, None], place.shape)
    order = np.argsort(question, kind="stable")
    is_scaled = ~np.isnan(base_s) & (limit_s > 0)
    return Reading(
        job, place, np.where(is_scaled, base_s, 1.0), np.where(is_scaled, limit_s, 1.0),
        asked[order], question[order], classes_of(rows), rows.quantiles_s,
    )  # fmt: skip


def serve(
    views: Views, live_s: Floats, record: Learnt, jobs: Jobs, past: Jobs, events: Events, reading: Reading,
    settings: EstimateRules,
) -> None:  # fmt: skip
    """Set the quantiles, s, of the rows that are asked; updates the record with the events.

    Rows of groups lie around `live_s`, the estimates of the questions, rows of the table around a blend of their own.
    """
    errors_s, grace_s = record.outputs.method_s, 60.0 * settings.grace_min
    blend_s = blended(jobs, past, events, views.method_s, errors_s, record.errors, BLEND_POWER)
    center_s = capped(blend_s, jobs.limit_s)
    of_rows = np.flatnonzero(reading.job < 0)
    centers_s, asking = np.stack([center_s, live_s])[:, of_rows], part(jobs, of_rows)
    ladders = np.stack([ladder_around(one_s, views.rung_s[of_rows], asking, grace_s) for one_s in centers_s])
    _serve(
        past, events, ladders, centers_s, reading, record.outputs.kinds, record.outputs.quantiles_s, record.rungs,
        np.array(CALIBRATED), settings.coverage_step,
    )  # fmt: skip


@uncounted_kernel
def _serve(
    past: Jobs, events: Events, ladders: Floats, centers_s: Floats, reading: Reading, classes: Floats, read_s: Floats,
    rungs: Floats, shares: Floats, step: float,
) -> None:  # fmt: skip
    n, n_over, n_asked, n_rows = len(reading.job), 0, 0, 0
    for question in range(n + 1):
        while n_over < events.ended[question]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _learn(over, past, read_s[over], classes[over], rungs, shares, step, ladders.shape[2])
            n_over += 1
        if question == n:
            break
        job = reading.job[question]
        if job >= 0:
            submit = job - (len(classes) - len(reading.place))
            _read(submit, past.limit_s[job], reading, len(shares), classes[job], read_s[job])
            continue
        while n_rows < len(reading.asked) and reading.question[n_rows] == question:
            row = reading.asked[n_rows]
            own = reading.own_class[row]
            around = 0 if own < 2 else 1
            _row(ladders[around, n_asked], centers_s[around, n_asked], own, rungs, reading.quantiles_s[row])
            n_rows += 1
        n_asked += 1


@kernel
def _read(submit: int, limit_s: float, reading: Reading, n_shares: int, classes: Floats, read_s: Floats) -> None:
    """Set what the rows say that a submit reads."""
    for column in range(len(classes)):
        row = reading.place[submit, column]
        if row < 0:
            continue
        classes[column] = reading.own_class[row]
        for k in range(n_shares):
            row_s = reading.quantiles_s[row, k] / reading.divisor_s[submit, column] * reading.factor_s[submit, column]
            is_capped = classes[column] < 2 and k <= MIDDLE and limit_s > 0
            read_s[column * n_shares + k] = min(row_s, limit_s) if is_capped else row_s


@kernel
def _row(ladder: Floats, center_s: float, own: int, rungs: Floats, found: Floats) -> None:
    """Set the quantiles in order, with the estimate as the middle one."""
    first = own - own % 2
    for k in range(len(found)):
        found[k] = on_ladder(ladder, rungs[first, k] + (rungs[own, k] if own > first else 0.0))
    found[MIDDLE] = center_s
    for k in range(MIDDLE):
        found[k] = min(found[k], center_s)
    for k in range(MIDDLE + 1, N_QUANTILES):
        found[k] = max(found[k], found[k - 1])
    found[N_QUANTILES] = min(found[N_QUANTILES], found[0])


def later_quantiles(
    state: State, views: Views, center_s: Floats, now_s: Floats, jobs: Jobs, is_later: Bools, settings: EstimateRules
) -> Floats:
    """(questions, 6) quantiles, s, around their estimates: where `is_later`, as rows of their groups have them.

    Nobody is surer of a later job than of one now: they lie at least as far from the estimate as those of now.
    """
    if not is_later.any():
        return now_s
    classes = group_classes(state.rows, jobs, int(state.laws.group_key[0]))
    ladder = ladder_around(center_s, views.rung_s, jobs, 60.0 * settings.grace_min)
    found = np.full((len(center_s), len(CALIBRATED)), np.nan)
    _rows(ladder, center_s, classes, state.served.rungs, found)
    wider_s = np.where(np.array(CALIBRATED) < 0.5, np.minimum(found, now_s), np.maximum(found, now_s))
    return np.where(is_later[:, None], wider_s, now_s)


@uncounted_kernel
def _rows(ladder: Floats, center_s: Floats, classes: Ints, rungs: Floats, found: Floats) -> None:
    for question in range(len(ladder)):
        _row(ladder[question], center_s[question], classes[question], rungs, found[question])


@kernel
def _learn(
    over: int, past: Jobs, read_s: Floats, classes: Floats, rungs: Floats, shares: Floats, step: float, n_rungs: int
) -> None:
    """Move the positions by what the rows had said; what rows on few jobs add is never below 0."""
    n_shares = len(shares)
    for column in range(len(classes)):
        if np.isnan(classes[column]):
            continue
        own, weight = int(classes[column]), 1.0 / N_AGES if column < N_AGES else 1.0
        first = own - own % 2
        for row in range(first, own + 1):
            rungs[row, n_shares] += weight
        for k in range(n_shares):
            above = is_above(over, past, read_s[column * n_shares + k], shares[k])
            if np.isnan(above):
                continue
            off = weight * (above - (1 - shares[k]))
            moved = rungs[first, k] + _step(rungs[first, n_shares], step) * off
            rungs[first, k] = min(max(moved, -SLACK), n_rungs - 1.0 + SLACK)
            if own > first and k > MIDDLE:
                rungs[own, k] = min(max(rungs[own, k] + _step(rungs[own, n_shares], step) * off, 0.0), SLACK)


@kernel
def _step(n_learnt: float, step: float) -> float:
    return min(max(step, FIRST_STEPS / (n_learnt + 1)), LONGEST_STEP)
