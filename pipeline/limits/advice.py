"""What to request: for each kind of job a requested time that about 3% of its later jobs run longer than.

A kind is user, application, processors, GPUs and request: a user who requests more for some jobs often knows why. Each
midnight every kind with enough recent jobs has a scale of
possible requests, from a low quantile of its latest runtimes to a multiple of the longest. Jobs that are submitted
during the day check all of them, when they end. The recommendation is the least request of the scale whose chance, by
the kind's own checks, shrunk towards those of all kinds, is at most 3%. A kind without enough checks, or with no such
request, gets none.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Array, Bools, Floats, Ints
from pipeline.estimate.history import LEARN_JOBS, READ, History, newest_s
from pipeline.estimate.history import history as history_of
from pipeline.estimate.jobs import MOST_NEW, NAMED_JOBS, mixed
from pipeline.large_tables import LargeTable, newest_jobs
from pipeline.report import Report, Tally
from pipeline.settings import SiteSettings
from pipeline.tables import ADVICE

LONGER_SHARE = 0.03
"""Of the jobs of a kind, the share that may run longer than what is recommended."""

SHARES = np.array((0.3, 0.2, 0.15, 0.10, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01))
FACTORS = np.array((1.0, 1.15, 1.35, 1.6, 2.0, 3.0))
"""The scale: the runtimes that these shares of the latest jobs exceeded, then these times the longest."""

WINDOW, LEAST_JOBS, RECENT_S = 100, 20, 180 * DAY_S
"""The latest jobs that a scale is made from: at most, at least, and how long ago they ended at most."""

LEAST_CHECKS, LEAST_NIGHTS, CHECKS_A_NIGHT = 20.0, 5, 5.0
"""Checks that a kind needs, the nights they are from, and what those of one night weigh at most: jobs that are
submitted together run longer together."""

PRIOR_CHECKS, KIND_CHECKS, SITE_CHECKS = 20.0, 300.0, 5000.0
"""Weight of all kinds' checks in a kind's chance; half-lives, in checks, of a kind's and of all kinds' record."""

STEPS_S = ((7200.0, 300.0), (43_200.0, 900.0), (np.inf, 3600.0))
"""Up to so long, requests are multiples of so much: 5 min, 15 min, 1 h."""


@dataclass(slots=True)
class Record:
    """What later jobs did with each request of the scale, decayed with the number of checks."""

    half_life: float
    weight: float = 0.0
    longer: Floats = field(default_factory=lambda: np.zeros(len(SHARES) + len(FACTORS)))
    n_nights: int = 0

    def learn(self, n_jobs: int, longer: Floats) -> None:
        """Add the checks of one night."""
        share = min(1.0, CHECKS_A_NIGHT / n_jobs)
        kept = 0.5 ** (share * n_jobs / self.half_life)
        self.weight = kept * self.weight + share * n_jobs
        self.longer = kept * self.longer + share * longer
        self.n_nights += 1


class Trial(NamedTuple):
    """The scale of a kind at a midnight, and the jobs of the day that check it."""

    at_s: float
    kind: int
    scale_s: Floats
    jobs: Ints
    """Places of the kind's jobs that are submitted in the day and end; none in the last trial, that of the table."""
    newest: Ints
    """Places of the jobs that the scale is made from, in order of end."""


class Advice(NamedTuple):
    """Recommended requests."""

    told_s: Floats
    """(jobs,) what was recommended for a job's kind at the midnight before its submit, s; NaN: nothing."""
    trials: list[Trial]
    """The kinds with a recommendation at the end,"""
    recommended_s: list[float]
    """the recommended requests, s,"""
    n_checks: list[float]
    """and the weight of the checks they rest on."""


def advice_of(log: History, at_s: float) -> Advice:
    """The recommendations of each midnight of a log, and those at a time, from what was known then.

    Parameters
    ----------
    log : History
        n jobs in order of submit.
    at_s : float
        Time of the last recommendations, s since 1970; nothing later is used.

    Returns
    -------
    Advice
        What the jobs were told, float64[n] in s, and the recommendations at `at_s`.
    """
    told_s, found = np.full(len(log), np.nan), Advice(np.full(len(log), np.nan), [], [], [])
    records: defaultdict[int, Record] = defaultdict(lambda: Record(KIND_CHECKS))
    site, open_trials = Record(SITE_CHECKS), list[Trial]()
    for night_s, group in groupby(sorted(_trials(log, at_s), key=lambda one: one.at_s), key=lambda one: one.at_s):
        tonight = list(group)
        # 1. The jobs that have ended since the last night check what was possible at their own midnight.
        open_trials = _learn(log, open_trials, night_s, records, site)
        prior = (site.longer + 0.5) / (site.weight + 1.0)
        for trial in tonight:
            # 2. The chance of each request of the scale; the longer the request, the smaller it is.
            own = records[trial.kind]
            chance = (own.longer + PRIOR_CHECKS * prior) / (own.weight + PRIOR_CHECKS)
            is_known = own.weight >= LEAST_CHECKS and own.n_nights >= LEAST_NIGHTS
            fits = np.flatnonzero(chance <= LONGER_SHARE)
            # 3. The least request that keeps the promise.
            if is_known and len(fits):
                told_s[trial.jobs] = trial.scale_s[fits[0]]
                if not len(trial.jobs):
                    found.trials.append(trial)
                    found.recommended_s.append(float(trial.scale_s[fits[0]]))
                    found.n_checks.append(own.weight)
        open_trials += tonight
    return found._replace(told_s=told_s)


def runs_longer(log: History, jobs: Ints, request_s: Floats | float) -> Bools:
    """Whether jobs ran longer than a request, or were stopped after as much: a full run would have been longer."""
    run_s, stopped = log.runtime_s[jobs], log.is_lower_bound[jobs]
    if np.ndim(request_s) == 2:
        run_s, stopped = run_s[:, None], stopped[:, None]
    longer: Bools = (run_s > request_s) | (stopped & (run_s >= request_s))
    return longer


def _learn(
    log: History, trials: list[Trial], at_s: float, records: defaultdict[int, Record], site: Record
) -> list[Trial]:
    """Add to the records the checks by jobs that have ended by a time; what remains of the trials."""
    remaining, counts = list[Trial](), dict[int, tuple[int, Floats]]()
    for trial in trials:
        is_over = log.end_s[trial.jobs] <= at_s
        over, later = trial.jobs[is_over], trial.jobs[~is_over]
        if len(over):
            n_jobs, longer = counts.get(trial.kind, (0, np.zeros(len(trial.scale_s))))
            checked = runs_longer(log, over, trial.scale_s[None, :]).sum(axis=0)
            counts[trial.kind] = n_jobs + len(over), longer + checked
        if len(later):
            remaining.append(trial._replace(jobs=later))
    for kind, (n_jobs, longer) in counts.items():
        records[kind].learn(n_jobs, longer)
        site.learn(n_jobs, longer)
    return remaining


def _trials(log: History, at_s: float) -> Iterator[Trial]:
    """Per kind the trials of the days on which its jobs were submitted, and one at the end, without jobs."""
    kind = kinds_of(log)
    order = np.flatnonzero(log.has_run & log.is_learnt & (kind >= 0) & (log.end_s <= at_s))
    order = order[np.lexsort((log.end_s[order], kind[order]))]
    for jobs in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1):
        if len(jobs) < LEAST_JOBS:
            continue
        end_s, day = log.end_s[jobs], np.floor(log.submit_s[jobs] / DAY_S)
        nights_s = np.unique(day) * DAY_S
        for night_s in [*nights_s[nights_s < at_s].tolist(), at_s]:
            newest = np.searchsorted(end_s, night_s, side="right")
            oldest = max(newest - WINDOW, np.searchsorted(end_s, night_s - RECENT_S))
            if newest - oldest >= LEAST_JOBS:
                used = jobs[oldest:newest]
                own = jobs[:0] if night_s == at_s else jobs[day * DAY_S == night_s]
                yield Trial(night_s, int(kind[jobs[0]]), _scale_s(log.runtime_s[used]), own, used)


def _scale_s(runtime_s: Floats) -> Floats:
    """The possible requests of a kind with these latest runtimes, s, rounded up as people write them."""
    longest_first = np.sort(runtime_s)[::-1]
    nth = np.maximum((SHARES * (len(runtime_s) + 1)).astype(int), 1) - 1
    scale_s = np.concatenate([longest_first[nth], longest_first[0] * FACTORS])
    step_s = np.select([scale_s <= most for most, _ in STEPS_S], [step for _, step in STEPS_S])
    rounded_s: Floats = np.ceil(scale_s / step_s) * step_s
    return rounded_s


def kinds_of(log: History) -> Ints:
    """The kind of each job, -1 where neither a user nor an application is known; jobs without a request are apart."""
    who, what = log.codes["who"], log.codes["what"]
    # Where most jobs have a name that no other job has, names do not tell applications.
    if len(log) >= NAMED_JOBS and len(log.names["what"]) > MOST_NEW * len(log):
        what = np.full(len(log), -1)
    gpus = np.nan_to_num(log.gpus)
    requested_s = np.nan_to_num(log.requested_s)
    columns = who + 1, what + 1, log.procs, gpus, log.codes["gpu_type"], requested_s
    numbered = np.unique(mixed(*columns), return_inverse=True)[1]
    return np.where((who >= 0) | (what >= 0), numbered, -1)


def advise(jobs: LargeTable, site: SiteSettings, run_id: str, as_of_s: float | None = None) -> tuple[pa.Table, Report]:
    """ADVICE of a log at a time, by default its newest instant.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS of one site; the newest LEARN_JOBS count.
    site : SiteSettings
        Name and time zone of the site.
    run_id : str
        Id of the run, written to every row.
    as_of_s : float, optional
        Time up to which events count, s since 1970.

    Returns
    -------
    table : pa.Table
        ADVICE: a row per kind of job for which a request can be recommended; times in s. Empty where none can.
    report : Report
        Number of rows; as facts the jobs of the log's later half that were told a request, and the share that ran
        longer.
    """
    newest, _ = newest_jobs(jobs, READ, LEARN_JOBS)
    log = history_of(newest, site.timezone, without_flagged=True)
    at_s = newest_s(newest, log.row) if as_of_s is None else as_of_s
    log = log.known_by(at_s)
    found = advice_of(log, at_s)
    table = _table(log, found, site.name, run_id)
    told = np.flatnonzero(~np.isnan(found.told_s) & log.has_run)
    told = told[told >= len(log) // 2]
    n_longer = int(runs_longer(log, told, found.told_s[told]).sum())
    facts = {"n_told": len(told), "n_longer": n_longer, "share_longer": n_longer / len(told) if len(told) else None}
    whole = Tally(table.num_rows)
    return table, Report("advise", "row", whole, whole, {}, facts)


def _table(log: History, found: Advice, site: str, run_id: str) -> pa.Table:
    last = np.array([trial.newest[-1] for trial in found.trials], np.int64)
    n = len(last)
    requested_s, gpus = np.nan_to_num(log.requested_s[last]), log.gpus[last]
    return ADVICE.build(
        site=[site] * n, who=_texts(log, "who", last), what=_texts(log, "what", last), procs=log.procs[last],
        gpus=pa.array(gpus, pa.float64(), from_pandas=True), gpu_type=_texts(log, "gpu_type", last),
        requested_s=requested_s, recommended_s=found.recommended_s,
        chance_longer=[LONGER_SHARE] * n, n_jobs=[len(trial.newest) for trial in found.trials],
        n_checked=[round(one) for one in found.n_checks], newest_end_s=log.end_s[last].astype(np.int64),
        run_id=[run_id] * n,
    )  # fmt: skip


def _texts(log: History, name: str, jobs: Ints) -> Sequence[str | None]:
    texts: Array = np.array([*log.names[name], None], object)
    listed: list[str | None] = texts[log.codes[name][jobs]].tolist()
    return listed
