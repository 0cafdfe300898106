"""Fits as numpy columns, and the curves they draw."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.arrays import Bools, Floats, Ints, floats
from pipeline.laws import LAWS

_NUMBERS = (
    "t1_s",
    "tinf_s",
    "avg_parallelism",
    "avg_parallelism_lo",
    "avg_parallelism_hi",
    "sigma",
    "serial_fraction",
    "overhead_s",
    "exponent",
    "n_points",
    "n_jobs",
    "procs_min",
    "procs_max",
    "wssre",
    "loo_log_rmse",
    "core_log_sd",
    "repeat_log_lo95",
    "repeat_log_hi95",
)


@dataclass(frozen=True, slots=True)
class Curves:
    """Rows of FITS: law, group and status per row, numbers by column name with NaN for null."""

    group_id: npt.NDArray[np.object_]
    law: npt.NDArray[np.object_]
    status: npt.NDArray[np.object_]
    numbers: dict[str, Floats]

    @classmethod
    def of(cls, fits: pa.Table) -> Self:
        """The rows of a FITS table."""
        words = {name: np.array(fits.column(name).to_pylist(), object) for name in ("group_id", "law", "status")}
        return cls(**words, numbers={name: floats(fits, name) for name in _NUMBERS})

    def __getitem__(self, name: str) -> Floats:
        """One column of numbers."""
        return self.numbers[name]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.law)

    def take(self, rows: Ints | Bools) -> "Curves":
        """Some rows, repeated as asked."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        return Curves(self.group_id[rows], self.law[rows], self.status[rows], numbers)

    def runtime_s(self, procs: Floats) -> Floats:
        """Runtime of each row's law at its processor count (s)."""
        return self._by_law("runtime_s", procs)

    def largest_useful_procs(self) -> Floats:
        """Size beyond which each row's law gains nothing; infinite where it never stops gaining."""
        return self._by_law("largest_useful_procs")

    def _by_law(self, name: str, *columns: Floats) -> Floats:
        result = np.full(len(self), np.nan)
        for law in set(self.law):
            rows = self.law == law
            part = {column: values[rows] for column, values in self.numbers.items()}
            result[rows] = getattr(LAWS[law], name)(part, *(column[rows] for column in columns))
        return result
