"""Processor counts: the one generator of counts, and those of them that a code can run on."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.arrays import Floats
from pipeline.scaling.screens import CLASSES

REACH = 2
"""Recommended counts and next runs are at most this many times the largest observed count: costs grow with it."""

CLASS_REACH = 4
"""The same limit of a next run where the code's class of counts has none so near, as with powers of four."""

DENSE = 64
"""Counts per doubling where one nearest to some count is wanted: below 92 they are all counts."""


def counts_between(low: float, high: float, per_doubling: int) -> Floats:
    """Whole counts from `low` to `high`, so many in each doubling, evenly spaced in their logarithm.

    Every power of two is one of them, whatever the ends. Ends that are wanted are added by the caller.
    """
    found = _grid(low, high, per_doubling)
    return found[(found >= low) & (found <= high)]


def _grid(low: float, high: float, per_doubling: int) -> Floats:
    """The counts of the grid that lie about low to high, up to one beyond either end."""
    first, last = (np.log2(max(end, 1.0)) * per_doubling for end in (low, high))
    steps = np.arange(np.floor(first), np.ceil(last) + 1) / per_doubling
    return np.unique(np.round(2.0**steps))


def favoured_class(patterns: Iterable[Mapping[str, Any]]) -> str | None:
    """The class of counts that a group was found to run faster on, from its rows of PATTERNS."""
    return next((row["pattern"] for row in patterns if row["status"] == "found" and row["pattern"] in CLASSES), None)


MIN_IN_CLASS = 4
"""Least number of counts in a class to suggest it: fewer may lie in a class by chance."""

SHARE_IN_CLASS = 0.75
"""Least share of a series' counts in a class for suggestions to keep to it."""


def classes_of(sizes: Floats, favoured: str | None) -> list[str]:
    """Names of the class favoured and of those that three quarters of the counts, four at least, belong to."""
    enough = max(MIN_IN_CLASS, SHARE_IN_CLASS * len(sizes))
    return [name for name, is_in in CLASSES.items() if name == favoured or is_in(sizes).sum() >= enough]


def runnable(counts: Floats, sizes: Floats, procs_per_node: int | None, favoured: str | None) -> Floats:
    """The `counts` in the favoured class and in every class of the observed counts; above one node only whole nodes.

    A count within one node may be any of the class. Where no count above
    one node is a whole number of nodes, the class takes precedence: the code may not run outside it.
    """
    kept, classes = counts, classes_of(sizes, favoured)
    for name in classes:
        kept = kept[CLASSES[name](kept)]
    if procs_per_node is None:
        return kept
    within, above = kept[kept <= procs_per_node], kept[kept > procs_per_node]
    whole = above[above % procs_per_node == 0]
    return np.concatenate([within, above if classes and not len(whole) else whole])


def runnable_between(
    low: float, high: float, per_doubling: int, sizes: Floats, procs_per_node: int | None, favoured: str | None
) -> Floats:
    """Runnable counts from `low` to `high`: those of the generator, and the squares and whole nodes nearest to them."""
    if high < max(low, 1.0):
        return np.empty(0)
    near, node = _grid(low, high, per_doubling), procs_per_node or 1
    found = np.unique(np.concatenate([near, np.rint(np.sqrt(near)) ** 2, np.maximum(near // node, 1) * node]))
    return runnable(found[(found >= low) & (found <= high)], sizes, procs_per_node, favoured)


# Many groups of a log have run on the same counts.
@lru_cache(maxsize=1 << 14)
def candidates(
    known: tuple[float, ...], max_procs: int | None, procs_per_node: int | None, favoured: str | None
) -> tuple[int, ...]:
    """Counts without a run on which the code can run (see `runnable`), largest first; `known` are those with one.

    They lie near twice the largest count (or the machine's), half the smallest, and the middles of the gaps.
    """
    sizes, machine = np.array(known), max_procs or np.inf

    def nearest(wanted: float, above: float, up_to: float) -> int | None:
        counts = runnable_between(np.floor(above) + 1, up_to, DENSE, sizes, procs_per_node, favoured)
        return int(counts[np.abs(np.log(counts / wanted)).argmin()]) if len(counts) else None

    gaps = [(low, high, float(np.sqrt(low * high))) for low, high in pairwise([known[0] / 4, *known])]
    found = {nearest(middle, low if low >= known[0] else 0.0, high - 1) for low, high, middle in gaps}
    top = min(known[-1] * REACH, machine)
    beyond = nearest(top, known[-1], top)
    if beyond is None and not procs_per_node:
        beyond = nearest(known[-1], known[-1], min(known[-1] * CLASS_REACH, machine))
    most = max(machine, known[-1])
    return tuple(sorted((n for n in {*found, beyond} if n and n <= most), reverse=True))
