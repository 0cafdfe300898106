"""What a group's runs are counted in, counts in words, and the types of GPUs: processors, nodes or GPUs."""

from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

MOST_EFFICIENCY = 1.2
"""Efficiencies above this say that predictions at two counts do not agree, not that processors gain more than all."""

MOST_OK_SPAN = 1.5
"""How many times the 80% interval of an ok prediction spans at most, end to end.

On codes that had no say such predictions are 8% off on average, others 35%.
"""


class Axis(StrEnum):
    """What the counts of a scalability series are of, with the unit in the singular."""

    unit: str

    def __new__(cls, value: str, unit: str = "") -> "Axis":
        """The axis of this value."""
        member = str.__new__(cls, value)
        member._value_, member.unit = value, unit
        return member

    PROCS = "procs", "processor"
    NODES = "nodes", "node"
    GPUS = "gpus", "GPU"

    @property
    def units(self) -> str:
        """The unit in the plural."""
        return plural(self.unit, 2)


UNTOLD = "gpu"
"""Stands for the type of GPUs where the log does not tell it."""


def gpu_types(jobs: pa.Table) -> pa.ChunkedArray:
    """The type of each job's GPUs, UNTOLD where the log does not tell it; null for a job that held none."""
    has_gpus = pc.greater(jobs.column("gpus"), 0)
    told = pc.fill_null(jobs.column("gpu_type").cast(pa.string()), UNTOLD)
    return pc.if_else(pc.fill_null(has_gpus, False), told, None)


def axis_of(value: str | None) -> Axis:
    """The axis that a column `axis` states; null, as in tables that were made without it, is processors."""
    return Axis.PROCS if value is None else Axis(value)


def counted(n: float, axis: Axis) -> str:
    """A count with its unit: 8 GPUs, 1 node, 1,024 processors."""
    return f"{n:,.0f} {plural(axis.unit, n)}"


def plural(word: str, count: float) -> str:
    """The word in singular for a count of 1, else in plural."""
    return word if count == 1 else f"{word}s"
