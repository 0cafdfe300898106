"""The cases of a what-if: a policy with estimates, and what a job is planned with under each of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.score import QUANTILES
from pipeline.schedule.engine import EASY_PLUS_PLUS, Correction, Policy, ReplayOptions
from pipeline.schedule.workload import Workload

SHORTEST_S = 10.0
"""Shorter estimates are tried as if they were this long: the slowdown counts runtimes so."""

AGEING_S = 24 * 3600.0
"""A job that was submitted this much earlier is tried as if its estimate were 1/e as long."""

PLANNED_SHARE = 0.1
"""The share of the median that a job is planned with until it has run so long, and its request from then on."""

CONTROL_SHARE = 0.1


class Estimates(StrEnum):
    """What the scheduler plans with."""

    REQUEST = "request"
    LAST2 = "last2"
    """The mean of the user's last two jobs that ended in the replay; with increments this is EASY++."""
    CESNET = "cesnet"
    """MetaCentrum's rule: the largest share of their requests that the user's last 15 jobs ran."""
    TABLE = "table"
    """The look-up table that is published nightly, at the age it is served."""
    WALLTIME = "walltime"
    """The estimator's State, as of each submit."""
    CONTROL = "control"
    """A tenth of the request: no knowledge of runtimes. Estimates that do not beat it owe their gain to the rules."""
    PERFECT = "perfect"


METHODS = {Estimates.CESNET: "largest_of_15", Estimates.TABLE: "table", Estimates.WALLTIME: "walltime"}
"""The estimates that a method of the registry makes."""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy with estimates."""

    policy: Policy
    estimates: Estimates
    correction: Correction = Correction.REQUEST
    guard: bool = True

    @property
    def options(self) -> ReplayOptions:
        """What the replay of this case does."""
        return ReplayOptions(self.policy, self.correction, self.guard, self.estimates is Estimates.LAST2)

    @property
    def name(self) -> str:
        """The case in words, as in `easy-sjbf, walltime`."""
        return f"{policy_name(self.policy)}, {self.estimates}"


TODAY = Case(Policy.EASY, Estimates.REQUEST, guard=False)
"""EASY with requests: what a site without estimates has, and what every case is compared with."""


def policy_name(policy: Policy) -> str:
    """The policy's name as an option writes it: easy-sjbf."""
    return policy.name.lower().replace("_", "-")


def cases(
    policies: Iterable[Policy],
    estimates: Iterable[Estimates],
    correction: Correction | None = None,
    guard: bool | None = None,
) -> tuple[Case, ...]:
    """TODAY, then every policy with every estimates, each once; FCFS plans nothing and is replayed once.

    Without a choice of correction and guard, a passed prediction becomes the request and the guard is on, but EASY++
    (EASY-SJBF with the last two) has increments and no guard, as it was published.
    """
    found = [TODAY]
    for policy in policies:
        for one in (Estimates.REQUEST,) if policy is Policy.FCFS else estimates:
            is_published = policy is Policy.EASY_SJBF and one is Estimates.LAST2
            usual = (EASY_PLUS_PLUS.correction, EASY_PLUS_PLUS.guard) if is_published else (Correction.REQUEST, True)
            if (policy, one) != (TODAY.policy, TODAY.estimates):
                found.append(Case(policy, one, usual[0] if correction is None else correction,
                                  usual[1] if guard is None else guard))  # fmt: skip
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Plan:
    """What jobs are planned with, one value a job of the workload; None: the replay's own (requests, or last two)."""

    reservation_s: Floats | None = None
    order: Floats | None = None


def plan(estimates: Estimates, work: Workload, quantiles_s: Mapping[str, Floats]) -> Plan:
    """The plan of a workload.

    Parameters
    ----------
    estimates
        What the scheduler plans with.
    work
        The jobs.
    quantiles_s
        By method of the registry, (rows, 6) in s at QUANTILES, a row for each that `work.row` may name; NaN: no
        answer, for which the request stands in.

    Returns
    -------
    Plan
        Estimates with quantiles order the jobs by their expected runtimes, aged, and plan them with a share of their
        medians: a plan so early lets short jobs pass, and the guard bounds what the head loses by it. A single number
        is both the order and the plan, as in the published rules.
    """
    request_s = work.request_s.astype(np.float64)
    if estimates is Estimates.LAST2:
        return Plan()
    if estimates in METHODS:
        found_s = answers(quantiles_s[METHODS[estimates]], work)
        median_s = found_s[:, QUANTILES.index(0.50)]
        if estimates is Estimates.CESNET:
            return Plan(median_s)
        return Plan(PLANNED_SHARE * median_s, aged(expected(found_s), work))
    return Plan({
        Estimates.REQUEST: request_s,
        Estimates.CONTROL: CONTROL_SHARE * request_s,
        Estimates.PERFECT: work.run_s.astype(np.float64),
    }[estimates])  # fmt: skip


def answers(quantiles_s: Floats, work: Workload) -> Floats:
    """(jobs, 6): the quantiles of a workload's jobs, s; the request where there is no answer."""
    found_s = quantiles_s[work.row]
    filled: Floats = np.where(np.isnan(found_s), work.request_s[:, None], found_s)
    return filled


def expected(quantiles_s: Floats) -> Floats:
    """(jobs,): the mean runtimes, s, of distributions with these quantiles at QUANTILES, by the trapezoidal rule."""
    levels = np.array([0.0, *QUANTILES, 1.0])
    edges = np.concatenate([quantiles_s[:, :1], quantiles_s, quantiles_s[:, -1:]], axis=1)
    mean_s: Floats = (np.diff(levels) * (edges[:, 1:] + edges[:, :-1]) / 2).sum(axis=1)
    return mean_s


def aged(estimate_s: Floats, work: Workload) -> Floats:
    """The order in which jobs are tried: the logarithm of the estimate, and the submit over AGEING_S."""
    submit_s = work.submit_s - (work.submit_s[0] if len(work) else 0)
    order: Floats = np.log(np.maximum(estimate_s, SHORTEST_S)) + submit_s / AGEING_S
    return order
