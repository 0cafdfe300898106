"""Processor counts: the one generator of counts, and those of them that a code can run on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats
from pipeline.scaling.screens import CLASSES, NODE_MULTIPLES

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


@dataclass(frozen=True, slots=True)
class Favoured:
    """The class of counts that a series was found to run faster on, if any; of whole nodes, a node's processors."""

    name: str | None = None
    node_procs: int | None = None

    @classmethod
    def of(cls, patterns: Iterable[Mapping[str, Any]]) -> "Favoured":
        """Of one group's rows of PATTERNS: the class found."""
        for row in patterns:
            if row["status"] == "found" and row["pattern"] in (*CLASSES, NODE_MULTIPLES):
                return cls(row["pattern"], row["node_procs"])
        return cls()

    @classmethod
    def by_group(cls, patterns: pa.Table) -> dict[str, "Favoured"]:
        """Per group with a pattern in PATTERNS its class found."""
        found = patterns.filter(pc.equal(patterns.column("status"), "found")).to_pylist()
        of_group = itemgetter("group_id")
        return {group: cls.of(rows) for group, rows in groupby(sorted(found, key=of_group), of_group)}


MIN_IN_CLASS = 4
"""Least number of counts in a class to suggest it: fewer may lie in a class by chance."""

SHARE_IN_CLASS = 0.75
"""Least share of a series' counts in a class for suggestions to keep to it."""


def classes_of(sizes: Floats, favoured: Favoured) -> list[str]:
    """Names of the class favoured and of those that three quarters of the counts, four at least, belong to."""
    enough = max(MIN_IN_CLASS, SHARE_IN_CLASS * len(sizes))
    return [name for name, is_in in CLASSES.items() if name == favoured.name or is_in(sizes).sum() >= enough]


def runnable(counts: Floats, sizes: Floats, procs_per_node: int | None, favoured: Favoured) -> Floats:
    """The `counts` in the favoured class and in every class of the observed counts; above one node only whole nodes.

    A count within one node may be any of the class, unless whole nodes are the favoured class. Where no count above
    one node is a whole number of nodes, the class takes precedence: the code may not run outside it.
    """
    kept, classes = counts, classes_of(sizes, favoured)
    for name in classes:
        kept = kept[CLASSES[name](kept)]
    if favoured.node_procs:
        kept = kept[kept % favoured.node_procs == 0]
    node = favoured.node_procs or procs_per_node
    if node is None:
        return kept
    within, above = kept[kept <= node], kept[kept > node]
    whole = above[above % node == 0]
    return np.concatenate([within, above if classes and not len(whole) else whole])


def runnable_between(
    low: float, high: float, per_doubling: int, sizes: Floats, procs_per_node: int | None, favoured: Favoured
) -> Floats:
    """Runnable counts from `low` to `high`: those of the generator, and the squares and whole nodes nearest to them."""
    if high < max(low, 1.0):
        return np.empty(0)
    near, node = _grid(low, high, per_doubling), favoured.node_procs or procs_per_node or 1
    found = np.unique(np.concatenate([near, np.rint(np.sqrt(near)) ** 2, np.maximum(near // node, 1) * node]))
    return runnable(found[(found >= low) & (found <= high)], sizes, procs_per_node, favoured)


# Many groups of a log have run on the same counts.
@lru_cache(maxsize=1 << 14)
def candidates(
    known: tuple[float, ...], max_procs: int | None, procs_per_node: int | None, favoured: Favoured
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
    if beyond is None and not (favoured.node_procs or procs_per_node):
        beyond = nearest(known[-1], known[-1], min(known[-1] * CLASS_REACH, machine))
    most = max(machine, known[-1])
    return tuple(sorted((n for n in {*found, beyond} if n and n <= most), reverse=True))
