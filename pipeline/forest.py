"""Extremely randomised trees (Geurts, Ernst and Wehenkel 2006): the leaves of cases, and the means in them.

How often two cases share a leaf says how similar they are in what the outcome depends on (Meinshausen 2006).
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Array, Floats, Ints
from pipeline.kernels import kernel, uncounted_kernel

TREES, LEAST_LEAF, TRIED_SHARE = 50, 5, 0.5
"""Trees; cases of a leaf at least; share of the features that are tried at a split, each at one random threshold."""


class Forest(NamedTuple):
    """Nodes of each tree: a case goes to `below` of a node where its feature is at most the threshold, else beyond."""

    feature: Ints
    """(trees, nodes); -1: a leaf."""
    threshold: Floats
    below: Ints
    """The node below; the one beyond is the next."""


class Work(NamedTuple):
    """Work space of growing."""

    order: Ints
    """Cases, those of a node side by side."""
    outcome: Floats
    value: Floats
    stack: Ints
    """Nodes to split: first place, place after the last, number."""
    random: Array
    """(1,): the state of the generator, 64 bits without a sign."""


def grown(features: Floats, outcome: Floats) -> Forest:
    """A forest that tells apart the outcomes of cases by their features (cases, features); the same one each time."""
    n = len(features)
    n_nodes = max(2 * (n // LEAST_LEAF), 1) + 1
    shape = (TREES, n_nodes)
    forest = Forest(np.full(shape, -1), np.zeros(shape), np.zeros(shape, np.int64))
    stack, random = np.empty((n_nodes, 3), np.int64), np.ones(1, np.uint64)
    space = Work(np.empty(n, np.int64), np.empty(n), np.empty(n), stack, random)
    _grow(np.ascontiguousarray(features.T), outcome, space, forest)
    return forest


def leaves(forest: Forest, features: Floats) -> Ints:
    """(trees, cases): the leaf of each case."""
    found: Ints = np.empty((len(forest.feature), len(features)), np.int64)
    _descend(np.ascontiguousarray(features), forest, found)
    return found


def similarity(known: Ints, n_known: int, asked: Ints) -> Floats:
    """(n_known,): the mean share of the leaf of a question, per tree, that each of the first known cases is."""
    found = np.zeros(n_known)
    _count_shared(known, np.ascontiguousarray(asked), found)
    return found


@uncounted_kernel
def _grow(x: Floats, y: Floats, work: Work, forest: Forest) -> None:
    for tree in range(len(forest.feature)):
        for case in range(len(y)):
            work.order[case] = case
        work.stack[0, 0], work.stack[0, 1], work.stack[0, 2] = 0, len(y), 0
        n_stacked, n_nodes = 1, 1
        while n_stacked > 0:
            n_stacked -= 1
            first, last, node = work.stack[n_stacked]
            feature, threshold = _best_split(x, y, first, last, work)
            if feature >= 0:
                middle = _parted(x[feature], first, last, threshold, work)
                forest.feature[tree, node] = feature
                forest.threshold[tree, node] = threshold
                forest.below[tree, node] = n_nodes
                for begin, end in ((first, middle), (middle, last)):
                    work.stack[n_stacked, 0], work.stack[n_stacked, 1], work.stack[n_stacked, 2] = begin, end, n_nodes
                    n_stacked += 1
                    n_nodes += 1


@kernel
def _best_split(x: Floats, y: Floats, first: int, last: int, work: Work) -> tuple[int, float]:
    """The feature and threshold that lessen the squares of the outcomes most; -1: none leaves enough on each side."""
    found, threshold, most, total, n = -1, 0.0, 1e-9, 0.0, last - first
    if n < 2 * LEAST_LEAF:
        return found, threshold
    for place in range(n):
        work.outcome[place] = y[work.order[first + place]]
        total += work.outcome[place]
    for _ in range(max(int(TRIED_SHARE * len(x)), 1)):
        feature = int(_next(work.random) * len(x))
        least, largest = np.inf, -np.inf
        for place in range(n):
            value = x[feature, work.order[first + place]]
            work.value[place] = value
            least, largest = min(least, value), max(largest, value)
        cut = least + _next(work.random) * (largest - least)
        below, n_below = 0.0, 0
        for place in range(n):
            is_below = work.value[place] <= cut
            below += work.outcome[place] if is_below else 0.0
            n_below += is_below
        if n_below >= LEAST_LEAF and n - n_below >= LEAST_LEAF:
            gain = below * below / n_below + (total - below) * (total - below) / (n - n_below) - total * total / n
            if gain > most:
                found, threshold, most = feature, cut, gain
    return found, threshold


@kernel
def _parted(values: Floats, first: int, last: int, threshold: float, work: Work) -> int:
    """Puts the cases at most at the threshold first; where the others begin."""
    place = first
    for other in range(first, last):
        if values[work.order[other]] <= threshold:
            work.order[place], work.order[other] = work.order[other], work.order[place]
            place += 1
    return place


@kernel
def _next(random: Array) -> float:
    """The next number from 0 to 1 (splitmix64: Steele, Lea and Flood 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) / 9007199254740992.0


@uncounted_kernel
def _descend(x: Floats, forest: Forest, found: Ints) -> None:
    for case in range(len(x)):
        for tree in range(len(forest.feature)):
            node = 0
            while forest.feature[tree, node] >= 0:
                is_beyond = x[case, forest.feature[tree, node]] > forest.threshold[tree, node]
                node = forest.below[tree, node] + (1 if is_beyond else 0)
            found[tree, case] = node


@uncounted_kernel
def _count_shared(known: Ints, asked: Ints, found: Floats) -> None:
    for tree in range(len(asked)):
        leaf, n_shared = asked[tree], 0
        for case in range(len(found)):
            n_shared += known[tree, case] == leaf
        share = 1.0 / (max(n_shared, 1) * len(asked))
        for case in range(len(found)):
            found[case] += share if known[tree, case] == leaf else 0.0
