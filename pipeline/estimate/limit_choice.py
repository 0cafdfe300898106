"""Chooses each job's limit by its cost, at a price of an exceedance that keeps a promise; as of every submit.

A limit is a share of the request. Its worth is what it frees of the request if the job ends in time, less what the job
has used if it does not, in processor-seconds. Of all limits the one with the largest worth minus price x chance is
taken. The price rises when a job exceeds its limit and falls when one does not, so that the share of jobs beyond their
limits tends to its aim for any sequence of jobs (as in ensemble.py). The aim is a part of the promised share, or of
the share that the rule in production has had on this log, whichever is less.

A submitter has a credit: it grows with each ended job, up to a bound, an exceedance costs one, and jobs that are not
over reserve a part. Only limits that the credit pays for are chosen; so a new submitter gets the request.
"""

import heapq
import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.score import QUANTILES
from pipeline.kernels import entry_kernel, kernel

USER_TIMES = 3.0
"""No user's share of jobs beyond their limits shall be more than this many times the share of all jobs."""


class LimitSettings(NamedTuple):
    """How limits are chosen; shares are of jobs, prices are in the mean requested work of a job."""

    share: float = 0.03
    """Largest share of jobs that may run beyond their limit: 1 - the promise."""
    aim: float = 0.9
    """Part of that share, or of the share that MetaCentrum's rule has had, whichever is less, that is aimed at."""
    step: float = 0.2
    """Change of the log price of an exceedance per job that exceeds its limit, at first."""
    step_jobs: float = 10_000.0
    """The step falls with the root of the number of jobs over this number."""
    first_log_price: float = 2.0
    rule_jobs: float = 1000.0
    """Half-life of the share that the rule has had (jobs)."""
    riskiest: float = 0.3
    """No job gets a limit that it exceeds with a larger chance than this."""
    least_chance: float = 0.002
    """A chance below this counts as this: no record is long enough to show less."""
    least_jobs: float = 10.0
    """Ended jobs that a submitter must have; before that a job's limit is its request."""
    user_aim: float = 0.07 / 0.09
    """Part of USER_TIMES x `share` with which a submitter's credit grows, per ended job."""
    first_credit: float = 4.0
    """Most credit (jobs) of a submitter without recent jobs."""
    credit_days: float = 5.0
    """Half-life of a submitter's number of recent jobs, which the most credit grows with (days)."""
    reserved_times: float = 2.0
    """Credit reserved for a job that is not over: this many times its chance to exceed its limit,"""
    least_reserved: float = 0.2
    """and at least this, because jobs submitted together often exceed their limits together."""
    poor_price: float = 4.0
    """Increase of a submitter's log price when all its credit is used."""


LIMIT, RULE = range(2)
"""What becomes known of a job: whether it exceeded its limit; whether it exceeded the rule's."""

DAY_S = 86_400.0
HIGHEST, LOWEST = 12.0, -8.0
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


class Pace(NamedTuple):
    """Credit that a submitter gains per ended job, and most credit per recent job."""

    credit_rate: float
    credit_per_job: float


class Books(NamedTuple):
    """What has been learnt. Per submitter: credit, credit reserved, number of ended jobs, their recent number and its
    time (s). Of all jobs: the log price and its jobs; exceedances of the rule and jobs; mean requested work and its
    jobs."""

    credit: Floats
    reserved: Floats
    n_ended: Floats
    n_recent: Floats
    recent_at_s: Floats
    log_price: Floats
    rule: Floats
    work: Floats


def no_books(n_who: int, settings: LimitSettings) -> Books:
    """The books before the first job."""
    rule = np.array([FIRST_JOBS * settings.share, FIRST_JOBS])
    credit, reserved, n_ended, n_recent, recent_at_s = np.zeros((5, n_who))
    log_price = np.array([settings.first_log_price, 0.0])
    return Books(credit, reserved, n_ended, n_recent, recent_at_s, log_price, rule, np.zeros(2))


@entry_kernel
def choose_limits(
    jobs: LimitJobs, chances: Floats, shares: Floats, rule_s: Floats, books: Books, settings: LimitSettings, pace: Pace
) -> Floats:
    """(jobs,) limits, s, at most the request, NaN without one; updates `books`.

    `chances`: (jobs, shares) chance of a runtime above each of `shares` of the request; `rule_s`: the rule's limits.
    """
    limit_s, reserved = np.full(len(rule_s), np.nan), np.zeros(len(rule_s))
    events = [(0.0, 0, 0)]
    events.pop()
    for job in range(len(rule_s)):
        while len(events) > 0 and events[0][0] <= jobs.known_s[job]:
            at_s, kind, past = heapq.heappop(events)
            if kind == RULE:
                _learn_rule(_is_beyond(jobs, past, rule_s[past]), books, settings)
                continue
            books.reserved[jobs.who[past]] -= reserved[past]
            if _is_counted(jobs, past):
                _learn(jobs.who[past], at_s, _is_beyond(jobs, past, limit_s[past]), books, settings, pace)
        if not jobs.requested_s[job] > 0:
            continue
        place = _best(job, jobs, chances[job], shares, books, settings, pace)
        limit_s[job] = jobs.requested_s[job] * (shares[place] if place >= 0 else 1.0)
        if place >= 0:
            reserved[job] = _reserve(chances[job, place], settings)
            books.reserved[jobs.who[job]] += reserved[job]
        heapq.heappush(events, (_settled_s(jobs, job, limit_s[job]), LIMIT, job))
        if _is_counted(jobs, job):
            heapq.heappush(events, (_settled_s(jobs, job, rule_s[job]), RULE, job))
    return limit_s


@kernel
def _is_counted(jobs: LimitJobs, job: int) -> bool:
    """Whether the outcome of a job is learnt from: it has started, and is not set aside."""
    return bool(jobs.is_learnt[job] and jobs.start_s[job] < np.inf)


@kernel
def _is_beyond(jobs: LimitJobs, job: int, limit_s: float) -> bool:
    """Whether a job that has started runs longer than a limit below its request."""
    return bool(limit_s < jobs.requested_s[job] and jobs.end_s[job] - jobs.start_s[job] > limit_s)


@kernel
def _settled_s(jobs: LimitJobs, job: int, limit_s: float) -> float:
    """When it is known whether a job exceeds a limit: at its end, or when it has run for so long."""
    at_s: float = min(jobs.end_s[job], jobs.start_s[job] + limit_s)
    return at_s


@kernel
def _learn(who: int, at_s: float, is_beyond: bool, books: Books, settings: LimitSettings, pace: Pace) -> None:
    beyond = 1.0 if is_beyond else 0.0
    aim = settings.aim * min(settings.share, books.rule[0] / books.rule[1])
    # Falling steps (Angelopoulos, Barber & Bates 2024) follow a short log, and bursts do not upset a long one.
    step = settings.step / math.sqrt(1.0 + books.log_price[1] / settings.step_jobs)
    books.log_price[0] = min(max(books.log_price[0] + step * (beyond - aim), LOWEST), HIGHEST)
    books.log_price[1] += 1.0
    kept = 0.5 ** ((at_s - books.recent_at_s[who]) / (settings.credit_days * DAY_S))
    books.n_recent[who] = books.n_recent[who] * kept + 1.0
    books.recent_at_s[who] = at_s
    most = settings.first_credit + pace.credit_per_job * books.n_recent[who]
    books.credit[who] = min(books.credit[who] - beyond + pace.credit_rate, most)
    books.n_ended[who] += 1.0


@kernel
def _learn_rule(is_beyond: bool, books: Books, settings: LimitSettings) -> None:
    kept = 0.5 ** (1.0 / settings.rule_jobs)
    books.rule[0] = books.rule[0] * kept + (1.0 if is_beyond else 0.0)
    books.rule[1] = books.rule[1] * kept + 1.0


@kernel
def _most_credit(who: int, now_s: float, books: Books, settings: LimitSettings, pace: Pace) -> float:
    kept = 0.5 ** ((now_s - books.recent_at_s[who]) / (settings.credit_days * DAY_S)) if books.n_ended[who] > 0 else 0.0
    most: float = settings.first_credit + pace.credit_per_job * books.n_recent[who] * kept
    return most


@kernel
def _best(
    job: int, jobs: LimitJobs, chances: Floats, shares: Floats, books: Books, settings: LimitSettings, pace: Pace
) -> int:
    """The place among `shares` of the limit with the largest worth less its price; -1: the request."""
    who = jobs.who[job]
    books.work[1] += 1.0
    books.work[0] += (jobs.work[job] - books.work[0]) * max(1.0 / books.work[1], PER_JOB)
    if books.n_ended[who] < settings.least_jobs:
        return -1
    worth, free = jobs.work[job] / books.work[0], books.credit[who] - books.reserved[who]
    used = 1.0 - min(max(free / _most_credit(who, jobs.known_s[job], books, settings, pace), 0.0), 1.0)
    price = math.exp(books.log_price[0] + settings.poor_price * used)
    best, place = 0.0, -1
    for k in range(len(shares)):
        chance = max(chances[k], settings.least_chance)
        if not chances[k] <= settings.riskiest or _reserve(chance, settings) > free:
            continue
        gain = worth * ((1.0 - shares[k]) * (1.0 - chance) - shares[k] * chance) - price * chance
        if gain > best:
            best, place = gain, k
    return place


@kernel
def _reserve(chance: float, settings: LimitSettings) -> float:
    return max(settings.reserved_times * chance, settings.least_reserved)


SHARES = np.array([
    0.01, 0.02, 0.04, 0.07, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.50, 0.60, 0.70, 0.80, 0.90, 0.95,
])  # fmt: skip
"""Shares of the request among which a limit is chosen, beside the request itself."""

LEAST_CHANCE = 0.001
"""Least chance that the quantiles can show: they end at 99%."""

TAIL_POWER = 1.15
"""Beyond the last quantile the chance falls with this power of the runtime."""


def exceedance(quantiles_s: Floats, requested_s: Floats) -> Floats:
    """(jobs, shares) chance that the runtime is above each of SHARES of the request; NaN where nothing is known.

    The logarithm of the chance is interpolated linearly in the logarithm of the runtime between the quantiles.
    """
    log_s = np.log(np.maximum(quantiles_s, 1.0))
    log_chance = np.log(1.0 - np.array(QUANTILES))
    asked_s = np.where(requested_s > 0, requested_s, np.nan)
    return _exceedance(log_s, log_chance, asked_s, SHARES)


@entry_kernel
def _exceedance(log_s: Floats, log_chance: Floats, asked_s: Floats, shares: Floats) -> Floats:
    found = np.full((len(asked_s), len(shares)), np.nan)
    for job in range(len(asked_s)):
        if not np.isnan(asked_s[job]) and not np.isnan(log_s[job, 0]):
            for k in range(len(shares)):
                log_limit_s = math.log(max(asked_s[job] * shares[k], 1.0))
                found[job, k] = _chance(log_limit_s, log_s[job], log_chance)
    return found


@kernel
def _chance(at: float, log_s: Floats, log_chance: Floats) -> float:
    """The chance of a runtime above exp(at), s; it is 1 at a second."""
    left, left_chance = 0.0, 0.0
    for k in range(len(log_s)):
        if at <= log_s[k]:
            width = log_s[k] - left
            part = (at - left) / width if width > 0 else 1.0
            return math.exp(left_chance + part * (log_chance[k] - left_chance))
        left, left_chance = log_s[k], log_chance[k]
    return max(math.exp(left_chance - TAIL_POWER * (at - left)), LEAST_CHANCE)
