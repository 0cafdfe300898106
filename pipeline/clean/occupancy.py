"""How many processors were busy at every instant; where jobs overlap that may be more than the machine has."""

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.clean.job_arrays import JobArrays
from pipeline.kernels import entry_kernel

# Larger times (34,000 years) and sizes are errors in the log; sums of smaller values do not overflow.
LARGEST = 2**40


@dataclass(frozen=True, slots=True)
class OccupancySteps:
    """Ascending times (s since 1970), the processors that are busy from each time on, and the time to the next (s)."""

    times_s: Ints
    busy: Ints
    lasting_s: Ints


def occupancy_of(arrays: JobArrays, chosen: Bools | None = None) -> OccupancySteps:
    """The steps of the jobs (those chosen) whose start, end and size are known and which ran; the last one is idle.

    A job holds its processors from its start until just before its end: what ends at a second frees it for what starts.
    """
    start_s, end_s, procs = arrays.start_s, arrays.end_s, arrays.procs
    ran = (end_s > start_s) & (start_s > -LARGEST) & (end_s < LARGEST) & (procs < LARGEST)
    ran = ran if chosen is None else ran & chosen
    sizes = procs[ran].astype(np.int64)
    starts, ends = in_order(start_s[ran].astype(np.int64), sizes), in_order(end_s[ran].astype(np.int64), sizes)
    times_s, busy = _merge(*starts, *ends)
    del starts, ends, sizes
    return OccupancySteps(times_s, busy, np.append(np.diff(times_s), np.zeros(min(len(times_s), 1), np.int64)))


def in_order(times_s: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Both in order of time (or another number), then of size (or of whatever else is counted from 0)."""
    if not len(times_s):
        return times_s, sizes
    begin_s, bits = int(times_s.min()), int(sizes.max()).bit_length()
    if (int(times_s.max()) - begin_s).bit_length() + bits > 62:
        order = np.lexsort((sizes, times_s))
        return times_s[order], sizes[order]
    # Time and size are packed into one number, which takes a quarter of the time of sorting rows.
    packed = (times_s - begin_s) << bits | sizes
    packed.sort()
    sizes = packed & ((1 << bits) - 1)
    packed >>= bits
    packed += begin_s
    return packed, sizes


@entry_kernel
def _merge(starts_s: Ints, start_procs: Ints, ends_s: Ints, end_procs: Ints) -> tuple[Ints, Ints]:
    times_s, busy = np.empty(2 * len(starts_s), np.int64), np.empty(2 * len(starts_s), np.int64)
    n, i, j, level = 0, 0, 0, 0
    while j < len(ends_s):
        now_s = ends_s[j]
        if i < len(starts_s) and starts_s[i] < now_s:
            now_s = starts_s[i]
        while j < len(ends_s) and ends_s[j] == now_s:
            level -= end_procs[j]
            j += 1
        while i < len(starts_s) and starts_s[i] == now_s:
            level += start_procs[i]
            i += 1
        times_s[n], busy[n] = now_s, level
        n += 1
    return times_s[:n], busy[:n]


def mean_busy(steps: OccupancySteps, edges_s: Floats) -> Floats:
    """Mean number of busy processors between each edge (s since 1970) and the next."""
    if not len(steps.busy):
        return np.zeros(max(len(edges_s) - 1, 0))
    work = np.concatenate([[0.0], np.cumsum(steps.busy.astype(np.float64) * steps.lasting_s)[:-1]])
    # The cumulative work grows linearly between two steps.
    mean: Floats = np.diff(np.interp(edges_s, steps.times_s, work)) / np.diff(edges_s)
    return mean
