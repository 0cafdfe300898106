"""Which processor count to run on next: where the shapes that fit so far disagree most, by what a run could tell."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.seen import Seen

REACH = 2
"""A next run goes to this many times the largest size seen at most: what it costs grows with it."""


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


def next_runs(seen: Seen, groups: Ints, max_procs: int | None) -> NextRun:
    """For each of `groups`, of the candidates the one that splits the surviving posterior most.

    Split is the variance between shapes over that within one: with it grows what a run there tells about the shape
    (the mutual information of a normal observation). One size says nothing of shapes; then it is the largest candidate.
    """
    candidates = [_candidates(_sizes(seen, group), max_procs) for group in groups]
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


def _sizes(seen: Seen, group: int) -> Floats:
    return seen.sizes.procs[seen.sizes.offsets[group] : seen.sizes.offsets[group + 1]]


def _candidates(sizes: Floats, max_procs: int | None) -> list[int]:
    """Counts not seen yet: twice the largest (or the machine), half the smallest, and the middles of the gaps."""
    smallest, largest = int(sizes[0]), int(sizes[-1])
    top = min(largest * REACH, max_procs or largest * REACH)
    middles = np.round(np.sqrt(sizes[:-1] * sizes[1:])).astype(np.int64)
    found = {top, max(smallest // 2, 1), *map(int, middles)} - set(map(int, sizes))
    return sorted((n for n in found if max_procs is None or n <= max(max_procs, largest)), reverse=True)
