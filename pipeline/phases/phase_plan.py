"""Which occurrences to time for a budget: those with the smallest standard error on the reference run."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats, Ints, arrow
from pipeline.phase_tables import PHASE_PLAN
from pipeline.phases.occurrences import Occurrences, representative, status_of
from pipeline.phases.phase_rules import PlanRules
from pipeline.report import Fact, Report, Tally
from pipeline.schema import as_array


@dataclass(frozen=True, slots=True)
class _Strata:
    """The relevant phases: how often each occurs, the mean and the spread of its times, and what one time costs (s)."""

    counts: Ints
    mean_s: Floats
    sd_s: Floats
    cost_s: Floats


def make_plan(phases: pa.Table, points: pa.Table, rules: PlanRules) -> tuple[pa.Table, Report]:
    """PHASE_PLAN for a budget, and a Report of occurrences; facts are the cost and the expected standard error.

    The occurrences of a phase are divided in an optimal allocation (Neyman 1934, with costs), spaced evenly, and each
    has `warmup` occurrences before it. A budget too small for `least_samples` of each phase is exceeded.
    """
    found = Occurrences.of(points)
    chosen = _relevant_places(phases, found)
    strata = _strata(found, chosen, rules.warmup)
    numbers, timed, warmups = _spent(found, chosen, strata, rules)
    set_share = _share(found, timed, warmups)
    facts: dict[str, Fact] = {
        "status": status_of(phases, rules),
        "set_share": set_share,
        "standard_error": _standard_error(strata, numbers, float(found.time_s.sum())) if found.is_timed else None,
        "timed": len(timed), "warmups": len(warmups),
    }  # fmt: skip
    kept = Tally(len(timed) + len(warmups))
    aside = {"not_timed": Tally(len(found) - kept.rows)}
    report = Report("plan_phases", "occurrence", Tally(len(found)), kept, aside, facts, _notes(set_share, rules))
    return _table(points, found, timed, warmups), report.check()


def _relevant_places(phases: pa.Table, found: Occurrences) -> list[Ints]:
    """The places of the occurrences of each relevant phase."""
    places = found.by_phase()
    is_relevant = phases.column("is_relevant").to_numpy(zero_copy_only=False)
    return [places[phase] for phase in phases.column("phase_id").to_numpy()[is_relevant].tolist()]


def _spent(
    found: Occurrences, chosen: list[Ints], strata: _Strata, rules: PlanRules
) -> tuple[Ints, Ints, Ints]:
    """The numbers of timed occurrences, and the places of timed and of warm-up ones, within the budget if possible."""
    runtime_s, budget = float(found.time_s.sum()), rules.budget
    # What single occurrences cost differs from the means.
    for _ in range(10):
        numbers = allocate(strata.counts, strata.mean_s, strata.sd_s, strata.cost_s, budget * runtime_s, rules)
        sampled = [mine[representative(found.time_s[mine], int(n))] for mine, n in zip(chosen, numbers, strict=True)]
        timed = np.sort(np.concatenate(sampled))
        warmups = warmup_places(timed, rules.warmup)
        share = _share(found, timed, warmups)
        if share <= rules.budget or (numbers <= np.minimum(strata.counts, rules.least_samples)).all():
            break
        budget *= 0.99 * rules.budget / share
    return numbers, timed, warmups


def allocate(
    counts: Ints, mean_s: Floats, sd_s: Floats, cost_s: Floats, budget_s: float, rules: PlanRules
) -> Ints:
    """How many occurrences of each phase to time: in proportion to count and spread by the root of the cost."""
    least = np.minimum(counts, rules.least_samples)
    cost_s = np.maximum(cost_s, 1e-300)
    # A phase whose times do not vary here may vary elsewhere: its spread is at least 1% of its mean.
    weight = counts * np.maximum(sd_s, 0.01 * mean_s) / np.sqrt(cost_s)
    if weight.max(initial=0.0) <= 0:
        return least
    low, high = 0.0, float(counts.max()) / float(weight[weight > 0].min())
    for _ in range(100):
        middle = (low + high) / 2
        fits = float((_clipped(middle * weight, least, counts) * cost_s).sum()) <= budget_s
        low, high = (middle, high) if fits else (low, middle)
    return _clipped(low * weight, least, counts)


def warmup_places(timed: Ints, n: int) -> Ints:
    """The n places before each timed one that are not timed themselves."""
    before = (timed[:, None] - np.arange(1, n + 1)).ravel()
    return np.setdiff1d(before[before >= 0], timed)


def _clipped(numbers: Floats, least: Ints, counts: Ints) -> Ints:
    return np.clip(numbers.astype(np.int64), least, counts)


def _share(found: Occurrences, timed: Ints, warmups: Ints) -> float:
    return float(found.time_s[np.r_[timed, warmups]].sum() / found.time_s.sum())


def _strata(found: Occurrences, chosen: list[Ints], warmup: int) -> _Strata:
    before_s = np.zeros(len(found))
    for n in range(1, warmup + 1):
        before_s[n:] += found.time_s[: len(found) - n]
    times_s = [found.time_s[mine] for mine in chosen]
    spreads = [float(one.std(ddof=1)) if len(one) > 1 else 0.0 for one in times_s]
    means = [float(one.mean()) for one in times_s]
    costs = [float((found.time_s + before_s)[mine].mean()) for mine in chosen]
    return _Strata(np.array([len(one) for one in times_s]), np.array(means), np.array(spreads), np.array(costs))


def _standard_error(strata: _Strata, numbers: Ints, runtime_s: float) -> float:
    """Of the reference run's own time from this sample, as a share of it.

    Source: Cochran 1977, Section 5.4 (stratified sampling with the finite population's correction).
    """
    left = 1 - numbers / strata.counts
    return float(np.sqrt((strata.counts**2 * left * strata.sd_s**2 / numbers).sum()) / runtime_s)


def kept_shares(phases: pa.Table) -> Floats:
    """The share of the time that the largest phases hold, for one phase, two, and so on."""
    return np.cumsum(-np.sort(-phases.column("share").to_numpy()))


def standard_errors(phases: pa.Table, points: pa.Table, samples: list[int]) -> list[float]:
    """The standard error of the run's own time from so many occurrences of each relevant phase, as a share of it."""
    found = Occurrences.of(points)
    strata, runtime_s = _strata(found, _relevant_places(phases, found), 0), float(found.time_s.sum())
    return [_standard_error(strata, np.minimum(strata.counts, n), runtime_s) for n in samples]


def _notes(set_share: float, rules: PlanRules) -> tuple[str, ...]:
    if set_share <= rules.budget:
        return ()
    return (
        f"The plan takes {set_share:.1%} of the run, above the budget of {rules.budget:.1%}: "
        f"it times at least {rules.least_samples} occurrences of each phase, or all where there are fewer.",
    )


def _table(points: pa.Table, found: Occurrences, timed: Ints, warmups: Ints) -> pa.Table:
    places = np.sort(np.concatenate([timed, warmups]))
    n_ranks = found.rows.shape[1]
    rows = points.take(arrow(found.rows[places].ravel()))
    names = ("trace_id", "phase_id", "occurrence", "rank", "from_event", "to_event")
    kept = {name: rows.column(name) for name in names}
    return PHASE_PLAN.build(
        **kept,
        is_warmup=arrow(np.repeat(np.isin(places, warmups), n_ranks)),
        reference_s=as_array(np.repeat(found.reference_s(places), n_ranks), pa.float64()),
    )
