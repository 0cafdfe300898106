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
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, category_codes, floats
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
    files, file_names = category_codes(arrays.jobs, "source_file")
    ids = arrays.jobs.column("job_id")
    if len(file_names) < 2 and not pc.any(pc.match_substring_regex(ids, "[a-z]")).as_py():
        return found
    import pandas as pd  # noqa: PLC0415  (most logs do without)

    # Jobs with the same values; unknown is a value of its own.
    known = np.flatnonzero(~np.isnan(arrays.submit_s + arrays.start_s + arrays.end_s) & (arrays.end_s > arrays.start_s))
    times = (arrays.submit_s, arrays.start_s, arrays.end_s, arrays.procs, arrays.requested_s)
    codes = (arrays.codes(name)[0] for name in ("cluster", "user", "queue", "application"))
    values = (*times, *codes, floats(arrays.jobs, "restart"))
    alike = pd.DataFrame({place: np.nan_to_num(one[known], nan=-1.0) for place, one in enumerate(values)}, index=known)
    alike = alike[alike.duplicated(keep=False)]
    if alike.empty:
        return found
    jobs = pd.DataFrame({"key": alike.groupby(list(alike.columns)).ngroup(), "file": files[alike.index]})
    jobs["id"] = ids.take(pa.array(alike.index.to_numpy())).to_pylist()
    jobs["number"] = [match[1] if (match := _NAMED.fullmatch(one)) else f"\0{one}" for one in jobs["id"]]
    jobs = jobs.sort_values("id", kind="stable")
    found[jobs.index[jobs.duplicated(["key", "number"])]] = True
    # A job may be the kth of its values in its file, where the file before it that has a kth is the same log.
    jobs["nth"] = jobs.groupby(["key", "file"]).cumcount()
    jobs["earlier"] = jobs.sort_values("file", kind="stable").groupby(["key", "nth"])["file"].shift()
    for pair, own in jobs.dropna(subset="earlier").groupby(["earlier", "file"]):
        n_common = _in_common_time(arrays, files, pair)
        if (own["nth"] == 0).sum() >= COPY_MIN_JOBS and len(own) >= COPY_MIN_SHARE * n_common:
            found[own.index] = True
    return found


def _in_common_time(arrays: JobArrays, files: Ints, pair: Iterable[float]) -> int:
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
    ordered: Ints = submit_s[np.lexsort((submit_s, numbers[known]))]
    return ordered


def leading_numbers(ids: pa.ChunkedArray) -> Ints:
    """The leading digits of each id as a number (at most 18 digits); -1 where there are none."""
    found = pc.struct_field(pc.extract_regex(ids, r"^(?P<number>[0-9]{1,18})"), "number")
    numbers: Ints = pc.fill_null(found.cast(pa.int64()), -1).to_numpy()
    return numbers


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
