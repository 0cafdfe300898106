"""Quantiles of remembered runtimes, weighted by similarity and recency; running jobs count as lower bounds.

A job of another size or request enters once per hypothesis (group_record.py), with its chance as a factor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.curves import Curve, height, no_curve, trace
from pipeline.estimate.group_record import (
    N_APART,
    Evidence,
    N,
    chances,
    compare,
    log_likeness,
    log_of_array,
    observe,
    slope,
)
from pipeline.estimate.keys import grown
from pipeline.estimate.submits import GPU_TYPE, TRAITS, Events, Jobs
from pipeline.kernels import kernel, sort_in_place, uncounted_kernel

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules


N_ENDED, N_RUNNING, N_ASKED, N_ANY = 96, 24, 32, 64
"""Jobs remembered: ended and running ones of a user, ended ones per requested runtime, and of all."""

N_OF_GROUP, N_OF_SIZE = 24, 3
"""Ended jobs remembered of a group (submitter, program, memory), and of these of one size."""

PLACES, CENSORED = 511, 512
"""In a code: which bits are the place in the sample, and which says that a runtime is a lower bound."""

LEAST_CHANCE = 0.02
"""A hypothesis with a smaller chance is left out."""

LONGEST_CURVE = math.log(12.0)
"""A curve of sizes lengthens or shortens a runtime by at most this (log)."""

LONGER = 2.0
"""A scaled runtime is at most this times the submitter's longest remembered one, unless requests are known to tell."""

KNOWN_SIZE, CURVE_ALONE, STEEP = 2.0, 0.5, 0.2
"""Methods that are blind to sizes do not answer for a size of fewer jobs, if the curve's chance and its power are above
these."""

OF_ARRAY = 0.5
"""Methods that are blind to arrays do not answer where ended jobs of the array have more than this share of the weight.
"""

SAME_SIZE = 7.0
"""A job of the group's memory that has the size asked for weighs up to this much more, where requests tell nothing."""


class Weights(NamedTuple):
    """How much a remembered job weighs; EstimateRules describes each. Of `alike` and of `long`: see PACES."""

    rank_scale: float
    log_other_request: float
    request_power: float
    log_other_procs: float
    procs_power: float
    log_other_trait: Floats
    session_s: float
    running: float
    others_scale: float
    burst_jobs: int
    rank_power: Floats
    log_in_session: Floats
    others: Floats


class Memory(NamedTuple):
    """Rings of places among the jobs (-1: none), and how many each has taken so far; the last key is a blank one.

    `newest` is the newest ended job of a group, `before` per job the one before it in its group.
    """

    ended: Ints
    n_ended: Ints
    running: Ints
    n_running: Ints
    asked: Ints
    n_asked: Ints
    latest: Ints
    n_latest: Ints
    newest: Ints
    before: Ints


class Sample(NamedTuple):
    """Remembered runtimes, s, with weights (a row a pace); a censored one is only known to be longer.

    What weight a rank has; what is known at a submit: chances of the hypotheses, log weights of other traits, the log
    weight of a job of the same array and the weight that these jobs have, and the group's curve (curves.py).
    """

    value_s: Floats
    weight: Floats
    is_censored: Bools
    order: Ints
    by_rank: Floats
    by_rank_of_all: Floats
    chance: Floats
    log_other_trait: Floats
    of_array: Floats
    curve: Curve


@uncounted_kernel
def weigh(
    jobs: Jobs, past: Jobs, events: Events, weights: Weights, memory: Memory, evidence: Evidence, sample: Sample,
    shares: Floats, half: Floats, found: Floats,
) -> None:  # fmt: skip
    """Set (jobs, shares + 6): quantiles, s, of `alike`; the median of `long`; 1 where these alone know the size, or the
    array; chance that runtimes follow the request; effective number of jobs (Kish); ended jobs of the submitter, and of
    the group, where those of one array count as one.

    NaN before anything is known.
    """
    n, last = len(jobs.submit_s), len(shares) + 1
    n_started = n_over = 0
    for job in range(n + 1):
        while n_started < events.started[job]:
            begun = events.by_start[n_started]
            _take(memory.running, memory.n_running, past.who[begun], begun)
            n_started += 1
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                who = past.who[over]
                if who >= 0:
                    compare(over, past, memory.ended[who], memory.n_ended[who], evidence.unlike)
                    observe(over, past, evidence, not _has_array(over, past, memory))
                _remember(over, past, weights.burst_jobs, memory)
            n_over += 1
        if job < n:
            log_likeness(evidence.unlike, weights.log_other_trait, sample.log_other_trait)
            sample.of_array[0] = log_of_array(evidence.unlike)
            sample.of_array[1] = 0.0
            size = _own(job, events.known_s[job], jobs, past, weights, memory, evidence, sample)
            size = _others(job, size, jobs, past, weights, memory, sample)
            if size > 0:
                order = sample.order[:size]
                _set_codes(order, sample)
                sort_in_place(order, order)
                _quantiles(order, jobs.requested_s[job], sample, sample.weight[0], shares, found[job])
                _quantiles(order, jobs.requested_s[job], sample, sample.weight[1], half, found[job, len(shares) :])
                found[job, last + 2] = _effective(size, sample.weight[0])
            found[job, last + 1] = sample.chance[1]
            found[job, last + 3] = evidence.of_who[jobs.who[job], N_APART] if jobs.who[job] >= 0 else 0.0
            found[job, last + 4] = evidence.of_group[jobs.group[job], N_APART] if jobs.who[job] >= 0 else 0.0
            found[job, last] = _is_scaled(jobs.group[job], jobs.size[job], jobs.who[job], evidence, sample.chance)
            if size > 0 and sample.of_array[1] > OF_ARRAY * sample.weight[0, :size].sum():
                found[job, last] = 1.0


@kernel
def _effective(size: int, weight: Floats) -> float:
    total, squares = 0.0, 0.0
    for place in range(size):
        total += weight[place]
        squares += weight[place] * weight[place]
    return total * total / squares if squares > 0 else 0.0


@kernel
def _is_scaled(group: int, size: int, who: int, evidence: Evidence, chance: Floats) -> float:
    power = slope(evidence.of_group[group], evidence.of_who[who], evidence.of_all[0])
    is_new = evidence.of_size[size, N] < KNOWN_SIZE
    return 1.0 if is_new and chance[2] > CURVE_ALONE and abs(power) > STEEP else 0.0


@kernel
def _has_array(job: int, past: Jobs, memory: Memory) -> bool:
    """Whether a job of the same array is remembered among those of its group."""
    if past.array[job] < 0:
        return False
    other = memory.newest[past.group[job]]
    while other >= 0:
        if past.array[other] == past.array[job]:
            return True
        other = memory.before[other]
    return False


@kernel
def _of_array(job: int, other: int, jobs: Jobs, past: Jobs) -> bool:
    return bool(jobs.array[job] >= 0 and jobs.array[job] == past.array[other])


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
        _link(job, past, memory)
    _take(memory.asked, memory.n_asked, past.request[job], job)
    _take(memory.latest, memory.n_latest, 0, job)


@kernel
def _link(job: int, past: Jobs, memory: Memory) -> None:
    """The job is the newest of its group; the oldest of too many of its size, or of all, is forgotten."""
    newer, other, n_held, n_same = job, memory.newest[past.group[job]], 1, 1
    memory.newest[past.group[job]], memory.before[job] = job, other
    while other >= 0:
        n_held += 1
        n_same += past.size[other] == past.size[job]
        if n_same > N_OF_SIZE or n_held > N_OF_GROUP:
            memory.before[newer], memory.before[other] = memory.before[other], -1
            return
        newer, other = other, memory.before[other]


@kernel
def _own(
    job: int, known_s: float, jobs: Jobs, past: Jobs, weights: Weights, memory: Memory, evidence: Evidence,
    sample: Sample,
) -> int:  # fmt: skip
    """The submitter's own jobs: ended ones, the group's that are not among them, running ones as lower bounds."""
    key, group, size = jobs.who[job], jobs.group[job], 0
    of_group, of_who = evidence.of_group[group], evidence.of_who[key]
    is_told = chances(of_group, of_who, evidence.of_all[0], sample.chance)
    power = slope(of_group, of_who, evidence.of_all[0])
    trace(memory.newest[group], memory.before, past, power, sample.curve)
    if key < 0:
        return 0
    ring, taken, longest_s = memory.ended[key], memory.n_ended[key], 0.0
    for back in range(min(taken, N_ENDED)):
        other = ring[(taken - 1 - back) % N_ENDED]
        longest_s = max(longest_s, past.runtime_s[other])
        size = _enter(job, other, back, 1.0, size, jobs, past, weights, sample)
    other, back = memory.newest[group], 0
    while other >= 0:
        longest_s = max(longest_s, past.runtime_s[other])
        if _is_missing(other, past, ring, min(taken, N_ENDED)):
            more = 1 + SAME_SIZE * (1 - sample.chance[1]) if past.size[other] == jobs.size[job] else 1.0
            size = _enter(job, other, back, more, size, jobs, past, weights, sample)
        other, back = memory.before[other], back + 1
    if not is_told:
        for place in range(size):
            sample.value_s[place] = min(sample.value_s[place], LONGER * longest_s)
    taken = memory.n_running[key]
    for back in range(min(taken, N_RUNNING)):
        other = memory.running[key, (taken - 1 - back) % N_RUNNING]
        # A job that is over may have been forgotten, but it keeps its place in the ring.
        if other >= 0 and past.end_s[other] > known_s:
            likeness = weights.running * math.exp(_log_likeness(job, other, jobs, past, weights, sample))
            is_session = jobs.submit_s[job] - past.submit_s[other] < weights.session_s
            for pace in range(2):
                weight = likeness * sample.by_rank[pace, back]
                sample.weight[pace, size] = weight * math.exp(weights.log_in_session[pace] if is_session else 0.0)
            sample.value_s[size], sample.is_censored[size] = max(known_s - past.start_s[other], 1.0), True
            size += 1
    return size


@kernel
def _is_missing(other: int, past: Jobs, ring: Ints, held: int) -> bool:
    """Whether a job is not in the ring, and the ring has few of its group and size."""
    n_same = 0
    for place in range(held):
        if ring[place] == other:
            return False
        n_same += past.size[ring[place]] == past.size[other]
    return n_same < N_OF_SIZE


@kernel
def _enter(
    job: int, other: int, back: int, more: float, size: int, jobs: Jobs, past: Jobs, weights: Weights, sample: Sample
) -> int:  # fmt: skip
    """Put an ended job into the sample, once per hypothesis that makes another runtime of it; the new size."""
    log_weight = _log_likeness(job, other, jobs, past, weights, sample)
    is_session = jobs.submit_s[job] - past.submit_s[other] < weights.session_s
    same, ratio, curve = sample.chance[0], sample.chance[1], sample.chance[2]
    by_request = _ratio(job, other, jobs, past)
    by_size = 0.0
    if jobs.log_size[job] != past.log_size[other] and jobs.traits[job, GPU_TYPE] == past.traits[other, GPU_TYPE]:
        by_size = height(jobs.log_size[job], sample.curve) - height(past.log_size[other], sample.curve)
    by_curve = math.exp(min(max(by_size, -LONGEST_CURVE), LONGEST_CURVE)) if by_size != 0 else 1.0
    if by_request == 1:
        same, ratio = same + ratio, 0.0
    if by_curve == 1:
        same, curve = same + curve, 0.0
    for chance, factor in ((same, 1.0), (ratio, by_request), (curve, by_curve)):
        if chance < LEAST_CHANCE:
            continue
        sample.value_s[size] = past.runtime_s[other] * factor
        sample.is_censored[size] = past.is_lower_bound[other]
        for pace in range(2):
            log_pace = weights.log_in_session[pace] if is_session else 0.0
            sample.weight[pace, size] = more * chance * sample.by_rank[pace, back] * math.exp(log_weight + log_pace)
        sample.of_array[1] += sample.weight[0, size] if _of_array(job, other, jobs, past) else 0.0
        size += 1
    return size


@kernel
def _ratio(job: int, other: int, jobs: Jobs, past: Jobs) -> float:
    if jobs.requested_s[job] == past.requested_s[other]:
        return 1.0
    if not (jobs.requested_s[job] > 0 and past.requested_s[other] > 0):
        return 1.0
    return float(jobs.requested_s[job] / past.requested_s[other])


@kernel
def _log_likeness(job: int, other: int, jobs: Jobs, past: Jobs, weights: Weights, sample: Sample) -> float:
    found: float = 0.0
    if jobs.limit_s[job] != past.limit_s[other]:
        apart = weights.log_other_request
        if jobs.requested_s[job] > 0 and past.requested_s[other] > 0:
            apart -= weights.request_power * abs(jobs.log_request[job] - past.log_request[other])
        found += apart * sample.chance[1]
    if jobs.log_size[job] != past.log_size[other]:
        found += weights.log_other_procs - weights.procs_power * abs(jobs.log_size[job] - past.log_size[other])
    for trait in range(len(sample.log_other_trait)):
        if jobs.traits[job, trait] != past.traits[other, trait]:
            found += sample.log_other_trait[trait]
    if _of_array(job, other, jobs, past):
        found += sample.of_array[0]
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
        sample.value_s[size] = past.runtime_s[other] * _ratio(job, other, jobs, past)
        sample.is_censored[size] = past.is_lower_bound[other]
        sample.weight[0, size] = sample.by_rank_of_all[back]
        total += sample.weight[0, size]
        size += 1
    # Where runs of one size are the same, a group needs no others.
    part = (1 - sample.curve.shape[2]) / total if total > 0 else 0.0
    for place in range(first, size):
        weight = part * sample.weight[0, place]
        for pace in range(2):
            sample.weight[pace, place] = weight * weights.others[pace]
    return size


@kernel
def _set_codes(codes: Ints, sample: Sample) -> None:
    """Set codes in order of value, of equal ones those known exactly first; the last bits are the place.

    Bits of positive floats are ordered as they are.
    """
    bits = sample.value_s.view(np.int64)
    for place in range(len(codes)):
        is_censored = CENSORED if sample.is_censored[place] else 0
        codes[place] = (bits[place] & ~(CENSORED | PLACES)) | is_censored | place


@kernel
def _quantiles(
    order: Ints, requested_s: float, sample: Sample, weight: Floats, shares: Floats, found: Floats
) -> None:  # fmt: skip
    """Kaplan & Meier's over weights: a censored job's weight goes to what is longer, at last to the request."""
    limit_s = requested_s if requested_s > 0 else np.inf
    at_risk, surviving, reached_s, k = 0.0, 1.0, 0.0, 0
    for place in range(len(order)):
        at_risk += weight[place]
    for code in order:
        place = code & PLACES
        # Codes leave out the last bits of values.
        reached_s = max(reached_s, sample.value_s[place])
        if not sample.is_censored[place]:
            surviving *= max(1 - weight[place] / at_risk, 0.0)
            while k < len(shares) and 1 - surviving >= shares[k] - 1e-9:
                found[k] = min(reached_s, limit_s)
                k += 1
        at_risk = max(at_risk - weight[place], 1e-300)
    longest_s = requested_s if requested_s > 0 else 1.5 * reached_s
    while k < len(shares):
        found[k] = longest_s
        k += 1


HALF = np.array([0.5])
PACES = ("rank_power", "in_session", "others")
"""Settings of which `long`, the second estimate of the sample, has its own: it remembers longer."""

OTHER_TRAITS = {
    "what": "application", "user_group": "group", "queue": "queue", "memory": "memory", "problem_size": "memory",
    "gpu_type": "gpus",
}  # fmt: skip
"""The settings that are the first weights of a job with another value; of any other trait `other_trait`."""


def similar_jobs_quantiles(
    jobs: Jobs, past: Jobs, events: Events, settings: EstimateRules, memory: Memory, evidence: Evidence, shares: Floats
) -> Floats:
    """(jobs, shares + 6): see `weigh`. `memory` and `evidence` are updated with the events."""
    capacity = 3 * (N_ENDED + N_OF_GROUP) + N_RUNNING + max(N_ANY, N_ASKED)
    weights, ranks = _weights(settings), np.arange(N_ENDED)
    sample = Sample(
        np.empty(capacity), np.empty((2, capacity)), np.empty(capacity, np.bool_), np.empty(capacity, np.int64),
        (1 + ranks / weights.rank_scale) ** -weights.rank_power[:, None],
        np.exp(-np.arange(N_ANY) / settings.others_scale), np.empty(3), np.empty(len(weights.log_other_trait)),
        np.zeros(2), no_curve(N_OF_GROUP),
    )  # fmt: skip
    found = np.full((len(jobs.who), len(shares) + 6), np.nan)
    weigh(jobs, past, events, weights, memory, evidence, sample, shares, HALF, found)
    return found


def no_memory() -> Memory:
    """An empty memory: only the blank keys, and the ring of all jobs."""

    def ring(size: int) -> tuple[Ints, Ints]:
        return np.full((1, size), -1, np.int64), np.zeros(1, np.int64)

    none = np.full(1, -1, np.int64)
    return Memory(*ring(N_ENDED), *ring(N_RUNNING), *ring(N_ASKED), *ring(N_ANY), none, none[:0])


def with_keys(memory: Memory, n_who: int, n_requests: int, n_groups: int, n_jobs: int) -> Memory:
    """The memory with a row for each submitter, requested time, group and job."""
    by_who = {name: grown(getattr(memory, name), n_who) for name in ("ended", "n_ended", "running", "n_running")}
    by_request = {name: grown(getattr(memory, name), n_requests) for name in ("asked", "n_asked")}
    before = np.concatenate([memory.before, np.full(n_jobs - len(memory.before), -1, np.int64)])
    return memory._replace(**by_who, **by_request, newest=grown(memory.newest, n_groups), before=before)


def places_of(memory: Memory) -> list[Ints]:
    """The arrays that hold places of jobs."""
    return [memory.ended, memory.running, memory.asked, memory.latest, memory.newest, memory.before]


def _weights(settings: EstimateRules) -> Weights:
    pairs = {name: np.array([getattr(settings, name), getattr(settings.long, name)]) for name in PACES}
    traits = [getattr(settings, f"other_{OTHER_TRAITS.get(name, 'trait')}") for name in TRAITS]
    plain = (
        "rank_scale", "request_power", "procs_power", "running", "others_scale",
        "burst_jobs",
    )  # fmt: skip
    return Weights(
        **{name: getattr(settings, name) for name in plain},
        log_other_request=np.log(settings.other_request), log_other_procs=np.log(settings.other_procs),
        log_other_trait=np.log(traits), session_s=60.0 * settings.session_min, rank_power=pairs["rank_power"],
        log_in_session=np.log(pairs["in_session"]), others=pairs["others"],
    )  # fmt: skip
