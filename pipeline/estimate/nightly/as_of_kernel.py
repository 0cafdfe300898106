"""The nightly table as of every midnight: jobs are learnt as they end, and rows are made when they are asked for."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.estimate.nightly.ladder import N_RUNGS, outer_rungs, sample_quantiles
from pipeline.estimate.nightly.memory import ALL, UP, Facts, Memory, U, Weights, burst_of, remember
from pipeline.estimate.nightly.sample import Row, Sample, effective_jobs, gather, typical_request_s
from pipeline.estimate.nightly.table_calibration import (
    Calibration,
    begin_day,
    class_of,
    count,
    group_of,
    positions,
    quantiles,
)

FIRST_PRESENT = -1
"""As a kind that is asked for: the first row of the chain that is present."""


class Asks(NamedTuple):
    """What is asked for, one value an ask, in order of time."""

    job: Ints
    """The job whose values are looked up."""
    at_s: Floats
    """The midnight whose table answers."""
    kind: Ints
    unit: Floats
    """What a ratio is multiplied by: the request, 1 for a row of ratios, 0 where seconds are asked for."""
    ladder: Ints
    """Where its ladder is kept; -1: it is not."""


class Answers(NamedTuple):
    """One value an ask; NaN and -1 where no row is present."""

    quantiles: Floats
    class_: Ints
    positions: Ints
    """(asks, 2) of the job's runtime on its ladder; -1 where it has none."""
    n_jobs: Ints
    """Remembered jobs of the row's own key."""
    n_effective: Floats
    newest_s: Floats
    kind: Ints
    ladders: Floats


class Events(NamedTuple):
    """Jobs that end."""

    jobs: Ints
    """In order of end."""
    ask: Ints
    """Per job its ask; -1: its answer is counted or unknown."""


class Cache(NamedTuple):
    """The latest answer to each key, and ladders of one midnight's answers in a ring, s."""

    at_s: Floats
    ask: Ints
    ladder: Ints
    ladders: Floats


@entry_kernel
def answer(
    facts: Facts, bursts: Ints, events: Events, asks: Asks, n_answered: int, until_s: float, targets: Floats,
    weights: Weights, memory: Memory, calibration: Calibration, sample: Sample, cache: Cache, answers: Answers,
) -> None:  # fmt: skip
    """Fill `answers` from the first one that is open, and leave memory and calibration as they are at `until_s`.

    The first jobs, as many as `bursts`, are remembered already.
    """
    for job in range(len(bursts)):
        remember(job, bursts[job], 0, facts, weights, memory)
    n_over, n_made = 0, 0
    for ask in range(n_answered, len(asks.job) + 1):
        at_s = asks.at_s[ask] if ask < len(asks.job) else until_s
        while n_over < len(events.jobs) and facts.end_s[events.jobs[n_over]] <= at_s:
            _learn(events.jobs[n_over], facts, events, targets, weights, memory, calibration, answers)
            n_over += 1
        if ask == len(asks.job):
            break
        key = facts.keys[asks.job[ask], 0]
        if asks.kind[ask] == FIRST_PRESENT and cache.at_s[key] == at_s:
            _repeat(ask, cache.ask[key], answers)
        else:
            cache.at_s[key], cache.ask[key], cache.ladder[key] = at_s, ask, n_made % len(cache.ladders)
            ladder_s = cache.ladders[cache.ladder[key]]
            _make(ask, facts, asks, targets, weights, memory, calibration, sample, answers, ladder_s)
            n_made += 1
        if answers.class_[ask] >= 0:
            _keep(ask, facts, asks, answers, cache.ladders[cache.ladder[key]])


@kernel
def _learn(
    job: int, facts: Facts, events: Events, targets: Floats, weights: Weights, memory: Memory,
    calibration: Calibration, answers: Answers,
) -> None:  # fmt: skip
    remember(job, burst_of(job, facts, weights, memory), 1, facts, weights, memory)
    ask = events.ask[job]
    if ask >= 0 and answers.class_[ask] >= 0:
        begin_day(facts.end_s[job], targets, weights, calibration)
        place, found = answers.positions[ask], answers.quantiles[ask]
        group = group_of(answers.n_jobs[ask])
        count(facts.runtime_s[job], answers.class_[ask], group, place[0], place[1], found, targets, calibration)


@kernel
def _repeat(ask: int, same: int, answers: Answers) -> None:
    for k in range(answers.quantiles.shape[1]):
        answers.quantiles[ask, k] = answers.quantiles[same, k]
    answers.class_[ask] = answers.class_[same]
    answers.n_jobs[ask] = answers.n_jobs[same]
    answers.n_effective[ask] = answers.n_effective[same]
    answers.newest_s[ask] = answers.newest_s[same]
    answers.kind[ask] = answers.kind[same]


@kernel
def _keep(ask: int, facts: Facts, asks: Asks, answers: Answers, ladder_s: Floats) -> None:
    runtime_s = facts.runtime_s[asks.job[ask]]
    if runtime_s > 0:
        positions(runtime_s, ladder_s, answers.positions[ask])
    if asks.ladder[ask] >= 0:
        for k in range(N_RUNGS):
            answers.ladders[asks.ladder[ask], k] = ladder_s[k]


@kernel
def _make(
    ask: int, facts: Facts, asks: Asks, targets: Floats, weights: Weights, memory: Memory, calibration: Calibration,
    sample: Sample, answers: Answers, ladder_s: Floats,
) -> None:  # fmt: skip
    job, at_s, kind, unit = asks.job[ask], asks.at_s[ask], asks.kind[ask], asks.unit[ask]
    if kind == FIRST_PRESENT:
        kind = _first_present(job, at_s, facts, weights, memory)
        if kind < 0:
            return
        is_ratio = _has_ratios(kind) and unit > 0
    else:
        is_ratio = unit > 0
    while True:
        gather(Row(job, kind, at_s, is_ratio), facts, weights, memory, sample)
        if sample.n[0] > 0 or not is_ratio or asks.kind[ask] != FIRST_PRESENT:
            break
        is_ratio = False
    if sample.n[0] == 0:
        return
    answers.kind[ask], answers.n_jobs[ask] = kind, sample.n[1]
    answers.n_effective[ask] = effective_jobs(sample)
    answers.newest_s[ask] = memory.newest_s[facts.kinds[job, kind]]
    answers.class_[ask] = class_of(kind, answers.n_effective[ask])
    requested = 1.0 if is_ratio else (0.0 if _has_ratios(kind) else facts.requested_s[job])
    sample_quantiles(sample.n[0], sample.value, sample.weight, sample.code, sample.ladder)
    outer_rungs(requested, typical_request_s(sample) if is_ratio else 1.0, sample.ladder)
    found, most = answers.quantiles[ask], requested if requested > 0 else np.inf
    class_, group = answers.class_[ask], group_of(answers.n_jobs[ask])
    quantiles(class_, group, most, sample.ladder, targets, weights, calibration, found)
    for k in range(N_RUNGS):
        ladder_s[k] = sample.ladder[k] * (unit if is_ratio else 1.0)
    for k in range(len(targets)):
        found[k] *= unit if is_ratio else 1.0


@kernel
def _has_ratios(kind: int) -> bool:
    return kind in (UP, U, ALL)


@kernel
def _first_present(job: int, at_s: float, facts: Facts, weights: Weights, memory: Memory) -> int:
    for kind in range(ALL + 1):
        code = facts.kinds[job, kind]
        if code >= 0 and memory.newest_s[code] >= at_s - weights.kept_s:
            return kind
    return -1
