"""Quantiles of rows: positions on a row's ladder, learnt from rows that were as old when they were read.

A row keeps the quantiles of the midnight at which it was asked. A job that ends moves the positions by what the rows
of each age had said to it at its submit. The shares that hold are thus those of rows as they are read, however late
their errors are known: they balance over the moves (Gibbs & Candes 2021, Adaptive conformal inference, section 4).
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.blend import blended
from pipeline.estimate.ensemble import SLACK, Views, is_above, ladder_around, on_ladder
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.nightly.rows import FEW_JOBS, Rows, ratio_base_s
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import Learnt
from pipeline.estimate.submits import Events, Jobs, capped
from pipeline.kernels import entry_kernel, kernel

FIRST_STEPS, LONGEST_STEP = 5.0, 0.05
"""A step of a position is at least this over the jobs learnt from, and at most so long, in rungs."""

MIDDLE = QUANTILES.index(0.5)


class Reading(NamedTuple):
    """What the questions of a part stand for: submits that read rows, and rows that are asked."""

    job: Ints
    """Per question the place of its submit among the jobs; -1: it asks a row."""
    place: Ints
    """(jobs, ages) per submit the place of the row that it reads; -1: none."""
    divisor_s: Floats
    factor_s: Floats
    """(jobs, ages) what a row's quantiles are divided by and multiplied with for the job."""
    question: Ints
    """Per row its question; -1: it was asked before."""
    is_few: Bools
    """Per row whether it rests on few jobs."""
    quantiles_s: Floats
    """Per row the quantiles it has, s."""


def reading_of(rows: Rows, place: Ints, jobs: Jobs, first: int, n_questions: int, submits: Ints) -> Reading:
    """The Reading of a part before its rows are asked; its submits are the jobs from `first` on."""
    job = np.full(n_questions, -1, np.int64)
    job[submits] = first + np.arange(len(submits))
    base_s = np.append(ratio_base_s(rows), np.nan)[place]
    limit_s = np.broadcast_to(jobs.limit_s[:, None], place.shape)
    is_scaled = ~np.isnan(base_s) & (limit_s > 0)
    return Reading(
        job, place, np.where(is_scaled, base_s, 1.0), np.where(is_scaled, limit_s, 1.0),
        np.full(len(rows.key), -1, np.int64), rows.n_jobs < FEW_JOBS, rows.quantiles_s,
    )  # fmt: skip


def served(
    views: Views, record: Learnt, jobs: Jobs, past: Jobs, events: Events, reading: Reading, settings: EstimateRules
) -> Floats:
    """(questions, 2, 6) quantiles, s, of a row on many jobs and of one on few; updates the record with the events."""
    errors_s = record.outputs.method_s
    center_s = capped(blended(jobs, past, events, views.method_s, errors_s, record.errors), jobs.limit_s)
    ladder = ladder_around(center_s, views.rung_s, jobs, 60.0 * settings.grace_min)
    found = np.full((len(ladder), 2, len(QUANTILES)), np.nan)
    _serve(
        past, events, ladder, center_s, reading, found, record.outputs.kinds, record.outputs.quantiles_s, record.rungs,
        np.array(QUANTILES), settings.coverage_step,
    )  # fmt: skip
    return found


@entry_kernel
def _serve(
    past: Jobs, events: Events, ladder: Floats, center_s: Floats, reading: Reading, found: Floats, few: Floats,
    read_s: Floats, rungs: Floats, shares: Floats, step: float,
) -> None:  # fmt: skip
    n, n_over = len(ladder), 0
    for question in range(n + 1):
        while n_over < events.ended[question]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _learn(over, past, read_s[over], few[over], rungs, shares, step, ladder.shape[1])
            n_over += 1
        if question == n:
            break
        for is_few in range(2):
            _row(ladder[question], center_s[question], is_few, rungs, found[question, is_few])
        job = reading.job[question]
        if job >= 0:
            _read(job - (len(few) - len(reading.place)), past.limit_s[job], reading, found, few[job], read_s[job])


@kernel
def _read(submit: int, limit_s: float, reading: Reading, found: Floats, few: Floats, read_s: Floats) -> None:
    """Set what the rows of each age say to a submit."""
    n_shares = found.shape[2]
    for age in range(len(few)):
        row = reading.place[submit, age]
        if row < 0:
            continue
        asked, is_few = reading.question[row], 1 if reading.is_few[row] else 0
        few[age] = is_few
        for k in range(n_shares):
            row_s = found[asked, is_few, k] if asked >= 0 else reading.quantiles_s[row, k]
            row_s = row_s / reading.divisor_s[submit, age] * reading.factor_s[submit, age]
            read_s[age * n_shares + k] = min(row_s, limit_s) if k <= MIDDLE and limit_s > 0 else row_s


@kernel
def _row(ladder: Floats, center_s: float, is_few: int, rungs: Floats, found: Floats) -> None:
    """Set the quantiles in order, with the estimate as the middle one."""
    for k in range(len(found)):
        found[k] = on_ladder(ladder, rungs[0, k] + is_few * rungs[1, k])
    found[MIDDLE] = center_s
    for k in range(MIDDLE):
        found[k] = min(found[k], center_s)
    for k in range(MIDDLE + 1, len(found)):
        found[k] = max(found[k], found[k - 1])


@kernel
def _learn(
    over: int, past: Jobs, read_s: Floats, few: Floats, rungs: Floats, shares: Floats, step: float, n_rungs: int
) -> None:
    """Move the positions by what rows of each age had said; what rows on few jobs add is never below 0."""
    n_shares, weight = len(shares), 1.0 / len(few)
    for age in range(len(few)):
        if np.isnan(few[age]):
            continue
        for is_few in range(2 if few[age] > 0 else 1):
            rungs[is_few, n_shares] += weight
        for k in range(n_shares):
            above = is_above(over, past, read_s[age * n_shares + k], shares[k])
            if np.isnan(above):
                continue
            off = weight * (above - (1 - shares[k]))
            moved = rungs[0, k] + _step(rungs[0, n_shares], step) * off
            rungs[0, k] = min(max(moved, -SLACK), n_rungs - 1.0 + SLACK)
            if few[age] > 0 and k > MIDDLE:
                rungs[1, k] = min(max(rungs[1, k] + _step(rungs[1, n_shares], step) * off, 0.0), SLACK)


@kernel
def _step(n_learnt: float, step: float) -> float:
    return min(max(step, FIRST_STEPS / (n_learnt + 1)), LONGEST_STEP)
