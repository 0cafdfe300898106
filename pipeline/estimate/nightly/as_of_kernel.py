"""The nightly table as of every midnight: jobs are learnt as they end, and rows are made when they are looked up."""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.nightly.ladder import N_RUNGS, outer_rungs, sample_quantiles
from pipeline.estimate.nightly.memory import (
    ALL,
    UP,
    Facts,
    Memory,
    Row,
    Sample,
    U,
    Weights,
    burst_of,
    effective_jobs,
    gather,
    remember,
    typical_request_s,
)
from pipeline.estimate.nightly.table_calibration import (
    Calibration,
    begin_day,
    class_of,
    count,
    group_of,
    positions,
    quantiles,
)
from pipeline.kernels import entry_kernel, kernel

FIRST_PRESENT = -1
"""The kind of a look-up that takes the first row of the chain that is present."""


class LookUps(NamedTuple):
    """Look-ups, one value each, in order of time."""

    job: Ints
    """The job whose values are looked up."""
    at_s: Floats
    """The midnight whose table answers."""
    kind: Ints
    unit: Floats
    """The factor of a ratio: the request, 1 for a row of ratios, 0 for seconds."""
    ladder: Ints
    """Place of its stored ladder; -1: none."""


class Answers(NamedTuple):
    """One value per look-up; NaN and -1 where no row is present."""

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
    look_up: Ints
    """Per job its look-up; -1: its answer is already counted or unknown."""


class Cache(NamedTuple):
    """The latest answer to each key, and ladders of one midnight's answers in a ring, s."""

    at_s: Floats
    look_up: Ints
    ladder: Ints
    ladders: Floats


@entry_kernel
def answer(
    facts: Facts, bursts: Ints, events: Events, look_ups: LookUps, n_answered: int, until_s: float, targets: Floats,
    weights: Weights, memory: Memory, calibration: Calibration, sample: Sample, cache: Cache, answers: Answers,
) -> None:  # fmt: skip
    """Fill `answers` from the first one that is open, and leave memory and calibration as they are at `until_s`.

    The first jobs, as many as `bursts`, are remembered already.
    """
    for job in range(len(bursts)):
        remember(job, bursts[job], 0, facts, weights, memory)
    n_over, n_made = 0, 0
    for look_up in range(n_answered, len(look_ups.job) + 1):
        at_s = look_ups.at_s[look_up] if look_up < len(look_ups.job) else until_s
        while n_over < len(events.jobs) and facts.end_s[events.jobs[n_over]] <= at_s:
            _learn(events.jobs[n_over], facts, events, targets, weights, memory, calibration, answers)
            n_over += 1
        if look_up == len(look_ups.job):
            break
        key = facts.keys[look_ups.job[look_up], 0]
        if look_ups.kind[look_up] == FIRST_PRESENT and cache.at_s[key] == at_s:
            _repeat(look_up, cache.look_up[key], answers)
        else:
            cache.at_s[key], cache.look_up[key], cache.ladder[key] = at_s, look_up, n_made % len(cache.ladders)
            ladder_s = cache.ladders[cache.ladder[key]]
            _make(look_up, facts, look_ups, targets, weights, memory, calibration, sample, answers, ladder_s)
            n_made += 1
        if answers.class_[look_up] >= 0:
            _keep(look_up, facts, look_ups, answers, cache.ladders[cache.ladder[key]])


@kernel
def _learn(
    job: int, facts: Facts, events: Events, targets: Floats, weights: Weights, memory: Memory,
    calibration: Calibration, answers: Answers,
) -> None:  # fmt: skip
    remember(job, burst_of(job, facts, weights, memory), 1, facts, weights, memory)
    look_up = events.look_up[job]
    if look_up >= 0 and answers.class_[look_up] >= 0:
        begin_day(facts.end_s[job], targets, weights, calibration)
        place, found = answers.positions[look_up], answers.quantiles[look_up]
        group = group_of(answers.n_jobs[look_up])
        count(facts.runtime_s[job], answers.class_[look_up], group, place[0], place[1], found, targets, calibration)


@kernel
def _repeat(look_up: int, same: int, answers: Answers) -> None:
    for k in range(answers.quantiles.shape[1]):
        answers.quantiles[look_up, k] = answers.quantiles[same, k]
    answers.class_[look_up] = answers.class_[same]
    answers.n_jobs[look_up] = answers.n_jobs[same]
    answers.n_effective[look_up] = answers.n_effective[same]
    answers.newest_s[look_up] = answers.newest_s[same]
    answers.kind[look_up] = answers.kind[same]


@kernel
def _keep(look_up: int, facts: Facts, look_ups: LookUps, answers: Answers, ladder_s: Floats) -> None:
    runtime_s = facts.runtime_s[look_ups.job[look_up]]
    if runtime_s > 0:
        positions(runtime_s, ladder_s, answers.positions[look_up])
    if look_ups.ladder[look_up] >= 0:
        for k in range(N_RUNGS):
            answers.ladders[look_ups.ladder[look_up], k] = ladder_s[k]


@kernel
def _make(
    look_up: int, facts: Facts, look_ups: LookUps, targets: Floats, weights: Weights, memory: Memory,
    calibration: Calibration, sample: Sample, answers: Answers, ladder_s: Floats,
) -> None:  # fmt: skip
    job, at_s = look_ups.job[look_up], look_ups.at_s[look_up]
    kind, unit = look_ups.kind[look_up], look_ups.unit[look_up]
    if kind == FIRST_PRESENT:
        kind = _first_present(job, at_s, facts, weights, memory)
        if kind < 0:
            return
        is_ratio = _has_ratios(kind) and unit > 0
    else:
        is_ratio = unit > 0
    while True:
        gather(Row(job, kind, at_s, is_ratio), facts, weights, memory, sample)
        if sample.n[0] > 0 or not is_ratio or look_ups.kind[look_up] != FIRST_PRESENT:
            break
        is_ratio = False
    if sample.n[0] == 0:
        return
    answers.kind[look_up], answers.n_jobs[look_up] = kind, sample.n[1]
    answers.n_effective[look_up] = effective_jobs(sample)
    answers.newest_s[look_up] = memory.newest_s[facts.row_codes[job, kind]]
    answers.class_[look_up] = class_of(kind, answers.n_effective[look_up])
    requested = 1.0 if is_ratio else (0.0 if _has_ratios(kind) else facts.requested_s[job])
    sample_quantiles(sample.n[0], sample.value, sample.weight, sample.code, sample.ladder)
    outer_rungs(requested, typical_request_s(sample) if is_ratio else 1.0, sample.ladder)
    found, most = answers.quantiles[look_up], requested if requested > 0 else np.inf
    class_, group = answers.class_[look_up], group_of(answers.n_jobs[look_up])
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
        code = facts.row_codes[job, kind]
        if code >= 0 and memory.newest_s[code] >= at_s - weights.kept_s:
            return kind
    return -1
