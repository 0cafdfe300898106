"""Finds what occurs twice: jobs under two ids, and a period of the log after a clock was set back.

Jobs. Ingest has already merged records that share an id. Equal values under two ids prove nothing, because thousands of
array tasks share all their times. So two jobs are the same only if cluster, submit, start, end, size, user, queue,
application and request are all equal and one of these holds:
- the ids contain the same number and differ only in the name of a cluster or server before or after it;
- nearly all jobs of one file, in the time that both files cover, occur in another file too: the same log, read twice.

Not detected: jobs copied within one file under new numbers, single copies, and copies with changed values.

Clocks. A server assigns ids in order of submit, so submit times rise with the ids. Where submit times step back, and
jobs fill the repeated period both before and after the step, as in the hour at the end of summer time, the clock was
set back by that much. Jobs that were resubmitted under an old id do not show this pattern, because nothing fills the
period before the step.

Not detected: clocks set forward (they look like idle time), steps across fewer than ten jobs, anything in SWF logs
(their jobs are sorted and renumbered), and logs whose ids do not follow the clock (several servers, restarted ids).
On the archive's cleaned logs neither screen sets a job aside.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, category_codes, floats, row_codes
from pipeline.clean.job_arrays import JobArrays
from pipeline.kernels import entry_kernel

# The number of an id (with its array index), between optional names of servers.
_NAMED = re.compile(r"(?:[A-Za-z][\w-]*[-.:/])?(\d+(?:\[\d*\]|_\d+)?)(?:[.@:/][A-Za-z][\w.-]*)?")

# Least number of jobs of a file that another file also holds before the two can be the same log.
COPY_MIN_JOBS = 100

# Least share of these in the file's jobs in the time that both files cover.
COPY_MIN_SHARE = 0.95


def duplicate(arrays: JobArrays) -> Bools:
    """True for the second job of each pair, in order of id or of file."""
    found = np.zeros(arrays.jobs.num_rows, bool)
    files = category_codes(arrays.jobs, "source_file")
    if len(files[1]) < 2 and not _is_any_named(arrays):
        return found
    rows = _repeated_rows(arrays)
    if len(rows):
        keys = _keys(arrays, rows)
        found[rows] = _same_number(arrays, rows, keys) | _same_log(arrays, rows, keys, files[0])
    return found


def _is_any_named(arrays: JobArrays) -> bool:
    """Whether any id contains a lower-case letter; for a sliced table, ids outside the slice count too."""
    texts = (chunk.buffers()[2] for chunk in arrays.jobs.column("job_id").chunks)
    return any(bool((np.frombuffer(text, np.uint8) >= ord("a")).any()) for text in texts if text is not None)


def _repeated_rows(arrays: JobArrays) -> Ints:
    """Rows with submit, start and end whose hashed values occur in another row too; collisions are rare."""
    known = np.flatnonzero(~np.isnan(arrays.submit_s + arrays.start_s + arrays.end_s) & (arrays.end_s > arrays.start_s))
    mixed = np.zeros(len(known), np.uint64)
    for values in (arrays.submit_s, arrays.start_s, arrays.end_s, arrays.codes("user")[0] + 0.0):
        mixed = (mixed ^ values[known].view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    ordered = np.sort(mixed)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return known[np.isin(mixed, twice)] if len(twice) else known[:0]


def _keys(arrays: JobArrays, rows: Ints) -> Ints:
    """One code per distinct set of values; unknown is a value of its own."""
    times = (arrays.submit_s, arrays.start_s, arrays.end_s, arrays.procs, arrays.requested_s)
    codes = (arrays.codes(name)[0] for name in ("cluster", "user", "queue", "application"))
    values = (*times, *codes, floats(arrays.jobs, "restart"))
    return row_codes(*(np.nan_to_num(one[rows], nan=-1.0) for one in values))


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


def _same_log(arrays: JobArrays, rows: Ints, keys: Ints, files: Ints) -> Bools:
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
        if distinct >= COPY_MIN_JOBS and matched >= COPY_MIN_SHARE * _in_common_time(arrays, files, pair):
            found[later[of_pair]] = True
    return found


def _in_common_time(arrays: JobArrays, files: Ints, pair: Ints) -> int:
    """Jobs of the file that has fewer, among those submitted while both files have jobs."""
    submits_s = [arrays.submit_s[(files == name) & (arrays.end_s > arrays.start_s)] for name in pair]
    since_s, until_s = max(np.nanmin(s) for s in submits_s), min(np.nanmax(s) for s in submits_s)
    return min(int(((s >= since_s) & (s <= until_s)).sum()) for s in submits_s)


# Least step back of a clock (s).
CLOCK_MIN_BACK_S = 60

# Least number of jobs submitted in the repeated period, each time.
CLOCK_MIN_JOBS = 5

# Longest gap between these jobs, as a share of the period.
CLOCK_MAX_GAP_SHARE = 0.5

# If a larger share of ids steps back, ids do not follow the clock and nothing is set aside.
CLOCK_DISORDER_SHARE = 0.05

Stretch = tuple[float, float]


def clock_jump(arrays: JobArrays) -> Bools:
    """True for a job that waits or runs at any time in a period that occurs twice in the log."""
    touched = np.zeros(arrays.jobs.num_rows, bool)
    stretches = repeated_stretches(arrays)
    if stretches:
        last_s = np.fmax(np.fmax(arrays.submit_s, arrays.start_s), arrays.end_s)
        for since_s, until_s in stretches:
            touched |= (arrays.submit_s <= until_s) & (last_s >= since_s)
    return touched


def repeated_stretches(arrays: JobArrays) -> list[Stretch]:
    """The periods that occur twice in the log, in order: start and end in s since 1970, as written in the log."""
    times_s = _by_number(arrays)
    if len(times_s) < 2 * CLOCK_MIN_JOBS:
        return []
    back = np.flatnonzero(np.diff(times_s) <= -CLOCK_MIN_BACK_S) + 1
    if not len(back) or len(back) > CLOCK_DISORDER_SHARE * len(times_s):
        return []
    gap_s = _filled(times_s, back, CLOCK_MIN_JOBS, CLOCK_MAX_GAP_SHARE)
    # The clock was set at an unknown time between two submits: the period is extended by the longest gap.
    stretches = [(float(times_s[i] - s), float(times_s[i - 1] + s)) for i, s in zip(back, gap_s, strict=True) if s >= 0]
    return sorted(stretches)


def _by_number(arrays: JobArrays) -> Ints:
    """Submit times of first records, in order of the leading number of their id, then of submit time."""
    numbers = leading_numbers(arrays.jobs.column("job_id"))
    known = (numbers >= 0) & ~np.isnan(arrays.submit_s) & (floats(arrays.jobs, "restart") == 0)
    submit_s = arrays.submit_s[known].astype(np.int64)
    return submit_s[np.lexsort((submit_s, numbers[known]))]


def leading_numbers(ids: pa.ChunkedArray) -> Ints:
    """The leading digits of each id as a number (at most 18 digits); -1 where there are none."""
    found = pc.struct_field(pc.extract_regex(ids, r"^(?P<number>[0-9]{1,18})"), "number")
    return np.asarray(pc.fill_null(found.cast(pa.int64()), -1))


@entry_kernel
def _filled(times_s: Ints, back: Ints, min_jobs: int, gap_share: float) -> Ints:
    """For each step back, the longest gap (s) between the jobs that fill the repeated period; -1 where they do not.

    The jobs before and after the step are visited alternately. Where one side does not fill the period, its walk ends
    early, so that the time is linear in practice.
    """
    found = np.full(len(back), -1, np.int64)
    for place in range(len(back)):
        i = back[place]
        low, high = times_s[i], times_s[i - 1]
        most = gap_share * (high - low)
        before, after, above, below = i - 1, i, high, low
        n_before, n_after = 1, 1
        is_open, widest = True, 0
        while is_open and widest < most:
            is_open = False
            if above > low:
                before -= 1
                at = low if before < 0 or times_s[before] <= low else times_s[before]
                is_open = True
                if at <= above:
                    n_before += at > low
                    widest = max(widest, above - at)
                    above = at
            if below < high:
                after += 1
                at = high if after >= len(times_s) or times_s[after] >= high else times_s[after]
                is_open = True
                if at >= below:
                    n_after += at < high
                    widest = max(widest, at - below)
                    below = at
        if widest < most and n_before >= min_jobs and n_after >= min_jobs:
            found[place] = widest
    return found
