"""What-if: every case over the same shaken logs, and their figures, as the table REPLAY."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.backtest import size_classes, size_name
from pipeline.limits.soft import SOFT_RULES, SoftRules, extensions_of, medians_left, next_limits, planned_limits
from pipeline.schedule.engine import Policy, ReplayOptions, Schedule, replay
from pipeline.schedule.workload import Convention, Shakes, Workload, shaken
from pipeline.tables import REPLAY

SHORTEST_S = 10.0
"""Shorter estimates are tried as if they were this long: the slowdown counts runtimes so."""

AGEING_S = 24 * 3600.0
"""A job that was submitted this much earlier is tried as if its estimate were 1/e as long."""

CONTROL_SHARE = 0.1

MOST_LIMITS = 40
"""Limits of a job; after the last increment but one comes its request."""


class Estimates(StrEnum):
    """What the scheduler plans with."""

    REQUEST = "request"
    ORDER = "order"
    """The request; the order is by our median."""
    SOFT_10 = "soft-10"
    SOFT_50 = "soft-50"
    SOFT_80 = "soft-80"
    """Soft limits by this quantile (%) of the table of estimates, as the plug-in sets and the guard raises them."""
    LAST_TWO = "last_two"
    """The mean of the user's last two jobs that ended in the replay; with increments this is EASY++."""
    CONTROL = "control"
    """Soft limits by a tenth of the request: no knowledge of runtimes. Estimates that do not beat it owe their gain to
    the rules."""
    PERFECT = "perfect"


SOFT = {Estimates.SOFT_10: 0.10, Estimates.SOFT_50: 0.50, Estimates.SOFT_80: 0.80}
"""The quantile of each soft case (setting export.quantile)."""

WITH_METHOD = (*SOFT, Estimates.ORDER)
"""They plan with the estimates of the table that is published nightly."""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy with estimates. Soft limits and their control are raised by the guard's rules, and fair."""

    policy: Policy
    estimates: Estimates

    @property
    def is_soft(self) -> bool:
        """Whether limits are set and raised."""
        return self.estimates in SOFT or self.estimates is Estimates.CONTROL

    def options(self, rules: SoftRules = SOFT_RULES) -> ReplayOptions:
        """What the replay of this case does."""
        return ReplayOptions(self.policy, rules if self.is_soft else None, self.estimates is Estimates.LAST_TWO)

    @property
    def name(self) -> str:
        """The case in words, as in `easy-sjbf, soft-50`."""
        return f"{policy_name(self.policy)}, {self.estimates}"


TODAY = Case(Policy.EASY, Estimates.REQUEST)
"""EASY with requests: what a site without estimates has, and what every case is compared with."""


def policy_name(policy: Policy) -> str:
    """The policy's name as an option writes it: easy-sjbf."""
    return policy.name.lower().replace("_", "-")


def cases(policies: Iterable[Policy], estimates: Iterable[Estimates]) -> tuple[Case, ...]:
    """TODAY, then every policy with every estimates, each once.

    FCFS plans nothing and is replayed once; limits are raised, also those of the last two jobs, under EASY and
    EASY-SJBF alone, and the order is one of EASY-SJBF.
    """
    listed, found = list(estimates), [TODAY]
    for policy in policies:
        for one in listed:
            case = Case(policy, Estimates.REQUEST if policy is Policy.FCFS else one)
            is_raised = case.is_soft or case.estimates is Estimates.LAST_TWO
            is_possible = policy in (Policy.EASY, Policy.EASY_SJBF) or not is_raised
            if is_possible and (one is not Estimates.ORDER or policy in (Policy.FCFS, Policy.EASY_SJBF)):
                found.append(case)
    return tuple(dict.fromkeys(found))


def plan(
    estimates: Estimates, work: Workload, quantiles_s: Floats, rules: SoftRules = SOFT_RULES
) -> tuple[Floats | Ints | None, Floats | None]:
    """What the jobs of a workload are planned with, s, and the runtimes that they are ordered by, s.

    Parameters
    ----------
    estimates
        What the scheduler plans with.
    work
        The jobs.
    quantiles_s
        (rows, 6) in s at QUANTILES, a row for each that `work.row` may name, of estimates in WITH_METHOD; NaN: no
        answer, for which the request stands in.
    rules
        The guard's; the quantile is that of the estimates.

    Returns
    -------
    tuple
        Limits as `replay` takes them, None: requests, or what the replay learns; and per job the median (of the
        control: the request, of perfect estimates: the runtime), None: the order is that of the limits.
    """
    request_s, run_s = work.request_s.astype(np.float64), work.run_s.astype(np.float64)
    if estimates in (Estimates.REQUEST, Estimates.LAST_TWO):
        return None, None
    if estimates is Estimates.PERFECT:
        return run_s, run_s
    if estimates is Estimates.CONTROL:
        tenth_s = np.repeat(CONTROL_SHARE * request_s[:, None], len(QUANTILES), axis=1)
        return soft_limits(tenth_s, request_s, rules._replace(quantile=0.5)), request_s
    found_s = quantiles_s[work.row]
    median_s = found_s[:, QUANTILES.index(0.50)]
    key_s = np.where(np.isnan(median_s), request_s, median_s)
    if estimates is Estimates.ORDER:
        return None, key_s
    return soft_limits(found_s, request_s, rules._replace(quantile=SOFT[estimates])), key_s


def soft_limits(quantiles_s: Floats, request_s: Floats, rules: SoftRules) -> Ints:
    """(jobs, steps): the limit that each job is planned with first, s, and those that the guard raises it to in turn.

    `quantiles_s` is (jobs, 6), s, at QUANTILES; NaN: no answer. The last limit is the request.
    """
    limit_s = planned_limits(quantiles_s[:, QUANTILES.index(rules.quantile)], request_s, rules)
    limit_s = np.where(np.isnan(limit_s), request_s, limit_s)
    found = [limit_s]
    while len(jobs := np.flatnonzero(found[-1] < request_s)) and len(found) < MOST_LIMITS:
        own_s, longer_s = found[-1][jobs], found[-1].copy()
        left_s = medians_left(quantiles_s[jobs], QUANTILES, own_s)
        nth = extensions_of(own_s, limit_s[jobs], rules)
        longer_s[jobs] = next_limits(own_s, request_s[jobs], nth, left_s, rules)
        found.append(longer_s)
    return np.column_stack([*found, request_s]).astype(np.int64)


def aged(estimate_s: Floats, work: Workload) -> Floats:
    """The order in which jobs are tried: the logarithm of the estimate, and the submit over AGEING_S."""
    submit_s = work.submit_s - (work.submit_s[0] if len(work) else 0)
    return np.log(np.maximum(estimate_s, SHORTEST_S)) + submit_s / AGEING_S


WIDE_SHARE = 0.1

OF_GROUP = ("slowdown_mean", "wait_mean_s", "wait_longest_s")
"""The figures of a size class or of a user, columns of REPLAY."""

OF_ALL = (
    *OF_GROUP, "slowdown_median", "wait_p99_s", "wait_wide_mean_s", "response_mean_s", "utilisation",
    "share_backfilled", "share_corrected",
)  # fmt: skip
"""The figures of all scored jobs, columns of REPLAY."""

STATISTICS = {"q25": 0.25, "median": 0.5, "q75": 0.75}


@dataclass(frozen=True, slots=True)
class Subject:
    """A log as it is replayed."""

    log: str
    work: Workload
    quantiles_s: Floats
    """As `plan` takes them; one as-of pass serves all shakes."""
    user_names: Sequence[str]
    """The text of each user code."""
    convention: Convention
    since_s: float = -np.inf
    """Jobs submitted before are replayed, and not scored."""
    has_waits: bool = True
    """Whether the log states waits. Without them its submits are starts, and no gain can be told."""
    log_utilisation: float = np.nan
    """The utilisation of the log itself over the scored jobs; NaN: unknown."""
    rules: SoftRules = SOFT_RULES
    """The site's."""


def what_if(subject: Subject, chosen: Sequence[Case], shakes: Shakes) -> pa.Table:
    """REPLAY: the figures of each case, medians and quartiles over the shakes, whole and by size class and user.

    Parameters
    ----------
    subject
        The log, with its estimates.
    chosen
        The cases; TODAY is added where it is missing. All are replayed on the same shaken arrivals, and changes are
        differences from TODAY within one shake.
    shakes
        With n = 0 the log is replayed once, as it is.

    Returns
    -------
    pa.Table
        REPLAY; parts without a scored job are left out.
    """
    whole, listed = subject.work, list(dict.fromkeys((TODAY, *chosen)))
    plans = {case.estimates: plan(case.estimates, whole, subject.quantiles_s, subject.rules) for case in listed}
    # By part of the jobs its figures, its values, and the place of each job's value; the last user is of unknown ones.
    sizes = size_classes(whole.procs.astype(np.float64))
    users = np.where(whole.user < 0, len(subject.user_names), whole.user)
    parts: dict[str, tuple[Sequence[str], Sequence[str | None], Ints]] = {
        "all": (OF_ALL, [None], np.zeros(len(whole), np.int64)),
        "size": (OF_GROUP, [size_name(size) for size in range(sizes.max(initial=0) + 1)], sizes),
        "user": (OF_GROUP, [*subject.user_names, None], users),
    }
    found: dict[tuple[Case, str], list[Floats]] = {(case, part): [] for case in listed for part in parts}
    for nth in range(max(1, shakes.n)):
        work, places = shaken(whole, shakes, nth) if shakes.n else (whole, np.arange(len(whole)))
        for case in listed:
            limits_s, key_s = plans[case.estimates]
            order = None if key_s is None else aged(key_s[places], work)
            limits_s = None if limits_s is None else limits_s[places]
            done = replay(work, case.options(subject.rules), limits_s, order)
            # Under NATURAL the same jobs count in every shake.
            is_natural = subject.convention is Convention.NATURAL
            counts = places >= len(work) // 100 if is_natural else scored(work, done, subject.convention)
            counts &= (whole.submit_s[places] if is_natural else work.submit_s) >= subject.since_s
            for part, (_, names, code) in parts.items():
                figures = (
                    np.array([list(metrics(work, done, counts).values())])
                    if part == "all"
                    else group_metrics(work, done, counts, code[places[counts]], len(names))
                )
                found[case, part].append(figures)
    about = {"log": subject.log, "convention": subject.convention, "n_shakes": shakes.n, "has_waits": subject.has_waits}
    rows = []
    for (case, part), values in found.items():
        corrected = {Estimates.LAST_TWO: "increments"}.get(case.estimates, "limits" if case.is_soft else "request")
        of_part = about | {
            "policy": policy_name(case.policy), "estimates": str(case.estimates), "correction": corrected,
            "is_guarded": case.is_soft, "part": part,
        }  # fmt: skip
        columns, names, _ = parts[part]
        rows += [
            of_part | row for row in _rows(names, columns, np.stack(values), np.stack(found[TODAY, part]), shakes.n)
        ]
    return REPLAY.build(**{column.name: [row.get(column.name) for row in rows] for column in REPLAY.columns})


def _rows(
    names: Sequence[str | None], columns: Sequence[str], values: Floats, base: Floats, n_shakes: int
) -> Iterable[dict[str, Any]]:
    """The figures of each group that has jobs, and their changes from those of TODAY, by statistic over the shakes.

    `values` and `base` are (shakes, groups, columns and the number of jobs).
    """
    slowdown, wait_s = columns.index("slowdown_mean"), columns.index("wait_mean_s")
    changes = values[..., slowdown] / base[..., slowdown] - 1, values[..., wait_s] - base[..., wait_s]
    whole, n_jobs = np.dstack([values[..., :-1], *changes]), np.median(values[..., -1], axis=0)
    for statistic, share in STATISTICS.items() if n_shakes else {"single": 0.5}.items():
        for name, n, row in zip(names, n_jobs, np.quantile(whole, share, axis=0), strict=True):
            if int(n):
                figures = (float(value) if np.isfinite(value) else None for value in row)
                found = dict(zip([*columns, "slowdown_change", "wait_change_s"], figures, strict=True))
                yield {"part_value": name, "statistic": statistic, "n_jobs": int(n)} | found


def scored(work: Workload, done: Schedule, convention: Convention) -> Bools:
    """(jobs,): whether each job counts.

    NATURAL: all but the first 1% of submissions, which meet an empty machine. PYSS, as pyss and predictsim print their
    score: without the first 1% in order of end, the jobs that ask for 1 s on 1 processor, and all that end after the
    last submit.
    """
    if convention is Convention.NATURAL:
        return np.arange(len(work)) >= len(work) // 100
    # The 1% is of the jobs without the tiny ones met so far: so pyss counts them.
    by_end = done.by_end
    is_tiny = (work.request_s[by_end] == 1) & (work.procs[by_end] == 1)
    size = len(work) - np.cumsum(is_tiny)
    is_warm = (size < 100) | (np.arange(1, len(work) + 1) > size // 100)
    in_time = done.end_s[by_end] <= work.submit_s.max(initial=0)
    chosen = np.zeros(len(work), bool)
    chosen[by_end] = ~is_tiny & is_warm & in_time
    return chosen


def bounded_slowdown(work: Workload, done: Schedule) -> Floats:
    """(jobs,): response over runtime, runtimes under 10 s counted as that; at least 1."""
    return np.maximum(1.0, (done.end_s - work.submit_s) / np.maximum(work.run_s, 10.0))


def metrics(work: Workload, done: Schedule, chosen: Bools) -> dict[str, float]:
    """The figures OF_ALL of the chosen jobs, and their number n_jobs; NaN where there is no job.

    `chosen` is `scored`, which says what the warm-up cut leaves out. The 99% quantile is interpolated linearly. Wide
    are the tenth of the jobs with the most processors, and all others of that size.
    """
    places = np.flatnonzero(chosen)
    if not len(places):
        return dict.fromkeys(OF_ALL, float("nan")) | {"n_jobs": 0}
    wait_s = (done.start_s - work.submit_s)[places].astype(np.float64)
    slowdown = bounded_slowdown(work, done)[places]
    procs = work.procs[places]
    is_wide = procs >= np.sort(procs)[-max(1, round(WIDE_SHARE * len(procs)))]
    values = (
        slowdown.mean(), wait_s.mean(), wait_s.max(), np.median(slowdown), np.quantile(wait_s, 0.99),
        wait_s[is_wide].mean(), wait_s.mean() + work.run_s[places].mean(),
        utilisation(work, done.start_s, done.end_s, places), done.is_backfilled[places].mean(),
        (done.n_longer[places] > 0).mean(),
    )  # fmt: skip
    return dict(zip(OF_ALL, map(float, values), strict=True)) | {"n_jobs": len(places)}


def group_metrics(work: Workload, done: Schedule, chosen: Bools, code: Ints, n: int) -> Floats:
    """(n groups, OF_GROUP + 1): the figures of the chosen jobs of each group, and their number; NaN where none is.

    `code` is the group of each chosen job.
    """
    wait_s = (done.start_s - work.submit_s)[chosen].astype(np.float64)
    n_jobs, longest_s = np.bincount(code, minlength=n), np.full(n, np.nan)
    np.fmax.at(longest_s, code, wait_s)
    slowdown, waited_s = (np.bincount(code, one, n) for one in (bounded_slowdown(work, done)[chosen], wait_s))
    with np.errstate(invalid="ignore"):
        return np.column_stack([slowdown / n_jobs, waited_s / n_jobs, longest_s, n_jobs])


def utilisation(work: Workload, start_s: Array, end_s: Array, places: Ints) -> float:
    """The share of the machine that the jobs at these places hold from the first one's submit to the last one's.

    NaN where the submits are at one second; a job whose start or end is NaN holds nothing.
    """
    begin_s, until_s = int(work.submit_s[places[0]]), int(work.submit_s[places[-1]])
    if until_s <= begin_s:
        return float("nan")
    inside_s = np.clip(end_s[places], begin_s, until_s) - np.clip(start_s[places], begin_s, until_s)
    return float(np.nansum(inside_s * work.procs[places]) / ((until_s - begin_s) * work.capacity))


def log_utilisation(work: Workload, start_s: Floats, ran_s: Floats, since_s: float) -> float:
    """The utilisation of the log itself over the jobs that are scored under NATURAL; NaN where no start is known.

    Its starts and runtimes, s, have a row for each that `work.row` may name.
    """
    places = np.flatnonzero((np.arange(len(work)) >= len(work) // 100) & (work.submit_s >= since_s))
    start_s = start_s[work.row]
    is_known = np.isfinite(start_s[places]).any()
    return utilisation(work, start_s, start_s + ran_s[work.row], places) if is_known else float("nan")
