"""Detects a clock that was set back: a period that occurs twice in the log, as the hour at the end of summer time does.

A server assigns ids in order of submit, so submit times rise with the ids. Where submit times step back, and jobs fill
the repeated period both before and after the step, the clock was set back by that much. Jobs that were resubmitted
under an old id do not show this pattern, because nothing fills the period before the step.

Not detected: clocks set forward (they look like idle time), steps across fewer than ten jobs, anything in SWF logs
(their jobs are sorted and renumbered), and logs whose ids do not follow the clock (several servers, restarted ids).
"""

import numpy as np
import pyarrow as pa

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Array, Bools, Ints, floats
from pipeline.core.clean_settings import CleanSettings, ClockSettings
from pipeline.core.compiled import entry_kernel

MOST = 2**31
"""Larger ids and time spans (68 years) are sorted without packing both into one number."""

Stretch = tuple[float, float]


def clock_jump(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job that waits or runs at any time in a period that occurs twice in the log."""
    touched = np.zeros(arrays.jobs.num_rows, bool)
    stretches = repeated_stretches(arrays, settings.clock)
    if stretches:
        last_s = np.fmax(np.fmax(arrays.submit_s, arrays.start_s), arrays.end_s)
        for since_s, until_s in stretches:
            touched |= (arrays.submit_s <= until_s) & (last_s >= since_s)
    return touched


def repeated_stretches(arrays: JobArrays, limits: ClockSettings) -> list[Stretch]:
    """The periods that occur twice in the log, in order: start and end in s since 1970, as written in the log."""
    times_s = _by_number(arrays)
    if len(times_s) < 2 * limits.min_jobs:
        return []
    back = np.flatnonzero(np.diff(times_s) <= -limits.min_back_s) + 1
    if not len(back) or len(back) > limits.disorder_share * len(times_s):
        return []
    gap_s = _filled(times_s, back, limits.min_jobs, limits.max_gap_share)
    # The clock was set at an unknown time between two submits: the period is extended by the longest gap.
    stretches = [(float(times_s[i] - s), float(times_s[i - 1] + s)) for i, s in zip(back, gap_s, strict=True) if s >= 0]
    return sorted(stretches)


def _by_number(arrays: JobArrays) -> Ints:
    """Submit times of first records, in order of the leading number of their id, then of submit time."""
    numbers, begins = leading_numbers(arrays.jobs.column("job_id"))
    known = begins & ~np.isnan(arrays.submit_s) & (floats(arrays.jobs, "restart") == 0)
    numbers, submit_s = numbers[known], arrays.submit_s[known]
    if not len(numbers):
        return np.empty(0, np.int64)
    begin_s = submit_s.min()
    if numbers.max() >= MOST or submit_s.max() - begin_s >= MOST:
        sorted_s: Ints = submit_s[np.lexsort((submit_s, numbers))].astype(np.int64)
        return sorted_s
    packed = numbers << 31 | (submit_s - begin_s).astype(np.int64)
    # Most logs are in this order already and need not be sorted.
    packed = packed if bool(np.all(packed[1:] >= packed[:-1])) else np.sort(packed)
    times_s: Ints = (packed & (MOST - 1)) + int(begin_s)
    return times_s


def leading_numbers(ids: pa.ChunkedArray) -> tuple[Ints, Bools]:
    """The leading digits of each id as a number (at most 18 digits), and whether there are any."""
    text = ids.cast(pa.large_string()).combine_chunks()
    if not len(text):
        return np.empty(0, np.int64), np.empty(0, bool)
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    letters = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return _leading(ends, letters)


@entry_kernel
def _leading(ends: Ints, letters: Array) -> tuple[Ints, Bools]:
    numbers, begins = np.zeros(len(ends) - 1, np.int64), np.zeros(len(ends) - 1, np.bool_)
    for row in range(len(numbers)):
        at = ends[row]
        while at < min(ends[row + 1], ends[row] + 18) and 48 <= letters[at] <= 57:
            numbers[row] = numbers[row] * 10 + letters[at] - 48
            at += 1
        begins[row] = at > ends[row]
    return numbers, begins


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
