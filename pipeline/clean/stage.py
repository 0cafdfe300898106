"""The cleaning stage: one pure mask per flag, computed from all jobs; a job gets the first flag that applies.

A long log is cleaned block by block. A block ends in the longest gap between submits near a multiple of the wanted
number of jobs, so that few bursts are cut. New jobs at the end of the log do not move the ends of earlier blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import CATEGORY, Bools, Ints, floats, replaced, tally
from pipeline.clean import records, runtimes
from pipeline.clean.bursts import Screen, Tier, find_bursts
from pipeline.clean.effect import Selections, count_block, effect_of
from pipeline.clean.flurries import BURST_RULES, BurstRules, smallest_burst_jobs, submit_rates
from pipeline.clean.job_arrays import JobArrays
from pipeline.errors import printable
from pipeline.large_tables import LargeTable, rows_of, stored
from pipeline.report import Fact, Report, joined_report
from pipeline.schema import Flag
from pipeline.settings import CleanSettings, SiteRule, SiteSettings
from pipeline.tables import BURSTS, JOBS

RULES: dict[Flag, Callable[[JobArrays], Bools]] = {
    Flag.PARTIAL_EXECUTION: records.partial_execution,
    Flag.UNFINISHED: records.unfinished,
    Flag.CANCELLED_BEFORE_START: records.cancelled_before_start,
    Flag.NEVER_RAN: records.never_ran,
    Flag.IMPOSSIBLE_TIMES: records.impossible_times,
    Flag.NO_PROCS: records.no_procs,
    Flag.ELAPSED_DISAGREES: records.elapsed_disagrees,
    Flag.DUPLICATE: records.duplicate,
    Flag.CLOCK_JUMP: records.clock_jump,
    Flag.OVER_LIMIT: records.over_limit,
    Flag.LOG_EDGE: records.log_edge,
    Flag.NODE_FAILURE: lambda jobs: jobs.state_is("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL"),
    Flag.OUT_OF_MEMORY: lambda jobs: jobs.state_is("OUT_OF_MEMORY"),
    Flag.PREEMPTED: lambda jobs: jobs.state_is("PREEMPTED"),
    Flag.SUSPENDED: records.suspended,
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

# A log of more than one and a half times as many jobs is cleaned in blocks of about as many.
BLOCK_JOBS = 1_000_000

# Share of a block's jobs among which the longest gap is looked for.
NEAR_SHARE = 0.05

# Facts of which the largest one among the blocks is that of the log; other numbers are summed.
_LARGEST = frozenset({"smallest_burst_jobs"})

BURST_FLAGS = {Screen.PROBE: Flag.PROBE, Screen.CRON: Flag.CRON, Screen.FLURRY: Flag.FLURRY, Screen.SLOW: Flag.FLURRY}


def clean(
    jobs: pa.Table, settings: CleanSettings, site: SiteSettings | None = None, rules: BurstRules = BURST_RULES
) -> tuple[pa.Table, pa.Table, pa.Table, Report]:
    """JOBS with `flag`, `burst_id` and `is_lower_bound` set, BURSTS, EFFECT, and a Report with counts per flag.

    Existing flags are ignored and replaced. Every screen sees all jobs, also those that another screen sets aside.
    A log of more than one and a half times BLOCK_JOBS jobs is cleaned in blocks.

    Parameters
    ----------
    jobs : pa.Table
        JOBS as read.
    settings : CleanSettings
        What the site states: flags not to set, limits, its own rules.
    site : SiteSettings, optional
        Facts about the site, such as its number of processors.
    rules : BurstRules, optional
        Thresholds of the screens that find bursts.

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
    cleaned = CleanedBlocks(settings, site or SiteSettings(), rules)
    flagged = pa.concat_tables([JOBS.empty().select(jobs.column_names), *cleaned.blocks(jobs)]).unify_dictionaries()
    return flagged, *cleaned.found()


def clean_stored(
    jobs: LargeTable, settings: CleanSettings, site: SiteSettings, folder: Path | None
) -> tuple[LargeTable, pa.Table, pa.Table, Report]:
    """What `clean` gives, with one block of jobs in memory at a time; the jobs are written to a file of this folder."""
    cleaned = CleanedBlocks(settings, site)
    flagged = stored(cleaned.blocks(jobs), JOBS, folder, "jobs_flagged")
    return flagged, *cleaned.found()


def blocks_of(jobs: LargeTable, block_jobs: int) -> Iterator[tuple[int, int]]:
    """The first row of each block and the row after its last one, for JOBS in order of submit.

    A block has about half of `block_jobs` to one and a half times as many; jobs of the same second are not parted.
    """
    wanted = range(block_jobs, jobs.num_rows - block_jobs // 2 + 1, block_jobs)
    cuts = [_cut(jobs, row, block_jobs) for row in wanted]
    return pairwise([0, *cuts, jobs.num_rows])


def _cut(jobs: LargeTable, wanted: int, block_jobs: int) -> int:
    """The row from `wanted` on that the longest gap precedes; where all are submitted at once, the row after them."""
    near = max(int(NEAR_SHARE * block_jobs), 1)
    for first in range(wanted, jobs.num_rows, near):
        submit_s = floats(rows_of(jobs, first - 1, min(first + near, jobs.num_rows), ["submit_s"]), "submit_s")
        gaps_s = np.nan_to_num(np.diff(submit_s))
        if gaps_s.max() > 0:
            return first + int(gaps_s.argmax())
    return int(jobs.num_rows)


@dataclass(slots=True)
class CleanedBlocks:
    """What cleaning has found in the blocks of a log so far."""

    settings: CleanSettings
    site: SiteSettings
    rules: BurstRules = BURST_RULES
    _bursts: list[pa.Table] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)
    _effect: Selections = field(default_factory=dict)
    _reports: list[Report] = field(default_factory=list)
    _named: list[list[int]] = field(default_factory=list)

    def blocks(self, jobs: LargeTable) -> Iterator[pa.Table]:
        """The flagged jobs, block by block; what else is found is complete when the last one has been taken."""
        bounds = list(blocks_of(jobs, BLOCK_JOBS))
        named = records.TEXTS_OF_RULES if self.settings.drop else ("user",)

        def undropped() -> Iterator[pa.Table]:
            for first, after in bounds:
                part = rows_of(jobs, first, after, [*named, "submit_s", "end_s"])
                yield part.filter(pa.array(~self._dropped(part)))

        span_s, rates = records.plausible_span(undropped()), None
        # With one block its own arrays give the rates, once a screen needs them.
        if len(bounds) > 1:
            submits = pa.concat_tables(part.select(["user", "submit_s"]) for part in undropped()).unify_dictionaries()
            rates = submit_rates(JobArrays(submits, self.site, span_s=span_s), self.rules.min_jobs)
        for first, after in bounds:
            block, is_end = rows_of(jobs, first, after), after == jobs.num_rows
            yield self.block(JobArrays(block, self.site, first == 0, is_end, rates, self.settings, span_s))

    def block(self, whole: JobArrays) -> pa.Table:
        """A block of jobs with their flags.

        What the site drops, but by its burst, and what has a time far outside the log counts in no screen.
        """
        settings, dropped = self.settings, self._dropped(whole.jobs)
        is_far = whole.has_far_time & ~dropped & (Flag.IMPOSSIBLE_TIMES not in settings.flags_off)
        stays = ~(dropped | is_far)
        arrays = whole if stays.all() else replace(whole, jobs=whole.jobs.filter(pa.array(stays)))
        bursts, found = find_bursts(arrays, self.rules, self._ids)
        place = np.full(len(stays), -1, np.int64)
        place[stays] = found
        burst_ids = _named(place, bursts.column("burst_id").to_pylist())
        named = [
            [records.matches(whole.jobs, self.site.timezone, rule, burst_ids) for rule in rules]
            for rules in (settings.keep, settings.drop)
        ]
        kept, by_burst = (np.logical_or.reduce([np.zeros(len(stays), bool), *masks])[stays] for masks in named)
        flag_places = np.zeros(len(stays), np.int64)
        flag_places[stays], flags = _flagged(arrays, bursts, found, kept, by_burst)
        flag_places[is_far] = flags.index(Flag.IMPOSSIBLE_TIMES) if is_far.any() else -1
        columns = {"flag": _named(flag_places, [str(flag) for flag in flags]), "burst_id": burst_ids}
        bound, is_known = records.lower_bounds(whole)
        columns["is_lower_bound"] = pa.array(bound, mask=~is_known)
        n_far = int(is_far.sum())
        far: dict[str, Fact] = {"jobs": len(stays), **({"far_times": n_far} if n_far else {})}
        self._bursts.append(bursts)
        self._ids.update(bursts.column("burst_id").to_pylist())
        self._named.append([int(mask.sum()) for masks in named for mask in masks])
        count_block(self._effect, whole, flag_places, flags)
        proc_s, facts = whole.proc_s, _facts(arrays, self.rules, bursts) | far
        aside = {str(flag): tally(proc_s, flag_places == place) for place, flag in enumerate(flags)}
        aside = {flag: own for flag, own in aside.items() if own.rows}
        self._reports.append(Report("clean", "job", tally(proc_s), tally(proc_s, flag_places < 0), aside, facts))
        return reduce(lambda jobs, name: replaced(jobs, name, columns[name]), columns, whole.jobs)

    def _dropped(self, jobs: pa.Table) -> Bools:
        """What the site's rules drop that name no burst; SITE_DROP is the first of the flags."""
        rules = () if Flag.SITE_DROP in self.settings.flags_off else self.settings.drop
        masks = [records.matches(jobs, self.site.timezone, rule) for rule in rules]
        dropped: Bools = np.logical_or.reduce([np.zeros(jobs.num_rows, bool), *masks])
        return dropped

    def found(self) -> tuple[pa.Table, pa.Table, Report]:
        """BURSTS and EFFECT of all blocks; jobs kept and set aside, by flag, facts, and what a person should check."""
        bursts = BURSTS.check(pa.concat_tables(self._bursts).unify_dictionaries())
        return bursts, effect_of(self._effect, self.site), self._report()

    def _report(self) -> Report:
        rules = [("keep", rule) for rule in self.settings.keep] + [("drop", rule) for rule in self.settings.drop]
        counts = [sum(block) for block in zip(*self._named, strict=True)]
        named = [(word, rule, n) for (word, rule), n in zip(rules, counts, strict=True)]
        whole = joined_report(self._reports, _LARGEST)
        facts = {**whole.facts, **{f"site_{w}: {printable(rule.reason)}": n for w, rule, n in named}}
        aside = {str(flag): whole.set_aside[flag] for flag in Flag if flag in whole.set_aside}
        return replace(whole, set_aside=aside, facts=facts, notes=tuple(_notes(facts, named)))


def _flagged(
    arrays: JobArrays, bursts: pa.Table, burst_place: Ints, kept: Bools, dropped: Bools
) -> tuple[Ints, list[Flag]]:
    """Per job the index of its flag in the list (-1: none); the list is in order of precedence."""
    tiers, screens = bursts.column("tier").to_pylist(), bursts.column("screen").to_pylist()
    of_burst = [BURST_FLAGS[one] if tier == Tier.REMOVE else None for tier, one in zip(tiers, screens, strict=True)]
    # The last element is for jobs without a burst (place -1).
    masks = {flag: np.array([*(one is flag for one in of_burst), False])[burst_place] for flag in BURST_FLAGS.values()}
    masks[Flag.SITE_DROP] = dropped
    active = [flag for flag in Flag if flag not in arrays.settings.flags_off and (flag in RULES or flag in masks)]
    places = np.full(arrays.jobs.num_rows, -1, np.int64)
    for place, flag in enumerate(active):
        mask = masks[flag] if flag in masks else RULES[flag](arrays)
        spared = kept if flag not in RECORD_FLAGS and flag is not Flag.SITE_DROP else False
        places[(places < 0) & mask & ~np.asarray(spared)] = place
    return places, active


def _named(places: Ints, names: list[str]) -> pa.Array:
    """Names by index, null where the index is negative."""
    codes = pa.array(places.astype(np.int32), mask=places < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string())).cast(CATEGORY)


def _facts(arrays: JobArrays, rules: BurstRules, bursts: pa.Table) -> dict[str, Fact]:
    tiers = bursts.column("tier").to_pylist()
    return {
        "jobs": arrays.jobs.num_rows,
        "smallest_burst_jobs": smallest_burst_jobs(arrays, rules),
        "bursts_removed": tiers.count(Tier.REMOVE),
        "bursts_suspect": tiers.count(Tier.SUSPECT),
    }


def _notes(facts: dict[str, Fact], named: list[tuple[str, SiteRule, int]]) -> Iterator[str]:
    """What a person should check: rules that match no job, and times far outside the log."""
    for word, rule, n_jobs in named:
        if not n_jobs:
            shown = ", ".join(f"{k} {printable(str(v), 60)}" for k, v in rule if v is not None and k != "reason")
            yield f"the rule to {word} {shown} ({printable(rule.reason)}) matches no job: check its spelling"
    if n_far := facts.get("far_times"):
        yield (
            f"{n_far} jobs have a time far before or after the log's other times (a clock that was wrong, or a number "
            f"that stands for an unknown time) and are set aside as {Flag.IMPOSSIBLE_TIMES}"
        )
