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
    over ranks. `rows` (occurrence, rank) are its rows of PHASE_POINTS.

    Where the reference run was not timed, `is_timed` is False, and `time_s` holds events: only their ratios count."""

    phase: Ints
    occurrence: Ints
    time_s: Floats
    rows: Ints
    is_timed: bool = True

    @classmethod
    def of(cls, points: pa.Table) -> Self:
        """From PHASE_POINTS, whose rows may be in any order; every occurrence has a row per rank."""
        position, rank, phase, occurrence = (
            integers(points.column(name))[0] for name in ("position", "rank", "phase_id", "occurrence")
        )
        n_ranks = int(rank.max(initial=0)) + 1
        rows = np.lexsort((rank, position)).reshape(-1, n_ranks)
        is_timed = points.column("t_end_s").null_count < points.num_rows
        ends = ("t_start_s", "t_end_s") if is_timed else ("from_event", "to_event")
        spans = np.subtract(*(points.column(name).to_numpy().astype(np.float64) for name in reversed(ends)))
        return cls(phase[rows[:, 0]], occurrence[rows[:, 0]], spans[rows].mean(axis=1), rows, is_timed)

    def reference_s(self, places: Ints) -> Floats:
        """The times of some occurrences on the reference machine (s), NaN where it was not timed."""
        return self.time_s[places] if self.is_timed else np.full(len(places), np.nan)

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


def representative(times_s: Floats, n_chosen: int) -> Ints:
    """`n_chosen` places of a phase's occurrences: evenly spaced, unless these meet a period of their times (s).

    Evenly spaced places of a periodic series may all hold the same one of its values (Cochran 1977, Section 8.4). Where
    their mean is further from the phase's than the standard error of a random sample, places shifted within equal parts
    by multiples of the golden ratio, which follow no period, are taken if these are nearer. The reference times alone
    decide.
    """
    even, n = evenly_spaced(len(times_s), n_chosen), len(times_s)
    error_s = float(times_s.std()) * np.sqrt(1 / n_chosen - 1 / n)
    if abs(times_s[even].mean() - times_s.mean()) <= error_s:
        return even
    part = np.arange(n_chosen)
    begins, ends = part * n // n_chosen, (part + 1) * n // n_chosen
    shifted = begins + ((part * _GOLDEN % 1) * (ends - begins)).astype(np.int64)
    return min((even, shifted), key=lambda places: abs(float(times_s[places].mean() - times_s.mean())))


_GOLDEN = (5**0.5 - 1) / 2
