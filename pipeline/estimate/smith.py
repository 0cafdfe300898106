"""Smith, Foster & Taylor's templates (1998, 2004), a rival of backtests: the narrowest template's mean answers.

Jobs that share the values of a template's columns form a category. A job that lacks one of the values is in none, and a
template of shares passes over jobs without a request.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History
from pipeline.estimate.keys import mixed
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.submits import capped
from pipeline.kernels import entry_kernel, kernel


class Template(NamedTuple):
    """The columns that jobs share, the number of latest jobs, and whether runtimes count as shares of the request."""

    columns: tuple[str, ...]
    n_latest: int
    is_share: bool = False


TEMPLATES = (
    Template(("who", "what", "requested_s", "procs"), 3), Template(("who", "requested_s", "procs"), 3),
    Template(("who",), 3, is_share=True), Template(("queue",), 1000, is_share=True), Template((), 1000),
)  # fmt: skip
"""The papers' result: submitter, program, size and a short memory. Of memories of 3, 5 and 10 jobs and six such sets
this was the best on the first thirds of KTH, CTC, SDSC-SP2 and SDSC-BLUE; the errors differ by at most 13%."""

T_TABLE = stdtrit(np.arange(1, 1000)[:, None], np.array(QUANTILES)[None, :])
"""Student's t per degrees of freedom (row, from 1) and quantile."""

UPPER = QUANTILES.index(0.95)

WHOLE_SECOND_SD_S = 0.2886751345948129
"""Runtimes are whole seconds: a spread is never known better than that of rounding, 1 / sqrt(12) s."""


def smith(history: History, _settings: EstimateRules) -> Floats:
    """(jobs, 6) quantiles, s, of the template with the narrowest 90% interval for one more job; NaN: none answers.

    The lower two are at most the request. Student's t gives the interval of a mean (Smith, Foster & Taylor 1998,
    section 2.1).
    """
    best, requested_s = np.full((len(history), len(QUANTILES)), np.nan), history.requested_s
    width_s = np.full(len(history), np.inf)
    for template in TEMPLATES:
        has_scale = template.is_share & (requested_s > 0)
        scale_s = np.where(has_scale, requested_s, 1.0)
        category = np.where(has_scale | (not template.is_share), _categories(history, template.columns), -1)
        rings = np.zeros((int(category.max(initial=-1)) + 1, template.n_latest))
        _narrow(
            category, history.runtime_s / scale_s, scale_s, history.is_lower_bound, history.by_end, history.ended,
            rings, T_TABLE, width_s, best,
        )  # fmt: skip
    best[:, :2] = capped(best[:, :2], requested_s)
    return np.maximum.accumulate(best, axis=1)


def _categories(history: History, columns: tuple[str, ...]) -> Ints:
    """Codes from 0 of jobs with equal values; -1 where one is unknown."""
    values = [history.codes[name] if name in history.codes else getattr(history, name) for name in columns]
    is_known = np.logical_and.reduce([np.full(len(history), True)] + [one >= 0 for one in values])
    found, codes = np.full(len(history), -1, np.int64), mixed(np.zeros(len(history), np.int64), *values)
    found[is_known] = np.unique(codes[is_known], return_inverse=True)[1]
    return found


@entry_kernel
def _narrow(
    category: Ints, y: Floats, scale_s: Floats, is_stopped: Bools, by_end: Ints, ended: Ints, rings: Floats,
    t_table: Floats, width_s: Floats, best: Floats,
) -> None:  # fmt: skip
    """Set the quantiles and widths of jobs whose category has a narrower interval than any before."""
    n_taken, n_over = np.zeros(len(rings), np.int64), 0
    for job in range(len(category)):
        # A job that ends in the second of its submit is not learnt before its own estimate.
        while n_over < ended[job] and by_end[n_over] < job:
            over = by_end[n_over]
            own, n_over = category[over], n_over + 1
            # A job that was stopped below the mean says nothing.
            if own >= 0 and not (is_stopped[over] and y[over] < _mean_and_sd(rings[own], n_taken[own])[0]):
                rings[own, n_taken[own] % rings.shape[1]] = y[over]
                n_taken[own] += 1
        own = category[job]
        if own < 0 or n_taken[own] < 2:
            continue
        mean, sd = _mean_and_sd(rings[own], n_taken[own])
        held, sd_s = min(n_taken[own], rings.shape[1]), max(sd * scale_s[job], WHOLE_SECOND_SD_S)
        t = t_table[min(held - 1, len(t_table)) - 1]
        if mean > 0 and 2 * t[UPPER] * sd_s < width_s[job]:
            width_s[job] = 2 * t[UPPER] * sd_s
            for k in range(len(t)):
                best[job, k] = max(mean * scale_s[job] + t[k] * sd_s, 0.0)


@kernel
def _mean_and_sd(ring: Floats, n_taken: int) -> tuple[float, float]:
    """Mean of the latest values, and the standard error of one more about it."""
    n, total, squares = min(n_taken, len(ring)), 0.0, 0.0
    for place in range(n):
        total += ring[place]
    mean = total / n if n > 0 else 0.0
    for place in range(n):
        squares += (ring[place] - mean) ** 2
    return mean, np.sqrt(squares / (n - 1) * (1 + 1 / n)) if n > 1 else 0.0
