"""Joins short phases to longer ones that repeat: the same rule of growth, on the sequence of phases."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipeline.phases.pas2p.kernels import grown_phases

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sequence:
    """The occurrences of a run in order: the phase of each, and the cuts (ticks) between them, one more."""

    level: int
    phase: Ints
    cuts: Ints


def joined(sequence: Sequence) -> Sequence:
    """One level up: runs of one phase count as one, and a phase grows until a phase of the level below repeats."""
    begins = np.flatnonzero(np.r_[True, np.diff(sequence.phase) != 0])
    runs = sequence.phase[begins]
    ends = grown_phases(np.arange(len(runs) + 1), runs, int(runs.max(initial=0)) + 1)
    names: dict[bytes, int] = {}
    phase = [names.setdefault(runs[a:b].tobytes(), len(names)) for a, b in pairwise(ends.tolist())]
    cuts = np.r_[sequence.cuts[begins], sequence.cuts[-1]][ends]
    return Sequence(sequence.level + 1, np.array(phase, np.int64), cuts)
