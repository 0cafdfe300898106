"""Replays in which the scheduler chooses the processors of some jobs: what it chooses from, and what comes of it.

How runtimes grow with the count is taken from the curves that Walltime fits to a log's own earlier jobs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from pipeline.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.group.observations import aggregate
from pipeline.large_tables import rows_of
from pipeline.report import count_done
from pipeline.run import tables_of
from pipeline.scaling.predictions import predict
from pipeline.scaling.rules import PredictRules
from pipeline.schedule.engine import Choices, ReplayOptions, Schedule, replay, replay_moldable
from pipeline.schedule.figures import moldable_figures
from pipeline.schedule.true_curves import MoldableLog, TrueCurves, World
from pipeline.tables import OBSERVATIONS

Quantile = Literal["median", "hi80", "hi95"]
COLUMN: dict[Quantile, str] = {"median": "runtime_s", "hi80": "runtime_s_hi80", "hi95": "runtime_s_hi95"}
"""The column of PREDICTIONS that a choice is made by: the median, or the upper end of an interval."""

LEVEL: dict[Quantile, float] = {"median": 0.5, "hi80": 0.9, "hi95": 0.975}
"""The quantile that each column is, and so the one over groups."""
LEAST_SIZES, LEAST_GROUPS = 3, 5
"""Groups of at least so many sizes are typical of the log, if there are so many of them."""


@dataclass(frozen=True, slots=True)
class FittedRuntimes:
    """Predicted runtimes by group and count, s; NaN where there is no prediction."""

    runtime_s: dict[Quantile, Floats]
    """(groups, counts)"""
    counts: Ints
    seen: Ints
    """(pairs, 2): the groups and sizes that ran, of groups of at least LEAST_SIZES sizes."""

    def growth(self, group: Ints, procs: Ints, preferred: Ints, quantile: Quantile) -> Floats:
        """The runtime's quantile at counts over that at the preferred counts; of a group without a fitted curve the
        same quantile over the log's groups; NaN where neither is known."""
        own = self._own(group, procs, preferred, quantile)
        return np.where(np.isfinite(own), own, self._typical(procs, preferred, quantile))

    def _own(self, group: Ints, procs: Ints, preferred: Ints, quantile: Quantile) -> Floats:
        table = self.runtime_s[quantile]
        at, base = (np.searchsorted(self.counts, n) for n in (procs, preferred))
        ratio: Floats = table[group, at] / table[group, base]
        return np.where((group >= 0) & np.isfinite(ratio), ratio, np.nan)

    def _typical(self, procs: Ints, preferred: Ints, quantile: Quantile) -> Floats:
        """Over groups, the quantile of the median growth by the same number of doublings."""
        group, size = self.seen[:, 0], self.seen[:, 1]
        doublings = np.rint(np.log2(procs / preferred)).astype(np.int64)
        found = np.full(len(procs), np.nan)
        for k in np.unique(doublings):
            at = np.ceil(size * 2.0**k).astype(np.int64)
            known = np.isin(at, self.counts)
            growth = self._own(group[known], at[known], size[known], "median")
            each = [np.nanmedian(growth[group[known] == one]) for one in np.unique(group[known][np.isfinite(growth)])]
            if len(each) >= LEAST_GROUPS:
                found[doublings == k] = np.quantile(each, LEVEL[quantile])
        return found


def fitted_runtimes(log: MoldableLog, world: World, past: Bools, counts: Ints) -> FittedRuntimes:
    """Runtimes at `counts` (ascending), from curves fitted to the jobs `past` through the stages of a run."""
    settings, work = log.settings, world.work
    # A group of one size has no curve: leaving it out halves the time on logs with many small groups.
    past = past & np.isin(log.group, _groups_of_sizes(log.group[past], work.procs[past], 2))
    codes = log.group[past]
    start_s = work.submit_s[past].astype(np.float64)
    columns = aggregate(
        codes, work.procs[past], work.run_s[past].astype(np.float64), start_s, start_s + work.run_s[past],
        log.is_bound[past],
    )  # fmt: skip
    observed = OBSERVATIONS.build(group_id=[log.group_ids[code] for code in columns.pop("group_code")], **columns)
    made = tables_of(settings, {"observed": observed}, "fits")
    levelled, fits, patterns = (rows_of(made[name]) for name in ("levelled", "fits", "patterns"))
    at = [int(n) for n in counts]
    table, _ = predict(levelled, fits, PredictRules(), settings.site, "moldable", patterns=patterns, at=at)
    place = {name: code for code, name in enumerate(log.group_ids)}
    own, ids = category_codes(table, "group_id")
    rows = np.array([place[name] for name in ids], np.int64)[own] if len(ids) else own
    columns_at = np.searchsorted(counts, floats(table, "procs").astype(np.int64))
    found: dict[Quantile, Floats] = {}
    for quantile, name in COLUMN.items():
        values = np.full((len(log.group_ids) + 1, len(counts)), np.nan)
        values[rows, columns_at] = floats(table, name)
        found[quantile] = values
    return FittedRuntimes(found, counts, _pairs(codes, work.procs[past]))


def _pairs(group: Ints, procs: Ints) -> Ints:
    """The distinct (group, size) pairs of groups of at least LEAST_SIZES sizes."""
    pairs = np.unique(np.stack([group, procs], axis=1), axis=0)
    return pairs[np.isin(pairs[:, 0], _groups_of_sizes(group, procs, LEAST_SIZES))]


def _groups_of_sizes(group: Ints, procs: Ints, least: int) -> Ints:
    """The groups that ran on at least so many sizes."""
    pairs = np.unique(np.stack([group, procs], axis=1), axis=0)
    return np.flatnonzero(np.bincount(pairs[:, 0], minlength=1) >= least)


PARALLEL_FRACTIONS = (0.95, 0.96, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999)
"""Studies of malleable jobs give a job without a known curve one of a few such fractions."""
LEAST_EFFICIENCY = 0.75
"""A user is taken to prefer a count on which at least this part of the processors' time is used."""


def allowed_counts(preferred: Ints, reach: int, capacity: int) -> tuple[Ints, Ints]:
    """The counts from preferred/2^reach to preferred*2^reach in steps of 2, for each job.

    Fractions are rounded up, counts are from 1 to the capacity, and the preferred count is always among them. Returns
    offsets (jobs + 1,) and counts, in ascending order within a job.
    """
    sizes, place = np.unique(preferred, return_inverse=True)
    powers = 2.0 ** np.arange(-reach, reach + 1)
    counts = [np.unique(np.ceil(size * powers)).astype(np.int64) for size in sizes]
    counts = [own[(own >= 1) & (own <= capacity)] for own in counts]
    offsets = np.cumsum([0, *(len(counts[k]) for k in place)])
    return offsets, np.concatenate([counts[k] for k in place]) if len(place) else np.empty(0, np.int64)


def amdahl_fractions(preferred: Ints, least_efficiency: float = LEAST_EFFICIENCY) -> Floats:
    """The parallel fraction guessed for a job from its preferred count alone, for each job.

    It is the first of PARALLEL_FRACTIONS, in ascending order, whose efficiency on the preferred count is at least
    `least_efficiency`, and the last where none is. In descending order the first would be the largest for every job.
    """
    fractions = np.array(PARALLEL_FRACTIONS)
    efficiency = 1.0 / (preferred[:, None] * (1.0 - fractions) + fractions)
    passes = efficiency >= least_efficiency
    passes[:, -1] = True
    found: Floats = fractions[passes.argmax(axis=1)]
    return found


def amdahl_growth(procs: Ints, preferred: Ints, fraction: Floats) -> Floats:
    """Runtime on `procs` over that on `preferred` under Amdahl's law with a parallel fraction, elementwise."""
    return (1.0 - fraction + fraction / procs) / (1.0 - fraction + fraction / preferred)


Chooser = Literal["rigid", "amdahl", "fitted", "true"]
CHOOSERS: tuple[Chooser, ...] = ("rigid", "amdahl", "fitted", "true")


@dataclass(frozen=True, slots=True)
class StudySettings:
    """What is replayed."""

    shares: tuple[float, ...] = (0.0, 0.2, 0.5, 1.0)
    seeds: int = 10
    reach: int = 2
    """Jobs may start on preferred/2^reach to preferred*2^reach processors."""
    quantile: Quantile = "hi80"
    """By what of our interval a choice is made."""
    refits: int = 6
    """How often our curves are fitted anew to the jobs that have ended, at equal numbers of later submits."""
    choosers: tuple[Chooser, ...] = field(default=CHOOSERS)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The counts of every job: moldable ones have several, the others their preferred one."""

    offsets: Ints
    job: Ints
    """(choices,): the job of each choice."""
    procs: Ints
    growth: Floats
    """(choices,): the true runtime over that on the preferred count."""

    def is_moldable(self) -> Bools:
        """(jobs,): whether a job has a choice."""
        return np.diff(self.offsets) > 1


def one_seed(log: MoldableLog, curves: TrueCurves, settings: StudySettings, seed: int) -> list[dict[str, Any]]:
    """Rows of MOLDABLE, of every share and chooser. The same arguments give the same rows."""
    generator = np.random.default_rng(seed)
    world = curves.world(log, generator)
    draw = generator.random(len(world.work))
    candidates = candidates_of(log, world, settings.reach)
    rigid = replay(world.work, ReplayOptions())
    planned = planned_growths(log, world, candidates, rigid, settings)
    scored = np.arange(len(world.work)) >= log.n_history
    rows = []
    for share in settings.shares:
        moldable = candidates.is_moldable() & (draw < share)
        facts = {"curves": curves.name, "share": share, "seed": seed, "n_moldable": int(moldable.sum())}
        # Where no job is moldable all choosers are the rigid one.
        for chooser in settings.choosers if moldable.any() else settings.choosers[:1]:
            ran, done = replay_moldable(world.work, choices_of(world, candidates, moldable, planned[chooser]))
            count_done("replays")
            rows.append(facts | {"chooser": chooser} | moldable_figures(world.work, ran, done, rigid, scored))
    return rows


def candidates_of(log: MoldableLog, world: World, reach: int) -> Candidates:
    """Jobs after the first third, on two processors or more and on a curve, may start on the counts that it covers."""
    work = world.work
    offsets, procs = allowed_counts(work.procs, reach, work.capacity)
    job = np.repeat(np.arange(len(work)), np.diff(offsets))
    growth = world.growth(job, procs)
    may = world.follows_curve & (work.procs >= 2) & (np.arange(len(work)) >= log.n_history)
    is_own = procs == work.procs[job]
    kept = is_own | (may[job] & np.isfinite(growth))
    counts = np.bincount(job[kept], minlength=len(work))
    return Candidates(np.cumsum([0, *counts]), job[kept], procs[kept], np.where(is_own, 1.0, growth)[kept])


def planned_growths(
    log: MoldableLog, world: World, candidates: Candidates, rigid: Schedule, settings: StudySettings
) -> Mapping[Chooser, Floats]:
    """(choices,) by chooser: the runtime it expects over that on the preferred count; NaN: it does not offer it."""
    procs, preferred = candidates.procs, world.work.procs[candidates.job]
    found: dict[Chooser, Floats] = {"rigid": np.where(procs == preferred, 1.0, np.nan), "true": candidates.growth}
    if "amdahl" in settings.choosers:
        found["amdahl"] = amdahl_growth(procs, preferred, amdahl_fractions(preferred))
    if "fitted" in settings.choosers:
        found["fitted"] = _fitted(log, world, candidates, rigid, settings)
    return {name: np.where(procs == preferred, 1.0, growth) for name, growth in found.items()}


def _fitted(log: MoldableLog, world: World, candidates: Candidates, rigid: Schedule, settings: StudySettings) -> Floats:
    """Each job by the last fit before its submit, to the jobs that had ended then in the rigid replay."""
    work, job = world.work, candidates.job
    preferred, growth = work.procs[job], np.full(len(job), np.nan)
    counts = np.unique(allowed_counts(np.unique(work.procs), settings.reach, work.capacity)[1])
    places = np.linspace(log.n_history, len(work), settings.refits + 1).astype(np.int64)
    for begin, end in pairwise(places):
        past = world.follows_curve & (log.group >= 0) & (rigid.end_s <= work.submit_s[begin])
        own = (job >= begin) & (job < end)
        if past.any() and own.any():
            fitted = fitted_runtimes(log, world, past, counts)
            asked = log.group[job[own]], candidates.procs[own], preferred[own]
            growth[own] = fitted.growth(*asked, settings.quantile)
    return growth


def choices_of(world: World, candidates: Candidates, moldable: Bools, planned: Floats) -> Choices:
    """What the scheduler chooses from. Planned runtimes are the request times the growth that the chooser expects."""
    work, job = world.work, candidates.job
    is_own = candidates.procs == work.procs[job]
    kept = is_own | (moldable[job] & np.isfinite(planned))
    own, growth = job[kept], candidates.growth[kept]
    run_s = np.maximum(1, np.rint(work.run_s[own] * growth)).astype(np.int64)
    planned_s = np.maximum(1, np.ceil(work.request_s[own] * planned[kept])).astype(np.int64)
    offsets = np.cumsum([0, *np.bincount(own, minlength=len(work))])
    return Choices(offsets, candidates.procs[kept], run_s, planned_s)


def assumptions(log: MoldableLog, curves: TrueCurves, settings: StudySettings) -> list[str]:
    """What the study takes to be true, and how it was made, in sentences."""
    factor = 2**settings.reach
    return [
        *curves.assumptions,
        "Moldable jobs are drawn among those on two or more processors after the first third of the log. They may "
        f"start on 1/{factor} to {factor} times the count asked for, in steps of 2, and run on it to their end.",
        "Scheduler: EASY on one pool of processors. Planned runtimes are the request times the growth that the chooser "
        "expects; nobody is killed, and a job that outlives its plan is planned for twice the time.",
        f"fitted: groups by {log.template}, fitted {settings.refits} times to the jobs that had ended before in the "
        f"rigid replay and judged by {settings.quantile}; groups without a curve by the same quantile over the groups "
        "that have one.",
        f"amdahl: the least parallel fraction of {PARALLEL_FRACTIONS[0]:g} to {PARALLEL_FRACTIONS[-1]:g} with an "
        f"efficiency of {LEAST_EFFICIENCY:g} on the count asked for.",
        f"Scored: the {len(log.work) - log.n_history:,} jobs after the first third.",
    ]
