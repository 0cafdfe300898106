"""Distributions of weighted points: the share below a value, and the quantile at a share."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.predict.cells import Atoms

_APART = 64.0
"""Larger than the range of log runtimes: owner times this plus a log runtime sorts points by owner, then by value."""

_FARTHEST = 30.0


@dataclass(frozen=True, slots=True)
class Mixtures:
    """Distributions end to end: the points of distribution i are first[i] to first[i + 1] - 1, by rising value.

    `share` is the part of the weight below a point plus half its own; it is interpolated linearly between points.
    """

    first: Ints
    value: Floats
    share: Floats

    @classmethod
    def of(cls, atoms: Atoms, n_owners: int) -> Self:
        """One distribution per owner; each needs at least one point."""
        value = np.clip(atoms.log_s, -_FARTHEST, _FARTHEST)
        order = np.argsort(atoms.owner * _APART + value, kind="stable")
        owner, value, weight = atoms.owner[order], value[order], atoms.weight[order]
        first = np.searchsorted(owner, np.arange(n_owners + 1)).astype(np.int64)
        total = np.cumsum(weight)
        before = np.append(0.0, total)[first]
        whole = np.maximum(np.diff(before), 1e-300)
        share = (total - weight / 2 - before[:-1][owner]) / whole[owner]
        return cls(first, value, np.clip(share, 1e-12, 1 - 1e-12))

    @property
    def _owner(self) -> Ints:
        return np.repeat(np.arange(self.first.size - 1), np.diff(self.first))

    def below(self, owner: Ints, value: Floats) -> Floats:
        """Share of each owner's distribution below a value; points equal to the value count half."""
        wanted = np.clip(value, -_FARTHEST, _FARTHEST)
        keys, asked = self._owner * _APART + self.value, owner * _APART + wanted
        left, right = np.searchsorted(keys, asked, "left"), np.searchsorted(keys, asked, "right")
        is_equal = right > left
        low, high = np.where(is_equal, left, left - 1), np.where(is_equal, right - 1, left)
        return self._between(owner, low, high, self.value, self.share, wanted, (0.0, 1.0))

    def at(self, owner: Ints, share: Floats) -> Floats:
        """Quantile of each owner's distribution at a share; it lies between the outermost points."""
        keys = self._owner + self.share
        high = np.searchsorted(keys, owner + share, "left")
        ends = (-np.inf, np.inf)
        found = self._between(owner, high - 1, high, self.share, self.value, share, ends)
        return np.clip(found, self.value[self.first[owner]], self.value[self.first[owner + 1] - 1])

    def _between(
        self, owner: Ints, low: Ints, high: Ints, x: Floats, y: Floats, at: Floats, ends: tuple[float, float]
    ) -> Floats:
        first, last = self.first[owner], self.first[owner + 1] - 1
        low_in, high_in = np.clip(low, first, last), np.clip(high, first, last)
        width = x[high_in] - x[low_in]
        part = np.where(width > 0, (at - x[low_in]) / np.where(width > 0, width, 1.0), 0.5)
        inside = y[low_in] + part * (y[high_in] - y[low_in])
        # Beyond the outermost point, half of the remaining share.
        below = ends[0] if np.isinf(ends[0]) else y[first] / 2
        above = ends[1] if np.isinf(ends[1]) else (1 + y[last]) / 2
        found: Floats = np.where(low < first, below, np.where(high > last, above, inside))
        return found
