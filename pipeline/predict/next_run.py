"""Which processor count to run on next: where the shapes that fit so far disagree most, by what a run could tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.observed_series import ObservedSeries
from pipeline.predict.runnable import NONE_FAVOURED, Favoured, nearest

REACH = 2
"""A next run goes to this many times the largest size seen at most: what it costs grows with it."""

CLASS_REACH = 4
"""The same where the code's class of counts has none so near, as powers of four have not."""


@dataclass(frozen=True, slots=True)
class NextRun:
    """Per group: the count (0: every candidate was run), and the 80% interval (s) of the curve there today.

    `foretold`: log Bayes factor by which its siblings foretold the group (see average.Averaged.log_bayes).
    """

    procs: Ints
    low_s: Floats
    high_s: Floats
    foretold: Floats

    def rows(self, chosen: Ints) -> "NextRun":
        """Some of the groups, repeated as asked."""
        return NextRun(self.procs[chosen], self.low_s[chosen], self.high_s[chosen], self.foretold[chosen])


def next_runs(
    seen: ObservedSeries,
    groups: Ints,
    max_procs: int | None,
    procs_per_node: int | None = None,
    favoured: Sequence[Favoured] = (),
) -> NextRun:
    """For each of `groups`, of the candidates the one that splits the surviving posterior most.

    `favoured`, where given, has each group's class of counts, which its candidates keep to.
    Split is the variance between shapes over that within one: with it grows what a run there tells about the shape
    (the mutual information of a normal observation). One size says nothing of shapes; then it is the largest candidate.
    """
    classes = favoured or [NONE_FAVOURED] * len(groups)
    candidates = [
        _candidates(_sizes(seen, group), max_procs, procs_per_node, own)
        for group, own in zip(groups, classes, strict=True)
    ]
    chosen = np.array([found[0] if found else 0 for found in candidates], np.int64)
    low_s, high_s = np.full(len(groups), np.nan), np.full(len(groups), np.nan)
    asked = [row for row, found in enumerate(candidates) if found and len(_sizes(seen, groups[row])) > 1]
    counts = [len(candidates[row]) for row in asked]
    procs = np.array([n for row in asked for n in candidates[row]], np.float64)
    curve = seen.curve(np.repeat(groups[asked], counts), procs)
    for row, first, count in zip(asked, np.cumsum([0, *counts]), counts, strict=False):
        best = first + int(np.argmax(curve.split[first : first + count]))
        chosen[row] = int(procs[best])
        low_s[row], high_s[row] = np.exp(curve.log_s[best, [1, 3]])
    return NextRun(chosen, low_s, high_s, curve.log_bayes[groups])


def _sizes(seen: ObservedSeries, group: int) -> Floats:
    return seen.sizes.procs[seen.sizes.offsets[group] : seen.sizes.offsets[group + 1]]


def _candidates(
    sizes: Floats, max_procs: int | None, procs_per_node: int | None, favoured: Favoured = NONE_FAVOURED
) -> list[int]:
    """Counts not seen yet that the code can run on (see runnable.py), largest first.

    Near twice the largest (or the machine), half the smallest, and the middles of the gaps.
    """
    top = min(sizes[-1] * REACH, max_procs or np.inf)
    wanted = [(sizes[0] / 2, 0.0, sizes[0])]
    wanted += [(float(np.sqrt(low * high)), low, high) for low, high in pairwise(sizes)]
    beyond = (top, sizes[-1], top + 1)
    said = sizes, procs_per_node, favoured
    found = {nearest(middle, low, high, *said) for middle, low, high in [*wanted, beyond]} - {None}
    if nearest(*beyond, *said) is None and not favoured.node(procs_per_node):
        found.add(_next_of_class(sizes, max_procs, favoured))
    return sorted((int(n) for n in found if n and (max_procs is None or n <= max(max_procs, sizes[-1]))), reverse=True)


def _next_of_class(sizes: Floats, max_procs: int | None, favoured: Favoured) -> int | None:
    """The first count of the class beyond the largest size, where twice as many processors hold none."""
    top = min(sizes[-1] * CLASS_REACH, max_procs or np.inf)
    return nearest(float(sizes[-1]), float(sizes[-1]), top + 1, sizes, None, favoured)
