"""What-if: every case over the same shaken logs, as the table REPLAY, and who would have waited less or longer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats, Ints
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.backtest import size_classes, size_name
from pipeline.limits.soft import SOFT_RULES, SoftRules, extensions_of, medians_left, next_limits, planned_limits
from pipeline.schedule.engine import Policy, ReplayOptions, replay
from pipeline.schedule.figures import OF_ALL, OF_GROUP, group_metrics, metrics, scored, utilisation
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

    FCFS plans nothing and is replayed once; limits are raised under EASY and EASY-SJBF alone, and the order is one of
    EASY-SJBF.
    """
    listed, found = list(estimates), [TODAY]
    for policy in policies:
        for one in listed:
            case = Case(policy, Estimates.REQUEST if policy is Policy.FCFS else one)
            is_possible = policy in (Policy.EASY, Policy.EASY_SJBF) or not case.is_soft
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
    start_s: Floats | None = None
    """(rows,): the log's own starts, a row for each that `work.row` may name; NaN: unknown."""
    ran_s: Floats | None = None
    """(rows,): the log's own runtimes, not cut."""
    rules: SoftRules = SOFT_RULES
    """The site's."""

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
