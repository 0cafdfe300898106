"""Costs, choices and weak scaling, against figures worked out by hand."""

from typing import Any

import numpy as np
import pytest

from pipeline.scaling.advice import (
    CostSettings,
    answered,
    choices,
    cost_of,
    energy_rows,
    energy_sentence,
    figure,
    sentence,
)
from pipeline.scaling.problem_sizes import weak_scaling
from pipeline.schema import Axis

PROCS = np.array([1.0, 2, 4, 8, 16])
AMDAHL_S = 3600 * (0.1 + 0.9 / PROCS)
Curve = dict[int, float]


def options(measured: Curve, predicted: Curve | None = None, log_sd: float = 0.0, span: float = 1.2) -> list[Any]:
    """Counts to choose from: measured ones, and predictions whose 80% interval spans so many times."""
    known = {n: (t, log_sd) for n, t in measured.items()} | {n: (t, None) for n, t in (predicted or {}).items()}
    return [
        {
            "procs": n, "runtime_s": t, "runtime_s_lo80": t / span**0.5, "runtime_s_hi80": t * span**0.5, "log_sd": sd,
            "reliability": "ok", "energy_j": None,
        }
        for n, (t, sd) in sorted(known.items())
    ]  # fmt: skip


def chosen(rows: list[Any], node: int | None = None) -> dict[str, int]:
    return {row["why"]: row["procs"] for row in choices(rows, CostSettings(node))}


AMDAHL = dict(zip((1, 2, 4, 8, 16), AMDAHL_S.tolist(), strict=True))


def test_a_node_is_charged_whole_and_a_rate_gives_a_price() -> None:
    assert cost_of(4, 3600.0, CostSettings(24, 0.5)) == {"nodes": 1, "proc_hours": 24.0, "price": 12.0}
    assert cost_of(30, 1800.0, CostSettings(24, 0.5)) == {"nodes": 2, "proc_hours": 24.0, "price": 12.0}
    assert cost_of(4, 3600.0, CostSettings()) == {"nodes": None, "proc_hours": 4.0, "price": None}


def test_the_three_counts_worth_asking_for() -> None:
    """n T^2 of Amdahl with a serial tenth is least at n = 0.9/0.1 = 9: of powers of two at 8."""
    found = {row["why"]: row for row in choices(options(AMDAHL), CostSettings())}
    assert {why: row["procs"] for why, row in found.items()} == {
        "the best trade-off": 8, "the cheapest": 1, "the fastest": 16,
    }  # fmt: skip
    assert found["the best trade-off"]["efficiency"] == pytest.approx(1 / (0.1 * 8 + 0.9))
    assert sentence(found["the cheapest"]) == (
        "Cheapest: 1 processor, 3,600 s (80% interval: 3,286 to 3,944), 1 processor-hours, efficiency 100%."
    )


def test_a_code_that_does_not_scale_has_one_answer() -> None:
    (one,) = choices(options(dict.fromkeys(AMDAHL, 60.0)), CostSettings(rate=3.0))
    assert (one["procs"], one["why"], one["price"]) == (1, "the best in time and cost", pytest.approx(0.05))
    assert sentence(one | {"reliability": "wide+off_law"}).startswith(
        "Best in time and cost (low confidence: wide interval, no law fits these runs): 1 processor, "
    )
    assert choices([], CostSettings()) == []


@pytest.mark.parametrize("node", [None, 4])
def test_a_gain_of_a_few_per_cent_justifies_no_more_processors(node: int | None) -> None:
    assert chosen(options({1: 1288.0, 4: 1248.0}), node) == {"the best in time and cost": 1}


def test_a_gain_within_the_noise_of_the_runs_justifies_no_more_processors() -> None:
    gains = {1: 100.0, 2: 85.0}
    assert chosen(options(gains)) == {"the best trade-off and the cheapest": 1, "the fastest": 2}
    assert chosen(options(gains, log_sd=0.1)) == {"the best in time and cost": 1}


def test_a_count_that_was_measured_slower_is_never_the_fastest() -> None:
    assert chosen(options({1: 100.0, 2: 110.0})) == {"the best in time and cost": 1}
    assert chosen(options({1: 100.0, 2: 110.0, 4: 60.0})) == {
        "the best trade-off and the cheapest": 1,
        "the fastest": 4,
    }


def test_a_predicted_count_is_recommended_only_if_its_upper_end_is_better() -> None:
    measured = {1: 100.0, 2: 60.0, 4: 40.0}
    assert chosen(options(measured, {8: 30.0}))["the fastest"] == 8
    assert 8 not in chosen(options(measured, {8: 35.0})).values(), "35 s may be 38.3 s, a gain of less than 5%"
    assert chosen(options({}, {8: 22.0})) == {}, "without any measured count nothing is recommended"


def series(measured: Curve, doubtful: Curve, odd: dict[int, str] | None = None) -> dict[str, Any]:
    """A series as `answered` takes it; predictions at the doubtful counts span three times."""
    observed = [
        {
            "procs": n, "runtime_s_median": t, "log_sd": None, "n_jobs": 1, "energy_j_median": None, "axis": None,
            "odd": (odd or {}).get(n), "fit_weight": 0.0 if n in (odd or {}) else None,
        }
        for n, t in measured.items()
    ]  # fmt: skip
    rows = [row | {"advice": None} for row in options(measured)]
    rows += [row | {"advice": "Run on 32 next.", "reliability": "wide"} for row in options(doubtful, span=3.0)]
    return {"observations": observed, "patterns": [], "predictions": rows}


def test_where_a_larger_count_is_not_surely_faster_what_was_measured_is_recommended() -> None:
    one = series(AMDAHL, {32: 400.0})
    answer = answered(one, one["predictions"], CostSettings())["answer"]
    assert answer[2].startswith("Fastest: 16 processors, 562 s")
    assert answer[3:] == [
        "Processor counts 1 to 32 were compared; efficiency is relative to 1 processor.",
        "Run on 32 next.",
    ]


def test_a_superlinear_start_is_said() -> None:
    one = series({1: 3615.0, 2: 1324.0, 4: 680.0}, {}, {1: "slow"})
    answer = answered(one, one["predictions"], CostSettings())["answer"]
    assert (
        "Between 1 and 2 processors the speed-up is larger than the number of processors: "
        "2.73 times as fast on 2 times as many."
    ) in answer
    assert not any("speed-up is larger" in line for line in answered(series(AMDAHL, {}), [], CostSettings())["answer"])


def test_a_count_whose_runs_were_far_too_short_is_not_recommended() -> None:
    one = series(AMDAHL | {8: 3.0}, {}, {8: "fast"})
    assert {row["procs"] for row in answered(one, one["predictions"], CostSettings())["choices"]} == {1, 4, 16}


def test_one_count_is_no_recommendation_and_unknown_ends_are_said() -> None:
    (one,) = choices(options({4: 60.0}), CostSettings())
    assert sentence(one | {"runtime_s_hi80": None}) == (
        "Only count that ran: 4 processors, 60 s (80% interval: 54.8 to unknown), 0.0667 processor-hours."
    )


def test_measured_energy_stands_beside_a_choice_and_the_least_is_named() -> None:
    rows = [row | {"energy_j": 1200.0 if row["procs"] == 8 else None} for row in options(AMDAHL)]
    found = {row["procs"]: row for row in choices(rows, CostSettings())}
    assert ", 1,200 J measured, efficiency" in sentence(found[8]) and "measured" not in sentence(found[16])
    energy_j = (1000.0, 900.0, 800.0, 1200.0, None)
    observed = [
        {"procs": n, "energy_j_median": joules, "energy_delay_js_median": None if joules is None else joules * t}
        for (n, t), joules in zip(AMDAHL.items(), energy_j, strict=True)
    ]
    energy = energy_rows(observed)
    assert [row["procs"] for row in energy] == [1, 2, 4, 8]
    assert energy_sentence(energy, Axis.PROCS) == [
        "Of 4 measured counts 4 processors took least energy, 800 J a run, and 8 least energy times runtime, "
        "918,000 J s."
    ]
    assert energy_rows(observed[4:]) == []
    assert energy_sentence(energy_rows(observed[:1]), Axis.PROCS) == [], "one count is no comparison"


def test_gustafsons_serial_fraction_is_recovered() -> None:
    runtime_s = 100 * PROCS / (PROCS - 0.2 * (PROCS - 1))
    found = weak_scaling(1000 * PROCS, PROCS, runtime_s, [32])
    assert found is not None
    assert found["serial_fraction"] == pytest.approx(0.2)
    assert found["worst_miss"] < 1e-12
    assert [row["scaled_speedup"] for row in found["points"]] == pytest.approx(PROCS - 0.2 * (PROCS - 1))
    assert found["predictions"] == [{"procs": 32, "runtime_s": pytest.approx(100 * 32 / (32 - 0.2 * 31))}]
    half = weak_scaling(1000 * PROCS[1:], PROCS[1:], runtime_s[1:], [1])
    assert half is not None and half["predictions"] == [], "1 is below the smallest count"


def test_a_grid_of_sizes_gives_its_longest_diagonal_and_strong_scaling_none() -> None:
    size, procs = (axis.ravel() for axis in np.meshgrid(100 * PROCS, PROCS, indexing="ij"))
    found = weak_scaling(size, procs, size / procs)
    assert found is not None and [row["efficiency"] for row in found["points"]] == [1.0] * 5
    assert weak_scaling(np.full(5, 7.0), PROCS, AMDAHL_S) is None
    assert weak_scaling(np.full(5, np.nan), PROCS, AMDAHL_S) is None


def test_a_weak_series_that_slows_down_is_not_answered_below_its_last_run() -> None:
    found = weak_scaling(PROCS[:4], PROCS[:4], np.array([100.0, 104, 110, 121]), [16])
    assert found is not None and found["worst_miss"] > 0.02
    assert found["predictions"][0]["runtime_s"] > 121


def test_no_figure_has_an_exponent() -> None:
    assert [figure(value) for value in (0.1234, 99.96, 999.4, 999.6, 12_345.6)] == [
        "0.123",
        "100",
        "999",
        "1,000",
        "12,346",
    ]
