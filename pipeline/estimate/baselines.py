"""The methods that the estimator is compared with, over a whole log in one part; they keep no State."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate import chains
from pipeline.estimate.chains import CROWD, MAX, MEAN, OWN, QUANTILE, SHARE, ChainQuery
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History
from pipeline.estimate.keys import grown, mixed, no_keys, numbers, with_new
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.submits import Events, Jobs, LastSubmits, capped, events_of, jobs_of, no_submits, with_sessions
from pipeline.kernels import entry_kernel, sort_in_place


class WholeLog(NamedTuple):
    """All jobs, what happens between their submits, and how many submitters and requested times there are."""

    jobs: Jobs
    events: Events
    n_who: int
    n_requests: int


def whole_log(history: History, settings: EstimateRules) -> WholeLog:
    """The log as one part; events are known as late as `history.stale_s` says."""
    jobs, n_who = jobs_of(history), int(history.codes["who"].max(initial=-1)) + 1
    digests = np.where(jobs.requested_s > 0, mixed(jobs.requested_s), -1)
    requests = with_new(no_keys(), digests)
    nobody = LastSubmits(*(grown(column, n_who) for column in no_submits()))
    gaps_s = (60.0 * settings.burst_gap_min, 60.0 * settings.session_gap_min)
    jobs = with_sessions(jobs._replace(request=numbers(requests, digests)), nobody, 0, gaps_s, registers=True)
    none = np.zeros(len(history), np.bool_)
    return WholeLog(jobs, events_of(jobs, 0, history.known_s, np.inf, none, none), n_who, len(requests))


def latest(history: History, settings: EstimateRules, question: ChainQuery) -> Floats:
    """(jobs, 6) runtimes, s, of the latest jobs along the chain (chains.py); one number fills all quantiles."""
    log = whole_log(history, settings)
    digests = chains.digests_of(log.jobs)
    room = len(digests) * len(log.events.by_end)
    chain = chains.with_keys(chains.no_chain(), digests, log.jobs.session, room)
    codes = chains.numbered(chain, digests)
    shares = np.array(QUANTILES)
    found: Floats = chains.latest_of(
        log.jobs, log.jobs, log.events, (codes, codes), chain.latest, 0, [question], shares
    )[0]
    return found


def points(estimate_s: Floats) -> Floats:
    """(jobs, 6) with the estimate as the median, and no other quantile."""
    quantiles_s = np.full((len(estimate_s), len(QUANTILES)), np.nan)
    quantiles_s[:, QUANTILES.index(0.5)] = estimate_s
    return quantiles_s


def requests_of(history: History) -> Floats:
    """Requested times, s; NaN where none was requested."""
    return np.where(history.requested_s > 0, history.requested_s, np.nan)


def or_request(estimate_s: Floats, history: History) -> Floats:
    """(jobs, 6) with the estimate as the median, the request where there is none."""
    return points(np.where(np.isnan(estimate_s), requests_of(history), estimate_s))


def codes_by(jobs: Jobs) -> Ints:
    """What neighbours share: (3, jobs) codes of what they run, of the group and of the queue."""
    return np.ascontiguousarray(jobs.traits[:, :3].T)


def request(history: History, _settings: EstimateRules) -> Floats:
    """The requested runtime as the median, s; NaN where none was requested."""
    return points(requests_of(history))


WHO = CROWD - 1


def last_two(history: History, settings: EstimateRules) -> Floats:
    """Mean of the submitter's last two ended jobs, s, at most the request; the request until there are two."""
    return or_request(latest(history, settings, ChainQuery(WHO, CROWD, 2, MEAN, 2))[:, 1], history)


def last_two_account(history: History, settings: EstimateRules) -> Floats:
    """The same of the account: what remains of it where a log names no users."""
    by_account = replace(history, codes=history.codes | {"who": history.codes["account"]})
    return last_two(by_account, settings)


def last_two_chain(history: History, settings: EstimateRules) -> Floats:
    """The same, of jobs with the same application, request and processors where two of these have ended."""
    return or_request(latest(history, settings, ChainQuery(OWN, CROWD, 2, MEAN, 2))[:, 1], history)


def longer_of_two_chain(history: History, settings: EstimateRules) -> Floats:
    """The longer one of those two, s: underestimates less often."""
    return or_request(latest(history, settings, ChainQuery(OWN, CROWD, 2, MAX, 2))[:, 1], history)


def recent_median(history: History, settings: EstimateRules) -> Floats:
    """Median of the submitter's last three ended jobs, s (recent user history); NaN until there is one."""
    return points(latest(history, settings, ChainQuery(CROWD - 1, CROWD, 3, QUANTILE, 1))[:, 1])


def recent_10(history: History, settings: EstimateRules) -> Floats:
    """Quantiles of the last 10 jobs of the most specific key that has two, s."""
    return latest(history, settings, ChainQuery(OWN, CROWD, 10, QUANTILE, 2))


def recent_50(history: History, settings: EstimateRules) -> Floats:
    """Quantiles of the last 50 jobs of the most specific key that has two, s."""
    return latest(history, settings, ChainQuery(OWN, CROWD, 50, QUANTILE, 2))


def everybody(history: History, settings: EstimateRules) -> Floats:
    """Quantiles of the last 200 jobs of all users with the same program and requested runtime, s."""
    return latest(history, settings, ChainQuery(CROWD, CROWD + 1, 200, QUANTILE, 3))


def sessions(history: History, settings: EstimateRules) -> Floats:
    """Median of the last three, s: of similar jobs in this session, else of this session, else of earlier similar jobs.

    A session ends where its submitter submits nothing for `session_gap_min` minutes.
    """
    return points(latest(history, settings, ChainQuery(0, CROWD, 3, QUANTILE, 1))[:, 1])


DAY_S = 86_400.0
MARGIN_S = 900.0


def largest_of_15(history: History, settings: EstimateRules) -> Floats:
    """MetaCentrum's soft-walltime rule for OpenPBS: the largest of 15 shares, times the request, s, plus 900 s.

    Doubled for requests over 24 h; at most the request, and the request until a job has ended.
    """
    rule_s = _largest(history, settings, 15)
    rule_s = np.where(requests_of(history) > DAY_S, 2 * rule_s, rule_s) + MARGIN_S
    return or_request(capped(rule_s, history.requested_s), history)


def largest_of_5(history: History, settings: EstimateRules) -> Floats:
    """The largest of five shares times the request, s, at most the request (the simulator Alea's)."""
    return or_request(_largest(history, settings, 5), history)


def _largest(history: History, settings: EstimateRules, memory: int) -> Floats:
    found_s = latest(history, settings, ChainQuery(CROWD - 1, CROWD, memory, SHARE, 1))[:, 1]
    return np.where(requests_of(history) > 0, found_s, np.nan)


REMEMBERED = 64
"""Latest ended jobs of a submitter that may be neighbours."""


def neighbours(history: History, settings: EstimateRules) -> Floats:
    """Mean runtime of the submitter's nearest jobs plus a share of their deviation, s, at most the request; else NaN.

    Distance (heterogeneous, Wilson & Martinez 1997): 1 for another application, group or queue, and for requests or
    processors that differ e-fold; equal ones in order of recency.
    """
    log = whole_log(history, settings)
    found = _nearest(log.jobs, log.events, codes_by(log.jobs), log.n_who, settings.neighbours, settings.deviation_share)
    return points(capped(found, log.jobs.requested_s))


@entry_kernel
def _nearest(past: Jobs, events: Events, kinds: Ints, n_who: int, wanted: int, deviation_share: float) -> Floats:
    n = len(past.submit_s)
    ring, taken = np.empty((n_who, REMEMBERED), np.int64), np.zeros(n_who, np.int64)
    apart, value_s, found, n_over = np.empty(REMEMBERED), np.empty(REMEMBERED), np.full(n, np.nan), 0
    for job in range(n):
        while n_over < events.ended[job]:
            who = past.who[events.by_end[n_over]]
            if who >= 0 and past.is_learnt[events.by_end[n_over]]:
                ring[who, taken[who] % REMEMBERED] = events.by_end[n_over]
                taken[who] += 1
            n_over += 1
        who = past.who[job]
        if who < 0 or taken[who] == 0:
            continue
        held = min(taken[who], REMEMBERED)
        for back in range(held):
            other = ring[who, (taken[who] - 1 - back) % REMEMBERED]
            # A thousandth a job back: recency decides between equals.
            apart[back] = 1e-3 * back + abs(np.log(past.procs[job] / past.procs[other]))
            if past.requested_s[job] > 0 and past.requested_s[other] > 0:
                apart[back] += abs(np.log(past.requested_s[job] / past.requested_s[other]))
            for kind in range(len(kinds)):
                apart[back] += kinds[kind, job] != kinds[kind, other]
            value_s[back] = past.runtime_s[other]
        sort_in_place(apart[:held], value_s[:held])
        nearest = value_s[: min(wanted, held)]
        found[job] = nearest.mean() + deviation_share * nearest.std()
    return found
