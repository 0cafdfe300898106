"""The cleaning stage: one pure mask per flag, computed from all jobs; a job gets the first flag that applies."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipeline.clean import (
    capacity,
    clock,
    dedicated,
    duplicates,
    edges,
    maximum,
    record_masks,
    runtimes,
    states,
)
from pipeline.clean.burst_rows import Screen, Tier
from pipeline.clean.bursts import find_bursts
from pipeline.clean.censoring import lower_bounds
from pipeline.clean.effect import effect
from pipeline.clean.flurries import smallest_burst_jobs
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.site_rules import matched
from pipeline.core.arrays import Array, Bools, Floats, Ints
from pipeline.core.clean_settings import CleanSettings, SiteRule
from pipeline.core.column import CATEGORY
from pipeline.core.flags import Flag
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import SiteSettings
from pipeline.core.tables import JOBS
from pipeline.core.text import printable

RULES: dict[Flag, Callable[[JobArrays, CleanSettings], Bools]] = {
    Flag.PARTIAL_EXECUTION: record_masks.partial_execution,
    Flag.UNFINISHED: record_masks.unfinished,
    Flag.CANCELLED_BEFORE_START: record_masks.cancelled_before_start,
    Flag.NEVER_RAN: record_masks.never_ran,
    Flag.IMPOSSIBLE_TIMES: record_masks.impossible_times,
    Flag.NO_PROCS: record_masks.no_procs,
    Flag.ELAPSED_DISAGREES: record_masks.elapsed_disagrees,
    Flag.DUPLICATE: duplicates.duplicate,
    Flag.CLOCK_JUMP: clock.clock_jump,
    Flag.OVER_LIMIT: maximum.over_limit,
    Flag.OVER_CAPACITY: capacity.over_capacity,
    Flag.LOG_EDGE: edges.log_edge,
    Flag.DEDICATED_TIME: dedicated.dedicated_time,
    Flag.NODE_FAILURE: states.node_failure,
    Flag.OUT_OF_MEMORY: states.out_of_memory,
    Flag.PREEMPTED: states.preempted,
    Flag.SUSPENDED: states.suspended,
    Flag.FAILED_START: runtimes.failed_start,
    Flag.HANG: runtimes.hang,
}
"""One pure mask per flag."""

RECORD_FLAGS = frozenset(
    {
        Flag.PARTIAL_EXECUTION, Flag.UNFINISHED, Flag.CANCELLED_BEFORE_START, Flag.NEVER_RAN, Flag.IMPOSSIBLE_TIMES,
        Flag.NO_PROCS,
    }
)  # fmt: skip
"""Flags that a site's keep rules do not remove: such a job has no usable runtime."""

BURST_FLAGS = {Screen.PROBE: Flag.PROBE, Screen.CRON: Flag.CRON, Screen.FLURRY: Flag.FLURRY, Screen.SLOW: Flag.FLURRY}


def clean(
    jobs: pa.Table, settings: CleanSettings, site: SiteSettings | None = None
) -> tuple[pa.Table, pa.Table, pa.Table, Report]:
    """JOBS with `flag`, `burst_id` and `is_lower_bound` set, BURSTS, EFFECT, and a Report with counts per flag.

    Existing flags are ignored and replaced. Every screen sees all jobs, also those that another screen sets aside.

    Parameters
    ----------
    jobs : pa.Table
        JOBS as read.
    settings : CleanSettings
        Settings of the screens.
    site : SiteSettings, optional
        Facts about the site, such as its number of processors.

    Returns
    -------
    jobs : pa.Table
        JOBS with `flag`, `burst_id` and `is_lower_bound`; no row is removed.
    bursts : pa.Table
        BURSTS.
    effect : pa.Table
        EFFECT: what the screens change, in jobs and processor-seconds.
    report : Report
        Jobs kept and flagged, by flag.

    Examples
    --------
    >>> jobs, bursts, effect, report = clean(tables["jobs_read"], settings.clean, settings.site)
    >>> jobs.num_rows == tables["jobs_read"].num_rows, jobs.equals(tables["jobs_flagged"])
    (True, True)
    """
    arrays = JobArrays(jobs, site or SiteSettings())
    bursts, place = find_bursts(arrays, settings)
    burst_ids = _named(place, bursts.column("burst_id").to_pylist())
    kept, dropped = (matched(arrays, rules, burst_ids) for rules in (settings.keep, settings.drop))
    flag_places, flags = _flagged(arrays, settings, bursts, place, _any(arrays, kept), _any(arrays, dropped))
    columns = {"flag": _named(flag_places, [str(flag) for flag in flags]), "burst_id": burst_ids}
    bound, is_known = lower_bounds(arrays, settings)
    columns["is_lower_bound"] = pa.array(bound, mask=~is_known)
    flagged = _with_columns(jobs, columns)
    named = [*_counted("keep", settings.keep, kept), *_counted("drop", settings.drop, dropped)]
    facts = _facts(arrays, settings, bursts) | {f"site_{word}: {printable(rule.reason)}": n for word, rule, n in named}
    report = _report(arrays.proc_s, flag_places, flags, facts, _notes(facts, named))
    return flagged, bursts, effect(arrays, flag_places, flags), report


def _flagged(
    arrays: JobArrays, settings: CleanSettings, bursts: pa.Table, burst_place: Ints, kept: Bools, dropped: Bools
) -> tuple[Ints, list[Flag]]:
    """Per job the index of its flag in the list (-1: none); the list is in order of precedence."""
    masks = _burst_masks(bursts, burst_place) | {Flag.SITE_DROP: dropped}
    active = [flag for flag in Flag if flag not in settings.flags_off and (flag in RULES or flag in masks)]
    places = np.full(arrays.jobs.num_rows, -1, np.int64)
    for place, flag in enumerate(active):
        mask = masks[flag] if flag in masks else RULES[flag](arrays, settings)
        spared = kept if flag not in RECORD_FLAGS and flag is not Flag.SITE_DROP else False
        places[(places < 0) & mask & ~np.asarray(spared)] = place
    return places, active


def _burst_masks(bursts: pa.Table, burst_place: Ints) -> dict[Flag, Bools]:
    screens, tiers = bursts.column("screen").to_pylist(), bursts.column("tier").to_pylist()
    masks = {}
    for flag in dict.fromkeys(BURST_FLAGS.values()):
        chosen = [tier == Tier.REMOVE and BURST_FLAGS[name] is flag for name, tier in zip(screens, tiers, strict=True)]
        masks[flag] = np.array([*chosen, False])[burst_place]
    return masks


def _any(arrays: JobArrays, masks: list[Bools]) -> Bools:
    return np.logical_or.reduce(masks) if masks else np.zeros(arrays.jobs.num_rows, bool)


def _named(places: Ints, names: list[str]) -> pa.Array:
    """Names by index, null where the index is negative."""
    codes = pa.array(places.astype(np.int32), mask=places < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string())).cast(CATEGORY)


def _with_columns(jobs: pa.Table, columns: dict[str, Array]) -> pa.Table:
    for name, values in columns.items():
        jobs = jobs.set_column(jobs.column_names.index(name), JOBS.schema().field(name), values)
    return jobs


def _counted(word: str, rules: Sequence[SiteRule], masks: list[Bools]) -> list[tuple[str, SiteRule, int]]:
    """The rules of the site, with the number of jobs that each matches."""
    return [(word, rule, int(mask.sum())) for rule, mask in zip(rules, masks, strict=True)]


def _facts(arrays: JobArrays, settings: CleanSettings, bursts: pa.Table) -> dict[str, Fact]:
    tiers = bursts.column("tier").to_pylist()
    facts: dict[str, Fact] = {
        "jobs": arrays.jobs.num_rows,
        "smallest_burst_jobs": smallest_burst_jobs(arrays, settings.flurry),
        "bursts_removed": tiers.count(Tier.REMOVE),
        "bursts_suspect": tiers.count(Tier.SUSPECT),
    }
    facts |= runtimes.facts(arrays, settings)
    # The occupancy of the machine takes as much memory as all arrays so far.
    arrays.forget("similar", "local_s", "by_submit", "by_user", "queues", "applications", "requested_s", "suspended_s")
    return facts | capacity.capacity_facts(arrays, settings.capacity) | dedicated.dedicated_facts(arrays, settings)


def _notes(facts: dict[str, Fact], named: list[tuple[str, SiteRule, int]]) -> Iterator[str]:
    """What a person should check: rules that match no job, and more busy processors than the machine has."""
    for word, rule, n_jobs in named:
        if not n_jobs:
            shown = ", ".join(f"{k} {printable(str(v), 60)}" for k, v in rule if v is not None and k != "reason")
            yield f"the rule to {word} {shown} ({printable(rule.reason)}) matches no job: check its spelling"
    ratio = facts.get("peak_over_size")
    if isinstance(ratio, float) and ratio > 1:
        yield (
            f"jobs held up to {ratio:.3g} times site.max_procs processors at once: the machine was larger, "
            "jobs share processors, or the log counts requested processors as allocated"
        )


def _report(proc_s: Floats, places: Ints, active: list[Flag], facts: dict[str, Fact], notes: Iterable[str]) -> Report:
    def tally(chosen: Bools) -> Tally:
        return Tally(int(chosen.sum()), float(proc_s[chosen].sum()))

    counted = {str(flag): tally(places == place) for place, flag in enumerate(active)}
    set_aside = {reason: one for reason, one in counted.items() if one.rows}
    everything = Tally(len(places), float(proc_s.sum()))
    return Report("clean", "job", everything, tally(places < 0), set_aside, facts, tuple(notes)).check()
