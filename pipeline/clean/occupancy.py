"""How many processors were busy at every instant, and where that exceeds the size of the machine.

Overlapping jobs that hold more processors than the machine has show that some record is wrong, but not which: one job
with an end that is weeks late affects thousands of others, machines grow, and nodes are shared. So overlaps are only
reported. A job is set aside only if it alone is larger than the machine. The archive's cleaned logs overlap to 1.75
(CTC) and 2.6 times (BLUE) the machine, an uncleaned one to 3.3 times (Mira); none holds such a job.

The site states the size (max_procs, and sizes from a date on). Without it nothing is set aside and no excess is
reported, because a size derived from the log cannot show that the log exceeds it. The sustained level is reported.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.record_masks import epoch_s
from pipeline.kernels import entry_kernel
from pipeline.report import Fact

# Larger times (34,000 years) and sizes are errors in the log; sums of smaller values do not overflow.
LARGEST = 2**40


@dataclass(frozen=True, slots=True)
class OccupancySteps:
    """Ascending times (s since 1970), the processors that are busy from each time on, and the time to the next (s)."""

    times_s: Ints
    busy: Ints
    lasting_s: Ints

    def parts(self, n: int) -> list["OccupancySteps"]:
        """The same, cut into `n` parts of equal duration."""
        edges = np.linspace(self.times_s[0], self.times_s[-1], n + 1)[1:-1]
        places = [0, *np.searchsorted(self.times_s, edges).tolist(), len(self.times_s)]
        cuts = [slice(low, high) for low, high in pairwise(places)]
        return [OccupancySteps(self.times_s[cut], self.busy[cut], self.lasting_s[cut]) for cut in cuts]


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


# Share of the busy time in which at most the sustained number of processors is busy. That number is within 6% of the
# stated size in 9 of the archive's 14 logs with starts and a size, and 7% to 110% off in five (OSC is seldom full;
# Mira, RICC and DOST overlap; Sandia).
SUSTAINED = 0.99

# Where a larger share of jobs exceeds the stated size, the size counts as wrong and no job is set aside.
DOUBT_SHARE = 0.01


def over_capacity(arrays: JobArrays) -> Bools:
    """True for a job larger than the machine was when it started (or was submitted, where no start is known)."""
    larger = _larger(arrays)
    return larger if _is_plausible(larger) else np.zeros(len(larger), bool)


def sizes_at(arrays: JobArrays, times_s: Floats) -> Floats:
    """Processors of the machine at each time, as the site states them; NaN where it states none."""
    changes = sorted((epoch_s(one.since, arrays.site.timezone), one.procs) for one in arrays.settings.capacity.sizes)
    sizes = np.array([arrays.site.max_procs or np.nan, *(procs for _, procs in changes)], np.float64)
    return sizes[np.searchsorted([since_s for since_s, _ in changes], times_s, side="right")]


def sustained_procs(steps: OccupancySteps) -> float:
    """The number of busy processors that is not exceeded in 99% of the busy time; NaN where none were ever busy."""
    # Levels are rounded to 1/65,536 of the highest: counting them takes a tenth of the time of sorting them.
    shift = max(0, int(steps.busy.max(initial=0)).bit_length() - 16)
    held_s = np.bincount(steps.busy >> shift, weights=steps.lasting_s, minlength=2)
    held_s[0] = 0.0
    until = np.cumsum(held_s)
    return float(np.searchsorted(until, SUSTAINED * until[-1]) << shift) if until[-1] else np.nan


def capacity_facts(arrays: JobArrays) -> dict[str, Fact]:
    """Figures for the report: peak, sustained level by quarter of the log, and how often the size was exceeded."""
    steps = occupancy_of(arrays)
    if not len(steps.busy):
        return {}
    facts: dict[str, Fact] = {
        "busy_procs_peak": int(steps.busy.max()),
        "busy_procs_sustained": ", ".join(_whole(sustained_procs(part)) for part in steps.parts(4)),
    }
    if arrays.site.max_procs is None and not arrays.settings.capacity.sizes:
        return facts
    larger = _larger(arrays)
    if not _is_plausible(larger):
        facts["machine_size_in_doubt"] = int(larger.sum())
    ratio = steps.busy / sizes_at(arrays, steps.times_s.astype(np.float64))
    over, busy_s = ratio > 1, steps.lasting_s[steps.busy > 0].sum()
    return facts | {
        "peak_over_size": float(np.max(ratio, where=~np.isnan(ratio), initial=0.0)),
        "over_size_share": float(steps.lasting_s[over].sum() / busy_s),
        "over_size_stretches": int((over & ~np.append(False, over[:-1])).sum()),
    }


def mean_busy(steps: OccupancySteps, edges_s: Floats) -> Floats:
    """Mean number of busy processors between each edge (s since 1970) and the next."""
    if not len(steps.busy):
        return np.zeros(max(len(edges_s) - 1, 0))
    work = np.concatenate([[0.0], np.cumsum(steps.busy.astype(np.float64) * steps.lasting_s)[:-1]])
    # The cumulative work grows linearly between two steps.
    mean: Floats = np.diff(np.interp(edges_s, steps.times_s, work)) / np.diff(edges_s)
    return mean


def _larger(arrays: JobArrays) -> Bools:
    return arrays.once("larger", lambda: arrays.procs > sizes_at(arrays, arrays.began_s))


def _is_plausible(larger: Bools) -> bool:
    """Whether few enough jobs exceed the size that these jobs are wrong rather than the size."""
    return int(larger.sum()) <= max(1, DOUBT_SHARE * len(larger))


def _whole(level: float) -> str:
    return "none" if np.isnan(level) else f"{level:.0f}"
