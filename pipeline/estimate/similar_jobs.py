"""Quantiles of remembered runtimes, weighted by similarity and recency; running jobs count as lower bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.keys import grown
from pipeline.estimate.submits import Events, Jobs
from pipeline.kernels import entry_kernel, kernel

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules


N_ENDED, N_RUNNING, N_ASKED, N_ANY = 48, 24, 32, 64
"""Jobs remembered: ended and running ones of a user, ended ones per requested runtime, and of all."""

PLACES, CENSORED = 255, 256
"""In a code: which bits are the place in the sample, and which says that a runtime is a lower bound."""


class Weights(NamedTuple):
    """How much a remembered job weighs; EstimateRules describes each."""

    rank_scale: float
    rank_power: float
    age_s: float
    log_other_request: float
    request_power: float
    log_other_procs: float
    procs_power: float
    log_other_application: float
    log_other_group: float
    log_other_queue: float
    place_power: float
    hour_decay: float
    session_s: float
    log_in_session: float
    running: float
    scaling: float
    others: float
    others_scale: float
    burst_jobs: int


class Memory(NamedTuple):
    """Rings of places among the jobs (-1: none), and how many each has taken so far; the last key is a blank one."""

    ended: Ints
    n_ended: Ints
    running: Ints
    n_running: Ints
    asked: Ints
    n_asked: Ints
    latest: Ints
    n_latest: Ints


class Sample(NamedTuple):
    """Remembered runtimes, s, with weights; a censored one is only known to be longer. What weight a rank has."""

    value_s: Floats
    weight: Floats
    is_censored: Bools
    order: Ints
    by_rank: Floats
    by_rank_of_all: Floats


@entry_kernel
def weigh(
    jobs: Jobs, past: Jobs, events: Events, weights: Weights, memory: Memory, sample: Sample, shares: Floats
) -> Floats:
    """(jobs, shares) quantiles, s, then the weight of the submitter's own ended jobs; NaN before anything is known."""
    n = len(jobs.submit_s)
    found = np.full((n, len(shares) + 1), np.nan)
    n_started = n_over = 0
    for job in range(n + 1):
        while n_started < events.started[job]:
            begun = events.by_start[n_started]
            _take(memory.running, memory.n_running, past.who[begun], begun)
            n_started += 1
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _remember(over, past, weights.burst_jobs, memory)
            n_over += 1
        if job < n:
            size, own = _own(job, events.known_s[job], jobs, past, weights, memory, sample)
            size = _others(job, size, jobs, past, weights, memory, sample)
            if size > 0:
                _quantiles(size, jobs.requested_s[job], sample, shares, found[job])
                found[job, -1] = own
    return found


@kernel
def _take(rings: Ints, counts: Ints, key: int, job: int) -> None:
    if key >= 0:
        rings[key, counts[key] % rings.shape[1]] = job
        counts[key] += 1


@kernel
def _remember(job: int, past: Jobs, burst_jobs: int, memory: Memory) -> None:
    """Of a burst at most `burst_jobs` stay: thousands of one submit would push out all that was known before."""
    key, n_same, oldest = past.who[job], 0, -1
    if key >= 0:
        ring, taken = memory.ended[key], memory.n_ended[key]
        for back in range(min(taken, burst_jobs)):
            place = (taken - 1 - back) % N_ENDED
            if past.burst[ring[place]] == past.burst[job]:
                n_same += 1
                oldest = place
        if n_same >= burst_jobs:
            ring[oldest] = job
        else:
            _take(memory.ended, memory.n_ended, key, job)
    _take(memory.asked, memory.n_asked, past.request[job], job)
    _take(memory.latest, memory.n_latest, 0, job)


@kernel
def _own(
    job: int, known_s: float, jobs: Jobs, past: Jobs, weights: Weights, memory: Memory, sample: Sample
) -> tuple[int, float]:
    """The submitter's own jobs: ended ones, and running ones as lower bounds."""
    key, now_s, size, own = jobs.who[job], jobs.submit_s[job], 0, 0.0
    if key < 0:
        return 0, 0.0
    taken = memory.n_ended[key]
    for back in range(min(taken, N_ENDED)):
        other = memory.ended[key, (taken - 1 - back) % N_ENDED]
        log_weight = _log_likeness(job, other, jobs, past, weights) + (past.end_s[other] - now_s) / weights.age_s
        weight = sample.by_rank[back] * math.exp(log_weight)
        sample.weight[size], sample.is_censored[size] = weight, past.is_lower_bound[other]
        sample.value_s[size] = past.runtime_s[other] * _scale(job, other, jobs, past, weights.scaling)
        own += weight
        size += 1
    taken = memory.n_running[key]
    for back in range(min(taken, N_RUNNING)):
        other = memory.running[key, (taken - 1 - back) % N_RUNNING]
        # A job that is over may have been forgotten, but it keeps its place in the ring.
        if other >= 0 and past.end_s[other] > known_s:
            weight = sample.by_rank[back] * weights.running
            sample.weight[size] = weight * math.exp(_log_likeness(job, other, jobs, past, weights))
            sample.value_s[size], sample.is_censored[size] = max(known_s - past.start_s[other], 1.0), True
            size += 1
    return size, own


@kernel
def _scale(job: int, other: int, jobs: Jobs, past: Jobs, power: float) -> float:
    if jobs.requested_s[job] == past.requested_s[other]:
        return 1.0
    if not (jobs.requested_s[job] > 0 and past.requested_s[other] > 0):
        return 1.0
    if power == 1.0:
        return float(jobs.requested_s[job] / past.requested_s[other])
    return math.exp(power * (jobs.log_request[job] - past.log_request[other]))


@kernel
def _log_likeness(job: int, other: int, jobs: Jobs, past: Jobs, weights: Weights) -> float:
    found: float = 0.0
    if jobs.requested_s[job] != past.requested_s[other]:
        found += weights.log_other_request
        if jobs.requested_s[job] > 0 and past.requested_s[other] > 0:
            found -= weights.request_power * abs(jobs.log_request[job] - past.log_request[other])
    if jobs.procs[job] != past.procs[other]:
        found += weights.log_other_procs - weights.procs_power * abs(jobs.log_procs[job] - past.log_procs[other])
    if jobs.what[job] != past.what[other]:
        found += weights.log_other_application
    if jobs.group[job] != past.group[other]:
        found += weights.log_other_group
    if jobs.queue[job] != past.queue[other]:
        found += weights.log_other_queue
    apart_h = abs(jobs.hour[job] - past.hour[other])
    found -= weights.hour_decay * min(apart_h, 24 - apart_h)
    found -= weights.place_power * abs(jobs.place[job] - past.place[other])
    if jobs.submit_s[job] - past.submit_s[other] < weights.session_s:
        found += weights.log_in_session
    return found


@kernel
def _others(job: int, size: int, jobs: Jobs, past: Jobs, weights: Weights, memory: Memory, sample: Sample) -> int:
    """Jobs of everybody: those that asked for the same runtime, or the latest of all as shares of their requests."""
    key = jobs.request[job]
    if key >= 0 and memory.n_asked[key] >= 4:
        ring, taken = memory.asked[key], memory.n_asked[key]
    else:
        ring, taken = memory.latest[0], memory.n_latest[0]
    held, first, total = min(taken, len(ring)), size, 0.0
    for back in range(held):
        other = ring[(taken - 1 - back) % len(ring)]
        sample.value_s[size] = past.runtime_s[other] * _scale(job, other, jobs, past, 1.0)
        sample.is_censored[size] = past.is_lower_bound[other]
        sample.weight[size] = sample.by_rank_of_all[back]
        total += sample.weight[size]
        size += 1
    for place in range(first, size):
        sample.weight[place] *= weights.others / total
    return size


@kernel
def _ordered(size: int, sample: Sample) -> Ints:
    """Codes in order of value, of equal ones those known exactly first; the last eight bits are the place.

    Bits of positive floats are ordered as they are: sorting these takes a third of the time of an argsort.
    """
    bits = sample.value_s.view(np.int64)
    for place in range(size):
        is_censored = CENSORED if sample.is_censored[place] else 0
        sample.order[place] = (bits[place] & ~(CENSORED | PLACES)) | is_censored | place
    codes: Ints = sample.order[:size]
    codes.sort()
    return codes


@kernel
def _quantiles(size: int, requested_s: float, sample: Sample, shares: Floats, found: Floats) -> None:
    """Kaplan & Meier's over weights: a censored job's weight goes to what is longer, at last to the request."""
    limit_s = requested_s if requested_s > 0 else np.inf
    order = _ordered(size, sample)
    at_risk, surviving, reached_s, k = 0.0, 1.0, 0.0, 0
    for place in range(size):
        at_risk += sample.weight[place]
    for code in order:
        place = code & PLACES
        # Codes leave out the last bits of values.
        reached_s = max(reached_s, sample.value_s[place])
        if not sample.is_censored[place]:
            surviving *= max(1 - sample.weight[place] / at_risk, 0.0)
            while k < len(shares) and 1 - surviving >= shares[k] - 1e-9:
                found[k] = min(reached_s, limit_s)
                k += 1
        at_risk = max(at_risk - sample.weight[place], 1e-300)
    longest_s = requested_s if requested_s > 0 else 1.5 * reached_s
    while k < len(shares):
        found[k] = longest_s
        k += 1


DAY_S = 86_400.0
LIKENESSES = ("other_request", "other_procs", "other_application", "other_group", "other_queue", "in_session")


def similar_jobs_quantiles(
    jobs: Jobs, past: Jobs, events: Events, settings: EstimateRules, memory: Memory, shares: Floats
) -> Floats:
    """(jobs, shares + 1): quantiles at ascending shares, s, at most the request; the weight of the user's ended jobs.

    `memory` is updated with the events.
    """
    capacity = N_ENDED + N_RUNNING + max(N_ANY, N_ASKED)
    sample = Sample(
        np.empty(capacity), np.empty(capacity), np.empty(capacity, np.bool_), np.empty(capacity, np.int64),
        (1 + np.arange(N_ENDED) / settings.rank_scale) ** -settings.rank_power,
        np.exp(-np.arange(N_ANY) / settings.others_scale),
    )  # fmt: skip
    return weigh(jobs, past, events, _weights(settings), memory, sample, shares)


def no_memory() -> Memory:
    """An empty memory: only the blank keys, and the ring of all jobs."""

    def ring(size: int) -> tuple[Ints, Ints]:
        return np.full((1, size), -1, np.int64), np.zeros(1, np.int64)

    return Memory(*ring(N_ENDED), *ring(N_RUNNING), *ring(N_ASKED), *ring(N_ANY))


def with_keys(memory: Memory, n_who: int, n_requests: int) -> Memory:
    """The memory with a row for each submitter and each requested time."""
    by_who = {name: grown(getattr(memory, name), n_who) for name in ("ended", "n_ended", "running", "n_running")}
    by_request = {name: grown(getattr(memory, name), n_requests) for name in ("asked", "n_asked")}
    return memory._replace(**by_who, **by_request)


def places_of(memory: Memory) -> list[Ints]:
    """The rings that hold places of jobs."""
    return [memory.ended, memory.running, memory.asked, memory.latest]


def _weights(settings: EstimateRules) -> Weights:
    logs = {f"log_{name}": np.log(getattr(settings, name)) for name in LIKENESSES}
    made = logs | {"age_s": DAY_S * settings.age_days, "session_s": 60.0 * settings.session_min}
    return Weights(**made, **{name: getattr(settings, name) for name in Weights._fields if name not in made})
