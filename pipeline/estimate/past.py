"""A History as kernels take it: plain arrays, and the order in which jobs start as well."""

from typing import NamedTuple

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.estimate.history import History


class Past(NamedTuple):
    """One value a job, in order of submit; 0 where no time was requested, -1 where a code is unknown."""

    submit_s: Floats
    start_s: Floats
    end_s: Floats
    runtime_s: Floats
    requested_s: Floats
    procs: Floats
    is_lower_bound: Bools
    user: Ints
    by_end: Ints
    ended: Ints
    by_start: Ints
    """Places in order of start."""
    started: Ints
    """Per job, how many of the earlier jobs, the first ones in `by_start`, had started by its submit."""


def past_of(history: History) -> Past:
    """The arrays of a History; a start is the end less the runtime, never before the submit."""
    start_s = np.maximum(history.end_s - history.runtime_s, history.submit_s)
    by_start = np.argsort(start_s, kind="stable")
    return Past(
        submit_s=history.submit_s,
        start_s=start_s,
        end_s=history.end_s,
        runtime_s=history.runtime_s,
        requested_s=np.where(history.requested_s > 0, history.requested_s, 0.0),
        procs=history.procs,
        is_lower_bound=history.is_lower_bound,
        user=history.codes["user"],
        by_end=history.by_end,
        ended=history.ended,
        by_start=by_start,
        started=_started(history.submit_s, start_s, start_s[by_start]),
    )


def _started(submit_s: Floats, start_s: Floats, in_order_s: Floats) -> Ints:
    """Without the job itself and later ones of its second: that they start at once is not known at the submit."""
    n_at_once = np.append(0, np.cumsum(start_s == submit_s))
    unknown = n_at_once[np.searchsorted(submit_s, submit_s, side="right")] - n_at_once[:-1]
    started: Ints = np.searchsorted(in_order_s, submit_s, side="right") - unknown
    return started


def ranks(values: Floats) -> Ints:
    """Codes of the distinct positive values, from 0; -1 elsewhere."""
    is_known = values > 0
    codes = np.full(len(values), -1, np.int64)
    codes[is_known] = np.unique(values[is_known], return_inverse=True)[1]
    return codes


def joined(*columns: Ints) -> Ints:
    """One code a combination of codes, -1 (unknown) matching -1, as long as the first column is known."""
    code = columns[0].astype(np.int64)
    for column in columns[1:]:
        mixed = code * (int(column.max(initial=0)) + 2) + column + 1
        code = np.where(code < 0, -1, np.unique(mixed, return_inverse=True)[1])
    return code


def points(estimate_s: Floats) -> Floats:
    """(jobs, 5) with the estimate as the median, and no other quantile."""
    quantiles_s = np.full((len(estimate_s), 5), np.nan)
    quantiles_s[:, 1] = estimate_s
    return quantiles_s


def capped(values_s: Floats, requested_s: Floats) -> Floats:
    """Values no longer than the request, where there is one."""
    limit_s = np.where(requested_s > 0, requested_s, np.inf)
    return np.minimum(values_s, limit_s if values_s.ndim == 1 else limit_s[:, None])
