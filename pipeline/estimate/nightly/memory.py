"""The memory of the nightly table: ended jobs in linked chains, newest first, per submitter, key and request."""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.nightly.ladder import N_RUNGS
from pipeline.kernels import kernel

ROW_KEYS = ("uaqrp", "uarp", "urp", "uar", "ur", "up", "u", "r", "all")
"""Keys of rows in order of look-up: u who, a what, q queue, r requested runtime, p processors."""

UAQRP, UARP, URP, UAR, UR, UP, U, R, ALL = range(len(ROW_KEYS))

LAW_STEPS = 8
"""Entries of the weight law per position."""


class Facts(NamedTuple):
    """Jobs as kernels take them, one value a job; 0 where no runtime was requested, codes -1 where unknown."""

    submit_s: Floats
    end_s: Floats
    runtime_s: Floats
    requested_s: Floats
    procs: Floats
    log_requested: Floats
    log_procs: Floats
    who: Ints
    what: Ints
    queue: Ints
    request_code: Ints
    """Code of the requested runtime."""
    keys: Ints
    """(jobs, 3) code of who, what, queue, request and processors, unknown ones alike; of these without queue; and
    without what."""
    like: Ints
    """Code of submitter, request and processors, which jobs of one burst share."""
    row_codes: Ints
    """(jobs, 9) code of the row of each kind; -1 where the job lacks a value of its key."""


class Weights(NamedTuple):
    """Numbers of TableRules as kernels take them."""

    of_who: int
    of_key: int
    of_request: int
    burst_gap_s: float
    burst_rank_power: float
    burst_weight_power: float
    age_s: float
    kept_s: float
    log_other_request: float
    request_power: float
    log_other_procs: float
    procs_power: float
    log_other_what: float
    log_other_queue: float
    others: float
    others_scale: float
    half_life_days: float
    pseudo_jobs: float
    level_half_life_days: float
    level_gain: float
    level_jobs: float
    level_speed: float
    delay_days: float


class Memory(NamedTuple):
    """Places of jobs, -1 where a chain ends; `last` by code, `before` by job."""

    last_of_who: Ints
    before_of_who: Ints
    last_of_key: Ints
    before_of_key: Ints
    last_of_request: Ints
    before_of_request: Ints
    last_of_like: Ints
    order: Ints
    """Jobs in the order in which they were learnt."""
    rank: Ints
    """Per job its place in `order`."""
    newest_s: Floats
    """Latest end per code of a row's key; -inf: none has ended."""
    burst: Ints
    burst_jobs: Ints
    """Jobs of each burst that have ended."""
    burst_rank: Floats
    """Positions that one job of each burst occupies."""
    burst_weight: Floats
    size: Ints
    """Jobs learnt and bursts begun."""
    law: Floats
    """Weight of a job by its position from the newest, in steps of 1 / LAW_STEPS."""


def empty_memory(facts: Facts, weights: Weights, rank_scale: float, rank_power: float) -> Memory:
    """A memory with room for all these jobs."""
    n_jobs = len(facts.submit_s)

    def ends(codes: Ints) -> Ints:
        return np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)

    def places() -> Ints:
        return np.full(n_jobs, -1, np.int64)

    positions = np.arange(LAW_STEPS * (weights.of_who + weights.of_key + 1)) / LAW_STEPS
    return Memory(
        ends(facts.who), places(), ends(facts.keys), places(), ends(facts.request_code), places(), ends(facts.like),
        places(), places(), np.full(int(facts.row_codes.max(initial=-1)) + 1, -np.inf), places(),
        np.zeros(n_jobs, np.int64), np.zeros(n_jobs), np.zeros(n_jobs), np.zeros(2, np.int64),
        (1 + positions / rank_scale) ** -rank_power,
    )  # fmt: skip


@kernel
def burst_of(job: int, facts: Facts, weights: Weights, memory: Memory) -> int:
    """The burst of the latest like job where both were submitted within the gap; else a new one."""
    last = memory.last_of_like[facts.like[job]]
    is_near = last >= 0 and abs(facts.submit_s[job] - facts.submit_s[last]) <= weights.burst_gap_s
    if is_near and facts.end_s[job] - facts.end_s[last] <= weights.kept_s:
        return int(memory.burst[last])
    memory.size[1] += 1
    return int(memory.size[1]) - 1


@kernel
def remember(job: int, burst: int, n_more: int, facts: Facts, weights: Weights, memory: Memory) -> None:
    """Put a job at the head of its chains; its burst grows by so many jobs."""
    memory.burst[job] = burst
    memory.burst_jobs[burst] += n_more
    memory.burst_rank[burst] = memory.burst_jobs[burst] ** -weights.burst_rank_power
    memory.burst_weight[burst] = memory.burst_jobs[burst] ** -weights.burst_weight_power
    memory.last_of_like[facts.like[job]] = job
    if facts.who[job] >= 0:
        _put(job, facts.who[job], memory.last_of_who, memory.before_of_who)
    _put(job, facts.keys[job, 0], memory.last_of_key, memory.before_of_key)
    _put(job, facts.request_code[job], memory.last_of_request, memory.before_of_request)
    memory.order[memory.size[0]] = job
    memory.rank[job] = memory.size[0]
    memory.size[0] += 1
    for kind in range(ALL + 1):
        if facts.row_codes[job, kind] >= 0:
            memory.newest_s[facts.row_codes[job, kind]] = facts.end_s[job]


@kernel
def _put(job: int, code: int, last: Ints, before: Ints) -> None:
    before[job] = last[code]
    last[code] = job


WEIGHT, SQUARES, REQUESTS = range(3)
"""Places in `sums`: sums of weights, of their squares, and of requests by weight."""

SIZE, OWN = range(2)
"""Places in `n`: values in the sample, and of them jobs of the row's own key."""


class Sample(NamedTuple):
    """Runtimes (s, or ratios to their requests) with weights, and their sums."""

    value: Floats
    weight: Floats
    code: Ints
    ladder: Floats
    place: Ints
    """Jobs looked at, newest first."""
    sums: Floats
    n: Ints


def empty_sample(weights: Weights) -> Sample:
    """Room for the jobs of one row."""
    size = weights.of_who + weights.of_key + weights.of_request
    return Sample(
        np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(N_RUNGS), np.empty(size, np.int64),
        np.zeros(3), np.zeros(2, np.int64),
    )  # fmt: skip


class Row(NamedTuple):
    """A row to make: a job with the values of its key, its kind, and its time."""

    job: int
    kind: int
    at_s: float
    is_ratio: bool


@kernel
def gather(row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> None:
    """Fill the sample of a row; it stays empty where no ratio to a request is known."""
    # Calls inside loops pass only numbers: reference counts of array arguments make the loop three times as slow.
    sample.n[SIZE], sample.n[OWN] = 0, 0
    sample.sums[WEIGHT], sample.sums[SQUARES], sample.sums[REQUESTS] = 0.0, 0.0, 0.0
    if row.kind < R:
        n = _window(row, facts, weights, memory, sample)
        _add_own(n, row, facts, weights, memory, sample)
        if sample.n[SIZE] == 0:
            return
    n = _latest(row, facts, weights, memory, sample)
    _add_others(n, row, facts, weights, memory, sample)


@kernel
def _window(row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> int:
    """Places of the who's latest jobs, and before these the latest ones of the most specific key."""
    oldest_s, oldest, n = row.at_s - weights.kept_s, memory.size[0], 0
    job = memory.last_of_who[facts.who[row.job]]
    while job >= 0 and n < weights.of_who and facts.end_s[job] >= oldest_s:
        sample.place[n], oldest = job, memory.rank[job]
        n += 1
        job = memory.before_of_who[job]
    if row.kind > URP:
        return n
    n_of_key, job = 0, memory.last_of_key[facts.keys[row.job, row.kind]]
    while job >= 0 and n_of_key < weights.of_key and facts.end_s[job] >= oldest_s:
        if memory.rank[job] < oldest:
            sample.place[n] = job
            n += 1
        n_of_key += 1
        job = memory.before_of_key[job]
    return n


@kernel
def _add_own(n: int, row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> None:
    kind, wanted_s, place, own_place = row.kind, facts.requested_s[row.job], 0.0, 0.0
    procs, what, queue = facts.procs[row.job], facts.what[row.job], facts.queue[row.job]
    log_wanted, log_procs, last = facts.log_requested[row.job], facts.log_procs[row.job], len(memory.law) - 1
    for k in range(n):
        job = sample.place[k]
        requested_s, burst = facts.requested_s[job], memory.burst[job]
        log_weight = _of_request(kind, requested_s, wanted_s, abs(facts.log_requested[job] - log_wanted), weights)
        if facts.procs[job] != procs and (kind <= URP or kind == UP):
            log_weight += weights.log_other_procs - weights.procs_power * abs(facts.log_procs[job] - log_procs)
        if facts.what[job] != what and (kind <= UARP or kind == UAR):
            log_weight += weights.log_other_what
        if facts.queue[job] != queue and kind == UAQRP:
            log_weight += weights.log_other_queue
        at = place
        if log_weight == 0.0:
            at = own_place
            own_place += memory.burst_rank[burst]
            sample.n[OWN] += 1
        place += memory.burst_rank[burst]
        log_weight += (facts.end_s[job] - row.at_s) / weights.age_s
        weight = memory.law[min(int(at * LAW_STEPS), last)] * np.exp(log_weight) * memory.burst_weight[burst]
        value = facts.runtime_s[job] * _scale(kind, row.is_ratio, requested_s, wanted_s)
        if value > 0:
            sample.value[sample.n[SIZE]], sample.weight[sample.n[SIZE]] = value, weight
            sample.n[SIZE] += 1
            sample.sums[WEIGHT] += weight
            sample.sums[SQUARES] += weight * weight
            sample.sums[REQUESTS] += weight * requested_s


@kernel
def _of_request(kind: int, requested_s: float, wanted_s: float, apart: float, weights: Weights) -> float:
    """Log weight for another request, in rows that have one; zero for the same."""
    if kind >= UP or requested_s == wanted_s:
        return 0.0
    is_known = requested_s > 0 and wanted_s > 0
    return weights.log_other_request - (weights.request_power * apart if is_known else 0.0)


@kernel
def _scale(kind: int, is_ratio: bool, requested_s: float, wanted_s: float) -> float:
    """What a runtime is multiplied by: 0 where it has no ratio, the requests' ratio where the row has a request."""
    if is_ratio:
        return 1.0 / requested_s if requested_s > 0 else 0.0
    if kind >= UP or requested_s <= 0 or wanted_s <= 0:
        return 1.0
    return wanted_s / requested_s


@kernel
def _latest(row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> int:
    """Places of everybody's latest jobs: those with the row's request, or of any where the row has none."""
    oldest_s, n, rank = row.at_s - weights.kept_s, 0, memory.size[0] - 1
    if row.kind < UP or row.kind == R:
        job = memory.last_of_request[facts.request_code[row.job]]
        while job >= 0 and n < weights.of_request and facts.end_s[job] >= oldest_s:
            sample.place[n] = job
            n += 1
            job = memory.before_of_request[job]
        return n
    while rank >= 0 and n < weights.of_request and facts.end_s[memory.order[rank]] >= oldest_s:
        sample.place[n] = memory.order[rank]
        n += 1
        rank -= 1
    return n


@kernel
def _add_others(n: int, row: Row, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> None:
    """Add everybody's jobs: the whole sample of a row without submitter, else with a total weight of `others`."""
    first, total, is_own = sample.n[SIZE], 0.0, row.kind >= R
    for k in range(n):
        job = sample.place[k]
        weight = np.exp(-k / weights.others_scale) * memory.burst_weight[memory.burst[job]] ** 2
        value = facts.runtime_s[job] * _scale(
            row.kind, row.is_ratio, facts.requested_s[job], facts.requested_s[row.job]
        )
        if value > 0:
            sample.value[sample.n[SIZE]], sample.weight[sample.n[SIZE]] = value, weight
            sample.n[SIZE] += 1
            total += weight
            if is_own:
                sample.n[OWN] += 1
                sample.sums[WEIGHT] += weight
                sample.sums[SQUARES] += weight * weight
                sample.sums[REQUESTS] += weight * facts.requested_s[job]
    if not is_own:
        for k in range(first, sample.n[SIZE]):
            sample.weight[k] *= weights.others / total


@kernel
def effective_jobs(sample: Sample) -> float:
    """The effective sample size (Kish 1965)."""
    squares = sample.sums[SQUARES]
    return float(sample.sums[WEIGHT] * sample.sums[WEIGHT] / squares) if squares > 0 else 0.0


@kernel
def typical_request_s(sample: Sample) -> float:
    """The weighted mean request, s."""
    return float(sample.sums[REQUESTS] / sample.sums[WEIGHT]) if sample.sums[WEIGHT] > 0 else 0.0
