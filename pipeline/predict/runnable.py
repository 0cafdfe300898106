"""Runnable processor counts: those of the class on which a code always ran, or runs faster, in whole nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Floats
from pipeline.core.proc_classes import CLASSES, NODE_MULTIPLES

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
