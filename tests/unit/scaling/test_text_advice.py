"""Costs, choices and weak scaling, against figures worked out by hand."""

import numpy as np
import pytest

from pipeline.scaling.choices import CostSettings, Energy, choices, cost_of, sentence
from pipeline.scaling.weak_scaling import weak_scaling

PROCS = np.array([1.0, 2, 4, 8, 16])
AMDAHL_S = 3600 * (0.1 + 0.9 / PROCS)


def test_a_node_is_charged_whole_and_a_rate_gives_a_price() -> None:
    cost = cost_of(np.array([4.0, 30]), np.array([3600.0, 1800]), CostSettings(24, 0.5))
    np.testing.assert_array_equal(cost.nodes, [1, 2])
    np.testing.assert_allclose(cost.proc_hours, [24, 24])
    np.testing.assert_allclose(cost.price, [12, 12])
    plain = cost_of(np.array([4.0]), np.array([3600.0]), CostSettings())
    assert np.isnan(plain.nodes[0]) and np.isnan(plain.price[0]) and plain.proc_hours[0] == 4


def test_the_three_counts_worth_asking_for() -> None:
    """n T^2 of Amdahl with a serial tenth is least at n = 0.9/0.1 = 9: of powers of two at 8."""
    found = {one.why: one for one in choices(PROCS, AMDAHL_S, AMDAHL_S, AMDAHL_S, CostSettings())}
    assert {why: one.procs for why, one in found.items()} == {
        "the best trade-off": 8, "the cheapest": 1, "the fastest": 16,
    }  # fmt: skip
    assert found["the best trade-off"].efficiency == pytest.approx(1 / (0.1 * 8 + 0.9))
    assert sentence(found["the cheapest"]) == (
        "The cheapest: 1 processor, 3,600 s (80%: 3,600 to 3,600), 1 processor-hours, efficiency 100%."
    )


def test_a_code_that_does_not_scale_has_one_answer() -> None:
    flat_s = np.full(5, 60.0)
    (one,) = choices(PROCS, flat_s, flat_s, flat_s, CostSettings(rate=3.0))
    assert (one.procs, one.why) == (1, "the best in time and cost")
    assert sentence(one, reliability="wide+off_law").startswith(
        "The best in time and cost (low confidence: wide, off_law): 1 processor, "
    )
    assert one.price == pytest.approx(0.05)
    assert choices(*[np.empty(0)] * 4, CostSettings()) == []


def test_one_count_is_no_recommendation_and_unknown_ends_are_said() -> None:
    (one,) = choices(np.array([4.0]), np.array([60.0]), np.array([50.0]), np.array([np.nan]), CostSettings())
    assert sentence(one) == "The only count that ran: 4 processors, 60 s (80%: 50 to unknown), 0.0667 processor-hours."


def test_measured_energy_stands_beside_a_choice_and_the_least_is_named() -> None:
    energy_j = np.array([1000.0, 900, 800, 1200, np.nan])
    found = {one.procs: one for one in choices(PROCS, AMDAHL_S, AMDAHL_S, AMDAHL_S, CostSettings(), energy_j)}
    assert ", 1,200 J measured, efficiency" in sentence(found[8]) and "measured" not in sentence(found[16])
    energy = Energy.of(PROCS, energy_j, energy_j * AMDAHL_S)
    assert energy is not None and list(energy.procs) == [1, 2, 4, 8]
    assert energy.sentence() == (
        "Of 4 measured counts 4 processors took least energy, 800 J a run, and 8 least energy times runtime, "
        "918,000 J s."
    )
    assert Energy.of(PROCS, np.full(5, np.nan), np.full(5, np.nan)) is None
    single = Energy.of(PROCS[:1], energy_j[:1], energy_j[:1])
    assert single is not None and single.sentence() == "", "one count is no comparison"


def test_gustafsons_serial_fraction_is_recovered() -> None:
    runtime_s = 100 * PROCS / (PROCS - 0.2 * (PROCS - 1))
    found = weak_scaling(1000 * PROCS, PROCS, runtime_s)
    assert found is not None
    assert found.serial_fraction == pytest.approx(0.2)
    assert found.worst_miss < 1e-12
    np.testing.assert_allclose(found.scaled_speedup, PROCS - 0.2 * (PROCS - 1))
    np.testing.assert_allclose(found.runtime_at(np.array([32.0])), 100 * 32 / (32 - 0.2 * 31))
    assert np.isnan(found.runtime_at(np.array([0.5]))[0])


def test_a_grid_of_sizes_gives_its_longest_diagonal_and_strong_scaling_none() -> None:
    size, procs = (axis.ravel() for axis in np.meshgrid(100 * PROCS, PROCS, indexing="ij"))
    found = weak_scaling(size, procs, size / procs)
    assert found is not None and len(found.procs) == 5 and (found.efficiency == 1).all()
    assert weak_scaling(np.full(5, 7.0), PROCS, AMDAHL_S) is None
    assert weak_scaling(np.full(5, np.nan), PROCS, AMDAHL_S) is None


def test_a_weak_series_that_slows_down_is_not_answered_below_its_last_run() -> None:
    found = weak_scaling(PROCS[:4], PROCS[:4], np.array([100.0, 104, 110, 121]))
    assert found is not None and found.worst_miss > 0.02
    assert found.runtime_at(np.array([16.0]))[0] > 121
