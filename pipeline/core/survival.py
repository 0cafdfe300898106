"""Quantiles of right-censored runtimes: the product-limit estimate of Kaplan & Meier (1958).

Without lower bounds they are the sample quantiles of Hyndman & Fan (1996), type 7: linear interpolation. With bounds,
an ended job has the position F n/(n - 1), where F is one minus the survival estimate before it and n the number of
jobs; without bounds that is the position of type 7, (i - 1)/(n - 1) for the ith. Bounds longer than every ended runtime
extend the curve to the longest of them, so that a further bound never lowers a quantile. A share beyond the curve is
NaN: the quantile is longer than every runtime that ended.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel

ROUNDING = 1e-12


def survival_order(runtime_s: Floats, is_bound: Bools) -> Ints:
    """Rows in order of runtime; of equal runtimes, those that ended before those that are bounds."""
    return np.lexsort((is_bound, runtime_s))


def survival_quantiles(
    runtime_s: Floats, is_bound: Bools, starts: Ints, counts: Ints, shares: Sequence[float]
) -> Floats:
    """Quantiles (s) in the shape (shares, segments); each segment of jobs is in survival_order."""
    found = np.empty((len(shares), len(starts)))
    _quantiles(runtime_s, is_bound, starts, counts, np.array(shares, np.float64), found)
    return found


@kernel
def _at(share: float, reach: float, ended: Floats, place: Floats, n: int) -> Any:
    if len(ended) == 0 or share > reach + ROUNDING:
        return np.nan
    wanted = share * (n - 1)
    high = np.searchsorted(place, wanted, side="right")
    low = high - 1
    if high == len(ended):
        return ended[low]
    return ended[low] + (wanted - place[low]) / (place[high] - place[low]) * (ended[high] - ended[low])


@entry_kernel
def _quantiles(runtime_s: Floats, is_bound: Bools, starts: Ints, counts: Ints, shares: Floats, found: Floats) -> None:
    longest = counts.max() + 1 if len(counts) else 0
    ended, place = np.empty(longest), np.empty(longest)
    for k in range(len(starts)):
        n_ended, curve, behind = 0, 1.0, 0
        for i in range(counts[k]):
            if is_bound[starts[k] + i]:
                continue
            at_risk, behind = counts[k] - i, i + 1
            # Without bounds the count gives the place exactly, and the same bits as the plain quantile.
            place[n_ended] = n_ended if i == n_ended else (1.0 - curve) * counts[k]
            ended[n_ended] = runtime_s[starts[k] + i]
            n_ended += 1
            curve *= (at_risk - 1) / at_risk
        n_places = n_ended
        if 0 < behind < counts[k]:
            place[n_ended], ended[n_ended] = (1.0 - curve) * counts[k], runtime_s[starts[k] + counts[k] - 1]
            n_places += 1
        for q in range(len(shares)):
            found[q, k] = _at(shares[q], 1.0 - curve, ended[:n_places], place[:n_places], counts[k])
