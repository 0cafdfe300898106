"""Processor counts a code can be expected to run on: those of the class it always ran on, in whole nodes."""

from collections.abc import Callable

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.core.proc_classes import powers_of_two, squares

MIN_IN_CLASS = 4
"""Sizes of a class below which nothing is said of what the code runs on: fewer lie in some class by chance."""

SHARE_IN_CLASS = 0.75
"""Share of a series' sizes in a class from which a suggestion keeps to it."""

_MANY = 4096
"""Counts between two ends that are looked at one by one."""

CLASSES: dict[str, Callable[[Floats], Bools]] = {"powers_of_two": powers_of_two, "squares": squares}


def classes_of(sizes: Floats) -> list[str]:
    """Names of the classes that three quarters of the sizes, four at least, belong to."""
    shares = {name: is_in(sizes) for name, is_in in CLASSES.items()}
    return [name for name, inside in shares.items() if inside.sum() >= max(MIN_IN_CLASS, SHARE_IN_CLASS * len(sizes))]


def runnable(counts: Floats, sizes: Floats, procs_per_node: int | None) -> Floats:
    """Those of `counts` in every class of the sizes seen; of these whole nodes above one node.

    A count within one node may be any of the class. Where no count of a class is whole the class goes before the
    node: outside it the code may not run.
    """
    kept = counts
    for name in classes_of(sizes):
        kept = kept[CLASSES[name](kept)]
    if procs_per_node is None:
        return kept
    whole = kept[(kept <= procs_per_node) | (kept % procs_per_node == 0)]
    return kept if not len(whole) and classes_of(sizes) else whole


def nearest(wanted: float, low: float, high: float, sizes: Floats, procs_per_node: int | None) -> int | None:
    """The runnable count nearest to `wanted` in logs, above `low` and below `high`; None where there is none."""
    counts = _between(low, high, procs_per_node)
    found = runnable(counts, sizes, procs_per_node)
    return int(found[np.abs(np.log(found / wanted)).argmin()]) if len(found) else None


def _between(low: float, high: float, procs_per_node: int | None) -> Floats:
    """Whole counts between two ends; where they are many, those that a class or a node can ask for among them."""
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
