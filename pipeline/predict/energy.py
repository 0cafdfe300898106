"""Energy by processor count, measured, and the energy-delay product (Horowitz, Indermaur & Gonzalez 1994)."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class Energy:
    """Per count, rising: median energy (J) of its runs, and median energy times runtime of a run (J s)."""

    procs: Floats
    energy_j: Floats
    energy_delay_js: Floats

    def least(self) -> tuple[int, int]:
        """The counts of least energy and of least energy-delay; of equals the smaller."""
        return int(self.procs[self.energy_j.argmin()]), int(self.procs[self.energy_delay_js.argmin()])


def energy_by_count(procs: Floats, runtime_s: Floats, energy_j: Floats) -> Energy | None:
    """Of runs whose energy is known and above 0 (a meter that was off writes 0); None where there is none."""
    known = np.isfinite(energy_j) & (energy_j > 0)
    counts = np.unique(procs[known])
    if not len(counts):
        return None
    of_count = [known & (procs == count) for count in counts]
    energy = np.array([np.median(energy_j[rows]) for rows in of_count])
    delay = np.array([np.median(energy_j[rows] * runtime_s[rows]) for rows in of_count])
    return Energy(counts, energy, delay)
