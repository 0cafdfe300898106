"""Adaptive conformal quantiles (Gibbs & Candes 2021), one-sided at each quantile, as of every submit.

Each job has a ladder of ascending runtimes, from its own quantiles; a nominal quantile has a position on the ladder. A
job that ends above its quantile moves the position up for all later jobs, one that ends below moves it down. So the
share of jobs above tends to its nominal value for any sequence of jobs.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.estimate.interpretable import entry_kernel, kernel
from pipeline.estimate.submits import Events, Jobs

SLACK = 3.0
"""How far a position may move beyond either end of the ladder, in rungs, so that a burst of errors is not forgotten."""


@entry_kernel
def calibrate(
    past: Jobs, events: Events, ladder: Floats, found: Floats, past_found: Floats, rungs: Floats,
    shares: Floats, step: float,
) -> None:  # fmt: skip
    """Set `found` to (jobs, shares) quantiles, s, from (jobs, rungs) ascending runtimes; NaN where the ladder has none.

    `rungs`, the position of each quantile, is updated with the ends. Where the submits are part of the earlier jobs,
    `past_found` gets their quantiles too.
    """
    n, n_rungs, n_over = len(ladder), ladder.shape[1], 0
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _learn(over, past, past_found[over], rungs, shares, step, n_rungs)
            n_over += 1
        if job == n:
            break
        for k in range(len(shares)):
            found[job, k] = _on_ladder(ladder[job], rungs[k])
        if events.first >= 0:
            past_found[events.first + job] = found[job]


@kernel
def _learn(
    over: int, past: Jobs, found: Floats, rungs: Floats, shares: Floats, step: float, n_rungs: int
) -> None:  # fmt: skip
    for k in range(len(shares)):
        if np.isnan(found[k]):
            continue
        # A runtime equal to either bound lies within the interval.
        is_above = past.runtime_s[over] > found[k] or (shares[k] < 0.5 and past.runtime_s[over] == found[k])
        # A job stopped below the quantile might have exceeded it, unless the quantile is at least the limit.
        if past.is_lower_bound[over] and not is_above and not found[k] >= past.requested_s[over]:
            continue
        moved = rungs[k] + step * ((1.0 if is_above else 0.0) - (1 - shares[k]))
        rungs[k] = min(max(moved, -SLACK), n_rungs - 1.0 + SLACK)


@kernel
def _on_ladder(ladder: Floats, rung: float) -> float:
    low = min(max(int(np.floor(rung)), 0), len(ladder) - 2)
    part = min(max(rung - low, 0.0), 1.0)
    value_s: float = ladder[low] ** (1 - part) * ladder[low + 1] ** part
    return value_s
