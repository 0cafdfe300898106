"""Converts Arrow columns to numpy arrays: null becomes NaN in floats and -1 in codes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core import compute as pc
from pipeline.core.buffers import floats_of
from pipeline.core.column import CATEGORY

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]


def floats(table: pa.Table, name: str) -> Floats:
    """A numeric column as float64, null as NaN."""
    # Integers beyond 2^53 are rounded.
    return floats_of(table.column(name).cast(pa.float64(), safe=False))


def category_codes(table: pa.Table, name: str) -> tuple[Ints, list[str]]:
    """Codes into the sorted distinct values of a text column, -1 for null; the values."""
    column = table.column(name)
    array = (column if column.type == CATEGORY else column.dictionary_encode()).unify_dictionaries()
    if array.num_chunks == 0:
        return np.empty(0, np.int64), []
    words = array.chunk(0).dictionary.to_pylist()
    raw = np.concatenate([pc.fill_null(c.indices, -1).to_numpy(zero_copy_only=False) for c in array.chunks]).astype(
        np.int64
    )
    used = np.flatnonzero(np.bincount(raw + 1, minlength=1)[1:])
    values = sorted({words[i] for i in used})
    place = {word: rank for rank, word in enumerate(values)}
    lookup = np.full(len(words) + 1, -1, np.int64)
    lookup[used] = [place[words[i]] for i in used]
    return lookup[raw], values


def median(values: Floats, axis: int = 0) -> Floats:
    """np.median to the bit, NaN included, without importing masked arrays (0.03 s)."""
    n = values.shape[axis]
    if not n:
        return np.full(values.sum(axis=axis).shape, np.nan)
    ordered = np.sort(values, axis=axis)
    middle = ordered.take([(n - 1) // 2, n // 2], axis=axis)
    found: Floats = np.where(np.isnan(ordered.take(-1, axis=axis)), np.nan, middle.mean(axis=axis))
    return found


def grouped_jobs(jobs: pa.Table, columns: Iterable[str]) -> pa.Table:
    """The jobs that have a group, with these columns alone: a copy of all columns would double the memory of a log."""
    names = dict.fromkeys(("group_id", *columns))
    return jobs.select(list(names)).filter(pc.is_valid(jobs.column("group_id")))


def job_procs(jobs: pa.Table) -> Floats:
    """Processors per job: allocated, else requested; NaN where neither is known and positive."""
    allocated, requested = floats(jobs, "procs"), floats(jobs, "requested_procs")
    chosen = np.where(allocated > 0, allocated, requested)
    return np.where(chosen > 0, chosen, np.nan)


def proc_seconds(jobs: pa.Table) -> Floats:
    """Processor-seconds per job for reports: 0 where size or runtime is unknown or negative."""
    return work_s(job_procs(jobs), floats(jobs, "runtime_s"))


def work_s(procs: Floats, runtime_s: Floats) -> Floats:
    """Processor-seconds, 0 where size or runtime is unknown or negative."""
    # Errors in a log may overflow.
    with np.errstate(over="ignore"):
        return np.nan_to_num(procs * np.maximum(runtime_s, 0.0))


def lower_bounds(jobs: pa.Table) -> Bools:
    """Where a job's runtime is known to be only a lower bound."""
    bounds: Bools = pc.fill_null(jobs.column("is_lower_bound"), False).to_numpy()
    return bounds
