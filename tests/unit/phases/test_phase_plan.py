"""The plan spends its budget where the standard error is smallest, evenly spaced, with a warm-up before each time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.phases.occurrences import (
    NOT_REPETITIVE,
    OK,
    Occurrences,
    allocate,
    evenly_spaced,
    make_plan,
    relevant,
    sampled_share,
    status_of,
    warmup_places,
)
from pipeline.phases.phase_input import PhaseRules, PlanRules
from pipeline.phases.phases import find_phases
from pipeline.phases.platforms import planned_places
from tools.simulation.mpi_steps import HERE, simulated_run

CALLS, _ = simulated_run(2000, 4, HERE, 1)
PHASES, POINTS, _ = find_phases(CALLS, "steps", PhaseRules())


@pytest.mark.parametrize("budget", [0.03, 0.05, 0.2])
def test_the_budget_is_spent_and_not_exceeded(budget: float) -> None:
    plan, report = make_plan(PHASES, POINTS, PlanRules(budget=budget))
    assert 0.8 * budget < report.facts["set_share"] <= budget
    assert report.notes == ()
    per_occurrence = plan.filter(plan.column("rank").to_numpy() == 0)
    runtime_s = PHASES.column("time_s").to_numpy().sum()
    assert per_occurrence.column("reference_s").to_numpy().sum() / runtime_s == pytest.approx(report.facts["set_share"])


def test_a_plan_for_too_small_a_budget_says_so() -> None:
    _, report = make_plan(PHASES, POINTS, PlanRules(budget=1e-4))
    assert "above the budget" in report.notes[0]


def test_each_timed_occurrence_is_preceded_by_its_warm_up() -> None:
    plan, _ = make_plan(PHASES, POINTS, PlanRules(budget=0.05, warmup=2))
    found = Occurrences.of(POINTS)
    timed, warmups = planned_places(found, plan)
    planned = set(timed.tolist()) | set(warmups.tolist())
    assert not set(timed.tolist()) & set(warmups.tolist())
    assert all({place - 1, place - 2} <= planned for place in timed.tolist() if place >= 2)


def test_timed_occurrences_lie_one_in_each_equal_part_of_a_phase() -> None:
    plan, _ = make_plan(PHASES, POINTS, PlanRules(budget=0.1))
    for phase in np.flatnonzero(PHASES.column("is_relevant").to_numpy(zero_copy_only=False)):
        rows = plan.to_pylist()
        mine = sorted({row["occurrence"] for row in rows if row["phase_id"] == phase and not row["is_warmup"]})
        count = PHASES.column("n_occurrences")[int(phase)].as_py()
        ends = np.arange(len(mine) + 1) * count // len(mine)
        is_even = mine == evenly_spaced(count, len(mine)).tolist()
        assert is_even or ((ends[:-1] <= mine) & (mine < ends[1:])).all()


@given(n=st.integers(1, 500), data=st.data())
def test_evenly_spaced_places_are_distinct_and_inside(n: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(1, n))
    places = evenly_spaced(n, chosen)
    assert len(set(places.tolist())) == chosen
    assert 0 <= places[0] <= places[-1] < n


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(3, 60), min_size=2, max_size=2),
    means=st.lists(st.floats(0.1, 10), min_size=2, max_size=2),
    shares=st.lists(st.floats(0.05, 1), min_size=2, max_size=2),
    budget=st.floats(0.1, 0.9),
)
def test_no_other_numbers_in_the_budget_have_a_much_smaller_error(
    counts: list[int], means: list[float], shares: list[float], budget: float
) -> None:
    n, mean_s = np.array(counts), np.array(means)
    sd_s = mean_s * np.array(shares)
    options = PlanRules(budget=budget, least_samples=2, warmup=0)
    runtime_s = float((n * mean_s).sum())
    chosen = allocate(n, mean_s, sd_s, mean_s, budget * runtime_s, options)

    def variance(k: np.ndarray) -> float:
        return float((n**2 * (1 - k / n) * sd_s**2 / k).sum())

    every = [np.array([a, b]) for a in range(2, n[0] + 1) for b in range(2, n[1] + 1)]
    affordable = [k for k in every if (k * mean_s).sum() <= budget * runtime_s]
    if affordable:
        assert (chosen * mean_s).sum() <= budget * runtime_s * (1 + 1e-9)
        # Whole numbers cost at most one occurrence of each phase.
        more = np.minimum(chosen + 1, n)
        assert variance(more) <= min(variance(k) for k in affordable) * (1 + 1e-9)


def test_warm_ups_before_the_start_are_left_out() -> None:
    assert warmup_places(np.array([0, 1, 5]), 2).tolist() == [3, 4]


def test_relevant_phases_cover_the_time() -> None:
    shares = np.array([0.5, 0.3, 0.009, 0.008, *([0.006] * 30), 0.003])
    chosen = relevant(shares, 0.01, 0.95)
    assert shares[chosen].sum() >= 0.95
    assert not chosen[-1]
    assert relevant(shares, 0.01, 0.0).sum() == 2


def test_a_run_of_few_steps_is_not_repetitive() -> None:
    options = PhaseRules()
    for n_steps, expected in ((4, NOT_REPETITIVE), (15, NOT_REPETITIVE), (100, OK)):
        phases, _, _ = find_phases(simulated_run(n_steps, 3, HERE, 1)[0], "x", options)
        assert status_of(phases, options.plan) == expected


def test_a_run_of_one_long_computation_is_not_repetitive() -> None:
    options = PhaseRules()
    phases, _, _ = find_phases(simulated_run(100, 3, HERE, 1)[0], "x", options)
    n, time_s = phases.column("n_occurrences").to_numpy(), phases.column("time_s").to_numpy()
    longer_s = np.where(n == 1, 1000 * time_s.sum(), time_s)
    longer = phases.set_column(phases.column_names.index("time_s"), phases.schema.field("time_s"), [longer_s])
    assert status_of(longer, options.plan) == NOT_REPETITIVE


def test_the_sampled_share_counts_events() -> None:
    options = PlanRules(repetition_samples=10, warmup=1)
    # 20 of 100 occurrences of 3 events, and both of 50: 160 of 400.
    assert sampled_share(np.array([100, 2]), np.array([3.0, 50.0]), options) == pytest.approx(0.4)
