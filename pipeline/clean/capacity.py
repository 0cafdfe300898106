"""How full the machine was, by what the log says ran when; and where that is more than the machine has.

That jobs overlap to more processors than there are says that some record is wrong, not which: a job that seems to run
on for weeks makes thousands of sound ones look like too many, machines grow, and nodes are shared. So overlaps are
reported, and only a job that is by itself larger than the machine is set aside. The archive's logs overlap to 1.75
(CTC) and 2.6 times (BLUE) the machine even where they are cleaned, 3.3 times (Mira) where not, and hold no such job.

The size is the site's (max_procs, and sizes from a date on). Without it nothing is set aside and nothing said to be
over: the level the log itself sustains is told, but a log cannot exceed what is read off it.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.occupancy import OccupancySteps, occupancy_of
from pipeline.clean.site_rules import epoch_s
from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.clean_settings import CapacitySettings, CleanSettings
from pipeline.core.report import Fact

SUSTAINED = 0.99
"""Share of busy time no fuller than what a machine sustains: within 6% of its stated size in 9 of the archive's 14 logs
with starts and a size; 7% to 110% off in five (seldom full: OSC; overlapping: Mira, RICC, DOST; and Sandia)."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Stretches, in order, in which more processors were busy than the machine had; the most it was, over the size."""

    since_s: Floats
    until_s: Floats
    peak_over_size: Floats


def over_capacity(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True for a job larger than the machine was when it started (or was submitted, where no start is known)."""
    larger = _larger(arrays, settings.capacity)
    return larger if _is_plausible(larger, settings.capacity) else np.zeros(len(larger), bool)


def sizes_at(arrays: JobArrays, settings: CapacitySettings, times_s: Floats) -> Floats:
    """Processors the machine had at each time as the site states it; NaN where it does not."""
    changes = sorted((epoch_s(one.since, arrays.site.timezone), one.procs) for one in settings.sizes)
    sizes = np.array([arrays.site.max_procs or np.nan, *(procs for _, procs in changes)], np.float64)
    found: Floats = sizes[np.searchsorted([since_s for since_s, _ in changes], times_s, side="right")]
    return found


def overlaps(arrays: JobArrays, settings: CapacitySettings) -> Overlap:
    """Where more processors were busy than the site says the machine had; empty where it says nothing."""
    steps = occupancy_of(arrays)
    return _overlaps(steps, _ratio(steps, arrays, settings))


def sustained_procs(steps: OccupancySteps) -> float:
    """The level that busy processors stay at or below for 99% of the time any are busy; NaN: none ever are."""
    # Levels to a part in 65,536 of the highest: counting them takes a tenth of sorting them.
    shift = max(0, int(steps.busy.max(initial=0)).bit_length() - 16)
    held_s = np.bincount(steps.busy >> shift, weights=steps.lasting_s, minlength=2)
    held_s[0] = 0.0
    until = np.cumsum(held_s)
    return float(np.searchsorted(until, SUSTAINED * until[-1]) << shift) if until[-1] else np.nan


def capacity_facts(arrays: JobArrays, settings: CapacitySettings) -> dict[str, Fact]:
    """What the report says of it: peak, sustained level by quarters of the log, and how often it was over the size."""
    steps = occupancy_of(arrays)
    if not len(steps.busy):
        return {}
    facts: dict[str, Fact] = {
        "busy_procs_peak": int(steps.busy.max()),
        "busy_procs_sustained": ", ".join(_whole(sustained_procs(part)) for part in steps.parts(4)),
    }
    if arrays.site.max_procs is None and not settings.sizes:
        return facts
    larger = _larger(arrays, settings)
    if not _is_plausible(larger, settings):
        facts["machine_size_in_doubt"] = int(larger.sum())
    ratio = _ratio(steps, arrays, settings)
    over, busy_s = _overlaps(steps, ratio), steps.lasting_s[steps.busy > 0].sum()
    return facts | {
        "peak_over_size": float(np.max(ratio, where=~np.isnan(ratio), initial=0.0)),
        "over_size_share": float((over.until_s - over.since_s).sum() / busy_s),
        "over_size_stretches": len(over.since_s),
    }


def mean_busy(steps: OccupancySteps, edges_s: Floats) -> Floats:
    """Processors busy between each edge (s since 1970) and the next, on average."""
    if not len(steps.busy):
        return np.zeros(max(len(edges_s) - 1, 0))
    work = np.concatenate([[0.0], np.cumsum(steps.busy.astype(np.float64) * steps.lasting_s)[:-1]])
    # Work done by an instant grows evenly between two steps.
    mean: Floats = np.diff(np.interp(edges_s, steps.times_s, work)) / np.diff(edges_s)
    return mean


def _most(values: Floats, first: Ints, until: Ints) -> Floats:
    """The most of `values[first:until]`, for each pair."""
    # reduceat also answers for what lies between two pairs, and knows no place past the last value.
    places = np.column_stack([first, until]).ravel()
    is_open = len(places) > 0 and places[-1] == len(values)
    most: Floats = np.maximum.reduceat(values, places[:-1] if is_open else places)[::2]
    return most


def _larger(arrays: JobArrays, settings: CapacitySettings) -> Bools:
    return arrays.once(("larger", settings), lambda: arrays.procs > sizes_at(arrays, settings, arrays.began_s))


def _is_plausible(larger: Bools, settings: CapacitySettings) -> bool:
    """Whether so few jobs exceed the size that they are wrong, rather than the size."""
    return int(larger.sum()) <= max(1, settings.doubt_share * len(larger))


def _ratio(steps: OccupancySteps, arrays: JobArrays, settings: CapacitySettings) -> Floats:
    """Busy processors over the machine's size at each step; NaN where that is not known."""
    if not settings.sizes:
        return steps.busy / (arrays.site.max_procs or np.nan)
    return steps.busy / sizes_at(arrays, settings, steps.times_s.astype(np.float64))


def _overlaps(steps: OccupancySteps, ratio: Floats) -> Overlap:
    over = np.concatenate([[False], ratio > 1, [False]])
    begins, ends = np.flatnonzero(over[1:] & ~over[:-1]), np.flatnonzero(over[:-1] & ~over[1:])
    if not len(begins):
        return Overlap(np.empty(0), np.empty(0), np.empty(0))
    since_s, until_s = (steps.times_s[places].astype(np.float64) for places in (begins, ends))
    return Overlap(since_s, until_s, _most(ratio, begins, ends))


def _whole(level: float) -> str:
    return "none" if np.isnan(level) else f"{level:.0f}"
