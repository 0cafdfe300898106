"""Which processor count to run on next: the one where a run is most informative about the shape of the curve."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.observed_series import ObservedSeries
from pipeline.predict.runnable import NONE_FAVOURED, Favoured, nearest

REACH = 2
"""A next run uses at most this many times the largest observed size: its cost grows with the size."""

CLASS_REACH = 4
"""The same limit where the code's class of counts has none so near, as with powers of four."""


@dataclass(frozen=True, slots=True)
class NextRun:
    """Per group: the count (0: every candidate was run), and the 80% interval (s) of the curve there today.

    `sibling_log_bayes`: log Bayes factor of the siblings' prior over the general one (see average.Averaged.log_bayes).
    """

    procs: Ints
    low_s: Floats
    high_s: Floats
    sibling_log_bayes: Floats

    def rows(self, chosen: Ints) -> "NextRun":
        """The rows of the `chosen` groups, in that order and with repeats."""
        return NextRun(self.procs[chosen], self.low_s[chosen], self.high_s[chosen], self.sibling_log_bayes[chosen])


def next_runs(
    observed: ObservedSeries,
    groups: Ints,
    max_procs: int | None,
    procs_per_node: int | None = None,
    favoured: Sequence[Favoured] = (),
) -> NextRun:
    """For each of `groups`, the candidate count with the largest split of the posterior.

    `favoured`, where given, has each group's class of counts, to which its candidates keep. Split is the variance
    between shapes over the variance within one shape; the mutual information of a normal observation and the shape
    grows with it. A group of one size has no information on shapes: the largest candidate is chosen.
    """
    classes = favoured or [NONE_FAVOURED] * len(groups)
    candidates = [
        _candidates(_sizes(observed, group), max_procs, procs_per_node, own)
        for group, own in zip(groups, classes, strict=True)
    ]
    chosen = np.array([found[0] if found else 0 for found in candidates], np.int64)
    low_s, high_s = np.full(len(groups), np.nan), np.full(len(groups), np.nan)
    multi_size = [row for row, found in enumerate(candidates) if found and len(_sizes(observed, groups[row])) > 1]
    counts = [len(candidates[row]) for row in multi_size]
    procs = np.array([n for row in multi_size for n in candidates[row]], np.float64)
    curve = observed.curve(np.repeat(groups[multi_size], counts), procs)
    for row, first, count in zip(multi_size, np.cumsum([0, *counts]), counts, strict=False):
        best = first + int(np.argmax(curve.split[first : first + count]))
        chosen[row] = int(procs[best])
        low_s[row], high_s[row] = np.exp(curve.log_s[best, [1, 3]])
    return NextRun(chosen, low_s, high_s, curve.log_bayes[groups])


def _sizes(observed: ObservedSeries, group: int) -> Floats:
    return observed.sizes.procs[observed.sizes.offsets[group] : observed.sizes.offsets[group + 1]]


def _candidates(
    sizes: Floats, max_procs: int | None, procs_per_node: int | None, favoured: Favoured = NONE_FAVOURED
) -> list[int]:
    """Counts without a run on which the code can run (see runnable.py), largest first.

    They lie near twice the largest size (or the machine's), half the smallest, and the middles of the gaps.
    """
    return list(_candidates_of(tuple(sizes.tolist()), max_procs, procs_per_node, favoured))


@lru_cache(maxsize=1 << 14)
def _candidates_of(
    known: tuple[float, ...], max_procs: int | None, procs_per_node: int | None, favoured: Favoured
) -> tuple[int, ...]:
    # Many groups of a log have run on the same sizes.
    sizes = np.array(known)
    top = min(sizes[-1] * REACH, max_procs or np.inf)
    wanted = [(sizes[0] / 2, 0.0, sizes[0])]
    wanted += [(float(np.sqrt(low * high)), low, high) for low, high in pairwise(sizes)]
    beyond = (top, sizes[-1], top + 1)
    rules = sizes, procs_per_node, favoured
    found = {nearest(middle, low, high, *rules) for middle, low, high in [*wanted, beyond]} - {None}
    if nearest(*beyond, *rules) is None and not favoured.node(procs_per_node):
        found.add(_next_of_class(sizes, max_procs, favoured))
    allowed = (int(n) for n in found if n and (max_procs is None or n <= max(max_procs, sizes[-1])))
    return tuple(sorted(allowed, reverse=True))


def _next_of_class(sizes: Floats, max_procs: int | None, favoured: Favoured) -> int | None:
    """The next count of the class beyond the largest size; called where none lies within twice that size."""
    top = min(sizes[-1] * CLASS_REACH, max_procs or np.inf)
    return nearest(float(sizes[-1]), float(sizes[-1]), top + 1, sizes, None, favoured)
