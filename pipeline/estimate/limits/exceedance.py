"""The chance that a job runs longer than a share of its request, from the quantiles estimated at its submit."""

import math

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.estimate.interpretable import entry_kernel, kernel
from pipeline.estimate.score import QUANTILES

SHARES = np.array([
    0.01, 0.02, 0.04, 0.07, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.50, 0.60, 0.70, 0.80, 0.90, 0.95,
])  # fmt: skip
"""Shares of the request among which a limit is chosen, beside the request itself."""

LEAST_CHANCE = 0.001
"""Least chance that the quantiles can show: they end at 99%."""

TAIL_POWER = 1.15
"""Beyond the last quantile the chance falls with this power of the runtime."""


def exceedance(quantiles_s: Floats, requested_s: Floats) -> Floats:
    """(jobs, shares) chance that the runtime is above each of SHARES of the request; NaN where nothing is known.

    The logarithm of the chance is interpolated linearly in the logarithm of the runtime between the quantiles.
    """
    log_s = np.log(np.maximum(quantiles_s, 1.0))
    log_chance = np.log(1.0 - np.array(QUANTILES))
    asked_s = np.where(requested_s > 0, requested_s, np.nan)
    return _exceedance(log_s, log_chance, asked_s, SHARES)


@entry_kernel
def _exceedance(log_s: Floats, log_chance: Floats, asked_s: Floats, shares: Floats) -> Floats:
    found = np.full((len(asked_s), len(shares)), np.nan)
    for job in range(len(asked_s)):
        if not np.isnan(asked_s[job]) and not np.isnan(log_s[job, 0]):
            for k in range(len(shares)):
                log_limit_s = math.log(max(asked_s[job] * shares[k], 1.0))
                found[job, k] = _chance(log_limit_s, log_s[job], log_chance)
    return found


@kernel
def _chance(at: float, log_s: Floats, log_chance: Floats) -> float:
    """The chance of a runtime above exp(at), s; it is 1 at a second."""
    left, left_chance = 0.0, 0.0
    for k in range(len(log_s)):
        if at <= log_s[k]:
            width = log_s[k] - left
            part = (at - left) / width if width > 0 else 1.0
            return math.exp(left_chance + part * (log_chance[k] - left_chance))
        left, left_chance = log_s[k], log_chance[k]
    return max(math.exp(left_chance - TAIL_POWER * (at - left)), LEAST_CHANCE)
