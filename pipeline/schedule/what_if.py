"""What-if: every case over the same shaken logs, as the table REPLAY, and who would have waited less or longer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.backtest import size_classes, size_name
from pipeline.limits.soft import SoftRules, extensions_of, medians_left, next_limits, planned_limits
from pipeline.schedule.engine import (
    EASY_PLUS_PLUS,
    WITH_HEAD,
    Correction,
    Policy,
    ReplayOptions,
    Schedule,
    replay,
)
from pipeline.schedule.figures import ReplayMetrics, Score, bounded_slowdown, metrics, scored, utilisation
from pipeline.schedule.workload import Shakes, Workload, shaken
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
    LAST2 = "last2"
    """The mean of the user's last two jobs that ended in the replay; with increments this is EASY++."""
    CONTROL = "control"
    """Soft limits by a tenth of the request: no knowledge of runtimes. Estimates that do not beat it owe their gain to
    the rules."""
    PERFECT = "perfect"


SOFT = {Estimates.SOFT_10: 0.10, Estimates.SOFT_50: 0.50, Estimates.SOFT_80: 0.80}
"""The quantile of each soft case (setting export.quantile)."""

METHOD = "table"
"""The method of the registry that soft limits and the order are from: the table that is published nightly."""

WITH_METHOD = (*SOFT, Estimates.ORDER)


@dataclass(frozen=True, slots=True)
class Case:
    """A policy with estimates. Soft limits and their control are raised by the guard's rules, and fair."""

    policy: Policy
    estimates: Estimates

    @property
    def is_soft(self) -> bool:
        """Whether limits are set and raised."""
        return self.estimates in SOFT or self.estimates is Estimates.CONTROL

    @property
    def options(self) -> ReplayOptions:
        """What the replay of this case does."""
        if self.is_soft:
            return ReplayOptions(self.policy, Correction.LIMITS, SoftRules(quantile=SOFT.get(self.estimates, 0.5)))
        if self.estimates is Estimates.LAST2:
            return replace(EASY_PLUS_PLUS, policy=self.policy)
        return ReplayOptions(self.policy)

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

    FCFS plans nothing and is replayed once; limits are raised under EASY and EASY-SJBF alone, and the order is one of
    EASY-SJBF.
    """
    listed, found = list(estimates), [TODAY]
    for policy in policies:
        for one in listed:
            case = Case(policy, Estimates.REQUEST if policy is Policy.FCFS else one)
            is_possible = policy in WITH_HEAD or not case.is_soft
            if is_possible and (one is not Estimates.ORDER or policy in (Policy.FCFS, Policy.EASY_SJBF)):
                found.append(case)
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Plan:
    """What jobs are planned with, one value a job of the workload; None: the replay's own (requests, or last two)."""

    reservation_s: Floats | None = None
    order: Floats | None = None
    limits_s: Ints | None = None
    """(jobs, steps): a job's limits in turn, s."""


def plan(case: Case, work: Workload, quantiles_s: Mapping[str, Floats]) -> Plan:
    """The plan of a workload.

    Parameters
    ----------
    case
        The policy and what the scheduler plans with.
    work
        The jobs.
    quantiles_s
        By method of the registry, (rows, 6) in s at QUANTILES, a row for each that `work.row` may name; NaN: no
        answer, for which the request stands in.

    Returns
    -------
    Plan
        The order is by the median (of the control: the request) and ages. Under published estimates and rules it is
        None, which is that of the reservation.
    """
    request_s, run_s = work.request_s.astype(np.float64), work.run_s.astype(np.float64)
    if case.estimates in (Estimates.REQUEST, Estimates.LAST2):
        return Plan()
    if case.estimates is Estimates.PERFECT:
        return Plan(run_s, aged(run_s, work))
    if case.estimates is Estimates.CONTROL:
        tenth_s = np.repeat(CONTROL_SHARE * request_s[:, None], len(QUANTILES), axis=1)
        return Plan(None, aged(request_s, work), soft_limits(tenth_s, request_s, case.options.rules or SoftRules()))
    found_s = quantiles_s[METHOD][work.row]
    median_s = found_s[:, QUANTILES.index(0.50)]
    order = aged(np.where(np.isnan(median_s), request_s, median_s), work)
    if case.estimates is Estimates.ORDER:
        return Plan(None, order)
    return Plan(None, order, soft_limits(found_s, request_s, case.options.rules or SoftRules()))


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


WHOLE = tuple(field.name for field in fields(ReplayMetrics) if field.name != "n_jobs")
"""The figures of all scored jobs, columns of REPLAY."""

OF_GROUP = ("slowdown_mean", "wait_mean_s", "wait_longest_s")
"""The figures of a size class or of a user."""

STATISTICS = {"q25": 0.25, "median": 0.5, "q75": 0.75}


@dataclass(frozen=True, slots=True)
class Subject:
    """A log as it is replayed."""

    log: str
    work: Workload
    quantiles_s: Mapping[str, Floats]
    """By method of the registry, as `plan` takes them; one as-of pass serves all shakes."""
    user_names: Sequence[str]
    """The text of each user code."""
    convention: str
    score: Score = Score.NATURAL
    since_s: float = -np.inf
    """Jobs submitted before are replayed, and not scored."""
    has_waits: bool = True
    """Whether the log states waits. Without them its submits are starts, and no gain can be told."""
    start_s: Floats | None = None
    """(rows,): the log's own starts, a row for each that `work.row` may name; NaN: unknown."""
    ran_s: Floats | None = None
    """(rows,): the log's own runtimes, not cut."""

    @property
    def log_utilisation(self) -> float:
        """The utilisation of the log itself over the scored jobs; NaN where no start is known."""
        work, first = self.work, len(self.work) // 100
        places = np.flatnonzero((np.arange(len(work)) >= first) & (work.submit_s >= self.since_s))
        if self.start_s is None or self.ran_s is None or not len(places):
            return float("nan")
        start_s = self.start_s[work.row]
        is_known = np.isfinite(start_s[places]).any()
        return utilisation(work, start_s, start_s + self.ran_s[work.row], places) if is_known else float("nan")


@dataclass(frozen=True, slots=True)
class Group:
    """A split of the jobs: a code from 0 per row of the workload as it is, and the texts of the codes."""

    part: str
    code: Ints
    names: Sequence[str | None]


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
    listed = list(dict.fromkeys((TODAY, *chosen)))
    groups = groups_of(subject)
    found: dict[Case, list[list[Floats]]] = {case: [] for case in listed}
    for nth in range(max(1, shakes.n)):
        work, places = shaken(subject.work, shakes, nth) if shakes.n else (subject.work, np.arange(len(subject.work)))
        for case in listed:
            own = plan(case, work, subject.quantiles_s)
            schedule = replay(work, case.options, own.reservation_s, own.order, own.limits_s)
            counted = _counted(subject, work, schedule, places)
            found[case].append([_whole(work, schedule, counted),
                                *(_of_groups(work, schedule, counted, group, places) for group in groups)])  # fmt: skip
    stacked = {case: [np.stack(part) for part in zip(*all_shakes, strict=True)] for case, all_shakes in found.items()}
    rows = [row for case in listed for row in _rows(subject, case, stacked[case], stacked[TODAY], groups, shakes)]
    return REPLAY.build(**{column.name: [row.get(column.name) for row in rows] for column in REPLAY.columns})


def groups_of(subject: Subject) -> tuple[Group, ...]:
    """The splits by size class and by user; the last user code is that of unknown users."""
    sizes = size_classes(subject.work.procs.astype(np.float64))
    users = subject.work.user
    return (
        Group("size", sizes, [size_name(size) for size in range(sizes.max(initial=0) + 1)]),
        Group("user", np.where(users < 0, len(subject.user_names), users), [*subject.user_names, None]),
    )


def _counted(subject: Subject, work: Workload, schedule: Schedule, places: Ints) -> Bools:
    """The scored jobs; under NATURAL the same jobs in every shake."""
    if subject.score is not Score.NATURAL:
        return scored(work, schedule, subject.score) & (work.submit_s >= subject.since_s)
    return (places >= len(work) // 100) & (subject.work.submit_s[places] >= subject.since_s)


def _whole(work: Workload, schedule: Schedule, counted: Bools) -> Floats:
    """(1, figures + 1): the figures of all scored jobs, and their number."""
    found = metrics(work, schedule, counted)
    return np.array([[*(getattr(found, name) for name in WHOLE), found.n_jobs]])


def _of_groups(work: Workload, schedule: Schedule, counted: Bools, group: Group, places: Ints) -> Floats:
    """(groups, figures + 1): the figures of each group's scored jobs, and their number; NaN where there is none."""
    code, n = group.code[places[counted]], len(group.names)
    wait_s = (schedule.start_s - work.submit_s)[counted].astype(np.float64)
    n_jobs = np.bincount(code, minlength=n)
    longest_s = np.full(n, np.nan)
    np.fmax.at(longest_s, code, wait_s)
    sums = [np.bincount(code, values, n) for values in (bounded_slowdown(work, schedule)[counted], wait_s)]
    with np.errstate(invalid="ignore"):
        return np.column_stack([sums[0] / n_jobs, sums[1] / n_jobs, longest_s, n_jobs])


def _rows(
    subject: Subject, case: Case, own: list[Floats], today: list[Floats], groups: Sequence[Group], shakes: Shakes
) -> list[dict[str, Any]]:
    about = {
        "log": subject.log, "policy": policy_name(case.policy), "estimates": str(case.estimates),
        "correction": case.options.correction.name.lower(), "is_guarded": case.is_soft,
        "convention": subject.convention, "n_shakes": shakes.n, "has_waits": subject.has_waits,
    }  # fmt: skip
    parts = [("all", [None], WHOLE), *((group.part, group.names, OF_GROUP) for group in groups)]
    rows: list[dict[str, Any]] = []
    for (part, names, columns), values, base in zip(parts, own, today, strict=True):
        for statistic, figures in _statistics(columns, values, base, shakes).items():
            rows += [
                about | {"part": part, "part_value": name, "statistic": statistic} | one
                for name, one in zip(names, figures, strict=True)
                if one["n_jobs"]
            ]
    return rows


def _statistics(
    columns: Sequence[str], values: Floats, base: Floats, shakes: Shakes
) -> dict[str, list[dict[str, Any]]]:
    """Per statistic the figures of each group, and the changes from TODAY; `values` is (shakes, groups, figures)."""
    names = [*columns, "slowdown_change", "wait_change_s"]
    slowdown, wait_s = columns.index("slowdown_mean"), columns.index("wait_mean_s")
    change = values[..., slowdown] / base[..., slowdown] - 1
    change_s = values[..., wait_s] - base[..., wait_s]
    whole = np.concatenate([values[..., :-1], change[..., None], change_s[..., None]], axis=-1)
    n_jobs = np.median(values[..., -1], axis=0)
    found = {}
    for statistic, share in STATISTICS.items() if shakes.n else {"single": 0.5}.items():
        figures = np.quantile(whole, share, axis=0)
        found[statistic] = [
            {"n_jobs": int(n)} | {name: _known(value) for name, value in zip(names, row, strict=True)}
            for n, row in zip(n_jobs, figures, strict=True)
        ]
    return found


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
