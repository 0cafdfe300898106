"""One template over a whole log, as of every submit: windows of ended jobs per category, and their estimates.

Between two submits the jobs that ended enter their categories; at a submit the job's category gives the estimate. Sums
are kept relative to a category's first values, so that equal runtimes have a spread of exactly 0.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.kernels import entry_kernel, kernel


@kernel
def insert(ordered: Floats, start: int, n: int, y: float) -> None:
    """Insert y into the n ascending values from `start` on; there has to be room for one more."""
    place = start + n
    while place > start and ordered[place - 1] > y:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = y


@kernel
def remove(ordered: Floats, start: int, n: int, y: float) -> None:
    """Remove one value equal to y, which is among the n ascending values from `start` on."""
    place = start
    while ordered[place] != y:
        place += 1
    for k in range(place, start + n - 1):
        ordered[k] = ordered[k + 1]


@kernel
def quantile(ordered: Floats, start: int, n: int, share: float) -> float:
    """The value at rank share * (n + 1) of the n ascending values from `start` on, interpolated linearly.

    The next value of an exchangeable series is below it with that probability.
    """
    rank = min(max(share * (n + 1) - 1, 0.0), n - 1.0)
    below = int(rank)
    above = min(below + 1, n - 1)
    return float(ordered[start + below] + (rank - below) * (ordered[start + above] - ordered[start + below]))


MEAN, MEDIAN, LAST, REGRESSION = range(4)

UPPER = 4
"""Place of the 95% quantile, the upper end of the 90% interval."""

WHOLE_SECOND_SD_S = 0.2886751345948129
"""Runtimes are whole seconds: a spread is never known better than that of rounding, 1 / sqrt(12) s."""

N, X0, Y0, SX, SY, SXX, SXY, SYY, N_OFF, OFF2 = range(10)


class Jobs(NamedTuple):
    """A History as input of one template; `category` -1: the job is in none."""

    category: Ints
    x: Floats
    y: Floats
    scale_s: Floats
    submit_s: Floats
    end_s: Floats
    is_lower_bound: Bools
    by_end: Ints
    ended: Ints


class Rule(NamedTuple):
    """The statistic and the bounds on history; 0 is no bound."""

    statistic: int
    max_count: int
    max_age_s: float
    last_k: int


class Windows(NamedTuple):
    """Per category: sums, and a ring of jobs in order of end with their runtimes in order of size."""

    sums: Floats
    start: Ints
    head: Ints
    ring: Ints
    ordered: Floats
    off: Floats


@entry_kernel
def as_of(jobs: Jobs, rule: Rule, windows: Windows, t_table: Floats, quantiles_s: Floats, width_s: Floats) -> None:
    """Fill (jobs, 6) quantiles and the width of the 90% interval, s; rows without an answer stay unchanged."""
    known = 0
    for i in range(len(jobs.category)):
        # A job that ends in the second of its submit is not learnt before its own estimate.
        while known < jobs.ended[i] and jobs.by_end[known] < i:
            _learn(jobs, rule, windows, jobs.by_end[known])
            known += 1
        if jobs.category[i] >= 0:
            _forget_old(jobs, rule, windows, jobs.category[i], jobs.submit_s[i])
            _answer(jobs, rule, windows, i, t_table, quantiles_s, width_s)


@entry_kernel
def narrow_down(value_s: Floats, width_s: Floats, best_value_s: Floats, best_width_s: Floats) -> None:
    """Take this template's values where its interval is narrower than the narrowest so far."""
    for i in range(len(width_s)):
        if width_s[i] < best_width_s[i]:
            best_width_s[i] = width_s[i]
            best_value_s[i] = value_s[i]


@entry_kernel
def error_with(
    value_s: Floats, width_s: Floats, best_value_s: Floats, best_width_s: Floats, runtime_s: Floats, other_s: Floats
) -> float:
    """Sum of absolute errors once this template is added; `other_s` answers where no template does."""
    total = 0.0
    for i in range(len(width_s)):
        is_narrower = width_s[i] < best_width_s[i]
        answer = value_s[i] if is_narrower else best_value_s[i]
        has_answer = is_narrower or best_width_s[i] < np.inf
        total += abs((answer if has_answer else other_s[i]) - runtime_s[i])
    return total


@kernel
def _learn(jobs: Jobs, rule: Rule, windows: Windows, j: int) -> None:
    c = jobs.category[j]
    if c < 0 or np.isnan(jobs.y[j]):
        return
    _forget_old(jobs, rule, windows, c, jobs.end_s[j])
    is_full = rule.max_count > 0 and windows.sums[c, N] >= rule.max_count
    if jobs.is_lower_bound[j] and _is_uninformative(jobs, rule, windows, c, j, is_full):
        return
    if is_full:
        _forget(jobs, rule, windows, c)
    _note_error(jobs, rule, windows, c, j)
    _put(rule, windows, c, j, jobs.y[j])
    _sum(windows.sums[c], jobs.x[j], jobs.y[j], 1.0)


@kernel
def _is_uninformative(jobs: Jobs, rule: Rule, windows: Windows, c: int, j: int, is_full: bool) -> bool:
    """Whether a lower bound is uninformative: below the expected runtime, or replacing a longer job."""
    if windows.sums[c, N] == 0:
        return False
    pushes_out = windows.sums[c, N] if rule.statistic != LAST else float(min(rule.last_k, windows.sums[c, N]))
    is_pushing = is_full or (rule.statistic == LAST and windows.sums[c, N] >= rule.last_k)
    if is_pushing and jobs.y[j] < jobs.y[_recent(windows, c, int(pushes_out))]:
        return True
    return bool(jobs.y[j] < _value(jobs, rule, windows, c, jobs.x[j]))


@kernel
def _forget_old(jobs: Jobs, rule: Rule, windows: Windows, c: int, now_s: float) -> None:
    if rule.max_age_s > 0:
        while windows.sums[c, N] > 0 and jobs.end_s[_recent(windows, c, int(windows.sums[c, N]))] < (
            now_s - rule.max_age_s
        ):
            _forget(jobs, rule, windows, c)


@kernel
def _forget(jobs: Jobs, rule: Rule, windows: Windows, c: int) -> None:
    j = _recent(windows, c, int(windows.sums[c, N]))
    if rule.statistic == MEDIAN:
        remove(windows.ordered, windows.start[c], int(windows.sums[c, N]), jobs.y[j])
    if rule.statistic == LAST and not np.isnan(windows.off[j]):
        windows.sums[c, N_OFF] -= 1
        windows.sums[c, OFF2] -= windows.off[j] ** 2
    _sum(windows.sums[c], jobs.x[j], jobs.y[j], -1.0)


@kernel
def _recent(windows: Windows, c: int, back: int) -> int:
    """The job that ended `back`-last in the category; 1 is the last."""
    capacity = windows.start[c + 1] - windows.start[c]
    return int(windows.ring[windows.start[c] + (windows.head[c] - back) % capacity])


@kernel
def _put(rule: Rule, windows: Windows, c: int, j: int, y: float) -> None:
    capacity = windows.start[c + 1] - windows.start[c]
    if capacity > 0:
        windows.ring[windows.start[c] + windows.head[c] % capacity] = j
        windows.head[c] += 1
    if rule.statistic == MEDIAN:
        insert(windows.ordered, windows.start[c], int(windows.sums[c, N]), y)


@kernel
def _note_error(jobs: Jobs, rule: Rule, windows: Windows, c: int, j: int) -> None:
    """Record the error of the mean of the last k for this job, before its own runtime is added."""
    if rule.statistic != LAST:
        return
    windows.off[j] = np.nan
    if windows.sums[c, N] >= rule.last_k:
        windows.off[j] = jobs.y[j] - _last_mean(jobs, rule, windows, c)
        windows.sums[c, N_OFF] += 1
        windows.sums[c, OFF2] += windows.off[j] ** 2


@kernel
def _last_mean(jobs: Jobs, rule: Rule, windows: Windows, c: int) -> float:
    n = min(rule.last_k, int(windows.sums[c, N]))
    total = 0.0
    for back in range(1, n + 1):
        total += jobs.y[_recent(windows, c, back)]
    return total / n


@kernel
def _sum(s: Floats, x: float, y: float, sign: float) -> None:
    if s[N] == 0:
        s[X0], s[Y0] = x, y
    dx, dy = x - s[X0], y - s[Y0]
    s[N] += sign
    s[SX] += sign * dx
    s[SY] += sign * dy
    s[SXX] += sign * dx * dx
    s[SXY] += sign * dx * dy
    s[SYY] += sign * dy * dy
    if s[N] == 0:  # removes rounding errors
        s[SX:] = 0.0


@kernel
def _value(jobs: Jobs, rule: Rule, windows: Windows, c: int, x: float) -> float:
    """The category's estimate for a job at x; it has at least one job. A regression on a single x is the mean."""
    s = windows.sums[c]
    if rule.statistic == MEDIAN:
        return quantile(windows.ordered, windows.start[c], int(s[N]), 0.5)
    if rule.statistic == LAST:
        return _last_mean(jobs, rule, windows, c)
    mean = s[Y0] + s[SY] / s[N]
    sxx = s[SXX] - s[SX] ** 2 / s[N]
    if rule.statistic == MEAN or s[N] < 3 or sxx <= 1e-9 * s[SXX]:
        return float(mean)
    return float(mean + (s[SXY] - s[SX] * s[SY] / s[N]) / sxx * (x - s[X0] - s[SX] / s[N]))


@kernel
def _error_sd(rule: Rule, s: Floats, value: float, x: float) -> tuple[float, int]:
    """Standard error of a new job's runtime about the value, and its degrees of freedom; none: no interval."""
    n = s[N]
    if rule.statistic == LAST:
        return np.sqrt(max(s[OFF2], 0.0) / s[N_OFF]), int(s[N_OFF])
    if rule.statistic == REGRESSION:
        return _error_sd_of_line(s, x)
    if n < 2:
        return 0.0, 0
    off = value - s[Y0]
    variance = max(s[SYY] - 2 * off * s[SY] + n * off * off, 0.0) / (n - 1)
    # A median of normal values varies pi / 2 times as much as their mean.
    return np.sqrt(variance * (1 + (1.0 if rule.statistic == MEAN else np.pi / 2) / n)), int(n) - 1


@kernel
def _error_sd_of_line(s: Floats, x: float) -> tuple[float, int]:
    n = s[N]
    sxx = s[SXX] - s[SX] ** 2 / n
    if n < 3 or sxx <= 1e-9 * s[SXX]:
        return 0.0, 0
    sxy, syy = s[SXY] - s[SX] * s[SY] / n, s[SYY] - s[SY] ** 2 / n
    variance = max(syy - sxy * sxy / sxx, 0.0) / (n - 2)
    away = x - s[X0] - s[SX] / n
    return np.sqrt(variance * (1 + 1 / n + away * away / sxx)), int(n) - 2


@kernel
def _answer(
    jobs: Jobs, rule: Rule, windows: Windows, i: int, t_table: Floats, quantiles_s: Floats, width_s: Floats
) -> None:
    c, x, scale_s = jobs.category[i], jobs.x[i], jobs.scale_s[i]
    s = windows.sums[c]
    if s[N] == 0:
        return
    value = _value(jobs, rule, windows, c, x)
    error_sd, freedom = _error_sd(rule, s, value, x)
    if freedom < 1 or not value > 0:
        return
    error_sd_s = max(error_sd * scale_s, WHOLE_SECOND_SD_S)
    t = t_table[min(freedom, len(t_table) - 1)]
    for k in range(len(quantiles_s[i])):
        quantiles_s[i, k] = max(value * scale_s + t[k] * error_sd_s, 0.0)
    if rule.statistic == MEDIAN:
        _rank_quantiles(windows, c, int(s[N]), scale_s, quantiles_s[i])
    width_s[i] = 2 * t[UPPER] * error_sd_s


@kernel
def _rank_quantiles(windows: Windows, c: int, n: int, scale_s: float, quantiles_s: Floats) -> None:
    """The window's own quantiles, where it has jobs enough to rank them; beyond its ends, not less than the ends."""
    start = windows.start[c]
    shares = (0.10, 0.50, 0.80, 0.90, 0.95, 0.99)
    for k in range(len(quantiles_s)):
        ranked_s = quantile(windows.ordered, start, n, shares[k]) * scale_s
        is_within = 1 <= shares[k] * (n + 1) <= n
        if is_within:
            quantiles_s[k] = ranked_s
        else:
            quantiles_s[k] = min(quantiles_s[k], ranked_s) if k == 0 else max(quantiles_s[k], ranked_s)
    for k in range(2, len(quantiles_s)):
        quantiles_s[k] = max(quantiles_s[k], quantiles_s[k - 1])
