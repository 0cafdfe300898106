"""Makes what several columns of a log tell of a job, in one way for all formats: memory per processor and as typed."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Floats, arrow, floats_of, integers, texts
from pipeline.ingest.values import NODE, PROCESSOR

_PER = ("processor", "node", "job")
_UNITS = ("KiB", "MiB", "GiB", "TiB")

Per = npt.NDArray[np.int8]


def first_known(*told: Floats) -> Floats:
    """Of several ways to tell one thing the first that a job has; NaN where it has none."""
    found = told[0]
    for other in told[1:]:
        found = np.where(np.isnan(found), other, found)
    return found


def positive(values: Floats) -> Floats:
    """The values above 0; NaN elsewhere."""
    return np.where(values > 0, values, np.nan)


def per_processor(kib: Floats, per: Per, procs: Floats, nodes: Floats, placed: Floats | None = None) -> Floats:
    """Memory per processor, NaN where that is unknown.

    kib: what was counted per PROCESSOR, NODE or JOB. placed: processors on these nodes, where those that a job's total
    is for are others.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        of_nodes = kib * nodes / (procs if placed is None else placed)
        own = np.select([per == PROCESSOR, per == NODE], [kib, of_nodes], kib / procs)
    return np.where(np.isfinite(own), own, np.nan)


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
