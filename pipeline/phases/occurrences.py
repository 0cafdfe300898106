"""A run as a sequence of occurrences of phases: its tables, which phases count, whether timing parts of it pays, and
which occurrences to time for a budget: those with the smallest standard error on the reference run."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, arrow, integers
from pipeline.phases.calls import nth_of_key
from pipeline.phases.phase_input import PhaseRules, PlanRules
from pipeline.report import Fact, Report, Tally
from pipeline.schema import as_array
from pipeline.tables import PHASE_PLAN, PHASE_POINTS, PHASES


@dataclass(frozen=True, slots=True)
class Occurrences:
    """One value per occurrence, in the order of the run: its phase, its number within it, and its time (s), the mean
    over ranks. `rows` (occurrence, rank) are its rows of PHASE_POINTS.

    Where the reference run was not timed, `is_timed` is False, and `time_s` holds events: only their ratios count."""

    phase: Ints
    occurrence: Ints
    time_s: Floats
    rows: Ints
    is_timed: bool = True

    @classmethod
    def of(cls, points: pa.Table) -> Self:
        """From PHASE_POINTS, whose rows may be in any order; every occurrence has a row per rank."""
        position, rank, phase, occurrence = (
            integers(points.column(name))[0] for name in ("position", "rank", "phase_id", "occurrence")
        )
        n_ranks = int(rank.max(initial=0)) + 1
        rows = np.lexsort((rank, position)).reshape(-1, n_ranks)
        is_timed = points.column("t_end_s").null_count < points.num_rows
        ends = ("t_start_s", "t_end_s") if is_timed else ("from_event", "to_event")
        spans = np.subtract(*(points.column(name).to_numpy().astype(np.float64) for name in reversed(ends)))
        return cls(phase[rows[:, 0]], occurrence[rows[:, 0]], spans[rows].mean(axis=1), rows, is_timed)

    def reference_s(self, places: Ints) -> Floats:
        """The times of some occurrences on the reference machine (s), NaN where it was not timed."""
        return self.time_s[places] if self.is_timed else np.full(len(places), np.nan)

    def __len__(self) -> int:
        return len(self.phase)


def evenly_spaced(n: int, n_chosen: int, start: float = 0.5) -> Ints:
    """`n_chosen` of n places, each in an equal part: its middle, or another share of it below 1."""
    return ((np.arange(n_chosen) + start) * n / n_chosen).astype(np.int64)


def representative(times_s: Floats, n_chosen: int, start: float = 0.5) -> Ints:
    """`n_chosen` places of a phase's occurrences: evenly spaced, unless these meet a period of their times (s).

    Evenly spaced places of a periodic series may all hold the same one of its values (Cochran 1977, Section 8.4). Where
    their mean is further from the phase's than the standard error of a random sample, places shifted within equal parts
    by multiples of the golden ratio, which follow no period, are taken if these are nearer. The reference times alone
    decide.
    """
    even, n = evenly_spaced(len(times_s), n_chosen, start), len(times_s)
    error_s = float(times_s.std()) * np.sqrt(1 / n_chosen - 1 / n)
    if abs(times_s[even].mean() - times_s.mean()) <= error_s:
        return even
    part = np.arange(n_chosen)
    begins, ends = part * n // n_chosen, (part + 1) * n // n_chosen
    shifted = begins + ((part * _GOLDEN % 1) * (ends - begins)).astype(np.int64)
    return min((even, shifted), key=lambda places: abs(float(times_s[places].mean() - times_s.mean())))


_GOLDEN = (5**0.5 - 1) / 2


def relevant(shares: Floats, least_share: float, least_coverage: float) -> Bools:
    """Phases of at least this share of the time, and as many more of the largest as cover `least_coverage` of it.

    Source: Wong et al. 2014, Section 3.3, step 6 (at least 1%); the coverage is an addition.
    """
    order = np.argsort(-shares, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    chosen = np.empty(len(shares), np.bool_)
    # Sums of shares are rounded.
    chosen[order] = (shares[order] >= least_share) | (before < least_coverage - 1e-12)
    return chosen


NOT_REPETITIVE = "not_repetitive"
OK = "ok"


def sampled_share(n_occurrences: Ints, amounts: Floats, rules: PlanRules) -> float:
    """The share of events, or of the time, in `repetition_samples` timed occurrences of each phase and their warm-up.

    `amounts` are those of one occurrence, per phase. Events give the same answer on every machine.
    """
    total = float((n_occurrences * amounts).sum())
    return float((np.minimum(n_occurrences, rules.repetitions) * amounts).sum()) / total if total else 1.0


def status_of(phases: pa.Table, rules: PlanRules) -> str:
    """OK, or NOT_REPETITIVE where timing the phases of PHASES would take almost all events, or almost all the time."""
    n_occurrences, events, time_s = (phases.column(name).to_numpy() for name in ("n_occurrences", "events", "time_s"))
    # A long computation that occurs once has few events.
    shares = [sampled_share(n_occurrences, one, rules) for one in (events, time_s / n_occurrences)]
    return OK if max(shares) <= rules.most_share else NOT_REPETITIVE


def phases_table(
    trace_id: str, phase: Ints, ticks: Ints, events: Floats, amount: Floats, rules: PhaseRules, *, level: int = 0,
    is_timed: bool = True,
) -> pa.Table:  # fmt: skip
    """PHASES from the occurrences in the order of the run: the phase, ticks and events of each, and its time (s).

    Where the run was not timed, `amount` is its events, of which the shares are then.
    """
    n_occurrences, first = np.bincount(phase), np.unique(phase, return_index=True)[1]
    n, sums = len(first), np.bincount(phase, amount)
    squares = np.bincount(phase, (amount - (sums / n_occurrences)[phase]) ** 2) / n_occurrences
    relative_sd = np.sqrt(squares) / np.maximum(sums / n_occurrences, np.finfo(float).tiny)
    shares = sums / sums.sum() if sums.sum() > 0 else np.full(n, 1 / n)
    return PHASES.build(
        trace_id=[trace_id] * n, phase_id=arrow(np.arange(n)), level=[level] * n, ticks=arrow(ticks[first]),
        events=arrow(np.bincount(phase, events) / n_occurrences), n_occurrences=arrow(n_occurrences),
        time_s=arrow(sums, np.full(n, not is_timed)), share=arrow(shares),
        relative_sd=arrow(relative_sd),
        is_relevant=arrow(relevant(shares, rules.pas2p.relevant_share, rules.pas2p.least_coverage)),
        repetitive=arrow(n_occurrences > rules.plan.repetitions),
    )  # fmt: skip


def points_table(trace_id: str, phase: Ints, call: Ints, time_s: Floats, *, is_timed: bool = True) -> pa.Table:
    """PHASE_POINTS from the phase of each occurrence in the order of the run, and the boundaries between them.

    `call` and `time_s` (occurrences + 1, ranks) are the last call before each boundary (-1: none) and its time, s.
    """
    n, n_ranks = len(phase), call.shape[1]
    order = np.argsort(phase, kind="stable")
    from_event, to_event = call[:-1][order].ravel(), call[1:][order].ravel()
    is_untimed = np.full(n * n_ranks, not is_timed)
    return PHASE_POINTS.build(
        trace_id=pa.array([trace_id]).take(pa.array(np.zeros(n * n_ranks, np.int64))),
        phase_id=arrow(np.repeat(phase[order], n_ranks)),
        occurrence=arrow(np.repeat(nth_of_key(phase)[order], n_ranks)),
        position=arrow(np.repeat(order, n_ranks)), rank=arrow(np.tile(np.arange(n_ranks), n)),
        from_event=arrow(from_event, from_event < 0), to_event=arrow(to_event, to_event < 0),
        t_start_s=arrow(time_s[:-1][order].ravel(), is_untimed), t_end_s=arrow(time_s[1:][order].ravel(), is_untimed),
    )  # fmt: skip


def make_plan(phases: pa.Table, points: pa.Table, rules: PlanRules) -> tuple[pa.Table, Report]:
    """PHASE_PLAN for a budget, and a Report of occurrences; facts are the cost and the expected standard error.

    The occurrences of a phase are divided in an optimal allocation (Neyman 1934, with costs), spaced evenly, and each
    has `warmup` occurrences before it. A budget too small for `least_samples` of each phase is exceeded.
    """
    found = Occurrences.of(points)
    chosen = _relevant_places(phases, found)
    runtime_s, budget = float(found.time_s.sum()), rules.budget
    counts, mean_s, sd_s = _strata(found, chosen)
    # A timed occurrence costs its time and that of its warm-up.
    cost_s = np.array([_with_warmup_s(found, rules.warmup)[mine].mean() for mine in chosen])
    # What single occurrences cost differs from the means: then again, for less.
    for _ in range(10):
        numbers = allocate(counts, mean_s, sd_s, cost_s, budget * runtime_s, rules)
        pairs = zip(chosen, numbers.tolist(), strict=True)
        timed = np.sort(np.concatenate([mine[representative(found.time_s[mine], n, rules.start)] for mine, n in pairs]))
        warmups = warmup_places(timed, rules.warmup)
        places = np.sort(np.concatenate([timed, warmups]))
        set_share = float(found.time_s[places].sum()) / runtime_s
        if set_share <= rules.budget or (numbers <= np.minimum(counts, rules.least_samples)).all():
            break
        budget *= 0.99 * rules.budget / set_share
    facts: dict[str, Fact] = {
        "status": status_of(phases, rules),
        "set_share": set_share,
        "standard_error": _standard_error(counts, sd_s, numbers, runtime_s) if found.is_timed else None,
        "timed": len(timed), "warmups": len(warmups),
    }  # fmt: skip
    notes: tuple[str, ...] = ()
    if set_share > rules.budget:
        notes = (
            f"The plan takes {set_share:.1%} of the run, above the budget of {rules.budget:.1%}: "
            f"it times at least {rules.least_samples} occurrences of each phase, or all where there are fewer.",
        )
    aside = {"not_timed": Tally(len(found) - len(places))}
    report = Report("plan_phases", "occurrence", Tally(len(found)), Tally(len(places)), aside, facts, notes)
    rows, n_ranks = points.take(arrow(found.rows[places].ravel())), found.rows.shape[1]
    table = PHASE_PLAN.build(
        **{name: rows.column(name) for name in _PLANNED},
        is_warmup=arrow(np.repeat(np.isin(places, warmups), n_ranks)),
        reference_s=as_array(np.repeat(found.reference_s(places), n_ranks), pa.float64()),
    )
    return table, report.check()


_PLANNED = ("trace_id", "phase_id", "occurrence", "rank", "from_event", "to_event")


def allocate(counts: Ints, mean_s: Floats, sd_s: Floats, cost_s: Floats, budget_s: float, rules: PlanRules) -> Ints:
    """How many occurrences of each phase to time: in proportion to count and spread by the root of the cost."""
    least = np.minimum(counts, rules.least_samples)
    cost_s = np.maximum(cost_s, 1e-300)
    # A phase whose times do not vary here may vary elsewhere: its spread is at least 1% of its mean.
    weight = counts * np.maximum(sd_s, 0.01 * mean_s) / np.sqrt(cost_s)
    if weight.max(initial=0.0) <= 0:
        return least

    def numbers(factor: float) -> Ints:
        return np.clip((factor * weight).astype(np.int64), least, counts)

    low, high = 0.0, float(counts.max()) / float(weight[weight > 0].min())
    for _ in range(100):
        middle = (low + high) / 2
        fits = float((numbers(middle) * cost_s).sum()) <= budget_s
        low, high = (middle, high) if fits else (low, middle)
    return numbers(low)


def warmup_places(timed: Ints, n: int) -> Ints:
    """The n places before each timed one that are not timed themselves."""
    before = (timed[:, None] - np.arange(1, n + 1)).ravel()
    return np.setdiff1d(before[before >= 0], timed)


def _with_warmup_s(found: Occurrences, warmup: int) -> Floats:
    """The time of each occurrence and of those that warm it up."""
    sums = np.concatenate(([0.0], np.cumsum(found.time_s)))
    return sums[1:] - sums[np.maximum(np.arange(len(found)) - warmup, 0)]


def _relevant_places(phases: pa.Table, found: Occurrences) -> list[Ints]:
    """The places of the occurrences of each relevant phase, in order."""
    is_relevant = phases.column("is_relevant").to_numpy(zero_copy_only=False)
    return [np.flatnonzero(found.phase == one) for one in phases.column("phase_id").to_numpy()[is_relevant].tolist()]


def _strata(found: Occurrences, chosen: list[Ints]) -> tuple[Ints, Floats, Floats]:
    """Per relevant phase how often it occurs, and the mean and the spread of its times."""
    times_s = [found.time_s[mine] for mine in chosen]
    spreads = [float(one.std(ddof=1)) if len(one) > 1 else 0.0 for one in times_s]
    return np.array([len(one) for one in times_s]), np.array([one.mean() for one in times_s]), np.array(spreads)


def _standard_error(counts: Ints, sd_s: Floats, numbers: Ints, runtime_s: float) -> float:
    """Of the reference run's own time from so many occurrences of each phase, as a share of it.

    Source: Cochran 1977, Section 5.4 (stratified sampling with the finite population's correction).
    """
    left = 1 - numbers / counts
    return float(np.sqrt((counts**2 * left * sd_s**2 / numbers).sum()) / runtime_s)


def standard_errors(phases: pa.Table, points: pa.Table, samples: list[int]) -> list[float]:
    """The standard error of the run's own time from so many occurrences of each relevant phase, as a share of it."""
    found = Occurrences.of(points)
    counts, _, sd_s = _strata(found, _relevant_places(phases, found))
    return [_standard_error(counts, sd_s, np.minimum(counts, n), float(found.time_s.sum())) for n in samples]
