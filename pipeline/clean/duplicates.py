"""Finds jobs that occur twice under two ids.

Ingest has already merged records that share an id. Equal values under two ids prove nothing, because thousands of array
tasks share all their times. So two jobs are the same only if submit, start, end, size, user, queue, application and
request are all equal and one of these holds:
- the ids contain the same number and differ only in the name of a cluster or server before or after it;
- nearly all jobs of one file, in the time that both files cover, occur in another file too: the same log, read twice.

Not detected: jobs copied within one file under new numbers, single copies, and copies with changed values.
"""

import re

import numpy as np
import pyarrow as pa

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.core.clean_settings import CleanSettings, DuplicateSettings

_NAMED = re.compile(r"(?:[A-Za-z][\w-]*[-.:/])?(\d+(?:\[\d*\]|_\d+)?)(?:[.@:/][A-Za-z][\w.-]*)?")
"""The number of an id (with its array index), between optional names of servers."""


def duplicate(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for the second job of each pair, in order of id or of file."""
    found = np.zeros(arrays.jobs.num_rows, bool)
    files = category_codes(arrays.jobs, "source_file")
    if len(files[1]) < 2 and not _is_any_named(arrays):
        return found
    rows = _repeated_rows(arrays)
    if len(rows):
        keys = _keys(arrays, rows)
        found[rows] = _same_number(arrays, rows, keys) | _same_log(arrays, rows, keys, files[0], settings.duplicate)
    return found


def _is_any_named(arrays: JobArrays) -> bool:
    """Whether any id contains a lower-case letter; for a sliced table, ids outside the slice count too."""
    texts = (chunk.buffers()[2] for chunk in arrays.jobs.column("job_id").chunks)
    return any(bool((np.frombuffer(text, np.uint8) >= ord("a")).any()) for text in texts if text is not None)


def _values(arrays: JobArrays, rows: Ints) -> list[Floats]:
    times = [arrays.submit_s, arrays.start_s, arrays.end_s, arrays.procs, arrays.requested_s]
    codes = [arrays.users[0], arrays.queues[0], arrays.applications[0], floats(arrays.jobs, "restart")]
    return [np.nan_to_num(values[rows], nan=-1.0) for values in times] + [
        values[rows].astype(np.float64) for values in codes
    ]


def _repeated_rows(arrays: JobArrays) -> Ints:
    """Rows with submit, start and end whose hashed values occur in another row too; collisions are rare."""
    known = np.flatnonzero(~np.isnan(arrays.submit_s + arrays.start_s + arrays.end_s) & (arrays.end_s > arrays.start_s))
    mixed = np.zeros(len(known), np.uint64)
    for values in (arrays.submit_s, arrays.start_s, arrays.end_s, arrays.users[0] + 0.0):
        mixed = (mixed ^ values[known].view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    ordered = np.sort(mixed)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return known[np.isin(mixed, twice)] if len(twice) else known[:0]


def _keys(arrays: JobArrays, rows: Ints) -> Ints:
    """One code per distinct set of values."""
    keys = np.zeros(len(rows), np.int64)
    for values in _values(arrays, rows):
        codes = np.unique(values, return_inverse=True)[1]
        keys = np.unique(keys * (codes.max() + 1) + codes, return_inverse=True)[1]
    return keys


def _ids(arrays: JobArrays, rows: Ints) -> list[str]:
    ids: list[str] = arrays.jobs.column("job_id").take(pa.array(rows)).to_pylist()
    return ids


def _same_number(arrays: JobArrays, rows: Ints, keys: Ints) -> Bools:
    ids = _ids(arrays, rows)
    numbers = [match[1] if (match := _NAMED.fullmatch(one)) else f"\0{one}" for one in ids]
    codes = np.unique(numbers, return_inverse=True)[1]
    order = np.lexsort((np.unique(ids, return_inverse=True)[1], codes, keys))
    again = np.zeros(len(rows), bool)
    again[order[1:]] = (np.diff(keys[order]) == 0) & (np.diff(codes[order]) == 0)
    return again


def _same_log(arrays: JobArrays, rows: Ints, keys: Ints, files: Ints, limits: DuplicateSettings) -> Bools:
    """Where a job is the k-th of its values in its file, and the file before it that has a k-th is the same log."""
    names = files[rows]
    by_file = np.lexsort((np.unique(_ids(arrays, rows), return_inverse=True)[1], names, keys))
    rank = np.empty(len(rows), np.int64)
    starts = np.flatnonzero(np.diff(keys[by_file], prepend=-1) | np.diff(names[by_file], prepend=-1))
    rank[by_file] = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    order = np.lexsort((names, rank, keys))
    again = np.flatnonzero((np.diff(keys[order]) == 0) & (np.diff(rank[order]) == 0)) + 1
    earlier, later = order[again - 1], order[again]
    found = np.zeros(len(rows), bool)
    for pair in np.unique(np.column_stack([names[earlier], names[later]]), axis=0):
        of_pair = (names[earlier] == pair[0]) & (names[later] == pair[1])
        matched = int(of_pair.sum())
        distinct = int((of_pair & (rank[later] == 0)).sum())
        if distinct >= limits.min_jobs and matched >= limits.min_share * _in_common_time(arrays, files, pair):
            found[later[of_pair]] = True
    return found


def _in_common_time(arrays: JobArrays, files: Ints, pair: Ints) -> int:
    """Jobs of the file that has fewer, among those submitted while both files have jobs."""
    submits_s = [arrays.submit_s[(files == name) & (arrays.end_s > arrays.start_s)] for name in pair]
    since_s, until_s = max(np.nanmin(s) for s in submits_s), min(np.nanmax(s) for s in submits_s)
    return min(int(((s >= since_s) & (s <= until_s)).sum()) for s in submits_s)
