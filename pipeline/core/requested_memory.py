"""Requested memory as the user typed it: an amount per processor, node or job, as in 2GiB/node."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.arrays import Floats
from pipeline.core.buffers import arrow, floats_of, integers, texts

PROCESSOR, NODE, JOB = range(3)
_PER = ("processor", "node", "job")
_UNITS = ("KiB", "MiB", "GiB", "TiB")

Per = npt.NDArray[np.int8]


def requested_memory(kib: Floats, per: Per) -> pa.DictionaryArray:
    """A category per job from the amount, KiB (NaN: unknown), and PROCESSOR, NODE or JOB."""
    known = np.flatnonzero(np.isfinite(kib))
    # A hash finds the few amounts of many jobs in a tenth of the time that sorting them takes.
    amounts = arrow(kib[known]).dictionary_encode()
    codes = integers(amounts.indices)[0] * len(_PER) + per[known]
    met = np.flatnonzero(np.bincount(codes, minlength=1))
    distinct = floats_of(pa.chunked_array([amounts.dictionary]))
    pairs = sorted((float(distinct[code // len(_PER)]), int(code % len(_PER)), int(code)) for code in met if len(known))
    place = np.zeros(len(distinct) * len(_PER) + 1, np.int32)
    place[[code for _, _, code in pairs]] = np.arange(len(pairs))
    indices = np.zeros(len(kib), np.int32)
    indices[known] = place[codes]
    words = [memory_text(amount, unit) for amount, unit, _ in pairs]
    return pa.DictionaryArray.from_arrays(arrow(indices, ~np.isfinite(kib)), texts(words))


def memory_text(kib: float, per: int) -> str:
    """The amount in the largest binary unit in which it is a whole number."""
    unit = 0
    while kib >= 1024 and kib % 1024 == 0 and unit + 1 < len(_UNITS):
        kib, unit = kib / 1024, unit + 1
    return f"{kib:.15g}{_UNITS[unit]}/{_PER[per]}"
