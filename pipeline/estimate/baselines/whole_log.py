"""A whole log in one part, for methods that are compared with the estimator and keep no State."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate import chains
from pipeline.estimate.chains import ChainQuery
from pipeline.estimate.history import History
from pipeline.estimate.keys import grown, mixed, no_keys, numbers, with_new
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.submit_sessions import LastSubmits, no_submits, with_sessions
from pipeline.estimate.submits import Events, Jobs, events_of, jobs_of


class WholeLog(NamedTuple):
    """All jobs, what happens between their submits, and how many submitters and requested times there are."""

    jobs: Jobs
    events: Events
    n_who: int
    n_requests: int


def whole_log(history: History, settings: ForecastSettings) -> WholeLog:
    """The log as one part; events are known as late as `history.stale_s` says."""
    jobs, n_who = jobs_of(history), int(history.codes["who"].max(initial=-1)) + 1
    digests = np.where(jobs.requested_s > 0, mixed(jobs.requested_s), -1)
    requests = with_new(no_keys(), digests)
    nobody = LastSubmits(*(grown(column, n_who) for column in no_submits()))
    gaps_s = (60.0 * settings.burst_gap_min, 60.0 * settings.session_gap_min)
    jobs = with_sessions(jobs._replace(request=numbers(requests, digests)), nobody, 0, gaps_s, registers=True)
    none = np.zeros(len(history), np.bool_)
    return WholeLog(jobs, events_of(jobs, 0, history.known_s, np.inf, none, none), n_who, len(requests))


def latest(history: History, settings: ForecastSettings, question: ChainQuery) -> Floats:
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
    return np.stack([jobs.what, jobs.group, jobs.queue])
