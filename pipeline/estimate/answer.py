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

from pipeline.arrays import Floats, Ints
from pipeline.kernels import called_kernel, entry_kernel, set_order, sort_numbers

LEVELS = np.array((0.10, 0.50, 0.80, 0.90, 0.95, 0.99, 0.025))
"""The quantiles of an answer: those that are published, and the lower end of a 95% interval."""

KNOT_LEVELS = np.array((0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.995))
"""Quantiles of the sample that are knots; one knot lies below them and three above."""
N_KNOTS, MIDDLE = len(KNOT_LEVELS) + 4, 4
FIRST_PLACES = np.array((3.0, 5.0, 7.5, 9.0, 10.0, 12.0, 1.2))
"""Place of each of LEVELS among the knots before any error is known."""

RECENT, LONG, FLAT, LAST_TWO, LAST_50, OF_EVERYBODY, OF_SESSION = range(7)
N_ESTIMATES = 7
"""Estimates of the middle; the first three are also the numbers of the weightings."""

WIDTHS = {"ended": 96, "running": 24, "kind": 16, "same": 50, "everybody": 100, "request": 64}
"""Jobs remembered per key: a user's ended and running ones; (user, program, processors, memory, problem size), the same
with its request; all users' of (program, request); all users' of a request, key 0: any."""

N_SAMPLE = 512
RUNTIME, LIMIT, LOG_RUNTIME, LOG_LIMIT, LOG_SIZE, SUBMIT, START, END = range(8)
STOPPED, LEARNT, LOG_PLACE, NTH, PROCS, GPUS, MEMORY = range(8, 15)
"""Columns of Jobs.values. LIMIT is 0 and LOG_LIMIT NaN without a requested runtime, MEMORY (KiB) NaN without a request.
STOPPED: 1 where the job was stopped at its limit and a full run would be longer. LEARNT: 1 for a job to learn from.
LOG_PLACE: log(1 + earlier jobs of the burst). NTH: the number of the submit in the log. The last three are for
questions."""
N_TRAITS, PROGRAM, GPU_TYPE = 10, 0, 8
USER, KIND, SAME, EVERYBODY, REQUEST, QUEUE, BURST, SESSION, WHO = range(N_TRAITS, N_TRAITS + 9)
"""Columns of Jobs.codes: traits; numbers of keys (QUEUE: the number that stands for the jobs of its queue and partition
among users; a job without a user has it as USER); the places of the first jobs of its burst and session; the number of
the user's name or -1."""

RANK_SCALE, RANK_POWERS, CLOSE_S = 6.5, np.array((1.33, 0.5, 0.0)), 3000.0
OF_CLOSE, OF_OTHERS = np.array((3.5, 1.5, 1.0)), np.array((0.5, 1.5, 1.5))
"""Three weightings: power of the rank, weight of a job submitted less than CLOSE_S before, weight of all users' jobs
together."""
OTHER_REQUEST, REQUEST_POWER, OTHER_SIZE, SIZE_POWER, RUNNING = math.log(0.75), 0.5, math.log(0.28), 0.2, 0.6
# Of another program, group, queue, account, partition, QOS, job name, problem size, type of GPUs, memory.
OTHER_TRAIT = np.log(np.array((0.95, 0.88, 0.36, 0.95, 0.95, 0.95, 0.95, 0.5, 0.1, 0.5)))
PRIOR_PAIRS, PAIR_KEEPS, COMPARED, LEAST_APART = 200.0, 0.9999, 6, 0.03
"""Log weight of a job whose trait differs; pairs of jobs that differ in one trait alone replace it as they come."""

BURST_JOBS = 4
"""Ended jobs of one burst that a user's memory keeps: thousands of one submit would replace all earlier ones."""
MOST_SCALED, MARGIN = 2.0, 0.25
"""A request counts as at most twice the largest remembered one, a runtime scaled by the ratio of requests as at most
twice the longest; and the lead (log) that equal runtimes at other requests need before requests are not followed."""

STEP, OFFSET_STEP, OVERSHOOT, WAITING = 0.005, 4.0, 3.0, 3.0
"""Move of a quantile's place per ended job, in knots; factor for the offsets of new users; how far places move
beyond the knots; and, over the number of answers whose jobs have not ended, the largest move. Ends that are known late
would move a place far past where it should be: the errors of a week of jobs are of one and the same place."""
NEW_USER, MOST_OFFSET = 10.0, 4.0
GRACE_S, NEARLY, OFTEN_BEYOND = 300.0, 0.98, 0.2
"""Jobs are stopped up to so long after their request; a knot above this share of it is the request and that time; where
so many of the log's jobs run beyond, knots lie at 5 and 20 times the request."""

ERROR_POWER, NOBODYS_POWER, KEPT_OF_ALL, KEPT_OF_USER, OTHERS_JOBS = 8.0, 30.0, 0.9995, 0.97, 50.0

NEWEST, COUNT, ROW = range(3)


class Ring(NamedTuple):
    """Per key the last jobs that were put in; a key of one job has no row."""

    heads: Ints
    """(keys + 1, 3) the newest job, the number of jobs, the row of `jobs`; of the blank row, the number of rows."""
    jobs: Ints
    """(rows, width) places of jobs."""


class Rings(NamedTuple):
    """The jobs remembered; WIDTHS has their keys."""

    ended: Ring
    running: Ring
    kind: Ring
    same: Ring
    everybody: Ring
    request: Ring


KEY_OF_RING = {"ended": USER, "running": USER, "kind": KIND, "same": SAME, "everybody": EVERYBODY,
               "request": REQUEST}  # fmt: skip
"""The column of Jobs.codes that has a ring's key."""


class Jobs(NamedTuple):
    """Jobs in order of submit."""

    values: Floats
    codes: Ints


N_ERRORS, N_ENDED, FOLLOWS, OF_FOLLOWS, N_OF_USER = range(N_ESTIMATES, N_ESTIMATES + 5)
"""Columns of Memory.users behind the sums of errors of the estimates."""
N_OVER, BEYOND, N_WAITING, TYPICAL = range(4)


class Memory(NamedTuple):
    """What an age has learnt. The last row of `users` and `kinds` is blank and stands for an unknown one."""

    rings: Rings
    users: Floats
    """Per user decayed sums of the estimates' errors, s, and their number; ended jobs; how much better (log)
    runtimes follow the request than stay, and its weight. The blank row: sums of errors and FOLLOWS of all jobs."""
    kinds: Floats
    """(kinds + 1, 2) FOLLOWS and its weight."""
    places: Floats
    """(2, levels) place of each level among the knots; offsets of new users."""
    pairs: Floats
    """(traits + 1, 2) decayed sum of log differences of pairs that differ in a trait alone, or in none; the number."""
    log: Floats
    """Jobs that ended; share of jobs that run beyond their requests; usual number of submits between a job's own and
    when its end is known; log of the typical runtime."""


FIRST_ESTIMATE, IS_NEW = len(LEVELS), len(LEVELS) + N_ESTIMATES
N_ANSWER = IS_NEW + 1
"""An answer: quantiles, s; estimates of the middle, s; 2 for a new user, else 1, and 0 without an answer. It is
compared with the runtime when the job has ended."""

TIME, WEIGHT, BOUND, WORK, STOPPED_RUN, RUNNING_JOB = 0, 1, 4, 5, 1.0, 2.0
"""Rows of Room.sample: runtime, s; three weights; 0, or of a lower bound which; room for a few numbers."""


class Room(NamedTuple):
    """Working arrays of one answer."""

    sample: Floats
    order: Ints
    knots_s: Floats
    shares: Floats
    log_trait: Floats
    seen: Ints


BY_RANK = (1 + np.arange(WIDTHS["ended"]) / RANK_SCALE) ** -RANK_POWERS[:, None]
HALF = np.array([0.5])


def new_room(n_jobs: int) -> Room:
    """Working arrays for a log of so many jobs."""
    return Room(
        np.empty((6, N_SAMPLE)), np.empty(N_SAMPLE, np.int64), np.empty(N_KNOTS), np.empty(N_ESTIMATES),
        np.empty(N_TRAITS), np.full(n_jobs, -1, np.int32),
    )  # fmt: skip


@entry_kernel
def advance(
    jobs: Jobs, memory: Memory, answers: Floats, room: Room, asked: Ints, by_start: Ints, by_end: Ints, age_s: float,
    until_s: float,
) -> None:  # fmt: skip
    """Answer the jobs `asked`, in order of submit, and learn from starts and ends that are known by then.

    `by_start` and `by_end` are places of jobs in order of these instants; all are known by `until_s`.
    """
    values, codes, n_started, n_over = jobs.values, jobs.codes, 0, 0
    for nth in range(len(asked) + 1):
        is_last = nth == len(asked)
        known_s = until_s if is_last else min(values[asked[nth], SUBMIT] - age_s, until_s)
        while n_started < len(by_start) and begun_s(values, by_start[n_started]) <= known_s:
            _put(memory.rings.running, codes[by_start[n_started], USER], by_start[n_started])
            n_started += 1
        while n_over < len(by_end) and values[by_end[n_over], END] <= known_s:
            over = by_end[n_over]
            n_over += 1
            if values[over, LEARNT]:
                newest = values[len(values) - 1, NTH] + 1 if is_last else values[asked[nth], NTH]
                _learn(over, jobs, memory, answers, newest - values[over, NTH])
        if not is_last:
            _answer(asked[nth], known_s, jobs, memory, answers[asked[nth]], room)


@called_kernel
def begun_s(values: Floats, job: int) -> float:
    """When a start is known: no job is known to run at its own submit."""
    return float(max(values[job, START], values[job, SUBMIT] + 1.0))


@called_kernel
def _answer(job: int, known_s: float, jobs: Jobs, memory: Memory, answer: Floats, room: Room) -> None:
    """Set the answer to a job from what is remembered."""
    users, user, knots_s = memory.users, jobs.codes[job, USER], room.knots_s
    limit_s = jobs.values[job, LIMIT] if jobs.values[job, LIMIT] > 0 else np.inf
    estimates, sampled_s, work = answer[FIRST_ESTIMATE:IS_NEW], knots_s[1 : 1 + len(KNOT_LEVELS)], room.sample[WORK]
    # 1. A sample of remembered runtimes, weighted by likeness and recency in three ways.
    meant_s = _meant_s(job, jobs, memory.rings.ended)
    size = _sample(job, known_s, meant_s, jobs, memory, room)
    if size == 0:
        estimates[:] = limit_s if limit_s < np.inf else 3600.0
        sampled_s[:] = estimates[0]
    else:
        order = room.order[:size]
        set_order(order, room.sample[TIME], room.sample[BOUND])
        _quantiles(order, room.sample, RECENT, limit_s, KNOT_LEVELS, sampled_s)
        # 2. Estimates of the middle.
        estimates[:] = sampled_s[MIDDLE]
        for nth in (LONG, FLAT):
            _quantiles(order, room.sample, nth, limit_s, HALF, estimates[nth : nth + 1])
        _last_ones(job, jobs, memory.rings, work, limit_s, estimates)
    # 3. Their weighted median.
    if jobs.codes[job, WHO] >= 0:
        _set_shares(users, user, ERROR_POWER, room.shares)
    else:
        # The jobs of a queue are no one's: a session says nothing, and what erred least lately little.
        estimates[OF_SESSION] = min(math.exp(memory.log[TYPICAL]), limit_s) if memory.log[N_OVER] > 0 else estimates[0]
        _set_shares(users, len(users) - 1, NOBODYS_POWER, room.shares)
    middle_s = min(_weighted_median(estimates, room.shares, work), limit_s)
    # 4. Knots around it, and beyond the request.
    _set_knots(knots_s, middle_s, limit_s, memory.log[BEYOND])
    # 5. Quantiles at their places among the knots.
    is_new = users[user, N_ENDED] < NEW_USER
    answer[IS_NEW] = 2.0 if is_new else 1.0
    for level in range(len(LEVELS)):
        answer[level] = _at(knots_s, memory.places[0, level] + (memory.places[1, level] if is_new else 0.0))
    answer[1] = middle_s
    answer[0] = min(answer[0], middle_s)
    answer[6] = min(answer[6], answer[0])
    for level in range(2, 6):
        answer[level] = max(answer[level], answer[level - 1])


@called_kernel
def _sample(job: int, known_s: float, meant_s: float, jobs: Jobs, memory: Memory, room: Room) -> int:
    """Fill the sample; its size. The user's ended jobs, those of the kind, running ones; and everybody's."""
    values, codes, rings, sample = jobs.values, jobs.codes, memory.rings, room.sample
    user, size, longest_s = _remembered(job, codes, rings.ended), 0, 0.0
    for trait in range(N_TRAITS):
        room.log_trait[trait] = _log_trait(memory.pairs, trait)
    follows = _follows(memory.users, memory.kinds, user, codes[job, KIND]) > -MARGIN
    for nth in range(3):
        ring = rings.ended if nth == 0 else rings.same if nth == 1 else rings.kind
        key = user if nth == 0 else codes[job, SAME] if nth == 1 else codes[job, KIND]
        for back in range(_n_held(ring, key)):
            other = _nth(ring, key, back)
            if room.seen[other] != job:
                room.seen[other] = job
                longest_s = max(longest_s, values[other, RUNTIME])
                ratio = _ratio(meant_s, values[other, LIMIT]) if follows else 1.0
                sample[TIME, size] = values[other, RUNTIME] * ratio
                sample[BOUND, size] = STOPPED_RUN * values[other, STOPPED]
                _weigh(job, other, back, 1.0, size, values, codes, sample, room.log_trait)
                size += 1
    for place in range(size):
        sample[TIME, place] = min(sample[TIME, place], MOST_SCALED * longest_s)
    for back in range(_n_held(rings.running, user)):
        other = _nth(rings.running, user, back)
        if values[other, END] > known_s:
            sample[TIME, size], sample[BOUND, size] = max(known_s - values[other, START], 1.0), RUNNING_JOB
            _weigh(job, other, back, RUNNING, size, values, codes, sample, room.log_trait)
            size += 1
    return _with_others(job, meant_s, size, jobs, rings.request, sample)


@called_kernel
def _meant_s(job: int, jobs: Jobs, ended: Ring) -> float:
    """The request, at most MOST_SCALED times the largest remembered one: a year says no more. Infinite without one."""
    values, key, largest_s = jobs.values, _remembered(job, jobs.codes, ended), 0.0
    for back in range(_n_held(ended, key)):
        largest_s = max(largest_s, values[_nth(ended, key, back), LIMIT])
    limit_s = values[job, LIMIT] if values[job, LIMIT] > 0 else np.inf
    return float(min(limit_s, MOST_SCALED * largest_s) if largest_s > 0 and limit_s < np.inf else limit_s)


@called_kernel
def _remembered(job: int, codes: Ints, ended: Ring) -> int:
    """Whose ended jobs a job is answered from: its user's, of a user without any those of its queue."""
    return int(codes[job, USER] if ended.heads[codes[job, USER], COUNT] > 0 else codes[job, QUEUE])


@called_kernel
def _with_others(job: int, meant_s: float, size: int, jobs: Jobs, ring: Ring, sample: Floats) -> int:
    """Add all users' last jobs with the request, or of any; together they weigh as much as OF_OTHERS says."""
    values, key, first, total, longest_s = jobs.values, jobs.codes[job, REQUEST], size, 0.0, 0.0
    if ring.heads[key, COUNT] < 4:
        key = 0
    for back in range(_n_held(ring, key)):
        other = _nth(ring, key, back)
        longest_s = max(longest_s, values[other, RUNTIME])
        sample[TIME, size] = values[other, RUNTIME] * (1.0 if key > 0 else _ratio(meant_s, values[other, LIMIT]))
        sample[BOUND, size] = STOPPED_RUN * values[other, STOPPED]
        sample[WEIGHT, size] = math.exp(-back / 140.0)
        total += sample[WEIGHT, size]
        size += 1
    for place in range(first, size):
        sample[TIME, place] = min(sample[TIME, place], MOST_SCALED * longest_s)
        share = sample[WEIGHT, place] / total
        for nth in range(3):
            sample[WEIGHT + nth, place] = OF_OTHERS[nth] * share
    return size


@called_kernel
def _ratio(meant_s: float, other_s: float) -> float:
    """The ratio of the requests, 1 where one has none."""
    return meant_s / other_s if meant_s < np.inf and other_s > 0 else 1.0


@called_kernel
def _weigh(
    job: int, other: int, back: int, factor: float, place: int, values: Floats, codes: Ints, sample: Floats,
    log_trait: Floats,
) -> None:  # fmt: skip
    """Set the three weights of a remembered job: likeness times rank."""
    log_weight = 0.0
    if values[job, LIMIT] != values[other, LIMIT]:
        log_weight += OTHER_REQUEST
        if values[job, LIMIT] > 0 and values[other, LIMIT] > 0:
            log_weight -= REQUEST_POWER * abs(values[job, LOG_LIMIT] - values[other, LOG_LIMIT])
    if values[job, LOG_SIZE] != values[other, LOG_SIZE]:
        log_weight += OTHER_SIZE - SIZE_POWER * abs(values[job, LOG_SIZE] - values[other, LOG_SIZE])
    for trait in range(N_TRAITS):
        if codes[job, trait] != codes[other, trait]:
            log_weight += log_trait[trait]
    likeness = factor * math.exp(log_weight)
    is_close = values[job, SUBMIT] - values[other, SUBMIT] < CLOSE_S
    for nth in range(3):
        sample[WEIGHT + nth, place] = likeness * BY_RANK[nth, back] * (OF_CLOSE[nth] if is_close else 1.0)


@called_kernel
def _log_trait(pairs: Floats, trait: int) -> float:
    """The log weight of a job whose trait differs."""
    n, n_alike = pairs[trait, 1], pairs[N_TRAITS, 1]
    if n == 0 or n_alike == 0:
        return float(OTHER_TRAIT[trait])
    learnt = 2.0 * min(pairs[N_TRAITS, 0] / n_alike - pairs[trait, 0] / n, 0.0)
    return float((n * learnt + PRIOR_PAIRS * OTHER_TRAIT[trait]) / (n + PRIOR_PAIRS))


@called_kernel
def _follows(users: Floats, kinds: Floats, user: int, kind: int) -> float:
    """How much better (log) runtimes follow the request than stay: of the kind, shrunk towards its user and all."""
    found = users[-1, FOLLOWS] / (users[-1, OF_FOLLOWS] + 1)
    found = (users[user, FOLLOWS] + 10 * found) / (users[user, OF_FOLLOWS] + 10)
    return float((kinds[kind, 0] + 10 * found) / (kinds[kind, 1] + 10))


@called_kernel
def _quantiles(order: Ints, sample: Floats, nth: int, limit_s: float, levels: Floats, found: Floats) -> None:
    """Kaplan and Meier's quantiles over weights, s; the weight of a lower bound goes to longer runs and the request."""
    weight, at_risk, surviving, reached_s, k, is_stopped = sample[WEIGHT + nth], 0.0, 1.0, 0.0, 0, False
    for place in range(len(order)):
        at_risk += weight[place]
    for code in order:
        place = code & 511
        reached_s, is_stopped = sample[TIME, place], sample[BOUND, place] == STOPPED_RUN
        if not sample[BOUND, place]:
            surviving *= max(1 - weight[place] / at_risk, 0.0)
            while k < len(levels) and 1 - surviving >= levels[k] - 1e-9:
                found[k] = min(reached_s, limit_s)
                k += 1
            if k == len(levels):
                return
        at_risk = max(at_risk - weight[place], 1e-300)
    # Beyond the longest: a run that was stopped says how far, as it ended at its own request.
    found[k:] = (
        min(limit_s, MOST_SCALED * reached_s) if is_stopped else limit_s if limit_s < np.inf else 1.5 * reached_s
    )


@called_kernel
def _last_ones(job: int, jobs: Jobs, rings: Rings, work: Floats, limit_s: float, estimates: Floats) -> None:
    """Set the estimates that are medians or means of the last jobs; one that has no job stays as it is."""
    values, codes = jobs.values, jobs.codes
    n = _gather(rings.everybody, codes[job, EVERYBODY], values, work)
    if n >= 3:
        estimates[OF_EVERYBODY] = min(_median(work[:n]), limit_s)
    # The most specific of five keys that has two ended jobs.
    for level in range(5):
        if level == 0:
            n = _gather(rings.same, codes[job, SAME], values, work)
        elif level == 1:
            n = _gather(rings.kind, codes[job, KIND], values, work)
        else:
            n = _gather_alike(job, level, jobs, rings.ended, work)
        if n >= 2:
            estimates[LAST_TWO] = min((work[0] + work[1]) / 2, limit_s)
            estimates[LAST_50] = min(_median(work[:n]), limit_s)
            break
    n = _gather_alike(job, 5, jobs, rings.ended, work)
    if n >= 1:
        estimates[OF_SESSION] = min(_median(work[:n]), limit_s)


@called_kernel
def _gather(ring: Ring, key: int, values: Floats, found: Floats) -> int:
    n = _n_held(ring, key)
    for back in range(n):
        found[back] = values[_nth(ring, key, back), RUNTIME]
    return n


@called_kernel
def _gather_alike(job: int, level: int, jobs: Jobs, ring: Ring, found: Floats) -> int:
    """The user's last runtimes: 2 of the program and request, 3 of the program, 4 of any, 5 of the session (three)."""
    values, codes, n, key = jobs.values, jobs.codes, 0, _remembered(job, jobs.codes, ring)
    for back in range(_n_held(ring, key)):
        other = _nth(ring, key, back)
        is_alike = level == 4 or (level == 5 and codes[other, SESSION] == codes[job, SESSION])
        if level <= 3:
            is_alike = codes[other, PROGRAM] == codes[job, PROGRAM] and codes[other, GPU_TYPE] == codes[job, GPU_TYPE]
        if level == 2:
            is_alike = is_alike and values[other, LIMIT] == values[job, LIMIT]
        if is_alike:
            found[n] = values[other, RUNTIME]
            n += 1
            if n == (3 if level == 5 else 50):
                break
    return n


@called_kernel
def _median(values: Floats) -> float:
    """The upper median; the values are sorted."""
    sort_numbers(values)
    return float(values[len(values) // 2])


@called_kernel
def _set_shares(users: Floats, user: int, power: float, shares: Floats) -> None:
    """Set weights by errors of the user's jobs and of some of everybody's, in multiples of their mean."""
    of_all, of_user, n_own = users[-1, :N_ESTIMATES], users[user, :N_ESTIMATES], users[user, N_ERRORS]
    all_s, own_s = of_all.sum() / N_ESTIMATES, of_user.sum() / N_ESTIMATES
    for k in range(N_ESTIMATES):
        error = OTHERS_JOBS * (of_all[k] / all_s if all_s > 0 else 1.0)
        error += n_own * of_user[k] / own_s if n_own > 0 and own_s > 0 else 0.0
        shares[k] = max(error, 1e-9) ** -power


@called_kernel
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
            return float(value)
    return float(ordered[-1])


@called_kernel
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


@called_kernel
def _at(knots_s: Floats, place: float) -> float:
    low = int(min(max(np.floor(place), 0), len(knots_s) - 2))
    part = min(max(place - low, 0.0), 1.0)
    return float(knots_s[low] ** (1 - part) * knots_s[low + 1] ** part)


@called_kernel
def _learn(job: int, jobs: Jobs, memory: Memory, answers: Floats, n_since: float) -> None:
    """Learn from a job whose end has become known, `n_since` submits after its own."""
    values, codes, rings, users, log = jobs.values, jobs.codes[job], memory.rings, memory.users, memory.log
    runtime_s, user = values[job, RUNTIME], codes[USER]
    if answers[job, IS_NEW] > 0:
        _count_errors(answers[job, FIRST_ESTIMATE:IS_NEW], runtime_s, user, users)
        _move_places(answers[job], runtime_s, values[job, LOG_PLACE], memory.places, log[N_WAITING])
    log[N_OVER] += 1
    off = values[job, LOG_RUNTIME] - log[TYPICAL]
    log[TYPICAL] += off if log[N_OVER] == 1 else np.sign(off) * max(1 / log[N_OVER], 0.003)
    log[N_WAITING] += (n_since - log[N_WAITING]) * max(1 / log[N_OVER], 0.01)
    if values[job, LIMIT] > 0:
        is_beyond = runtime_s > values[job, LIMIT] + GRACE_S
        log[BEYOND] = KEPT_OF_ALL * log[BEYOND] + (1 - KEPT_OF_ALL) * is_beyond
    _compare_traits(job, jobs, rings.ended, memory.pairs)
    if values[job, LIMIT] > 0:
        _compare_requests(job, jobs, rings.kind, users, memory.kinds)
    _put_ended(rings.ended, user, job, jobs.codes)
    if user != codes[QUEUE]:
        _put_ended(rings.ended, codes[QUEUE], job, jobs.codes)
    users[user, N_ENDED] += 1
    _put(rings.kind, codes[KIND], job)
    _put(rings.same, codes[SAME], job)
    _put(rings.everybody, codes[EVERYBODY], job)
    _put(rings.request, 0, job)
    if codes[REQUEST] > 0:
        _put(rings.request, codes[REQUEST], job)


@called_kernel
def _count_errors(estimates: Floats, runtime_s: float, user: int, users: Floats) -> None:
    for k in range(len(estimates)):
        error_s = abs(estimates[k] - runtime_s)
        users[-1, k] = KEPT_OF_ALL * users[-1, k] + error_s
        users[user, k] = KEPT_OF_USER * users[user, k] + error_s
    users[user, N_ERRORS] = KEPT_OF_USER * users[user, N_ERRORS] + 1


@called_kernel
def _move_places(answer: Floats, runtime_s: float, log_place: float, places: Floats, n_waiting: float) -> None:
    """Move each level's place towards covering its share; of a new user the offset, too."""
    is_new = answer[IS_NEW] > 1
    step = min(STEP, WAITING / max(n_waiting, 1.0))
    # The root of the place in the burst: a burst of a new user is not many new users.
    of_offset = OFFSET_STEP * math.exp(-0.5 * log_place)
    for level in range(len(LEVELS)):
        quantile_s, share = answer[level], LEVELS[level]
        # A runtime equal to either end lies within the interval.
        is_above = runtime_s > quantile_s or (share < 0.5 and runtime_s == quantile_s)
        move = step * ((1.0 if is_above else 0.0) - (1 - share))
        place = places[0, level] + (places[1, level] if is_new else 0.0)
        least, most = -OVERSHOOT - place, N_KNOTS - 1 + OVERSHOOT - place
        places[0, level] += min(max(move, least), most)
        if is_new:
            offset = places[1, level] + min(max(of_offset * move, least), most)
            places[1, level] = min(max(offset, -MOST_OFFSET), MOST_OFFSET)


@called_kernel
def _compare_traits(job: int, jobs: Jobs, ring: Ring, pairs: Floats) -> None:
    """Learn from pairs of the user's jobs what a trait changes."""
    values, codes, user = jobs.values, jobs.codes, jobs.codes[job, USER]
    for back in range(min(_n_held(ring, user), COMPARED)):
        other, differs, n_differ = _nth(ring, user, back), N_TRAITS, 0
        for trait in range(N_TRAITS):
            if codes[job, trait] != codes[other, trait]:
                differs, n_differ = trait, n_differ + 1
        if n_differ <= 1 and values[job, LOG_SIZE] == values[other, LOG_SIZE]:
            apart = max(abs(values[job, LOG_RUNTIME] - values[other, LOG_RUNTIME]), LEAST_APART)
            pairs[differs, 0] = PAIR_KEEPS * pairs[differs, 0] + math.log(apart)
            pairs[differs, 1] = PAIR_KEEPS * pairs[differs, 1] + 1


@called_kernel
def _compare_requests(job: int, jobs: Jobs, ring: Ring, users: Floats, kinds: Floats) -> None:
    """Learn from the newest pair of a kind with unlike requests whether runtimes follow requests."""
    values, user, kind = jobs.values, jobs.codes[job, USER], jobs.codes[job, KIND]
    for back in range(_n_held(ring, kind)):
        other = _nth(ring, kind, back)
        up = values[job, LOG_LIMIT] - values[other, LOG_LIMIT]
        if abs(up) > 0.1:
            off = values[job, LOG_RUNTIME] - values[other, LOG_RUNTIME]
            gain = min(max(abs(off) - abs(off - up), -1.0), 1.0)
            _count_gain(kinds[kind], gain, 0.95)
            _count_gain(users[user, FOLLOWS:N_OF_USER], gain, 0.99)
            _count_gain(users[-1, FOLLOWS:N_OF_USER], gain, KEPT_OF_ALL)
            break


@called_kernel
def _count_gain(row: Floats, gain: float, keeps: float) -> None:
    row[0] = keeps * row[0] + gain
    row[1] = keeps * row[1] + 1


@called_kernel
def _n_held(ring: Ring, key: int) -> int:
    return int(min(ring.heads[key, COUNT], ring.jobs.shape[1]))


@called_kernel
def _nth(ring: Ring, key: int, back: int) -> int:
    """The job that was put in `back` jobs before the newest one."""
    if ring.heads[key, ROW] < 0:
        return int(ring.heads[key, NEWEST])
    return int(ring.jobs[ring.heads[key, ROW], (ring.heads[key, COUNT] - 1 - back) % ring.jobs.shape[1]])


@called_kernel
def _put(ring: Ring, key: int, job: int) -> None:
    head, width = ring.heads[key], ring.jobs.shape[1]
    if head[COUNT] == 1:
        head[ROW] = ring.heads[-1, ROW]
        ring.jobs[head[ROW], 0] = head[NEWEST]
        ring.heads[-1, ROW] += 1
    if head[COUNT] >= 1:
        ring.jobs[head[ROW], head[COUNT] % width] = job
    head[NEWEST] = job
    head[COUNT] += 1


@called_kernel
def _put_ended(ring: Ring, user: int, job: int, codes: Ints) -> None:
    """Put an ended job in; of a burst the newest BURST_JOBS stay."""
    n_same, oldest, width = 0, -1, ring.jobs.shape[1]
    for back in range(min(ring.heads[user, COUNT], BURST_JOBS)):
        if codes[_nth(ring, user, back), BURST] == codes[job, BURST]:
            n_same, oldest = n_same + 1, (ring.heads[user, COUNT] - 1 - back) % width
    if n_same >= BURST_JOBS:
        ring.jobs[ring.heads[user, ROW], oldest] = job
    else:
        _put(ring, user, job)
