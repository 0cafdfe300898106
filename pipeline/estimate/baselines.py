"""Simple methods that the estimator is compared with in backtests: statistics of the latest jobs of a key."""

import numpy as np

from pipeline.arrays import DAY_S, Array, Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.jobs import mixed
from pipeline.estimate.score import QUANTILES, points
from pipeline.kernels import entry_kernel, sort_numbers

PROGRAM = ("what", "gpu_type")
SIZE = ("procs", "gpus", "requested_mem_kib")
OWN = (
    ("who", *PROGRAM, "requested_s", *SIZE), ("who", *PROGRAM, *SIZE), ("who", *PROGRAM, "requested_s"),
    ("who", *PROGRAM), ("who",),
)  # fmt: skip
"""Keys of a submitter's jobs, the most specific one first."""
USER, EVERYBODY = (("who",),), ((*PROGRAM, "requested_s"),)
NEEDED = ("who", "what")
"""A job that lacks one of these has no key with it."""

MEAN, MAX, QUANTILE = range(3)
MARGIN_S = 900.0


def latest(
    history: History, values: Floats, keys: tuple[tuple[str, ...], ...], n_latest: int, statistic: int, least: int = 1
) -> Floats:  # fmt: skip
    """(jobs, 6) a statistic of `values` of the last `n_latest` ended jobs, from the first key with `least` of them.

    A mean and a largest value fill all six columns; NaN where no key has enough jobs.
    """
    codes, n_keys = np.empty((len(keys), len(history)), np.int64), 0
    for level, key in enumerate(keys):
        columns: list[Array] = [
            history.codes[name] if name in history.codes else getattr(history, name) for name in key
        ]
        digests = mixed(np.zeros(len(history), np.int64), *(np.nan_to_num(column) for column in columns))
        distinct, code = np.unique(digests, return_inverse=True)
        is_known = np.all([np.ones(len(history)), *(history.codes[name] >= 0 for name in key if name in NEEDED)], 0)
        codes[level] = np.where(is_known, code + n_keys, -1)
        n_keys += len(distinct)
    found, shares = np.full((len(history), len(QUANTILES)), np.nan), np.array(QUANTILES)
    _latest(codes, values, history.by_end, history.ended, n_keys, n_latest, statistic, least, shares, found)
    return found


@entry_kernel
def _latest(
    codes: Ints, values: Floats, by_end: Ints, ended: Ints, n_keys: int, n_latest: int, statistic: int, least: int,
    shares: Floats, found: Floats,
) -> None:  # fmt: skip
    n_levels, n_jobs = codes.shape
    newest, before = np.full(n_keys, -1), np.full((n_levels, n_jobs), -1)
    room, n_over = np.empty(n_latest), 0
    for job in range(n_jobs):
        while n_over < ended[job]:
            over = by_end[n_over]
            n_over += 1
            for level in range(n_levels):
                if codes[level, over] >= 0:
                    before[level, over] = newest[codes[level, over]]
                    newest[codes[level, over]] = over
        for level in range(n_levels):
            other, n = newest[codes[level, job]] if codes[level, job] >= 0 else -1, 0
            while other >= 0 and n < n_latest:
                room[n] = values[other]
                other, n = before[level, other], n + 1
            if n < least:
                continue
            own = room[:n]
            if statistic == QUANTILE:
                sort_numbers(own)
                for k in range(len(shares)):
                    found[job, k] = own[max(int(np.ceil(shares[k] * n - 1e-9)) - 1, 0)]
            else:
                found[job] = own.mean() if statistic == MEAN else own.max()
            break


def request(history: History) -> Floats:
    """The requested runtime as the median, s; NaN where none was requested."""
    return points(_requested_s(history))


def last_two(history: History) -> Floats:
    """Mean of the submitter's last two ended jobs, s, at most the request; the request until there are two."""
    return _or_request(latest(history, history.runtime_s, USER, 2, MEAN, 2)[:, 1], history)


def last_two_chain(history: History) -> Floats:
    """The same, of jobs with the same application, request and processors where two of these have ended."""
    return _or_request(latest(history, history.runtime_s, OWN, 2, MEAN, 2)[:, 1], history)


def recent_median(history: History) -> Floats:
    """Median of the submitter's last three ended jobs, s; NaN until there is one."""
    return points(_capped(latest(history, history.runtime_s, USER, 3, QUANTILE)[:, 1], history))


def recent_50(history: History) -> Floats:
    """Quantiles of the last 50 jobs of the most specific key that has two, s."""
    return _capped(latest(history, history.runtime_s, OWN, 50, QUANTILE, 2).T, history).T


def everybody(history: History) -> Floats:
    """Quantiles of the last 200 jobs of all users with the same program and requested runtime, s."""
    return _capped(latest(history, history.runtime_s, EVERYBODY, 200, QUANTILE, 3).T, history).T


def largest_of_15(history: History) -> Floats:
    """MetaCentrum's soft-walltime rule for OpenPBS: the largest of 15 shares, times the request, s, plus 900 s.

    Doubled for requests over 24 h; at most the request, and the request until a job has ended.
    """
    rule_s, requested_s = _largest(history, 15), _requested_s(history)
    return _or_request(np.where(requested_s > DAY_S, 2 * rule_s, rule_s) + MARGIN_S, history)


def largest_of_5(history: History) -> Floats:
    """The largest of five shares times the request, s, at most the request (the simulator Alea's)."""
    return _or_request(_largest(history, 5), history)


def _largest(history: History, n_latest: int) -> Floats:
    requested_s = _requested_s(history)
    shares = np.nan_to_num(history.runtime_s / requested_s)
    largest: Floats = latest(history, shares, USER, n_latest, MAX)[:, 1] * requested_s
    return largest


def _requested_s(history: History) -> Floats:
    return np.where(history.requested_s > 0, history.requested_s, np.nan)


def _capped(estimate_s: Floats, history: History) -> Floats:
    """At most the request, where both are known."""
    return np.where(np.isnan(estimate_s), np.nan, np.fmin(estimate_s, _requested_s(history)))


def _or_request(estimate_s: Floats, history: History) -> Floats:
    return points(np.where(np.isnan(estimate_s), _requested_s(history), _capped(estimate_s, history)))
