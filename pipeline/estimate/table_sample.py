"""The remembered jobs that a row of the nightly table is made from, and what each of them weighs."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import kernel
from pipeline.estimate.table_ladder import N_RUNGS
from pipeline.estimate.table_memory import LAW_STEPS, UAQRP, UAR, UARP, UP, URP, Facts, Memory, R, Weights

POSITION, OWN_POSITION, WEIGHT, SQUARES, REQUESTS = range(5)
"""Places in `sums`: positions taken by later jobs, all and the key's own; sums of weights, squares and requests."""


class Sample(NamedTuple):
    """Runtimes, s or as ratios of their requests, with weights, and what they add up to."""

    value: Floats
    weight: Floats
    code: Ints
    ladder: Floats
    sums: Floats
    n: Ints
    """Values in the sample, of them jobs of the row's own key, and ratios of the who's own."""


def empty_sample(weights: Weights) -> Sample:
    """Room for the jobs of one row."""
    size = weights.of_who + weights.of_key + weights.of_request
    return Sample(
        np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(N_RUNGS), np.empty(5), np.empty(3, np.int64)
    )


class Row(NamedTuple):
    """A row that is asked for: a job with its key's values, its kind, and the time it is made for."""

    job: int
    kind: int
    at_s: float
    is_ratio: bool


@kernel
def gather(row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> None:
    """Fill the sample of a row; it stays empty where no ratio to a request is known."""
    for k in range(len(sample.sums)):
        sample.sums[k] = 0.0
    for k in range(len(sample.n)):
        sample.n[k] = 0
    if row.kind < R:
        _gather_own(row, facts, weights, memory, sample)
    if row.kind >= R or not row.is_ratio or sample.n[2] > 0:
        _gather_others(row, facts, weights, memory, sample)
    else:
        sample.n[0] = 0


@kernel
def _gather_own(row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> None:
    """The who's latest jobs; before these the latest ones of the most specific key."""
    oldest_s, oldest, n = row.at_s - weights.kept_s, memory.size[0], 0
    is_of_key = False
    job = memory.last_of_who[facts.who[row.job]]
    while True:
        if not is_of_key and (job < 0 or n >= weights.of_who or facts.end_s[job] < oldest_s):
            is_of_key, n = True, 0
            job = memory.last_of_key[facts.keys[row.job, row.kind]] if row.kind <= URP else -1
            while job >= 0 and memory.rank[job] >= oldest:
                job = memory.before_of_key[job]
                n += 1
        if is_of_key and (job < 0 or n >= weights.of_key or facts.end_s[job] < oldest_s):
            break
        _add_own(job, row, facts, weights, memory, sample)
        n += 1
        if is_of_key:
            job = memory.before_of_key[job]
        else:
            oldest = memory.rank[job]
            job = memory.before_of_who[job]


@kernel
def _add_own(job: int, row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> None:
    log_weight = _log_likeness(job, row, facts, weights)
    taken = memory.burst_rank[memory.burst[job]]
    position = sample.sums[POSITION]
    if log_weight == 0.0:
        position = sample.sums[OWN_POSITION]
        sample.sums[OWN_POSITION] += taken
        sample.n[1] += 1
    sample.sums[POSITION] += taken
    law = memory.law[min(int(position * LAW_STEPS), len(memory.law) - 1)]
    log_weight += (facts.end_s[job] - row.at_s) / weights.age_s
    weight = law * np.exp(log_weight) * memory.burst_weight[memory.burst[job]]
    value = facts.runtime_s[job] * _scale(job, row, facts)
    if value > 0:
        _add(value, weight, facts.requested_s[job], sample)
        sample.n[2] += 1


@kernel
def _add(value: float, weight: float, requested_s: float, sample: Sample) -> None:
    sample.value[sample.n[0]] = value
    sample.weight[sample.n[0]] = weight
    sample.n[0] += 1
    sample.sums[WEIGHT] += weight
    sample.sums[SQUARES] += weight * weight
    sample.sums[REQUESTS] += weight * requested_s


@kernel
def _log_likeness(job: int, row: Row, facts: Facts, weights: Weights) -> float:
    """Zero for a job that has all values of the row's key."""
    kind, found = row.kind, 0.0
    if kind < UP and facts.requested_s[job] != facts.requested_s[row.job]:
        found += weights.log_other_request
        if facts.requested_s[job] > 0 and facts.requested_s[row.job] > 0:
            found -= weights.request_power * abs(facts.log_requested[job] - facts.log_requested[row.job])
    if (kind <= URP or kind == UP) and facts.procs[job] != facts.procs[row.job]:
        found += weights.log_other_procs - weights.procs_power * abs(facts.log_procs[job] - facts.log_procs[row.job])
    if (kind <= UARP or kind == UAR) and facts.what[job] != facts.what[row.job]:
        found += weights.log_other_what
    if kind == UAQRP and facts.queue[job] != facts.queue[row.job]:
        found += weights.log_other_queue
    return found


@kernel
def _scale(job: int, row: Row, facts: Facts) -> float:
    """What a runtime is multiplied by: 0 where it has no ratio, the requests' ratio where the row has a request."""
    requested_s = facts.requested_s[job]
    if row.is_ratio:
        return 1.0 / requested_s if requested_s > 0 else 0.0
    if row.kind >= UP or requested_s <= 0 or facts.requested_s[row.job] <= 0:
        return 1.0
    return float(facts.requested_s[row.job] / requested_s)


@kernel
def _gather_others(row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> None:
    """Everybody's latest jobs: those with the row's request, or of any where the row has none."""
    is_of_request = row.kind < UP or row.kind == R
    place = memory.size[0] - 1
    job = memory.last_of_asked[facts.asked[row.job]] if is_of_request else _at(memory.order, place)
    first, total, k = sample.n[0], 0.0, 0
    while job >= 0 and k < weights.of_request and facts.end_s[job] >= row.at_s - weights.kept_s:
        weight = np.exp(-k / weights.others_scale) * memory.burst_weight[memory.burst[job]] ** 2
        value = facts.runtime_s[job] * _scale(job, row, facts)
        if value > 0:
            if row.kind >= R:
                _add(value, weight, facts.requested_s[job], sample)
                sample.n[1] += 1
            else:
                sample.value[sample.n[0]], sample.weight[sample.n[0]] = value, weight
                sample.n[0] += 1
            total += weight
        k, place = k + 1, place - 1
        job = memory.before_of_asked[job] if is_of_request else _at(memory.order, place)
    if row.kind < R:
        for place in range(first, sample.n[0]):
            sample.weight[place] *= weights.others / total


@kernel
def _at(order: Ints, place: int) -> int:
    return int(order[place]) if place >= 0 else -1


@kernel
def effective_jobs(sample: Sample) -> float:
    """How many jobs of equal weight tell as much (Kish 1965)."""
    squares = sample.sums[SQUARES]
    return float(sample.sums[WEIGHT] * sample.sums[WEIGHT] / squares) if squares > 0 else 0.0


@kernel
def typical_request_s(sample: Sample) -> float:
    """The weighted mean request, s."""
    return float(sample.sums[REQUESTS] / sample.sums[WEIGHT]) if sample.sums[WEIGHT] > 0 else 0.0
