"""Which processor count to run on next: the one where a run is most informative about the shape of the curve."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, Ints
from pipeline.scaling.curves import ObservedSeries
from pipeline.scaling.levels import CLASSES, NODE_MULTIPLES

MIN_IN_CLASS = 4
"""Least number of sizes in a class to suggest it: fewer may lie in a class by chance."""

SHARE_IN_CLASS = 0.75
"""Least share of a series' sizes in a class for suggestions to keep to it."""

_MANY = 4096
"""Most counts between two ends that are all candidates."""


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
        return NONE_FAVOURED

    @classmethod
    def by_group(cls, patterns: pa.Table) -> dict[str, "Favoured"]:
        """Per group with rows in PATTERNS its class found."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in patterns.filter(pc.equal(patterns.column("status"), "found")).to_pylist():
            rows.setdefault(row["group_id"], []).append(row)
        return {group: cls.of(own) for group, own in rows.items()}

    def node(self, procs_per_node: int | None) -> int | None:
        """Processors of a node: those of the class of whole nodes, else the site's."""
        return self.node_procs or procs_per_node


NONE_FAVOURED = Favoured()


def classes_of(sizes: Floats, favoured: Favoured = NONE_FAVOURED) -> list[str]:
    """Names of the class favoured and of those that three quarters of the sizes, four at least, belong to."""
    shares = {name: is_in(sizes) for name, is_in in CLASSES.items()}
    enough = max(MIN_IN_CLASS, SHARE_IN_CLASS * len(sizes))
    return [name for name, inside in shares.items() if name == favoured.name or inside.sum() >= enough]


def runnable(counts: Floats, sizes: Floats, procs_per_node: int | None, favoured: Favoured = NONE_FAVOURED) -> Floats:
    """The `counts` in the favoured class and in every class of the observed sizes; above one node only whole nodes.

    A count within one node may be any of the class, unless whole nodes are the favoured class. Where no count of a
    class is a whole number of nodes, the class takes precedence: the code may not run outside it.
    """
    kept, classes, node = counts, classes_of(sizes, favoured), favoured.node(procs_per_node)
    for name in classes:
        kept = kept[CLASSES[name](kept)]
    if favoured.node_procs:
        kept = kept[kept % favoured.node_procs == 0]
    if node is None:
        return kept
    whole = kept[(kept <= node) | (kept % node == 0)]
    return kept if not len(whole) and classes else whole


def nearest(
    wanted: float,
    low: float,
    high: float,
    sizes: Floats,
    procs_per_node: int | None,
    favoured: Favoured = NONE_FAVOURED,
) -> int | None:
    """The runnable count nearest to `wanted` in logs, above `low` and below `high`; None where there is none."""
    counts = _between(low, high, favoured.node(procs_per_node))
    found = runnable(counts, sizes, procs_per_node, favoured)
    return int(found[np.abs(np.log(found / wanted)).argmin()]) if len(found) else None


def _between(low: float, high: float, procs_per_node: int | None) -> Floats:
    """Whole counts between two ends; where there are many, a selection with the members of every class and node."""
    first, last = np.floor(low) + 1, np.ceil(high) - 1
    if last < first:
        return np.empty(0)
    if last - first < _MANY:
        return np.arange(first, last + 1)
    powers = 2.0 ** np.arange(np.ceil(np.log2(first)), np.floor(np.log2(last)) + 1)
    roots = np.unique(np.geomspace(np.ceil(np.sqrt(first)), np.floor(np.sqrt(last)), 200).round())
    plain = np.geomspace(first, last, 200).round()
    node = procs_per_node or 1
    found = np.unique(np.concatenate([powers, roots**2, plain, (plain // node) * node]))
    inside: Floats = found[(found >= first) & (found <= last)]
    return inside


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
    asked = np.repeat(groups[multi_size], counts)
    curve = observed.curve(asked, procs)
    log_s = observed.quantiles(asked, procs, curve)
    for row, first, count in zip(multi_size, np.cumsum([0, *counts]), counts, strict=False):
        best = first + int(np.argmax(curve.split[first : first + count]))
        chosen[row] = int(procs[best])
        low_s[row], high_s[row] = np.exp(log_s[best, [1, 3]])
    return NextRun(chosen, low_s, high_s, curve.log_bayes[groups])


def _sizes(observed: ObservedSeries, group: int) -> Floats:
    return observed.sizes.procs[observed.sizes.offsets[group] : observed.sizes.offsets[group + 1]]


def _candidates(
    sizes: Floats, max_procs: int | None, procs_per_node: int | None, favoured: Favoured = NONE_FAVOURED
) -> list[int]:
    """Counts without a run on which the code can run (see `runnable`), largest first.

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
