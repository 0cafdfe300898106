"""Memory as a second target of the estimator: jobs with memory in place of time, and what to ask for.

Memory is in KiB per processor throughout, as in JOBS. Whether a job on more processors needs as much on each of them,
or less, is learnt as for runtimes.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, floats
from pipeline.estimate.history import READ, History, Target, history
from pipeline.estimate.limit_harm import PROMISED_BEYOND
from pipeline.estimator.score import N_QUANTILES, QUANTILES
from pipeline.estimator.state import DAY_S, RECORD_JOBS, Record

OUT_OF_MEMORY = "OUT_OF_MEMORY"
"""The state of jobs that were stopped because they needed more memory than they had."""

PROMISE = 1.0 - PROMISED_BEYOND
"""The share of jobs that stay under the memory that is recommended."""

MIB_KIB = 1024.0
"""Recommendations are whole MiB: Slurm takes no less."""

MOST_PRICE = 1e15
"""KiB; at this price everybody gets the largest amount."""


def memory_history(jobs: pa.Table, timezone: str = "UTC", *, without_flagged: bool = False) -> History:
    """The same jobs with memory in place of time: what estimates and limits runtimes then does so for memory.

    Parameters
    ----------
    jobs : pa.Table
        JOBS, n rows in any order.
    timezone : str
        IANA name of the site's time zone.
    without_flagged : bool
        Whether jobs with a flag are left out of learning.

    Returns
    -------
    History
        `runtime_s` and `requested_s` are memory used and asked for, KiB per processor; NaN unknown. A job that ended
        OUT_OF_MEMORY needed more than it asked for, whatever was measured: a lower bound. `start_s` is infinite: the
        time for which a job has run says nothing about its memory, and what it uses is known at its end.

    Examples
    --------
    >>> log = memory_history(tables["jobs"])
    >>> used_kib = log.runtime_s[log.has_run]
    >>> bool((used_kib > 0).all()), bool(np.isinf(log.start_s).all())
    (True, True)
    """
    past = history(jobs, timezone, without_flagged=without_flagged)
    used_kib, asked_kib = floats(jobs, "used_mem_kib")[past.row], past.requested_mem_kib
    ran_out = pc.fill_null(pc.equal(jobs.column("state").cast(pa.string()), OUT_OF_MEMORY), False).to_numpy()[past.row]
    used_kib = np.where(ran_out, np.fmax(used_kib, asked_kib), used_kib)
    return replace(
        past,
        start_s=np.full(len(past), np.inf),
        runtime_s=np.where(past.has_run & (used_kib > 0), used_kib, np.nan),
        requested_s=np.where(asked_kib > 0, asked_kib, np.nan),
        requested_mem_kib=np.full(len(past), np.nan),
        is_lower_bound=ran_out & past.has_run & (used_kib > 0),
    )


MEMORY = Target((*READ, "used_mem_kib"), memory_history)


LEVELS = (0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
"""Shares of jobs like one that stay under an amount, of the amounts that may be recommended for it: a larger chance of
too little than a tenth would lose its user too many jobs."""

BEYOND = {0.993: 1.2, 0.995: 1.5, 0.997: 2.0}
"""The same of larger amounts, in times of the last one; chosen, not estimated."""

SHARES = np.array((*LEVELS, *BEYOND))

AIM = 0.9
"""Part of the share that is not promised that is aimed at: what was aimed at yesterday is exceeded today."""


def recommended_kib(quantiles_kib: Floats, procs: Floats, price: float) -> tuple[Floats, Floats]:
    """(jobs,) the memory to ask for, KiB per processor, in whole MiB, and the share of jobs like each that stay under.

    Of some amounts the one with the least sum of the job's memory and the price times the chance of too little. Where
    the last per cent of certainty cost many GiB it is bought for other jobs: of all together the promise is kept.

    Parameters
    ----------
    quantiles_kib : Floats
        float64[n, 6], quantiles of the memory used, as the estimator gives them of a `memory_history`.
    procs : Floats
        float64[n], processors.
    price : float
        Of a job with too little, as `price_of` finds it, KiB.

    Returns
    -------
    kib : Floats
        float64[n], KiB per processor; NaN where there is no answer.
    share : Floats
        float64[n], 0.9 to 1; NaN where there is no answer.

    Examples
    --------
    >>> quantiles_kib = np.array([[900.0, 1000.0, 1500.0, 2000.0, 2040.0, 2040.0]])
    >>> recommended_kib(quantiles_kib, np.ones(1), 1e9)[0]
    array([4096.])
    """
    amounts = _amounts_kib(quantiles_kib)
    chosen = np.argmin(procs[:, None] * amounts + price * (1.0 - SHARES), axis=1)
    found = amounts[np.arange(len(amounts)), chosen]
    return found, np.where(np.isnan(found), np.nan, SHARES[chosen])


def _amounts_kib(quantiles_kib: Floats) -> Floats:
    """(jobs, SHARES) amounts, whole MiB, ascending; between quantiles logs are linear in the log of the rest."""
    known, rest = -np.log1p(-np.array(QUANTILES)), -np.log1p(-np.array(LEVELS))
    weights = np.stack([np.interp(rest, known, own) for own in np.eye(len(QUANTILES))])
    inside = np.exp(np.log(quantiles_kib) @ weights)
    amounts = np.concatenate([inside, inside[:, -1:] * np.array(list(BEYOND.values()))], axis=1)
    return np.ceil(amounts / MIB_KIB * (1 - 1e-12)) * MIB_KIB


def prices(used_kib: Floats, quantiles_kib: Floats, procs: Floats) -> Floats:
    """Per ended job the least price at which what is recommended for it would have been enough; infinite: none is."""
    amounts = _amounts_kib(quantiles_kib)
    enough, found = (amounts < used_kib[:, None]).sum(axis=1), np.zeros(len(used_kib))
    found[enough == len(SHARES)] = np.inf
    for level in range(1, len(SHARES)):
        own = np.flatnonzero(enough == level)
        less, more = amounts[own, :level], amounts[own, level:]
        rise = procs[own, None, None] * (more[:, None] - less[:, :, None])
        found[own] = (rise / (SHARES[level:] - SHARES[:level, None])).min(axis=2).max(axis=1, initial=0.0)
    return found


def price_of(needed: Floats, promise: float = PROMISE) -> float:
    """The price at which the promised share of jobs, whose `prices` these are, would have had enough; 0 without any."""
    n_left = int(AIM * (1.0 - promise) * len(needed))
    # A price at which two amounts cost the same would choose the smaller one.
    return 1.001 * float(min(np.sort(needed)[len(needed) - 1 - n_left], MOST_PRICE)) if len(needed) else MOST_PRICE


def price_now(record: Record) -> float:
    """The price at the promise of the jobs that a MEMORY_STATE has ended last."""
    return price_of(prices(record.runtime_s, record.quantiles_s[:, :N_QUANTILES], record.procs))


def recommended_as_of(past: History, quantiles_kib: Floats, promise: float) -> Floats:
    """(jobs,) what is recommended at each job's submit, KiB per processor, at the price of the midnight before."""
    needed, by_end, found = np.zeros(len(past)), past.by_end, np.full(len(past), np.nan)
    by_end = by_end[~np.isnan(quantiles_kib[by_end, 1])]
    needed[by_end] = prices(past.runtime_s[by_end], quantiles_kib[by_end], past.procs[by_end])
    day = np.floor(past.submit_s / DAY_S)
    for at in np.unique(day):
        known = by_end[: np.searchsorted(past.end_s[by_end], at * DAY_S, side="right")][-RECORD_JOBS:]
        own = np.flatnonzero(day == at)
        found[own], _ = recommended_kib(quantiles_kib[own], past.procs[own], price_of(needed[known], promise))
    return found
