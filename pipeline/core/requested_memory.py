"""Requested memory as the user typed it: an amount per processor, node or job, as in 2GiB/node."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.arrays import Floats
from pipeline.core.buffers import arrow, texts

PROCESSOR, NODE, JOB = range(3)
_PER = ("processor", "node", "job")
_UNITS = ("KiB", "MiB", "GiB", "TiB")

Per = npt.NDArray[np.int8]


def requested_memory(kib: Floats, per: Per) -> pa.DictionaryArray:
    """A category per job from the amount, KiB (NaN: unknown), and PROCESSOR, NODE or JOB."""
    known = np.flatnonzero(np.isfinite(kib))
    pairs, place = np.unique(np.stack([kib[known], per[known].astype(np.float64)]), axis=1, return_inverse=True)
    words = [memory_text(float(amount), int(unit)) for amount, unit in pairs.T]
    indices = np.zeros(len(kib), np.int32)
    indices[known] = place.reshape(-1)
    missing = ~np.isfinite(kib)
    return pa.DictionaryArray.from_arrays(arrow(indices, missing), texts(words))


def memory_text(kib: float, per: int) -> str:
    """The amount in the largest binary unit in which it is a whole number."""
    unit = 0
    while kib >= 1024 and kib % 1024 == 0 and unit + 1 < len(_UNITS):
        kib, unit = kib / 1024, unit + 1
    return f"{kib:.15g}{_UNITS[unit]}/{_PER[per]}"
