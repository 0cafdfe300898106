"""Replays in which the scheduler chooses the processors of some jobs: what it knows of them, and what comes of it.

python -m benchmarks.moldable_replay LOG|CONFIG --series RUNS.csv [--share 0,20,50,100] [--seeds 10] [--json]
python -m benchmarks.moldable_replay LOG|CONFIG --laws TRUTH.json

It prints the tables of benchmarks/moldable.md. The scheduler knows each job's runtimes on other counts by nothing
(rigid), by a guess from Amdahl's law, by curves that Walltime fits to the log's earlier jobs, or truly. The true curves
are assumed: every group of similar jobs follows a drawn one of the measured series, or the laws of a simulated log.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.moldable_curves import MoldableLog, TrueCurves, World, read_moldable_log, true_curves
from benchmarks.moldable_engine import Choices, replay_moldable
from flows.pages.blocks import Column, hours, print_json, text
from flows.pages.markdown import escape
from pipeline.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.group.observations import aggregate
from pipeline.large_tables import rows_of
from pipeline.scaling.predictions import fitted_series, predict
from pipeline.scaling.series import PredictRules
from pipeline.schedule.engine import ReplayOptions, Schedule, replay
from pipeline.schedule.what_if import metrics
from pipeline.schedule.workload import Workload
from pipeline.tables import OBSERVATIONS
from tools.plain_run import tables_of

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
    table, _ = predict(fitted_series(levelled, fits, PredictRules(), settings.site, patterns=patterns), "moldable", at)
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
    """The figures of every share and chooser, a row each. The same arguments give the same rows."""
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


def study(log: MoldableLog, curves: TrueCurves, settings: StudySettings) -> list[dict[str, Any]]:
    """The figures of every share, chooser and seed. The same arguments give the same rows."""
    return [row for seed in range(settings.seeds) for row in one_seed(log, curves, settings, seed)]


LEAST_JOBS = 10
"""Users with fewer scored jobs do not count as the worst one: the mean of a few jobs changes by chance."""


def moldable_figures(
    work: Workload, ran: Workload, done: Schedule, rigid: Schedule, scored: Bools
) -> dict[str, float | int]:
    """The figures of one replay over the scored jobs, of which there are some.

    `work` has the preferred counts, `ran` those that the jobs had under `done`; `rigid` is the schedule of the same
    jobs on their preferred counts.
    """
    found = metrics(ran, done, scored)
    turnaround_s, rigid_s = ((one.end_s - work.submit_s)[scored].astype(np.float64) for one in (done, rigid))
    own_s, own_rigid_s = user_means(work.user[scored], turnaround_s, rigid_s)
    change, added_s = own_s / own_rigid_s - 1.0, own_s - own_rigid_s
    return {
        "n_jobs": found["n_jobs"],
        "turnaround_mean_s": found["response_mean_s"],
        "turnaround_median_s": float(np.median(turnaround_s)),
        "wait_mean_s": found["wait_mean_s"],
        "wait_median_s": float(np.median((done.start_s - work.submit_s)[scored])),
        "slowdown_mean": found["slowdown_mean"],
        "makespan_s": float(done.end_s[scored].max() - work.submit_s[scored].min()),
        "utilisation": found["utilisation"],
        "proc_hours_held": float((ran.procs * ran.run_s)[scored].sum() / 3600),
        "share_resized": float((ran.procs != work.procs)[scored].mean()),
        "share_corrected": found["share_corrected"],
        "worst_user_change": float(change.max()) if len(change) else float("nan"),
        "worst_user_added_s": float(added_s.max()) if len(change) else float("nan"),
        "share_users_harmed": float((change > 0.01).mean()) if len(change) else float("nan"),
    }


def user_means(user: Ints, *values_s: Floats) -> tuple[Floats, ...]:
    """The means of some values by user, over known users with at least LEAST_JOBS jobs."""
    known = user >= 0
    counts = np.bincount(user[known])
    enough = counts >= LEAST_JOBS
    return tuple(np.bincount(user[known], values[known])[enough] / counts[enough] for values in values_s)


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


def _signed(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{100 * value:+.1f}%"


def _gain(row: Mapping[str, Any]) -> str:
    gain = row["gain_of_true"]
    return "" if gain is None or row["chooser"] in ("rigid", "true") else f"{gain:.0%}"


COLUMNS = (
    text("moldable, %", lambda row: f"{100 * row['share']:g}"),
    text("chosen by", "chooser"),
    Column("mean turnaround", "turnaround_change", _signed),
    Column("quartiles", lambda row: " to ".join(_signed(row[f"turnaround_change_{q}"]) for q in ("q25", "q75"))),
    Column("median turnaround", "turnaround_median_change", _signed),
    Column("mean wait", "wait_change", _signed),
    Column("makespan", "makespan_change", _signed),
    Column("processor-hours", "proc_hours_change", _signed),
    Column("part of the true gain", _gain),
    Column("worst user", "worst_user_change", _signed),
    Column("worst user, h", lambda row: row["worst_user_added_s"] / 3600, "{:+.1f}".format),
    Column("users harmed", "share_users_harmed", "{:.0%}".format),
)
_NOTE = (
    "Medians over the seeds of the changes from the rigid replay of the same seed. Worst user: the largest growth of a "
    "user's mean turnaround, relative and in hours, over users with ten jobs or more; harmed: by more than 1%."
)


def page(name: str, rows: Sequence[Mapping[str, Any]], assumptions: Sequence[str]) -> str:
    """The changes from the rigid replay as Markdown, then the assumptions."""
    cells = [[column.heading for column in COLUMNS], ["---"] * len(COLUMNS)]
    cells += [[column.cell(row) for column in COLUMNS] for row in rows]
    table = [f"| {' | '.join(line)} |" for line in cells]
    said = [f"- {sentence}" for sentence in assumptions]
    return "\n".join([f"## {escape(name)}", "", _baseline(rows), "", *table, "", _NOTE, "", *said]) + "\n"


def _baseline(rows: Sequence[Mapping[str, Any]]) -> str:
    rigid = next(row for row in rows if row["chooser"] == "rigid")
    turnaround, wait = (
        f"mean {what} {hours(rigid[f'{what}_mean_s'])} h, median {hours(rigid[f'{what}_median_s'])} h"
        for what in ("turnaround", "wait")
    )
    makespan = f"makespan {rigid['makespan_s'] / 86_400:,.1f} days, utilisation {rigid['utilisation']:.0%}"
    return f"rigid: {turnaround}; {wait}; {makespan}."


def shares(words: str) -> tuple[float, ...]:
    """Shares from 0 to 1 of percentages with commas between them, each once in ascending order."""
    found = tuple(sorted({float(word) / 100 for word in words.split(",")}))
    if not all(0 <= share <= 1 for share in found):
        raise argparse.ArgumentTypeError(f"found {words}, expected numbers from 0 to 100, as in 0,20,50")
    return found


def main() -> None:
    """Print the table of a log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--series", type=Path, help="a CSV of measured runs, as for walltime scaling fit")
    source.add_argument("--laws", type=Path, help="the truth file of a simulated log")
    parser.add_argument("--share", type=shares, default=(0.0, 0.2, 0.5, 1.0), help="moldable jobs, %%")
    parser.add_argument("--seeds", type=int, default=10, help="replays of each share and chooser")
    parser.add_argument("--reach", type=int, default=2, help="doublings up and down from the user's own count")
    parser.add_argument("--quantile", choices=COLUMN, default="hi80", help="what fitted curves are judged by")
    parser.add_argument("--max-procs", type=int, help="processors of the machine; default: those that the log states")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    settings = StudySettings(asked.share, asked.seeds, asked.reach, asked.quantile)
    curves = true_curves(asked.series, asked.laws)
    log = read_moldable_log(asked.log, asked.max_procs)
    rows, said = summary(study(log, curves, settings)), assumptions(log, curves, settings)
    if asked.json:
        print_json({"log": log.name, "curves": curves.name, "summary": rows, "assumptions": said})
    else:
        print(page(log.name, rows, said), end="")


if __name__ == "__main__":
    main()
