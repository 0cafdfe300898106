"""Measured energy by processor count: the counts of least energy and of least energy times runtime.

Energy times runtime (energy-delay) is small where a run is frugal and fast (Horowitz, Indermaur & Gonzalez 1994).
"""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.predict.text_advice import figure, plural


@dataclass(frozen=True, slots=True)
class Energy:
    """Per count, rising: median energy (J) of its runs, and median energy times runtime of a run (J s)."""

    procs: Floats
    energy_j: Floats
    energy_delay_js: Floats

    @classmethod
    def of(cls, procs: Floats, energy_j: Floats, energy_delay_js: Floats) -> "Energy | None":
        """Of the counts whose energy is known (NaN: unknown); None where there is none."""
        known = np.flatnonzero(np.isfinite(energy_j))
        known = known[np.argsort(procs[known], kind="stable")]
        return cls(procs[known], energy_j[known], energy_delay_js[known]) if len(known) else None

    def least(self) -> tuple[int, int]:
        """The counts of least energy and of least energy times runtime; of equals the smaller."""
        return int(self.procs[self.energy_j.argmin()]), int(self.procs[self.energy_delay_js.argmin()])

    def sentence(self) -> str:
        """Which measured counts take least; empty where there is one only."""
        if len(self.procs) == 1:
            return ""
        frugal, both = self.least()
        energy_j, delay_js = self.energy_j.min(), self.energy_delay_js.min()
        counts = f"{len(self.procs):,} measured {plural('count', len(self.procs))}"
        return (
            f"Of {counts} {frugal:,} {plural('processor', frugal)} took least energy, {figure(energy_j)} J a run, and "
            f"{both:,} least energy times runtime, {figure(delay_js)} J s."
        )
