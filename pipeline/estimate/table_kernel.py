"""The nightly table as kernels: what is remembered, the rows that are asked for, and their quantiles."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel

UAQRP, UARP, URP, UAR, UR, UP, U, R, ALL = range(9)
N_KINDS = 9
OF_WHO, OF_KEY, OF_REQUEST = 300, 32, 48
"""Ended jobs that a row is made from: of the who, of the most specific key, and of everybody with the request."""

SHARES = np.array([0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99])
N_BELOW, N_TO, N_ABOVE = 4, 3, 6
N_RUNGS = N_BELOW + len(SHARES) + N_TO + N_ABOVE
BELOW = np.array([0.02, 0.1, 0.3, 0.65])
UNBOUNDED = np.array([1.15, 1.4, 2.0, 3.0, 4.5, 7.0, 12.0])
N_SAMPLE = OF_WHO + OF_KEY + OF_REQUEST
PLACES = 511
N_BINS = N_RUNGS + 1
N_CLASSES = 17
EFFECTIVE = np.array([1.5, 3.0, 6.0, 12.0])
DAY_S = 86_400.0


class Facts(NamedTuple):
    """One value a job; 0 where no time was requested, -1 where a code is unknown."""

    end_s: Floats
    submit_s: Floats
    runtime_s: Floats
    requested_s: Floats
    log_request: Floats
    log_procs: Floats
    procs: Floats
    who: Ints
    what: Ints
    queue: Ints
    kinds: Ints
    """(jobs, 9) code of each row that may answer; -1: a value of its key is unknown."""
    ask: Ints
    like: Ints
    asked: Ints


class Weights(NamedTuple):
    rank_scale: float
    rank_power: float
    burst_rank_power: float
    burst_weight_power: float
    age_s: float
    log_other_request: float
    request_power: float
    log_other_procs: float
    procs_power: float
    log_other_what: float
    log_other_queue: float
    others: float
    others_scale: float
    burst_gap_s: float
    kept_s: float
    half_life_days: float
    pseudo_jobs: float
    gain: float
    gap_jobs: float
    gap_half_life: float
    limit: float


class Memory(NamedTuple):
    """Chains of remembered jobs."""

    last_of_who: Ints
    before_of_who: Ints
    last_of_ask: Ints
    before_of_ask: Ints
    last_of_asked: Ints
    before_of_asked: Ints
    last_of_like: Ints
    order: Ints
    place: Ints
    newest_s: Floats
    burst: Ints
    burst_rank: Floats
    burst_weight: Floats
    burst_jobs: Ints
    n: Ints
    law: Floats


class Sample(NamedTuple):
    value: Floats
    weight: Floats
    order: Ints
    ladder: Floats
    cumulative: Floats


@entry_kernel
def answer(
    facts: Facts, at_s: Floats, learn: Ints, weights: Weights, memory: Memory, sample: Sample, counts: Floats, targets: Floats,
) -> tuple[Floats, Ints, Floats, Ints]:
    n = len(at_s)
    found = np.full((n, len(targets)), np.nan)
    kind_of = np.full(n, -1, np.int64)
    effective = np.zeros(n)
    own = np.zeros(n, np.int64)
    positions = np.full((n, 3), -1, np.int64)
    last_at = np.full(facts.ask.max() + 1, -np.inf)
    last_job = np.zeros(facts.ask.max() + 1, np.int64)
    ladders = np.empty((n, N_RUNGS))
    n_learnt = 0
    day = np.array([-1.0])
    gap = np.zeros(len(targets) + 1)
    for job in range(n):
        at = at_s[job]
        while n_learnt < len(learn) and facts.end_s[learn[n_learnt]] <= at:
            over = learn[n_learnt]
            remember(over, facts, weights, memory)
            count(over, facts, positions, counts, day, weights, found, targets, gap)
            n_learnt += 1
        ask = facts.ask[job]
        if last_at[ask] == at:
            same = last_job[ask]
            found[job] = found[same]
            ladders[job] = ladders[same]
            kind_of[job], effective[job], own[job] = kind_of[same], effective[same], own[same]
            positions[job, 0] = positions[same, 0]
        else:
            last_at[ask], last_job[ask] = at, job
            kind = ALL
            while kind > 0 and False:
                kind -= 1
            kind = first_row(job, at, facts, memory, weights)
            kind_of[job] = kind
            if kind < 0:
                continue
            size, effective[job], own[job], unit = gather(job, kind, at, facts, weights, memory, sample)
            if size == 0:
                continue
            median = ladder_of(size, facts.requested_s[job], unit, sample)
            ladders[job] = sample.ladder
            positions[job, 0] = class_of(kind, effective[job])
            quantiles(median, facts.requested_s[job], positions[job, 0], counts, targets, weights, sample, found[job], gap)
        if positions[job, 0] >= 0 and facts.runtime_s[job] > 0:
            positions[job, 1] = np.searchsorted(ladders[job], facts.runtime_s[job], side="left")
            positions[job, 2] = np.searchsorted(ladders[job], facts.runtime_s[job], side="right")
    return found, kind_of, effective, own


@kernel
def first_row(job: int, at: float, facts: Facts, memory: Memory, weights: Weights) -> int:
    for kind in range(N_KINDS):
        code = facts.kinds[job, kind]
        if code >= 0 and memory.newest_s[code] >= at - weights.kept_s:
            return kind
    return -1


@kernel
def class_of(kind: int, effective: float) -> int:
    if kind == R:
        return 15
    if kind == ALL:
        return 16
    bin_ = np.searchsorted(EFFECTIVE, effective)
    return (0 if kind == UAQRP else 5 if kind < UAR else 10) + bin_


@kernel
def count(over: int, facts: Facts, positions: Ints, counts: Floats, day: Floats, weights: Weights, found: Floats, targets: Floats, gap: Floats) -> None:
    if positions[over, 1] < 0:
        return
    today = np.floor(facts.end_s[over] / DAY_S)
    if today > day[0]:
        if day[0] > 0:
            counts *= 0.5 ** ((today - day[0]) / weights.half_life_days)
            gap *= 0.5 ** ((today - day[0]) / weights.gap_half_life)
        day[0] = today
    for c in (positions[over, 0], N_CLASSES):
        counts[0, c, positions[over, 1]] += 1.0
        counts[1, c, positions[over, 2]] += 1.0
    t = facts.runtime_s[over]
    gap[len(targets)] += 1.0
    for k in range(len(targets)):
        inside = t < found[over, k] if targets[k] < 0.5 else t <= found[over, k]
        gap[k] += targets[k] - (1.0 if inside else 0.0)


@kernel
def remember(job: int, facts: Facts, weights: Weights, memory: Memory) -> None:
    like = facts.like[job]
    last = memory.last_of_like[like]
    n = memory.n
    if last >= 0 and abs(facts.submit_s[job] - facts.submit_s[last]) <= weights.burst_gap_s:
        burst = memory.burst[last]
    else:
        burst = n[1]
        n[1] += 1
    memory.last_of_like[like] = job
    memory.burst[job] = burst
    memory.burst_jobs[burst] += 1
    memory.burst_rank[burst] = memory.burst_jobs[burst] ** -weights.burst_rank_power
    memory.burst_weight[burst] = memory.burst_jobs[burst] ** -weights.burst_weight_power
    who, ask, asked = facts.who[job], facts.ask[job], facts.asked[job]
    if who >= 0:
        memory.before_of_who[job] = memory.last_of_who[who]
        memory.last_of_who[who] = job
    memory.before_of_ask[job] = memory.last_of_ask[ask]
    memory.last_of_ask[ask] = job
    memory.before_of_asked[job] = memory.last_of_asked[asked]
    memory.last_of_asked[asked] = job
    memory.order[n[0]] = job
    memory.place[job] = n[0]
    n[0] += 1
    for kind in range(N_KINDS):
        code = facts.kinds[job, kind]
        if code >= 0:
            memory.newest_s[code] = facts.end_s[job]


@kernel
def gather(job: int, kind: int, at: float, facts: Facts, weights: Weights, memory: Memory, sample: Sample) -> tuple[int, float, int, float]:
    size, own, position, key_position, total, squares = 0, 0, 0.0, 0.0, 0.0, 0.0
    requested = facts.requested_s[job]
    per_request = (kind == UP or kind == U or kind == ALL) and requested > 0
    has_request, has_procs = kind < UP, kind == UAQRP or kind == UARP or kind == URP or kind == UP
    has_what, has_queue = kind == UAQRP or kind == UARP or kind == UAR, kind == UAQRP
    unit_sum = 0.0
    limit_place = memory.n[0]
    if kind < R:
        other = memory.last_of_who[facts.who[job]]
        n_own = 0
        is_key = False
        while True:
            if not is_key and (other < 0 or n_own >= OF_WHO):
                if kind > URP:
                    break
                is_key = True
                n_key = 0
                other = memory.last_of_ask[facts.ask[job]]
                # beyond the who's window
                while other >= 0 and n_key < OF_KEY and memory.place[other] >= limit_place:
                    other = memory.before_of_ask[other]
                    n_key += 1
                if not (other >= 0 and n_key < OF_KEY):
                    break
            elif is_key and (other < 0 or n_key >= OF_KEY):
                break
            r = facts.requested_s[other]
            burst = memory.burst[other]
            log_weight = (facts.end_s[other] - at) / weights.age_s
            is_own = True
            if has_request and r != requested:
                is_own = False
                log_weight += weights.log_other_request
                if r > 0 and requested > 0:
                    log_weight -= weights.request_power * abs(facts.log_request[other] - facts.log_request[job])
            if has_procs and facts.procs[other] != facts.procs[job]:
                is_own = False
                log_weight += weights.log_other_procs - weights.procs_power * abs(facts.log_procs[other] - facts.log_procs[job])
            if has_what and facts.what[other] != facts.what[job]:
                is_own = False
                log_weight += weights.log_other_what
            if has_queue and facts.queue[other] != facts.queue[job]:
                is_own = False
                log_weight += weights.log_other_queue
            if is_own:
                law = weights_law(memory.law, key_position)
                key_position += memory.burst_rank[burst]
                own += 1
            else:
                law = weights_law(memory.law, position)
            position += memory.burst_rank[burst]
            w = law * np.exp(log_weight) * memory.burst_weight[burst]
            value = facts.runtime_s[other]
            ok = True
            if per_request:
                if r > 0:
                    value /= r
                else:
                    ok = False
            elif has_request and r != requested and r > 0 and requested > 0:
                value *= requested / r
            if ok:
                sample.value[size] = value
                sample.weight[size] = w
                size += 1
                total += w
                squares += w * w
                unit_sum += w * r
            if is_key:
                n_key += 1
                other = memory.before_of_ask[other]
            else:
                n_own += 1
                limit_place = memory.place[other]
                other = memory.before_of_who[other]
    first = size
    others_total = 0.0
    # everybody's
    chain = has_request or kind == R
    if chain:
        other = memory.last_of_asked[facts.asked[job]]
    else:
        place = memory.n[0] - 1
        other = memory.order[place] if place >= 0 else -1
    k = 0
    while other >= 0 and k < OF_REQUEST:
        r = facts.requested_s[other]
        w = np.exp(-k / weights.others_scale) * memory.burst_weight[memory.burst[other]] ** 2.0
        if not per_request or r > 0:
            sample.value[size] = facts.runtime_s[other] / (r if per_request else 1.0)
            sample.weight[size] = w
            size += 1
            others_total += w
            unit_sum += 0.0
            if kind >= R:
                total += w
                squares += w * w
                own += 1
                unit_sum += w * r
        k += 1
        if chain:
            other = memory.before_of_asked[other]
        else:
            place -= 1
            other = memory.order[place] if place >= 0 else -1
    if kind < R:
        for i in range(first, size):
            sample.weight[i] *= weights.others / others_total
    unit = 1.0
    if per_request:
        for i in range(size):
            sample.value[i] *= requested
    effective = total * total / squares if squares > 0 else 0.0
    return size, effective, own, (unit_sum / total if total > 0 else 0.0)


@kernel
def weights_law(law: Floats, position: float) -> float:
    return law[min(int(position * 8.0), len(law) - 1)]


@kernel
def ladder_of(size: int, requested: float, unit: float, sample: Sample) -> float:
    bits = sample.value.view(np.int64)
    for place in range(size):
        sample.order[place] = (bits[place] & ~PLACES) | place
    codes = sample.order[:size]
    codes.sort()
    total = sample.weight[:size].sum()
    ladder = sample.ladder
    k, reached, before, last = 0, 0.0, 0.0, 0.0
    median = 0.0
    for i in range(size):
        place = codes[i] & PLACES
        value, w = sample.value[place], sample.weight[place]
        middle = (reached + 0.5 * w) / total
        while k < len(SHARES) and SHARES[k] <= middle:
            if i == 0:
                ladder[N_BELOW + k] = value
            else:
                part = (SHARES[k] - before) / (middle - before)
                ladder[N_BELOW + k] = last + part * (value - last)
            k += 1
        reached += w
        before, last = middle, value
    while k < len(SHARES):
        ladder[N_BELOW + k] = last
        k += 1
    for i in range(N_BELOW):
        ladder[i] = ladder[N_BELOW] * BELOW[i]
    top = N_BELOW + len(SHARES) - 1
    q99 = ladder[top]
    if requested > 0:
        ratio = max(requested / q99, 1.0)
        for i in range(N_TO):
            ladder[top + 1 + i] = q99 * ratio ** ((i + 1) / (N_TO + 1))
        ladder[top + 4] = requested
        ladder[top + 5] = 1.01 * requested + 60
        ladder[top + 6] = 1.05 * requested + 300
        ladder[top + 7] = 1.3 * requested + 600
    else:
        for i in range(7):
            ladder[top + 1 + i] = q99 * UNBOUNDED[i]
    ladder[top + 8] = 2 * max(ladder[top + 7], q99)
    ladder[top + 9] = 3 * ladder[top + 8]
    for i in range(top + 1, top + 10):
        ladder[i] = max(ladder[i], ladder[i - 1])
    return ladder[N_BELOW + 8]


@kernel
def quantiles(median: float, requested: float, class_: int, counts: Floats, targets: Floats, weights: Weights, sample: Sample, found: Floats, gap: Floats) -> None:
    if requested > 0:
        median = min(median, requested)
    for k in range(len(targets)):
        side = 1 if targets[k] < 0.5 else 0
        if targets[k] == 0.5:
            found[k] = median
            continue
        every = counts[side, N_CLASSES]
        scale = weights.pseudo_jobs / every.sum()
        total = counts[side, class_].sum() + weights.pseudo_jobs
        reached = 0.0
        rung = 0
        p = targets[k]
        shift = weights.gain * gap[k] / (gap[len(targets)] + weights.gap_jobs) / (p * (1 - p))
        shift = min(max(shift, -weights.limit), weights.limit)
        odds = p / (1 - p) * np.exp(shift)
        target = odds / (1 + odds) * total
        step = 0.0
        while rung < N_RUNGS:
            step = counts[side, class_, rung] + scale * every[rung]
            if reached + step >= target:
                break
            reached += step
            rung += 1
        ladder = sample.ladder
        if rung >= N_RUNGS:
            found[k] = ladder[N_RUNGS - 1]
        elif rung == 0:
            found[k] = ladder[0]
        else:
            part = (target - reached) / step
            found[k] = ladder[rung - 1] ** (1 - part) * ladder[rung] ** part
    found[0] = min(found[0], median)
    for k in range(2, len(targets)):
        found[k] = max(found[k], found[k - 1])
