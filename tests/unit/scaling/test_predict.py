"""Predictions: where they are made, how wide they are, what they admit."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from pipeline.scaling.advice import scalability
from pipeline.scaling.fit import FitRules, fit
from pipeline.scaling.predictions import fitted_series, predict
from pipeline.scaling.series import PredictRules
from pipeline.settings import SiteSettings
from tests.rows import curve, observations_of

SIZES = (1, 2, 4, 8, 16)
SETTINGS = PredictRules()


def predicted(
    observations: pa.Table, max_procs: int | None = None, at: Sequence[int] | None = None
) -> list[dict[str, object]]:
    fits, _ = fit(observations, FitRules())
    table, _ = predict(fitted_series(observations, fits, SETTINGS, SiteSettings(max_procs=max_procs)), "run", at)
    return table.to_pylist()


def scaled(observations: pa.Table) -> list[dict[str, object]]:
    fits, _ = fit(observations, FitRules())
    return scalability(fitted_series(observations, fits, SETTINGS, SiteSettings()), "run")[0].to_pylist()


def amdahl(sizes: Sequence[int] = SIZES, serial: float = 0.1) -> dict[int, float]:
    return curve("amdahl", sizes, t1_s=1000.0, serial_fraction=serial)


def test_the_grid_reaches_four_times_beyond_on_a_machine_that_large() -> None:
    rows = predicted(observations_of({"a": amdahl((4, 6, 16))}), max_procs=1000)
    assert [row["procs"] for row in rows] == [1, 2, 4, 6, 8, 16, 32, 64]
    assert [row["is_extrapolated"] for row in rows] == [True, True, False, False, False, False, True, True]


def test_the_grid_ends_at_the_machine() -> None:
    assert predicted(observations_of({"a": amdahl()}), max_procs=20)[-1]["procs"] == 16
    assert predicted(observations_of({"a": amdahl(), "b": {24: 5.0}}))[4]["procs"] == 16


def test_one_size_is_predicted_there_alone() -> None:
    rows = predicted(observations_of({"a": {6: 50.0}}), max_procs=64)
    assert [(row["procs"], row["runtime_s"], row["speedup"], row["reliability"]) for row in rows] == [
        (6, pytest.approx(50.0, rel=1e-9), None, "one_size+wide")
    ]
    assert predicted(observations_of({"a": {6: 50.0}}), at=[8]) == []


def test_counts_of_the_settings_are_predicted_beside_the_grid() -> None:
    observations = observations_of({"a": amdahl((4, 16)), "b": {6: 50.0}})
    rules = PredictRules(counts=(3, 100, 16))
    fits, _ = fit(observations, FitRules())
    table, _ = predict(fitted_series(observations, fits, rules, SiteSettings(max_procs=32)), "run")
    counts = {name: [row["procs"] for row in table.to_pylist() if row["group_id"] == name] for name in "ab"}
    assert counts == {"a": [1, 2, 3, 4, 8, 16, 32, 100], "b": [6]}


def test_asked_counts_are_answered_and_only_those() -> None:
    rows = predicted(observations_of({"a": amdahl()}), at=[64, 12])
    assert [row["procs"] for row in rows] == [12, 64]
    assert rows[0]["runtime_s"] == pytest.approx(1000 * (0.1 + 0.9 / 12), rel=0.01)
    assert rows[0]["speedup"] == pytest.approx(1 / (0.1 + 0.9 / 12), rel=0.02)


def test_intervals_nest_and_hold_the_prediction() -> None:
    noisy = {n: t * (1.1 if n % 3 else 0.9) for n, t in amdahl().items()}
    for row in predicted(observations_of({"a": noisy}, n_jobs=3, log_sd=0.1), max_procs=64):
        ends = [row[f"runtime_s_{end}"] for end in ("lo95", "lo80")]
        ends += [row["runtime_s"]] + [row[f"runtime_s_{end}"] for end in ("hi80", "hi95")]
        assert ends == sorted(ends) and ends[0] > 0


def test_intervals_widen_with_distance() -> None:
    noisy = {n: t * (1.1 if n % 3 else 0.9) for n, t in amdahl().items()}
    rows = predicted(observations_of({"a": noisy}), at=[16, 32, 64])
    ratios = [row["runtime_s_hi80"] / row["runtime_s_lo80"] for row in rows]
    assert ratios == sorted(ratios) and ratios[0] < ratios[-1]


@pytest.mark.parametrize(("factor", "is_high"), [(1.0, False), (1.09, False), (1.3, True)])
def test_predictions_that_miss_a_size_by_more_than_a_tenth_have_a_high_error(factor: float, is_high: bool) -> None:
    """Deshmeh 2013, 3.10: the largest relative error of the fit; there 18% of LU's runtime on 32 nodes."""
    runtimes = amdahl((1, 2, 4, 8, 16, 32, 64), 0.02)
    table = observations_of({"a": runtimes | {8: factor * runtimes[8]}}, n_jobs=2, log_sd=0.2)
    rows = predicted(table, at=[8, 128])
    assert ["high_error" in str(row["reliability"]) for row in rows] == [is_high, is_high]


def test_predictions_that_follow_the_runs_are_not_doubted_for_a_law_that_misses_them() -> None:
    """A runtime that rises with the processors, which no law has: the constant misses it, the average does not."""
    rising = {1: 102.7, 2: 105.3, 4: 107.7, 8: 117.0, 16: 131.8, 32: 166.1, 64: 230.6}
    rows = predicted(observations_of({"a": rising}), at=list(rising))
    assert {row["reliability"] for row in rows} == {"ok"}
    assert all(abs(row["runtime_s"] / rising[row["procs"]] - 1) < 0.02 for row in rows)


def test_an_open_tail_is_said_and_its_interval_reaches_the_curve_that_bends_at_once() -> None:
    rows = predicted(observations_of({"a": amdahl(serial=0.01)}), at=[16, 32])
    assert rows[0]["reliability"] == "ok"
    assert rows[1]["reliability"] == "ok", (
        "its own interval is narrow: the open tail is a reason for a run, not a doubt"
    )
    assert rows[1]["runtime_s"] == pytest.approx(1000 * (0.01 + 0.99 / 32), rel=0.1)
    assert rows[1]["runtime_s_hi95"] >= 62.5, "Downey's low-variance curve that bends at 16: T(inf) = T(1)/16"
    assert rows[1]["advice"].startswith("Run on 32 processors next")


@pytest.mark.parametrize(
    ("sizes", "machine", "following"),
    [((1, 4, 16), None, 32), ((1, 4, 16), 20, 20), ((4, 8, 16), 16, 2), ((1, 2, 4, 8), 8, None), ((4, 6), None, 12)],
)
def test_the_run_to_make_next(sizes: Sequence[int], machine: int | None, following: int | None) -> None:
    """Beyond the largest size where the machine allows it: there the shapes that fit so far differ most."""
    advice = predicted(observations_of({"a": amdahl(sizes, 0.01)}), machine, at=[sizes[0]])[0]["advice"]
    if following is None or len(sizes) > 3:
        assert advice is None or "Run on" not in str(advice)
    else:
        assert str(advice).startswith(f"Run on {following} processors next")


def test_a_curve_that_misses_amdahl_by_half_a_per_cent_is_not_doubtful_at_every_count() -> None:
    """Its tail is open, and its runs on six counts leave an interval of 10% between them."""
    near = {n: t * (1 + 0.005 * (-1) ** k) for k, (n, t) in enumerate(amdahl((1, 2, 4, 8, 16, 32), 0.1).items())}
    rows = predicted(observations_of({"a": near}), at=[24, 32, 64])
    assert [row["reliability"] for row in rows] == ["ok"] * 3


def test_no_answer_from_too_few_counts_is_ok() -> None:
    """Three counts are enough between them, four up to twice the largest, and five beyond."""
    for n_sizes, expected in ((2, []), (3, [2]), (4, [2, 8, 16])):
        exact = amdahl((1, 2, 4, 8)[:n_sizes], 0.5)
        rows = predicted(observations_of({"a": exact}, n_jobs=40, log_sd=0.02), at=[2, 8, 16])
        assert [row["procs"] for row in rows if row["reliability"] == "ok"] == expected


def test_a_full_machine_cannot_settle_the_tail() -> None:
    rows = predicted(observations_of({"a": amdahl(serial=0.01)}), max_procs=16, at=[32])
    assert "whole machine" in rows[0]["advice"]


def test_a_group_of_different_work_is_called_wide() -> None:
    rows = predicted(observations_of({"a": amdahl()}, n_jobs=20, log_sd=1.5), at=[4])
    assert "wide_group" in rows[0]["reliability"]


def test_largest_useful_allocation_and_working_set() -> None:
    low = curve("downey_low", (1, 2, 4, 8, 16, 32, 64), t1_s=500.0, avg_parallelism=12.0, sigma=0.5)
    high = curve("downey_high", (1, 2, 4, 8, 16, 32, 64), t1_s=500.0, avg_parallelism=8.0, sigma=2.0)
    rows = {row["group_id"]: row for row in scaled(observations_of({"high": high, "low": low}))}
    assert rows["low"]["largest_useful_procs"] == pytest.approx(2 * 12 - 1, rel=1e-6)
    assert rows["high"]["largest_useful_procs"] == pytest.approx(8 + 16 - 2, rel=1e-6)
    assert rows["low"]["working_set_procs"] == 12


def test_the_working_set_is_the_best_of_all_whole_counts() -> None:
    for serial in (0.5, 0.11, 0.013, 0.0007):
        row = scaled(observations_of({"a": amdahl((1, 2, 4, 8, 16, 32, 4096), serial)}))[0]
        n = np.arange(1, 20_000)
        merit = (1 / (serial + (1 - serial) / n)) ** 2 / n
        assert merit[row["working_set_procs"] - 1] == pytest.approx(merit.max(), rel=1e-9)


def test_linear_speedup_has_no_largest_allocation() -> None:
    row = scaled(observations_of({"a": amdahl(serial=0.0)}))[0]
    assert (row["largest_useful_procs"], row["working_set_procs"]) == (None, None)
    assert row["reliability"] == "tail_unidentified"


def test_constants_do_not_scale_and_are_counted() -> None:
    observations = observations_of({"a": curve("constant", SIZES, t1_s=5.0)})
    fits, _ = fit(observations, FitRules())
    table, report = scalability(fitted_series(observations, fits, SETTINGS, SiteSettings()), "run")
    assert table.num_rows == 0 and report.set_aside["constant"].rows == 1


def test_nothing_in_nothing_out() -> None:
    assert predicted(observations_of({})) == []


def test_a_constant_with_an_open_tail_beside_groups_that_scale() -> None:
    noise = dict(zip(SIZES, (101.0, 99.0, 107.0, 101.0, 95.0), strict=True))
    rows = scaled(observations_of({"a": amdahl(), "b": noise}, n_jobs=50, log_sd=0.5))
    assert [row["group_id"] for row in rows] == ["a"]


def test_what_ran_at_a_size_outweighs_a_law_that_misses_it() -> None:
    """2,375 runs of 10,034 s on one processor beside 14 of 10.5 s on two, as in a real log."""
    table = observations_of({"a": {1: 10_034.0, 2: 10.5, 4: 4_000.0, 8: 900.0}}, n_jobs=14, log_sd=1.5)
    counts = pa.array([2_375, 14, 20, 9], pa.int64())
    rows = predicted(table.set_column(table.column_names.index("n_jobs"), "n_jobs", counts), at=[1])
    assert rows[0]["runtime_s"] == pytest.approx(10_034.0, rel=0.1)


def test_a_law_that_misses_what_was_seen_says_so() -> None:
    bent = amdahl() | {8: 3 * amdahl()[8]}
    rows = predicted(observations_of({"a": bent}, n_jobs=400, log_sd=0.05), at=[8, 32])
    assert "off_law" in rows[0]["reliability"] and "off_law" not in rows[1]["reliability"]


def test_a_row_says_how_it_was_made() -> None:
    assert {row["method"] for row in predicted(observations_of({"a": amdahl()}))} == {"average"}
    assert {row["method"] for row in predicted(observations_of({"a": {4: 7.0}}))} == {"observed"}
    assert {row["method"] for row in related({"a": amdahl(), "b": amdahl(serial=0.2)})} == {"average+siblings"}


def test_siblings_tell_where_three_sizes_cannot() -> None:
    """Ten series that stop scaling at 64 processors, and one that was run on 1, 2 and 4 only."""
    others = {f"s{k}": flat_from(64, 1000.0 * 1.5**k) for k in range(10)}
    alone = predicted(observations_of({"a": flat_from(64, 500.0, (1, 2, 4))}), at=[256])[0]
    told = {row["group_id"]: row for row in related(others | {"a": flat_from(64, 500.0, (1, 2, 4))}, at=[256])}["a"]
    truth_s = 500.0 / 64
    assert abs(np.log(told["runtime_s"] / truth_s)) < 0.65 * abs(np.log(alone["runtime_s"] / truth_s))
    assert told["runtime_s_hi80"] / told["runtime_s_lo80"] < alone["runtime_s_hi80"] / alone["runtime_s_lo80"]


def flat_from(bend: int, t1_s: float, sizes: Sequence[int] = (1, 4, 16, 64, 256)) -> dict[int, float]:
    return {n: t1_s / min(n, bend) for n in sizes}


def related(series: dict[str, dict[int, float]], at: Sequence[int] | None = None) -> list[dict[str, object]]:
    observations = observations_of(series)
    fits, _ = fit(observations, FitRules())
    application = dict.fromkeys(series, "solver")
    series_of_one = fitted_series(observations, fits, SETTINGS, SiteSettings(), application)
    return predict(series_of_one, "run", at)[0].to_pylist()


def test_processors_worth_asking_for() -> None:
    """T = 0.02 + 0.98/n: efficiency 1/(0.02 n + 0.98), so 80% up to 13.5 and 50% up to 51 processors."""
    row = scaled(observations_of({"a": amdahl((1, 2, 4, 8, 16, 32, 64, 128), 0.02)}))[0]
    assert row["efficiency_80_procs"] == pytest.approx(13.5, rel=0.15)
    assert row["efficiency_50_procs"] == pytest.approx(51, rel=0.15)
    assert row["time_optimal_procs"] is None, "Amdahl's law never turns"


def test_a_curve_that_rises_again_has_a_fastest_count() -> None:
    """T = 1000/n + n: least at 31.6 processors; efficiency 1001/(1000 + n^2), so 80% up to 15.8 and 50% up to 31.6."""
    rising = {n: 1000 / n + n for n in (1, 2, 4, 8, 16, 32, 64, 128)}
    row = scaled(observations_of({"a": rising}))[0]
    assert 24 <= row["time_optimal_procs"] <= 40
    assert row["efficiency_80_procs"] == pytest.approx(15.8, rel=0.15)
    assert row["efficiency_50_procs"] == pytest.approx(31.6, rel=0.15)


@pytest.mark.parametrize("largest", [16, 32, 64])
@pytest.mark.parametrize("least_at", [3, 5, 8, 11])
def test_a_curve_that_was_seen_to_rise_has_a_fastest_count_whatever_the_law(least_at: int, largest: int) -> None:
    """T = n* / n + n / n*: no law that is fitted rises again, so that the chosen one may be constant."""
    sizes = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= largest]
    rising = {n: 100 * (least_at / n + n / least_at) for n in sizes}
    (row,) = scaled(observations_of({"a": rising}))
    assert rising_s(row["time_optimal_procs"], least_at) < 1.1 * rising_s(least_at, least_at)
    assert row["law"] != "constant" or row["largest_useful_procs"] is None


def rising_s(n: float, least_at: float) -> float:
    return least_at / n + n / least_at


def test_intervals_of_wild_runs_stay_finite_and_in_order() -> None:
    wild = {1: 100_000.0, 2: 30.0, 4: 90_000.0, 8: 20.0}
    for row in predicted(observations_of({"a": wild}, n_jobs=2, log_sd=5.0), at=[1, 8, 32]):
        ends = [row[f"runtime_s{end}"] for end in ("_lo95", "_lo80", "", "_hi80", "_hi95")]
        assert ends[0] > 0 and ends == sorted(ends) and np.isfinite(ends[-1])
