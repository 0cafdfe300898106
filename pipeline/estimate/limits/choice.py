"""Chooses each job's limit by its cost, at a price of an exceedance that keeps a promise; as of every submit.

A limit is a share of the request. Its worth is what it frees of the request if the job ends in time, less what the job
has used if it does not, in processor-seconds. Of all limits the one with the largest worth minus price x chance is
taken. The price rises when a job exceeds its limit and falls when one does not, so that the share of jobs beyond their
limits tends to its aim for any sequence of jobs (as in conformal.py). The aim is a part of the promised share, or of
the share that the rule in production has had on this log, whichever is less.

A submitter has a credit: it grows with each ended job, up to a bound, an exceedance costs one, and jobs that are not
over reserve a part. Only limits that the credit pays for are chosen; so a new submitter gets the request.
"""

import heapq
import math
from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.estimate.interpretable import entry_kernel, kernel
from pipeline.estimate.limits.limit_settings import LimitSettings

LIMIT, RULE, ENDED = range(3)
"""What becomes known of a job: whether it exceeded its limit; whether it exceeded the rule's; its runtime."""

DAY_S = 86_400.0
RECORD_JOBS = 32
"""Latest ended jobs of a submitter that its own record consists of."""

STEEPEST, LOWEST = 12.0, -8.0
"""Bounds of the log price."""

PER_JOB = 0.001
"""Weight of a job in the mean worth of a job."""

FIRST_JOBS = 200.0
"""Weight of the promised share in the share of the rule before any job has ended (jobs)."""


class LimitJobs(NamedTuple):
    """What the choice knows of n jobs in order of submit; events count from the time at which they become known."""

    known_s: Floats
    """Time up to which the job's limit may use events, s."""
    start_s: Floats
    end_s: Floats
    """Infinite where it has not ended; a job that never started leaves the queue then."""
    requested_s: Floats
    """0 where no time was requested: such a job gets no limit."""
    work: Floats
    """Requested processor-seconds."""
    who: Ints
    """Number of the submitter, from 0; unknown ones share the last number."""
    is_learnt: Bools


class Books(NamedTuple):
    """What has been learnt: per submitter credit, credit reserved, number of ended jobs, their recent number and its
    time (s), and shares of the request that the latest ones ran; of all jobs the log price, exceedances and jobs of the
    rule, and the mean worth of a job with its weight."""

    credit: Floats
    reserved: Floats
    n_ended: Floats
    n_recent: Floats
    recent_at_s: Floats
    record: Floats
    log_price: Floats
    rule: Floats
    worth: Floats


def no_books(n_who: int, settings: LimitSettings) -> Books:
    """The books before the first job."""
    rule = np.array([FIRST_JOBS * settings.share, FIRST_JOBS])
    columns = (np.zeros(n_who) for _ in range(5))
    return Books(
        *columns, np.full((n_who, RECORD_JOBS), np.nan), np.full(1, settings.first_log_price), rule, np.zeros(2)
    )


@entry_kernel
def choose_limits(
    jobs: LimitJobs, chances: Floats, shares: Floats, rule_s: Floats, books: Books, settings: LimitSettings,
    user_rate: float, credit_per_job: float,
) -> Floats:  # fmt: skip
    """(jobs,) limits, s, at most the request, NaN without one; updates `books`.

    `chances`: (jobs, shares) the chance of a runtime above each of `shares` of the request; `rule_s`: the rule's limits.
    """
    n = len(jobs.known_s)
    limit_s, reserved, own = np.full(n, np.nan), np.zeros(n), np.empty(len(shares))
    events = [(0.0, 0, 0)]
    events.pop()
    for job in range(n):
        while len(events) > 0 and events[0][0] <= jobs.known_s[job]:
            at_s, kind, past = heapq.heappop(events)
            if kind == LIMIT:
                books.reserved[jobs.who[past]] -= reserved[past]
                if jobs.is_learnt[past] and jobs.start_s[past] < np.inf:
                    is_beyond = _is_beyond(jobs, past, limit_s[past])
                    _learn(jobs.who[past], at_s, is_beyond, books, settings, user_rate, credit_per_job)
            elif kind == RULE:
                _learn_rule(_is_beyond(jobs, past, rule_s[past]), books, settings)
            else:
                _record(jobs, past, books)
        if not jobs.requested_s[job] > 0:
            continue
        _chances_of(job, jobs, chances, shares, books, settings, own)
        most = _most_credit(jobs.who[job], jobs.known_s[job], books, settings, credit_per_job)
        place = _best(job, jobs, own, shares, most, books, settings)
        limit_s[job] = jobs.requested_s[job]
        if place >= 0:
            limit_s[job] *= shares[place]
            reserved[job] = _reserve(own[place], settings)
            books.reserved[jobs.who[job]] += reserved[job]
        heapq.heappush(events, (_settled_s(jobs, job, limit_s[job]), LIMIT, job))
        if jobs.is_learnt[job] and jobs.start_s[job] < np.inf:
            heapq.heappush(events, (_settled_s(jobs, job, rule_s[job]), RULE, job))
            heapq.heappush(events, (jobs.end_s[job], ENDED, job))
    return limit_s


@kernel
def _is_beyond(jobs: LimitJobs, job: int, limit_s: float) -> bool:
    """Whether a job that has started runs longer than a limit below its request."""
    return bool(limit_s < jobs.requested_s[job] and jobs.end_s[job] - jobs.start_s[job] > limit_s)


@kernel
def _settled_s(jobs: LimitJobs, job: int, limit_s: float) -> float:
    """When it is known whether a job exceeds a limit: at its end, or when it has run for so long."""
    return min(jobs.end_s[job], jobs.start_s[job] + limit_s)


@kernel
def _learn(
    who: int, at_s: float, is_beyond: bool, books: Books, settings: LimitSettings, user_rate: float,
    credit_per_job: float,
) -> None:  # fmt: skip
    beyond = 1.0 if is_beyond else 0.0
    aim = settings.aim * min(settings.share, books.rule[0] / books.rule[1])
    books.log_price[0] = min(max(books.log_price[0] + settings.step * (beyond - aim), LOWEST), STEEPEST)
    kept = 0.5 ** ((at_s - books.recent_at_s[who]) / (settings.credit_days * DAY_S))
    books.n_recent[who] = books.n_recent[who] * kept + 1.0
    books.recent_at_s[who] = at_s
    most = settings.first_credit + credit_per_job * books.n_recent[who]
    books.credit[who] = min(books.credit[who] - beyond + user_rate, most)
    books.n_ended[who] += 1.0


@kernel
def _learn_rule(is_beyond: bool, books: Books, settings: LimitSettings) -> None:
    kept = 0.5 ** (1.0 / settings.rule_jobs)
    books.rule[0] = books.rule[0] * kept + (1.0 if is_beyond else 0.0)
    books.rule[1] = books.rule[1] * kept + 1.0


@kernel
def _record(jobs: LimitJobs, job: int, books: Books) -> None:
    """Write the share of the request that a job ran over the oldest one of its submitter."""
    own = books.record[jobs.who[job]]
    for k in range(RECORD_JOBS - 1, 0, -1):
        own[k] = own[k - 1]
    own[0] = (jobs.end_s[job] - jobs.start_s[job]) / jobs.requested_s[job]


@kernel
def _chances_of(
    job: int, jobs: LimitJobs, chances: Floats, shares: Floats, books: Books, settings: LimitSettings, own: Floats
) -> None:
    """Set `own` to the job's chances: the weighted geometric mean of `chances` and of its submitter's record."""
    record, n_held = books.record[jobs.who[job]], 0
    while n_held < RECORD_JOBS and not np.isnan(record[n_held]):
        n_held += 1
    weight = settings.own_weight * n_held / (n_held + settings.own_prior_jobs)
    for k in range(len(shares)):
        own[k] = np.nan
        if np.isnan(chances[job, k]):
            continue
        n_above = 0
        for place in range(n_held):
            if record[place] > shares[k]:
                n_above += 1
        log_own = math.log((n_above + 0.3) / (n_held + 1.0))
        log_chance = (math.log(max(chances[job, k], 1e-4)) + weight * log_own) / (1.0 + weight)
        own[k] = max(min(math.exp(log_chance), 1.0), settings.least_chance)


@kernel
def _most_credit(who: int, now_s: float, books: Books, settings: LimitSettings, credit_per_job: float) -> float:
    kept = 0.5 ** ((now_s - books.recent_at_s[who]) / (settings.credit_days * DAY_S)) if books.n_ended[who] > 0 else 0.0
    return settings.first_credit + credit_per_job * books.n_recent[who] * kept


@kernel
def _best(
    job: int, jobs: LimitJobs, own: Floats, shares: Floats, most: float, books: Books, settings: LimitSettings
) -> int:
    """The place among `shares` of the limit with the largest worth less its price; -1: the request."""
    who = jobs.who[job]
    books.worth[1] += 1.0
    books.worth[0] += (jobs.work[job] - books.worth[0]) * max(1.0 / books.worth[1], PER_JOB)
    if books.n_ended[who] < settings.least_jobs:
        return -1
    worth = jobs.work[job] / books.worth[0]
    free = books.credit[who] - books.reserved[who]
    used = 1.0 - min(max(free / most, 0.0), 1.0)
    price = math.exp(books.log_price[0] + settings.poor_price * used)
    best, place = 0.0, -1
    for k in range(len(shares)):
        if not own[k] <= settings.riskiest or _reserve(own[k], settings) > free:
            continue
        gain = worth * ((1.0 - shares[k]) * (1.0 - own[k]) - shares[k] * own[k]) - price * own[k]
        if gain > best:
            best, place = gain, k
    return place


@kernel
def _reserve(chance: float, settings: LimitSettings) -> float:
    return max(settings.reserved_times * chance, settings.least_reserved)
