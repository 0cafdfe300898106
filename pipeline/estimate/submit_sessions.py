"""Bursts and sessions: sequences of one submitter's jobs without a long gap (Zilber, Amit & Talby 2005)."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.estimate.interpretable import entry_kernel
from pipeline.estimate.submits import Jobs


class LastSubmits(NamedTuple):
    """Per submitter the last submit: time, requested runtime, processors, numbers of burst and session, burst size."""

    submit_s: Floats
    requested_s: Floats
    procs: Floats
    burst: Ints
    n_burst: Ints
    session: Ints


def no_submits() -> LastSubmits:
    """The state before the first submit: only the blank row."""
    unknown, none = np.full(1, np.nan), np.full(1, -1, np.int64)
    return LastSubmits(unknown, unknown.copy(), unknown.copy(), none, np.zeros(1, np.int64), none.copy())


def with_sessions(
    jobs: Jobs, held: LastSubmits, n_before: int, gaps_s: tuple[float, float], *, registers: bool
) -> Jobs:
    """The jobs with burst, place in the burst, and session.

    A burst or session has the number of its first job; the first of `jobs` has number `n_before`. `gaps_s` are the
    longest gaps within a burst and within a session. With `registers` the submits are written to `held`.
    """
    n = len(jobs.who)
    burst, place, session = np.full(n, -1, np.int64), np.zeros(n), np.full(n, -1, np.int64)
    _assign_sessions(jobs, held, n_before, gaps_s, registers, burst, place, session)
    return jobs._replace(burst=burst, place=np.log1p(place), session=session)


@entry_kernel
def _assign_sessions(
    jobs: Jobs, held: LastSubmits, n_before: int, gaps_s: tuple[float, float], registers: bool,
    burst: Ints, place: Floats, session: Ints,
) -> None:  # fmt: skip
    for job in range(len(jobs.who)):
        who = jobs.who[job]
        if who < 0:
            continue
        gap_s = jobs.submit_s[job] - held.submit_s[who]
        is_same = held.requested_s[who] == jobs.requested_s[job] and held.procs[who] == jobs.procs[job]
        goes_on = gap_s <= gaps_s[0] and is_same
        burst[job] = held.burst[who] if goes_on else n_before + job
        place[job] = held.n_burst[who] if goes_on else 0
        session[job] = held.session[who] if gap_s <= gaps_s[1] else n_before + job
        if registers:
            held.submit_s[who], held.requested_s[who] = jobs.submit_s[job], jobs.requested_s[job]
            held.procs[who], held.session[who] = jobs.procs[job], session[job]
            held.burst[who], held.n_burst[who] = burst[job], int(place[job]) + 1
