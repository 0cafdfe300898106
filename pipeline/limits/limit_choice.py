"""Chooses the limits of kinds of jobs once a night, and keeps the books on what became of the jobs that had them.

A candidate is the longest of a kind's latest runtimes times a factor, and a margin. Its chance of being exceeded is the
rate at which the submitter's jobs exceeded what this candidate was at their submit, with the rate of all jobs as prior.
Of all candidates the one with the largest worth less price x chance is taken. The worth is what it frees of the
request if the job ends in time, less what the job has used if it does not, in processor-seconds. The price rises when
jobs exceed their limits and falls when they do not, so that their share of all jobs tends to its aim (as in
ensemble.py).

Beyond that each submitter has a credit: some at first, and a share of each ended job. A job beyond its limit costs 1. A
limited job borrows a multiple of its chance until it ends. Jobs that are submitted together may fail together, so no
more of them are limited at a time than the largest credit, whatever they borrow.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Array, Floats, Ints
from pipeline.limits.limit_harm import PROMISED_BEYOND
from pipeline.limits.own_jobs import DAY_S, WINDOWS
from pipeline.tables import LimitStatus

FACTORS = (1.0, 1.2, 1.5, 2.0, 3.0)
"""A candidate is one of these times the longest of the latest WINDOWS jobs,"""

MARGIN_S = 600.0
"""and this."""

TICK_S = 60.0
"""Limits are whole multiples of this, and at least this below the request: Slurm's are whole minutes."""

N_CANDIDATES = len(WINDOWS) * len(FACTORS)


class LimitSettings(NamedTuple):
    """How limits are chosen; shares are of jobs, prices are in the mean requested work of a job."""

    share: float = PROMISED_BEYOND
    """Largest share of jobs that may run beyond their limit: 1 - the promise."""
    aim: float = 0.9
    """Part of that share that is aimed at."""
    riskiest: float = 0.25
    """No limit has a larger chance than this."""
    least_chance: float = 0.002
    first_credit: float = 2.0
    """Credit (jobs) of a new submitter,"""
    credit_rate: float = 0.05
    """what an ended job adds to it, at a share of PROMISED_BEYOND,"""
    credit_per_job: float = 0.05
    """and how much each recent job adds to its upper bound, which is `first_credit` without any."""
    credit_days: float = 10.0
    """Half-life of the number of recent jobs (days)."""
    borrow_times: float = 2.0
    """What a limited job borrows, in times of its chance to exceed the limit,"""
    least_borrow: float = 0.05
    """and at least (jobs)."""
    prior_jobs: float = 20.0
    """Weight of the rate of all jobs in a submitter's (jobs)."""
    first_rate: float = 0.1
    """Rate of all jobs before any has ended, with the same weight."""
    rate_days: float = 60.0
    """Half-life of jobs in these rates (days)."""
    first_log_price: float = 2.0
    poor_log_price: float = 2.0
    """What is added to the log price where a submitter's credit is spent, and in part where a part of it is."""
    step: float = 0.02
    """Change of the log price per job beyond its limit, at first;"""
    step_jobs: float = 10_000.0
    """it falls with the root of the number of jobs over this number."""


HIGHEST, LOWEST = 12.0, -8.0
"""Bounds of the log price."""

WORK_JOBS = 1000.0
"""Jobs over which the mean work is taken."""


class Offers(NamedTuple):
    """Kinds of jobs that may get a limit, as their newest job describes them."""

    who: Ints
    longest_s: Array
    """(kinds, WINDOWS)"""
    requested_s: Floats
    work: Floats
    """Requested processor-seconds."""


class Chosen(NamedTuple):
    """Per kind the limit, s, and its chance of being exceeded, NaN without; and why."""

    limit_s: Floats
    chance: Floats
    status: Array
    most_jobs: Ints
    """Jobs of the submitter that may be limited until the next table."""


class Outcome(NamedTuple):
    """What became known of n jobs that had a limit, or might have had one."""

    who: Ints
    was_limited: Array
    is_beyond: Array


class Tried(NamedTuple):
    """Ended jobs, the candidates (jobs, candidates) that their kinds had at their submit, and what each job counts."""

    who: Ints
    candidates_s: Floats
    requested_s: Floats
    run_s: Floats
    share: Floats


@dataclass(slots=True)
class Books:
    """What has been learnt; the last submitter is an unknown one."""

    settings: LimitSettings
    credit: Floats
    lent: Floats
    """Limited jobs whose outcome is not known."""
    recent: Floats
    hits: Floats
    """(submitters, candidates) jobs beyond the candidate,"""
    tries: Floats
    """of those for which it was below the request."""
    all_hits: Floats
    all_tries: Floats
    at_s: float
    log_price: float
    n_settled: float = 0.0
    mean_work: float = 1.0
    n_work: float = 0.0

    def pass_time(self, at_s: float) -> None:
        """Old jobs count less."""
        days = max(at_s - self.at_s, 0.0) / DAY_S
        self.at_s = at_s
        self.recent *= 0.5 ** (days / self.settings.credit_days)
        kept = 0.5 ** (days / self.settings.rate_days)
        for counts in (self.hits, self.tries, self.all_hits, self.all_tries):
            np.multiply(counts, kept, out=counts)

    def learn_candidates(self, found: Tried) -> None:
        """Ended jobs and the candidates that their kinds had at their submit."""
        tries = found.share[:, None] * (found.candidates_s < found.requested_s[:, None])
        hits = tries * (found.run_s[:, None] > found.candidates_s)
        np.add.at(self.hits, found.who, hits)
        np.add.at(self.tries, found.who, tries)
        self.all_hits += hits.sum(axis=0)
        self.all_tries += tries.sum(axis=0)

    def earn(self, who: Ints) -> None:
        """Ended jobs of these submitters."""
        rate = self.settings.credit_rate * self.settings.share / PROMISED_BEYOND
        np.add.at(self.credit, who, rate)
        np.add.at(self.recent, who, 1.0)

    def settle(self, found: Outcome) -> None:
        """Return what was borrowed, or lose it, and move the price."""
        np.subtract.at(self.lent, found.who[found.was_limited], 1.0)
        np.subtract.at(self.credit, found.who[found.is_beyond], 1.0)
        # Falling steps (Angelopoulos, Barber & Bates 2024) follow a short log, and bursts do not upset a long one.
        step = self.settings.step / math.sqrt(1.0 + self.n_settled / self.settings.step_jobs)
        moved = step * (float(found.is_beyond.sum()) - self.settings.aim * self.settings.share * len(found.who))
        self.log_price = min(max(self.log_price + moved, LOWEST), HIGHEST)
        self.n_settled += len(found.who)
        self.credit = np.minimum(self.credit, self.most_credit())

    def most_credit(self) -> Floats:
        """The upper bound of each submitter's credit, and of the limited jobs at a time (jobs)."""
        return self.settings.first_credit + self.settings.credit_per_job * self.recent

    def see_work(self, work: Floats) -> None:
        """The requested work of submitted jobs."""
        if len(work):
            self.n_work += len(work)
            part = max(len(work) / self.n_work, min(len(work) / WORK_JOBS, 1.0))
            self.mean_work += (float(work.mean()) - self.mean_work) * part

    def prices(self, who: Ints) -> Floats:
        """The price of an exceedance for each submitter."""
        spent = 1.0 - np.clip(self.credit / np.maximum(self.most_credit(), 1e-9), 0.0, 1.0)
        return np.exp(self.log_price + self.settings.poor_log_price * spent)[who]

    def most_jobs(self, who: Ints, chance: Floats) -> Ints:
        """How many more jobs of each submitter may be limited, at their chance of being exceeded."""
        most = self.most_credit()[who]
        each = np.clip(self.settings.borrow_times * chance, self.settings.least_borrow, 1.0)
        at_a_time = np.minimum(np.minimum(self.credit[who], most) / each, most)
        return np.maximum(np.floor(at_a_time - self.lent[who] + 1e-9), 0.0).astype(np.int64)


def no_books(n_who: int, at_s: float, settings: LimitSettings) -> Books:
    """The books before the first job."""
    credit, lent, recent = np.full(n_who + 1, settings.first_credit), np.zeros(n_who + 1), np.zeros(n_who + 1)
    shape = (n_who + 1, N_CANDIDATES)
    return Books(
        settings, credit, lent, recent, np.zeros(shape), np.zeros(shape),
        np.full(N_CANDIDATES, settings.first_rate * settings.prior_jobs), np.full(N_CANDIDATES, settings.prior_jobs),
        at_s, settings.first_log_price,
    )  # fmt: skip


def candidates_s(longest_s: Array) -> Floats:
    """(kinds, candidates) limits, s."""
    times = longest_s.astype(np.float64)[:, :, None] * np.array(FACTORS)
    found: Floats = np.ceil((times.reshape(len(longest_s), N_CANDIDATES) + MARGIN_S) / TICK_S) * TICK_S
    return found


def choose(offers: Offers, books: Books) -> Chosen:
    """The limits of kinds, by what the books know."""
    settings, limits_s = books.settings, candidates_s(offers.longest_s)
    prior = settings.prior_jobs * books.all_hits / books.all_tries
    chance = (books.hits[offers.who] + prior) / (books.tries[offers.who] + settings.prior_jobs)
    chance = np.maximum(chance, settings.least_chance)
    share = limits_s / offers.requested_s[:, None]
    worth = (offers.work / books.mean_work)[:, None]
    gain = worth * ((1.0 - share) * (1.0 - chance) - share * chance) - books.prices(offers.who)[:, None] * chance
    is_possible = (chance <= settings.riskiest) & (limits_s <= offers.requested_s[:, None] - TICK_S)
    gain = np.where(is_possible, gain, -np.inf)
    best, nth = gain.argmax(axis=1), np.arange(len(gain))
    is_worth, most = gain[nth, best] > 0, books.most_jobs(offers.who, chance[nth, best])
    status: Array = np.full(len(gain), str(LimitStatus.NO_GAIN), object)
    status[is_worth] = np.where(most[is_worth] > 0, str(LimitStatus.LIMITED), str(LimitStatus.NO_CREDIT))
    is_limited = is_worth & (most > 0)
    limit_s, chances = (np.where(is_limited, values[nth, best], np.nan) for values in (limits_s, chance))
    return Chosen(limit_s, chances, status, most)
