"""How long a job will run, from what is known at a time: the whole algorithm.

`advance` walks a log in order of submit. At each submit it learns from the jobs that ended by `known_s`, which is the
submit less an age, and answers the job (`_answer`). What has been answered is compared with the runtime when the job's
end becomes known (`_learn`). An age of 0 gives the answers at the submit; an age of a day those of a table that was
made a day before. Each age has a `Memory` of its own.

One answer is made in five steps: a weighted sample of remembered runtimes; several estimates of the middle; their
weighted median by recent errors; a grid of runtimes (knots) around it; quantiles at calibrated places among the knots.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pipeline.arrays import Bools, Floats, Ints

LEVELS = np.array((0.10, 0.50, 0.80, 0.90, 0.95, 0.99, 0.025))
"""The quantiles of an answer: those that are published, and the lower end of a 95% interval."""

KNOT_LEVELS = np.array((0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.995))
"""Quantiles of the sample that are knots; one knot lies below them and three above."""
N_KNOTS, MIDDLE = len(KNOT_LEVELS) + 4, 4
FIRST_PLACES = np.array((3.0, 5.0, 7.5, 9.0, 10.0, 12.0, 1.2))
"""Place of each of LEVELS among the knots before any error is known."""

RECENT, LONG, FLAT, LAST_TWO, LAST_50, EVERYBODY, EVERYBODY_SIZE, SESSION = range(8)
N_ESTIMATES, N_CHOICES = 8, 3
"""Estimates of the middle, and the choices between their weighted median, the plain median of four, and the mean."""

WIDTHS = {"ended": 96, "running": 24, "kind": 16, "same": 50, "everybody": 200, "everybody_size": 50, "request": 64}
"""Jobs remembered per key: a user's ended and running ones; (user, program, processors, memory, problem size), the same
with its request; all users' of (program, request), the same with its processors; all users' of a request, key 0: any."""

N_SAMPLE = 512
RUNTIME, LIMIT, LOG_RUNTIME, LOG_LIMIT, LOG_SIZE, SUBMIT, START, END, PROCS, GPUS, MEMORY, WHO = range(12)
"""Columns of Jobs.values; LIMIT is 0 and LOG_LIMIT NaN without a requested runtime, MEMORY (KiB) NaN without a request,
WHO the number of the user's name or -1. The last four are not used here."""
N_TRAITS, PROGRAM, GPU_TYPE = 10, 0, 8
"""Columns of Jobs.traits, and two of them."""

RANK_SCALE, RANK_POWERS, SESSION_S = 6.5, np.array((1.33, 0.5, 0.0)), 3000.0
IN_SESSION, OF_OTHERS = np.array((3.5, 1.5, 1.0)), np.array((0.5, 1.5, 1.5))
"""Three weightings: power of the rank, weight of a job of the session, weight of all users' jobs together."""
OTHER_REQUEST, REQUEST_POWER, OTHER_SIZE, SIZE_POWER, RUNNING = math.log(0.75), 0.5, math.log(0.28), 0.2, 0.6
OTHER_TRAIT = np.log(np.array((0.95, 0.88, 0.36, 0.95, 0.95, 0.95, 0.95, 0.5, 0.1, 0.5)))
PRIOR_PAIRS, PAIR_KEEPS, COMPARED, LEAST_APART = 200.0, 0.9999, 6, 0.03
"""Log weight of a job whose trait differs; pairs of jobs that differ in one trait alone replace it as they come."""

BURST_JOBS = 4
"""Ended jobs of one burst that a user's memory keeps: thousands of one submit would replace all earlier ones."""
MOST_SCALED, MARGIN = 2.0, 0.25
"""A runtime scaled by the ratio of requests is at most twice the longest remembered one; and the lead (log) that equal
runtimes at other requests need before requests are not followed."""

STEP, OFFSET_STEP, OVERSHOOT, WAITING = 0.005, 4.0, 3.0, 3.0
"""Move of a quantile's place per ended job, in knots; factor for the offsets of new users and kinds; how far places move
beyond the knots; and, over the number of answers whose jobs have not ended, the largest move. Ends that are known late
would move a place far past where it should be: the errors of a week of jobs are of one and the same place."""
NEW_USER, NEW_KIND, MOST_OFFSET = 10.0, 5.0, 4.0
GRACE_S, NEARLY, OFTEN_BEYOND = 300.0, 0.98, 0.2
"""Jobs are stopped up to so long after their request; a knot above this share of it is the request and that time; where
so many of the log's jobs run beyond, knots lie at 5 and 20 times the request."""

ERROR_POWER, CHOICE_POWER, KEPT_OF_ALL, KEPT_OF_USER, OTHERS_JOBS = 8.0, 30.0, 0.9995, 0.97, 50.0


class Ring(NamedTuple):
    """Per key the last jobs that were put in; a key of one job has no row."""

    newest: Ints
    count: Ints
    row: Ints
    jobs: Ints
    """(rows, width) places of jobs."""
    n_rows: Ints


class Keys(NamedTuple):
    """Numbers of each job's keys; a job without a user has its queue's and partition's."""

    user: Ints
    kind: Ints
    same: Ints
    everybody: Ints
    everybody_size: Ints
    request: Ints


class Jobs(NamedTuple):
    """Jobs in order of submit."""

    values: Floats
    traits: Ints
    is_stopped: Bools
    """The job was stopped at its limit: a full run would be longer."""
    is_learnt: Bools
    burst: Ints
    log_place: Floats
    """log(1 + earlier jobs of the burst)."""
    session: Ints
    keys: Keys


class Rings(NamedTuple):
    """The jobs remembered."""

    ended: Ring
    running: Ring
    kind: Ring
    same: Ring
    everybody: Ring
    everybody_size: Ring
    request: Ring


class Memory(NamedTuple):
    """What an age has learnt. The last row of each array by user or kind is blank and stands for an unknown one."""

    rings: Rings
    errors: Floats
    """(users + 1, estimates + choices) decayed sums of errors, s, of users; the blank row: of all jobs."""
    n_errors: Floats
    places: Floats
    """(3, levels) place of each level among the knots; offsets of new users and of new kinds."""
    pairs: Floats
    """(traits + 1, 2) decayed sum of log differences of pairs that differ in a trait alone, or in none; their number."""
    follows: Floats
    """(users + 1, 2) how much better (log) runtimes follow the request than stay, and its weight; blank row: all."""
    follows_of_kind: Floats
    n_ended: Ints
    """By user."""
    typical: Floats
    """Log of the log's typical runtime; jobs that ended; share of jobs that run beyond their requests; submits between
    a job's own and when its end is known."""


class Answers(NamedTuple):
    """Per job what was answered; it is compared with the runtime when the job has ended."""

    quantiles_s: Floats
    estimates_s: Floats
    """(jobs, estimates + choices)."""
    is_new: Floats
    """(jobs, 3) 1; 1 for a new user; 1 for a new kind."""


class Room(NamedTuple):
    """Working arrays of one answer."""

    runtime_s: Floats
    is_bound: Bools
    weight: Floats
    order: Ints
    values: Floats
    knots_s: Floats
    shares: Floats
    log_trait: Floats
    by_rank: Floats
    seen: Ints
    half: Floats


def new_room(n_jobs: int) -> Room:
    """Working arrays for a log of so many jobs."""
    by_rank = (1 + np.arange(WIDTHS["ended"]) / RANK_SCALE) ** -RANK_POWERS[:, None]
    return Room(
        np.empty(N_SAMPLE), np.empty(N_SAMPLE, np.bool_), np.empty((3, N_SAMPLE)), np.empty(N_SAMPLE, np.int64),
        np.empty(N_SAMPLE), np.empty(N_KNOTS), np.empty(N_ESTIMATES), np.empty(N_TRAITS), by_rank,
        np.full(n_jobs, -1, np.int32), np.array([0.5]),
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def advance(
    jobs: Jobs, memory: Memory, answers: Answers, room: Room, asked: Ints, by_start: Ints, by_end: Ints, age_s: float,
    until_s: float,
) -> None:  # fmt: skip
    """Answer the jobs `asked`, in order of submit, and learn from starts and ends that are known by then.

    `by_start` and `by_end` are places of jobs in order of these instants; all are known by `until_s`.
    """
    n_started, n_over = 0, 0
    for nth in range(len(asked) + 1):
        is_last = nth == len(asked)
        known_s = until_s if is_last else min(jobs.values[asked[nth], SUBMIT] - age_s, until_s)
        while n_started < len(by_start) and begun_s(jobs, by_start[n_started]) <= known_s:
            _put(memory.rings.running, jobs.keys.user[by_start[n_started]], by_start[n_started])
            n_started += 1
        while n_over < len(by_end) and jobs.values[by_end[n_over], END] <= known_s:
            over = by_end[n_over]
            n_over += 1
            if jobs.is_learnt[over]:
                _learn(over, jobs, memory, answers, (len(jobs.values) if is_last else asked[nth]) - over)
        if not is_last:
            _answer(asked[nth], known_s, jobs, memory, answers, room)


@njit(cache=True, nogil=True, error_model="numpy")
def begun_s(jobs: Jobs, job: int) -> float:
    """When a start is known: no job is known to run at its own submit."""
    return max(jobs.values[job, START], jobs.values[job, SUBMIT] + 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _answer(job: int, known_s: float, jobs: Jobs, memory: Memory, answers: Answers, room: Room) -> None:
    """Set the answer to a job from what is remembered."""
    values, user, kind = jobs.values, jobs.keys.user[job], jobs.keys.kind[job]
    limit_s = values[job, LIMIT] if values[job, LIMIT] > 0 else np.inf
    is_new = answers.is_new[job]
    is_new[0] = 1.0
    is_new[1] = memory.n_ended[user] < NEW_USER
    is_new[2] = memory.rings.kind.count[kind] < NEW_KIND
    # 1. A sample of remembered runtimes, weighted by likeness and recency in three ways.
    size = _sample(job, known_s, jobs, memory, room)
    found = answers.estimates_s[job]
    estimates, choices = found[:N_ESTIMATES], found[N_ESTIMATES:]
    knots_s = room.knots_s
    if size == 0:
        estimates[:] = limit_s if limit_s < np.inf else 3600.0
        knots_s[1 : 1 + len(KNOT_LEVELS)] = estimates[0]
    else:
        order = room.order[:size]
        _set_order(order, room)
        _quantiles(order, room, 0, limit_s, KNOT_LEVELS, knots_s[1 : 1 + len(KNOT_LEVELS)])
        # 2. Estimates of the middle.
        estimates[:] = knots_s[1 + MIDDLE]
        for nth in (LONG, FLAT):
            _quantiles(order, room, nth, limit_s, room.half, estimates[nth : nth + 1])
        _last_ones(job, jobs, memory.rings, room, limit_s, estimates)
    # 3. Their weighted median, the plain median of four, the mean of both: the one with the least errors answers.
    _set_shares(memory, user, 0, N_ESTIMATES, ERROR_POWER, room.shares)
    choices[0] = _weighted_median(estimates, room.shares, room.values)
    four = room.values[:4]
    four[0], four[1], four[2], four[3] = estimates[RECENT], estimates[LONG], estimates[EVERYBODY], estimates[SESSION]
    sort_numbers(four)
    choices[1] = 0.5 * (four[1] + four[2])
    choices[2] = 0.5 * (choices[0] + choices[1])
    if memory.n_ended[user] == 0 and memory.typical[1] > 0:
        choices[2] = math.exp(memory.typical[0])
    _set_shares(memory, user, N_ESTIMATES, N_CHOICES, CHOICE_POWER, room.shares)
    middle_s = min(_weighted_median(choices, room.shares, room.values), limit_s)
    # 4. Knots around it, and beyond the request.
    _set_knots(knots_s, middle_s, limit_s, memory.typical[2])
    # 5. Quantiles at their places among the knots.
    quantiles_s = answers.quantiles_s[job]
    for level in range(len(LEVELS)):
        place = 0.0
        for which in range(3):
            place += is_new[which] * memory.places[which, level]
        quantiles_s[level] = _at(knots_s, place)
    quantiles_s[1] = middle_s
    quantiles_s[0] = min(quantiles_s[0], middle_s)
    quantiles_s[6] = min(quantiles_s[6], quantiles_s[0])
    for level in range(2, 6):
        quantiles_s[level] = max(quantiles_s[level], quantiles_s[level - 1])


@njit(cache=True, nogil=True, error_model="numpy")
def _sample(job: int, known_s: float, jobs: Jobs, memory: Memory, room: Room) -> int:
    """Fill the sample; its size. The user's ended jobs, those of the kind, running ones; and everybody's."""
    values, rings, keys = jobs.values, memory.rings, jobs.keys
    user, size, longest_s = keys.user[job], 0, 0.0
    for trait in range(N_TRAITS):
        room.log_trait[trait] = _log_trait(memory.pairs, trait)
    follows = _follows(memory, user, keys.kind[job]) > -MARGIN
    for nth in range(3):
        ring = rings.ended if nth == 0 else rings.same if nth == 1 else rings.kind
        key = user if nth == 0 else keys.same[job] if nth == 1 else keys.kind[job]
        for back in range(_held(ring, key)):
            other = _nth(ring, key, back)
            if room.seen[other] != job:
                room.seen[other] = job
                longest_s = max(longest_s, values[other, RUNTIME])
                room.runtime_s[size] = values[other, RUNTIME] * (_ratio(job, other, values) if follows else 1.0)
                room.is_bound[size] = jobs.is_stopped[other]
                _weigh(job, other, back, 1.0, size, jobs, room)
                size += 1
    for place in range(size):
        room.runtime_s[place] = min(room.runtime_s[place], MOST_SCALED * longest_s)
    for back in range(_held(rings.running, user)):
        other = _nth(rings.running, user, back)
        if values[other, END] > known_s:
            room.runtime_s[size] = max(known_s - values[other, START], 1.0)
            room.is_bound[size] = True
            _weigh(job, other, back, RUNNING, size, jobs, room)
            size += 1
    return _with_everybody(job, size, jobs, rings.request, room)


@njit(cache=True, nogil=True, error_model="numpy")
def _with_everybody(job: int, size: int, jobs: Jobs, ring: Ring, room: Room) -> int:
    """Add all users' last jobs with the request, or of any; together they weigh as much as OF_OTHERS says."""
    values, key, first, total = jobs.values, jobs.keys.request[job], size, 0.0
    if ring.count[key] < 4:
        key = 0
    for back in range(_held(ring, key)):
        other = _nth(ring, key, back)
        room.runtime_s[size] = values[other, RUNTIME] * _ratio(job, other, values)
        room.is_bound[size] = jobs.is_stopped[other]
        room.weight[0, size] = math.exp(-back / 140.0)
        total += room.weight[0, size]
        size += 1
    for place in range(first, size):
        share = room.weight[0, place] / total
        for nth in range(3):
            room.weight[nth, place] = OF_OTHERS[nth] * share
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _ratio(job: int, other: int, values: Floats) -> float:
    """The ratio of the requests, 1 where one has none."""
    has_both = values[job, LIMIT] > 0 and values[other, LIMIT] > 0
    return values[job, LIMIT] / values[other, LIMIT] if has_both else 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(job: int, other: int, back: int, factor: float, place: int, jobs: Jobs, room: Room) -> None:
    """Set the three weights of a remembered job: likeness times rank."""
    values, log_weight = jobs.values, 0.0
    if values[job, LIMIT] != values[other, LIMIT]:
        log_weight += OTHER_REQUEST
        if values[job, LIMIT] > 0 and values[other, LIMIT] > 0:
            log_weight -= REQUEST_POWER * abs(values[job, LOG_LIMIT] - values[other, LOG_LIMIT])
    if values[job, LOG_SIZE] != values[other, LOG_SIZE]:
        log_weight += OTHER_SIZE - SIZE_POWER * abs(values[job, LOG_SIZE] - values[other, LOG_SIZE])
    for trait in range(N_TRAITS):
        if jobs.traits[job, trait] != jobs.traits[other, trait]:
            log_weight += room.log_trait[trait]
    likeness = factor * math.exp(log_weight)
    is_session = values[job, SUBMIT] - values[other, SUBMIT] < SESSION_S
    for nth in range(3):
        room.weight[nth, place] = likeness * room.by_rank[nth, back] * (IN_SESSION[nth] if is_session else 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_trait(pairs: Floats, trait: int) -> float:
    """The log weight of a job whose trait differs."""
    n, n_alike = pairs[trait, 1], pairs[N_TRAITS, 1]
    if n == 0 or n_alike == 0:
        return OTHER_TRAIT[trait]
    learnt = 2.0 * min(pairs[N_TRAITS, 0] / n_alike - pairs[trait, 0] / n, 0.0)
    return (n * learnt + PRIOR_PAIRS * OTHER_TRAIT[trait]) / (n + PRIOR_PAIRS)


@njit(cache=True, nogil=True, error_model="numpy")
def _follows(memory: Memory, user: int, kind: int) -> float:
    """How much better (log) runtimes follow the request than stay: of the kind, shrunk towards its user and all."""
    found = memory.follows[-1, 0] / (memory.follows[-1, 1] + 1)
    found = (memory.follows[user, 0] + 10 * found) / (memory.follows[user, 1] + 10)
    return (memory.follows_of_kind[kind, 0] + 10 * found) / (memory.follows_of_kind[kind, 1] + 10)


@njit(cache=True, nogil=True, error_model="numpy")
def _set_order(order: Ints, room: Room) -> None:
    """Set `order` to the sample's places by runtime, of equal ones the runs to an end first.

    Bits of positive floats are ordered as they are; the last ten are given up for the place and the bound.
    """
    bits = room.runtime_s.view(np.int64)
    for place in range(len(order)):
        order[place] = (bits[place] & ~1023) | (512 if room.is_bound[place] else 0) | place
    sort_numbers(order)


@njit(cache=True, nogil=True, error_model="numpy")
def _quantiles(order: Ints, room: Room, nth: int, limit_s: float, levels: Floats, found: Floats) -> None:
    """Kaplan and Meier's quantiles over weights, s; the weight of a lower bound goes to longer runs and the request."""
    weight, at_risk, surviving, reached_s, k = room.weight[nth], 0.0, 1.0, 0.0, 0
    for place in range(len(order)):
        at_risk += weight[place]
    for code in order:
        place = code & 511
        reached_s = room.runtime_s[place]
        if not room.is_bound[place]:
            surviving *= max(1 - weight[place] / at_risk, 0.0)
            while k < len(levels) and 1 - surviving >= levels[k] - 1e-9:
                found[k] = min(reached_s, limit_s)
                k += 1
        at_risk = max(at_risk - weight[place], 1e-300)
    found[k:] = limit_s if limit_s < np.inf else 1.5 * reached_s


@njit(cache=True, nogil=True, error_model="numpy")
def _last_ones(job: int, jobs: Jobs, rings: Rings, room: Room, limit_s: float, estimates: Floats) -> None:
    """Set the estimates that are medians or means of the last jobs; one that has no job stays as it is."""
    values, keys, user = jobs.values, jobs.keys, jobs.keys.user[job]
    for nth in range(2):
        ring = rings.everybody_size if nth else rings.everybody
        n = _gather(ring, keys.everybody_size[job] if nth else keys.everybody[job], values, room.values)
        if n >= 3:
            estimates[EVERYBODY + nth :  EVERYBODY_SIZE + 1] = min(_median(room.values[:n]), limit_s)
    # The most specific of five keys that has two ended jobs.
    for level in range(5):
        if level == 0:
            n = _gather(rings.same, keys.same[job], values, room.values)
        elif level == 1:
            n = _gather(rings.kind, keys.kind[job], values, room.values)
        else:
            n = _gather_alike(job, level, jobs, rings.ended, room.values)
        if n >= 2:
            estimates[LAST_TWO] = min((room.values[0] + room.values[1]) / 2, limit_s)
            estimates[LAST_50] = min(_median(room.values[:n]), limit_s)
            break
    n = _gather_alike(job, 5, jobs, rings.ended, room.values)
    if n >= 1:
        estimates[SESSION] = min(_median(room.values[:n]), limit_s)


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(ring: Ring, key: int, values: Floats, found: Floats) -> int:
    n = _held(ring, key)
    for back in range(n):
        found[back] = values[_nth(ring, key, back), RUNTIME]
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _gather_alike(job: int, level: int, jobs: Jobs, ring: Ring, found: Floats) -> int:
    """The user's last runtimes: 2 of the program and request, 3 of the program, 4 of any, 5 of the session (three)."""
    traits, n, key = jobs.traits, 0, jobs.keys.user[job]
    for back in range(_held(ring, key)):
        other = _nth(ring, key, back)
        is_alike = level == 4 or (level == 5 and jobs.session[other] == jobs.session[job])
        if level <= 3:
            is_alike = traits[other, PROGRAM] == traits[job, PROGRAM] and traits[other, GPU_TYPE] == traits[job, GPU_TYPE]
        if level == 2:
            is_alike = is_alike and jobs.values[other, LIMIT] == jobs.values[job, LIMIT]
        if is_alike and n < (3 if level == 5 else 50):
            found[n] = jobs.values[other, RUNTIME]
            n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _median(values: Floats) -> float:
    """The upper median; the values are sorted."""
    sort_numbers(values)
    return values[len(values) // 2]


@njit(cache=True, nogil=True, error_model="numpy")
def _set_shares(memory: Memory, user: int, first: int, n: int, power: float, shares: Floats) -> None:
    """Set weights by errors of the user's jobs and of some of everybody's, as multiples of the mean of all estimates."""
    of_all, of_user = memory.errors[-1, first : first + n], memory.errors[user, first : first + n]
    all_s, own_s, n_own = of_all.sum() / n, of_user.sum() / n, memory.n_errors[user]
    for k in range(n):
        error = OTHERS_JOBS * (of_all[k] / all_s if all_s > 0 else 1.0)
        error += n_own * of_user[k] / own_s if n_own > 0 and own_s > 0 else 0.0
        shares[k] = max(error, 1e-9) ** -power


@njit(cache=True, nogil=True, error_model="numpy")
def _weighted_median(values: Floats, shares: Floats, room: Floats) -> float:
    """The least value up to which there is half of the weight."""
    ordered, total = room[: len(values)], 0.0
    for k in range(len(values)):
        ordered[k] = values[k]
        total += shares[k]
    sort_numbers(ordered)
    for value in ordered:
        below = 0.0
        for k in range(len(values)):
            below += shares[k] if values[k] <= value else 0.0
        if below >= 0.5 * total * (1 - 1e-12):
            return value
    return ordered[-1]


@njit(cache=True, nogil=True, error_model="numpy")
def _set_knots(knots_s: Floats, middle_s: float, limit_s: float, beyond: float) -> None:
    """Put the sample's quantiles around the middle, and knots beyond the request, or beyond all that was seen."""
    n, last = len(KNOT_LEVELS), len(knots_s) - 4
    knots_s[0] = min(min(knots_s[1], middle_s) / 4, 1.0)
    for k in range(1, n + 1):
        if k - 1 < MIDDLE:
            knots_s[k] = min(knots_s[k], middle_s)
        else:
            knots_s[k] = middle_s if k - 1 == MIDDLE else max(knots_s[k], middle_s)
            if k - 1 > MIDDLE and knots_s[k] >= NEARLY * limit_s:
                knots_s[k] = limit_s + GRACE_S
    if limit_s < np.inf:
        knots_s[n + 1] = limit_s + GRACE_S
        knots_s[n + 2] = (5.0 if beyond > OFTEN_BEYOND else 2.0) * limit_s + GRACE_S
        knots_s[n + 3] = (20.0 if beyond > OFTEN_BEYOND else 2.0) * limit_s + GRACE_S
    else:
        knots_s[n + 1], knots_s[n + 2], knots_s[n + 3] = 1.2 * knots_s[n], 1.6 * knots_s[n], 3.0 * knots_s[n]
    for k in range(1, last + 4):
        knots_s[k] = max(knots_s[k], knots_s[k - 1])


@njit(cache=True, nogil=True, error_model="numpy")
def _at(knots_s: Floats, place: float) -> float:
    low = min(max(int(math.floor(place)), 0), len(knots_s) - 2)
    part = min(max(place - low, 0.0), 1.0)
    return knots_s[low] ** (1 - part) * knots_s[low + 1] ** part


@njit(cache=True, nogil=True, error_model="numpy")
def _learn(job: int, jobs: Jobs, memory: Memory, answers: Answers, n_since: int) -> None:
    """Learn from a job whose end has become known, `n_since` submits after its own."""
    values, keys, rings = jobs.values, jobs.keys, memory.rings
    runtime_s, user, kind = values[job, RUNTIME], keys.user[job], keys.kind[job]
    if answers.is_new[job, 0] > 0:
        _count_errors(job, runtime_s, user, memory, answers)
        _move_places(job, runtime_s, jobs, memory, answers)
    typical = memory.typical
    typical[1] += 1
    typical[3] += (n_since - typical[3]) * max(1 / typical[1], 0.01)
    off = values[job, LOG_RUNTIME] - typical[0]
    typical[0] += off if typical[1] == 1 else np.sign(off) * max(1 / typical[1], 0.003)
    if values[job, LIMIT] > 0:
        is_beyond = runtime_s > values[job, LIMIT] + GRACE_S
        typical[2] = KEPT_OF_ALL * typical[2] + (1 - KEPT_OF_ALL) * is_beyond
    _compare(job, jobs, memory)
    _put_ended(rings.ended, user, job, jobs.burst)
    _put(rings.kind, kind, job)
    _put(rings.same, keys.same[job], job)
    memory.n_ended[user] += 1
    _put(rings.everybody, keys.everybody[job], job)
    _put(rings.everybody_size, keys.everybody_size[job], job)
    _put(rings.request, 0, job)
    if keys.request[job] > 0:
        _put(rings.request, keys.request[job], job)


@njit(cache=True, nogil=True, error_model="numpy")
def _count_errors(job: int, runtime_s: float, user: int, memory: Memory, answers: Answers) -> None:
    for k in range(N_ESTIMATES + N_CHOICES):
        error_s = abs(answers.estimates_s[job, k] - runtime_s)
        memory.errors[-1, k] = KEPT_OF_ALL * memory.errors[-1, k] + error_s
        memory.errors[user, k] = KEPT_OF_USER * memory.errors[user, k] + error_s
    memory.n_errors[user] = KEPT_OF_USER * memory.n_errors[user] + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _move_places(job: int, runtime_s: float, jobs: Jobs, memory: Memory, answers: Answers) -> None:
    """Move each level's place towards covering its share."""
    is_new, places = answers.is_new[job], memory.places
    for level in range(len(LEVELS)):
        quantile_s, share, place = answers.quantiles_s[job, level], LEVELS[level], 0.0
        # A runtime equal to either end lies within the interval.
        is_above = runtime_s > quantile_s or (share < 0.5 and runtime_s == quantile_s)
        for which in range(3):
            place += is_new[which] * places[which, level]
        up = min(STEP, WAITING / max(memory.typical[3], 1.0)) * ((1.0 if is_above else 0.0) - (1 - share))
        for which in range(3):
            if is_new[which] > 0:
                # The root of the place in the burst: a burst of a new user is not many new users.
                own = up if which == 0 else OFFSET_STEP * up * math.exp(-0.5 * jobs.log_place[job])
                own = min(max(own, -OVERSHOOT - place), N_KNOTS - 1 + OVERSHOOT - place)
                most = np.inf if which == 0 else MOST_OFFSET
                places[which, level] = min(max(places[which, level] + own, -most), most)


@njit(cache=True, nogil=True, error_model="numpy")
def _compare(job: int, jobs: Jobs, memory: Memory) -> None:
    """Learn from pairs of the user's jobs: what a trait changes, and whether runtimes follow requests."""
    values, traits, ring, user = jobs.values, jobs.traits, memory.rings.ended, jobs.keys.user[job]
    for back in range(min(_held(ring, user), COMPARED)):
        other, differs, n_differ = _nth(ring, user, back), N_TRAITS, 0
        for trait in range(N_TRAITS):
            if traits[job, trait] != traits[other, trait]:
                differs, n_differ = trait, n_differ + 1
        if n_differ <= 1 and values[job, LOG_SIZE] == values[other, LOG_SIZE]:
            apart = max(abs(values[job, LOG_RUNTIME] - values[other, LOG_RUNTIME]), LEAST_APART)
            memory.pairs[differs, 0] = PAIR_KEEPS * memory.pairs[differs, 0] + math.log(apart)
            memory.pairs[differs, 1] = PAIR_KEEPS * memory.pairs[differs, 1] + 1
    kind = jobs.keys.kind[job]
    for back in range(_held(memory.rings.kind, kind) if values[job, LIMIT] > 0 else 0):
        other = _nth(memory.rings.kind, kind, back)
        up = values[job, LOG_LIMIT] - values[other, LOG_LIMIT]
        if abs(up) > 0.1:
            off = values[job, LOG_RUNTIME] - values[other, LOG_RUNTIME]
            gain = min(max(abs(off) - abs(off - up), -1.0), 1.0)
            _count_gain(memory.follows_of_kind[kind], gain, 0.95)
            _count_gain(memory.follows[user], gain, 0.99)
            _count_gain(memory.follows[-1], gain, KEPT_OF_ALL)
            break


@njit(cache=True, nogil=True, error_model="numpy")
def _count_gain(row: Floats, gain: float, keeps: float) -> None:
    row[0] = keeps * row[0] + gain
    row[1] = keeps * row[1] + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _held(ring: Ring, key: int) -> int:
    return min(ring.count[key], ring.jobs.shape[1])


@njit(cache=True, nogil=True, error_model="numpy")
def _nth(ring: Ring, key: int, back: int) -> int:
    """The job that was put in `back` jobs before the newest one."""
    if ring.row[key] < 0:
        return ring.newest[key]
    return ring.jobs[ring.row[key], (ring.count[key] - 1 - back) % ring.jobs.shape[1]]


@njit(cache=True, nogil=True, error_model="numpy")
def _put(ring: Ring, key: int, job: int) -> None:
    if ring.count[key] == 1:
        ring.row[key] = ring.n_rows[0]
        ring.jobs[ring.row[key], 0] = ring.newest[key]
        ring.n_rows[0] += 1
    if ring.count[key] >= 1:
        ring.jobs[ring.row[key], ring.count[key] % ring.jobs.shape[1]] = job
    ring.newest[key] = job
    ring.count[key] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _put_ended(ring: Ring, user: int, job: int, burst: Ints) -> None:
    """Put an ended job in; of a burst the newest BURST_JOBS stay."""
    n_same, oldest, width = 0, -1, ring.jobs.shape[1]
    for back in range(min(ring.count[user], BURST_JOBS)):
        if burst[_nth(ring, user, back)] == burst[job]:
            n_same, oldest = n_same + 1, (ring.count[user] - 1 - back) % width
    if n_same >= BURST_JOBS:
        ring.jobs[ring.row[user], oldest] = job
    else:
        _put(ring, user, job)


@njit(cache=True, nogil=True, error_model="numpy")
def sort_numbers(values: Floats) -> None:
    """Sort up to about a thousand numbers in place: insertion with shrinking gaps (Shell 1959; the gaps are Ciura's)."""
    for gap in (301, 132, 57, 23, 10, 4, 1):
        for place in range(gap, len(values)):
            value, to = values[place], place
            while to >= gap and values[to - gap] > value:
                values[to] = values[to - gap]
                to -= gap
            values[to] = value
