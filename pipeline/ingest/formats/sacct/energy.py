"""Energy as sacct writes it: ConsumedEnergyRaw, whole joules, or ConsumedEnergy, joules with a decimal prefix (4.58M).

Source: sacct's print.c and slurmctld's step_mgr.c (Slurm 22.05 to 25.05). A job's energy is that of its extern step,
else the sum of its steps'; a site without meters writes 0, and what was never gathered is NO_VAL64 or INFINITE64.
"""

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.ingest.spans import Typed, memory_kib
from pipeline.ingest.spans.kernels import Bytes

_MARKS_J = (4294967294.0, 4294967295.0)
"""NO_VAL and INFINITE of 32 bits, which old releases wrote."""

_LEAST_MARK_J = 2.0**63
"""No job uses as much; the marks of 64 bits are one and two below 2^64."""


def energy_j(data: Bytes, start: Ints, end: Ints) -> Typed:
    """float64 J a span: `101630`, `4.58M` (prefixes of a thousand); 0 and Slurm's marks are null."""
    typed = memory_kib(data, start, end, 1.0)
    values = typed.values * _decimal(data, start, end)
    with np.errstate(invalid="ignore"):
        unmeasured = ~typed.invalid & (~(values > 0) | np.isin(values, _MARKS_J) | (values >= _LEAST_MARK_J))
    missing: Bools = typed.missing | unmeasured
    return Typed(values, missing, typed.invalid)


def _decimal(data: Bytes, start: Ints, end: Ints) -> Floats:
    """What a memory's KiB, MiB/KiB and so on have to be multiplied by to be prefixes of a thousand."""
    factor = np.ones(len(start))
    last = np.where(end > start, data[np.maximum(end - 1, 0)] | 32, 0) if len(data) else np.zeros(len(start))
    for power, letter in enumerate(b"kmgtpe"):
        factor[last == letter] = 1000.0 ** (power + 1) / 1024.0**power
    return factor
