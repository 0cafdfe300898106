"""What `walltime moldable` does: one log under true curves, each share of moldable jobs under each chooser."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from flows.services.files.os_errors import naming_path
from flows.services.files.table_files import write_any, write_page
from flows.services.moldable.fitted_growth import Quantile, fitted_runtimes
from flows.services.moldable.moldable_log import MoldableLog
from flows.services.moldable.true_curves import TrueCurves, World
from flows.services.progress import running_stage
from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.errors import InputError
from pipeline.core.tables import MOLDABLE
from pipeline.core.text import printable
from pipeline.core.work_counts import count_done
from pipeline.evaluate.replay.moldable_counts import (
    LEAST_EFFICIENCY,
    PARALLEL_FRACTIONS,
    allowed_counts,
    amdahl_fractions,
    amdahl_growth,
)  # fmt: skip
from pipeline.evaluate.replay.moldable_figures import moldable_figures
from pipeline.evaluate.replay.moldable_replay import Choices, MoldableSchedule, replay_moldable, rigid_choices

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
        several: Bools = np.diff(self.offsets) > 1
        return several


def study(log: MoldableLog, curves: TrueCurves, settings: StudySettings) -> pa.Table:
    """MOLDABLE: the figures of every share, chooser and seed. The same arguments give the same table."""
    rows: list[dict[str, Any]] = []
    for seed in range(settings.seeds):
        with running_stage(f"seed {seed + 1} of {settings.seeds}"):
            rows += _one_seed(log, curves, settings, seed)
    names = list(rows[0])
    return MOLDABLE.build(log=[log.name] * len(rows), **{name: [row[name] for row in rows] for name in names})


def _one_seed(log: MoldableLog, curves: TrueCurves, settings: StudySettings, seed: int) -> list[dict[str, Any]]:
    generator = np.random.default_rng(seed)
    world = curves.world(log, generator)
    draw = generator.random(len(world.work))
    candidates = candidates_of(log, world, settings.reach)
    rigid = replay_moldable(world.work, rigid_choices(world.work))
    planned = planned_growths(log, world, candidates, rigid, settings)
    scored = np.arange(len(world.work)) >= log.n_history
    rows = []
    for share in settings.shares:
        moldable = candidates.is_moldable() & (draw < share)
        facts = {"curves": curves.name, "share": share, "seed": seed, "n_moldable": int(moldable.sum())}
        # Where no job is moldable all choosers are the rigid one.
        for chooser in settings.choosers if moldable.any() else settings.choosers[:1]:
            done = replay_moldable(world.work, choices_of(world, candidates, moldable, planned[chooser]))
            count_done("replays")
            rows.append(facts | {"chooser": chooser} | asdict(moldable_figures(world.work, done, rigid, scored)))
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
    log: MoldableLog, world: World, candidates: Candidates, rigid: MoldableSchedule, settings: StudySettings
) -> Mapping[Chooser, Floats]:
    """(choices,) by chooser: the runtime it expects over that on the preferred count; NaN: it does not offer it."""
    procs, preferred = candidates.procs, world.work.procs[candidates.job]
    found: dict[Chooser, Floats] = {"rigid": np.where(procs == preferred, 1.0, np.nan), "true": candidates.growth}
    if "amdahl" in settings.choosers:
        found["amdahl"] = amdahl_growth(procs, preferred, amdahl_fractions(preferred))
    if "fitted" in settings.choosers:
        found["fitted"] = _fitted(log, world, candidates, rigid, settings)
    return {name: np.where(procs == preferred, 1.0, growth) for name, growth in found.items()}


def _fitted(
    log: MoldableLog, world: World, candidates: Candidates, rigid: MoldableSchedule, settings: StudySettings
) -> Floats:
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


def shares(text: str) -> tuple[float, ...]:
    """Shares from 0 to 1 of a text of percentages, each once in ascending order; InputError for others."""
    words = [word.strip().removesuffix("%") for word in text.split(",")]
    try:
        found = sorted({float(word) / 100 for word in words})
    except ValueError:
        found = [-1.0]
    if not all(0 <= share <= 1 for share in found):
        raise InputError(
            f"--share {printable(text, 60)}", "no list of percentages", "numbers from 0 to 100, as in 0,20,50"
        )
    return tuple(found)


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


def write_study(folder: Path, table: pa.Table, page: str) -> dict[str, str]:
    """Write the table and the page; returns the paths by name."""
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = write_any(folder / "moldable.parquet", table, MOLDABLE)
    return {"moldable": str(written), "page": str(write_page(folder / "moldable.md", page))}


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The medians over the seeds of every share and chooser, with the changes from the rigid replay of the same seed.

    `gain_of_true` is the gain in mean turnaround over that of the true curves; None where these gain nothing.
    """
    rigid = {row["seed"]: row for row in rows if row["chooser"] == "rigid"}
    keys = list(dict.fromkeys((row["share"], row["chooser"]) for row in rows))
    found = [_summed([row for row in rows if (row["share"], row["chooser"]) == key], rigid) for key in keys]
    best = {row["share"]: row["turnaround_change"] for row in found if row["chooser"] == "true"}
    for row in found:
        gained = best.get(row["share"], 0.0)
        row["gain_of_true"] = row["turnaround_change"] / gained if gained < 0 else None
    return found


_MEDIANS = (
    "n_moldable", "turnaround_mean_s", "turnaround_median_s", "wait_mean_s", "wait_median_s", "slowdown_mean",
    "makespan_s", "utilisation", "proc_hours_held", "share_resized", "share_corrected", "worst_user_change",
    "worst_user_added_s", "share_users_harmed",
)  # fmt: skip
_CHANGES = {"turnaround": "turnaround_mean_s", "turnaround_median": "turnaround_median_s", "wait": "wait_mean_s",
            "makespan": "makespan_s", "proc_hours": "proc_hours_held"}  # fmt: skip


def _change(value: float, before: float) -> float:
    """The relative change; NaN from 0, as of the waits on a machine where nobody waited."""
    return value / before - 1.0 if before else 0.0 if value == before else float("nan")


def _summed(own: Sequence[Mapping[str, Any]], rigid: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    facts = {"share": own[0]["share"], "chooser": own[0]["chooser"], "n_seeds": len(own)}
    medians = {name: float(np.median([row[name] for row in own])) for name in _MEDIANS}
    changes: dict[str, float] = {}
    for name, column in _CHANGES.items():
        ratios = [_change(row[column], rigid[row["seed"]][column]) for row in own]
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        changes |= {f"{name}_change": float(middle)}
        if name == "turnaround":
            changes |= {"turnaround_change_q25": float(low), "turnaround_change_q75": float(high)}
    worst = float(np.max([row["worst_user_change"] for row in own]))
    return facts | medians | changes | {"worst_user_change_any_seed": worst}
