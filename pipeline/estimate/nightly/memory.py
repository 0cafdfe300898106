"""The memory of the nightly table: ended jobs in linked chains, newest first, per submitter, key and request."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import kernel

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
    """Numbers of TableSettings as kernels take them."""

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
