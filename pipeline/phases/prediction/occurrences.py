"""The occurrences of PHASE_POINTS as arrays, in the order of the run."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.buffers import integers

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Occurrences:
    """One value per occurrence, in the order of the run: its phase, its number within it, and its time (s), the mean
    over ranks. `rows` (occurrence, rank) are its rows of PHASE_POINTS."""

    phase: Ints
    occurrence: Ints
    time_s: Floats
    rows: Ints

    @classmethod
    def of(cls, points: pa.Table) -> Self:
        """From PHASE_POINTS, whose rows may be in any order; every occurrence has a row per rank."""
        position, rank, phase, occurrence = (
            integers(points.column(name))[0] for name in ("position", "rank", "phase_id", "occurrence")
        )
        n_ranks = int(rank.max(initial=0)) + 1
        rows = np.lexsort((rank, position)).reshape(-1, n_ranks)
        spans_s = points.column("t_end_s").to_numpy() - points.column("t_start_s").to_numpy()
        return cls(phase[rows[:, 0]], occurrence[rows[:, 0]], spans_s[rows].mean(axis=1), rows)

    def __len__(self) -> int:
        return len(self.phase)

    def by_phase(self) -> dict[int, Ints]:
        """The places of each phase's occurrences, in order."""
        order = np.argsort(self.phase, kind="stable")
        phases, begins = np.unique(self.phase[order], return_index=True)
        return dict(zip(phases.tolist(), np.split(order, begins[1:]), strict=True))


def evenly_spaced(n: int, n_chosen: int) -> Ints:
    """`n_chosen` of n places, each in the middle of an equal part."""
    return ((np.arange(n_chosen) + 0.5) * n / n_chosen).astype(np.int64)
