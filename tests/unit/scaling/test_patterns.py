"""Steps, favoured processor counts and declines: found where planted, taken out before the fit and put back."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.scaling.fitted_series import fit_and_predict
from pipeline.scaling.screens import CLASSES, ScreenRules, find_patterns, level, screen, unlevel
from pipeline.tables import OBSERVATIONS, PREDICTIONS
from tools.simulation.series import as_observations, clean_series

PROCS = 2.0 ** np.arange(10)
MIXED = np.array([4.0, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
SQUARE = np.array([4.0, 6, 9, 12, 16, 20, 25, 30, 36, 49, 64])


def patterns_of(procs: np.ndarray, runtime_s: np.ndarray, **settings: object) -> pa.Table:
    observed = as_observations(procs, runtime_s, 0.02)
    return find_patterns(observed, ScreenRules(**settings))[0]


def rows_of(table: pa.Table, pattern: str, n_series: int) -> list[dict]:
    return [row for row in table.to_pylist() if row["pattern"] == pattern and row["step"] == 1][:n_series]


def noisy(n_series: int, procs: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    clean_s, _ = clean_series(rng, n_series, procs)
    return clean_s * np.exp(0.02 * rng.standard_normal(clean_s.shape))


def share_found(table: pa.Table, pattern: str, n_series: int) -> float:
    return float(np.mean([row["status"] == "found" for row in rows_of(table, pattern, n_series)]))


@pytest.mark.parametrize(("name", "procs"), [("powers_of_two", MIXED), ("squares", SQUARE)])
def test_favoured_counts_are_found_at_two_percent_noise(name: str, procs: np.ndarray) -> None:
    runtime_s = noisy(200, procs, seed=1)
    slower_s = runtime_s * np.where(CLASSES[name](procs), 1.0, 1.2)
    table = patterns_of(procs, slower_s)
    assert share_found(table, name, 200) >= 0.95
    assert share_found(patterns_of(procs, runtime_s), name, 200) <= 0.05
    factors = [row["factor"] for row in rows_of(table, name, 200) if row["status"] == "found"]
    assert np.median(factors) == pytest.approx(1.2, rel=0.02)


@pytest.mark.slow
def test_steps_of_a_factor_of_two_are_found_at_two_percent_noise_and_at_the_right_size() -> None:
    runtime_s = noisy(300, PROCS, seed=2)
    place = np.random.default_rng(3).integers(3, 8, 300)
    stepped_s = runtime_s / np.where(np.arange(10) >= place[:, None], 2.0, 1.0)
    rows = rows_of(patterns_of(PROCS, stepped_s), "stepwise", 300)
    found = [row["status"] == "found" for row in rows]
    assert np.mean(found) >= 0.95
    right = [row["from_procs"] == PROCS[at] for row, at in zip(rows, place, strict=True) if row["status"] == "found"]
    assert np.mean(right) >= 0.95
    assert share_found(patterns_of(PROCS, runtime_s), "stepwise", 300) <= 0.05


@pytest.mark.slow
def test_small_gains_and_declines_are_found_at_one_percent_false_alarms() -> None:
    """The fine grid's worth: with the coarse one alone 70% of steps of 1.2 and 93% of declines are found."""
    rng = np.random.default_rng(8)
    clean_s, _ = clean_series(rng, 250, PROCS)
    runtime_s = clean_s * np.exp(0.02 * rng.standard_normal(clean_s.shape))
    place = rng.integers(3, 8, 250)
    stepped_s = runtime_s / np.where(np.arange(10) >= place[:, None], 1.2, 1.0)
    assert share_found(patterns_of(PROCS, stepped_s), "stepwise", 250) >= 0.82
    clean = patterns_of(PROCS, runtime_s)
    assert share_found(clean, "stepwise", 250) <= 0.015
    declines = np.array([row["status"] == "found" for row in rows_of(clean, "declining", 250)])
    rise = clean_s[:, -1] / clean_s.min(axis=1)
    assert declines[rise > 1.1].mean() >= 0.95
    assert declines[rise == 1.0].mean() <= 0.01


def test_a_small_gain_is_no_step_where_nothing_tells_the_noise() -> None:
    """A gain of 1.15 is a step where a log's repeats spread by 2%; without repeats it may be noise."""
    stepped_s = (1000 * (0.01 + 0.99 / PROCS) / np.where(PROCS >= 32, 1.15, 1.0))[None, :]
    alone = as_observations(PROCS, stepped_s)
    patterns, _ = find_patterns(alone, ScreenRules())
    assert rows_of(patterns, "stepwise", 1)[0]["status"] == "not_found"
    assert rows_of(patterns_of(PROCS, stepped_s), "stepwise", 1)[0]["status"] == "found"


@pytest.mark.slow
@pytest.mark.parametrize("starts", [(3, 6), (3, 7), (4, 7), (4, 8)])
@pytest.mark.parametrize("gain", [1.3, 2.0])
def test_three_phases_of_three_to_four_sizes_are_found(starts: tuple[int, int], gain: float) -> None:
    """Sought one by one, either step may hide the other."""
    procs = 2.0 ** np.arange({(3, 6): 9, (3, 7): 10, (4, 7): 10, (4, 8): 12}[starts])
    runtime_s = noisy(30, procs, seed=9)
    faster = gain ** np.searchsorted(starts, np.arange(procs.size), side="right")
    table = patterns_of(procs, runtime_s / faster)
    steps = [row for row in table.to_pylist() if row["pattern"] == "stepwise" and row["status"] == "found"]
    first = {row["group_id"]: [] for row in steps}
    for row in steps:
        first[row["group_id"]].append(row["from_procs"])
    both = [one == [procs[at] for at in starts] for one in first.values()]
    assert sum(both) >= 0.85 * 30
    assert np.median([row["factor"] for row in steps]) == pytest.approx(1 / gain, rel=0.05)


def test_a_second_step_is_a_row_of_its_own() -> None:
    procs = 2.0 ** np.arange(12)
    phases = np.where(procs >= 16, 1 / 2.0, 1.0) * np.where(procs >= 256, 1 / 1.8, 1.0)
    table = patterns_of(procs, (1000 * (0.01 + 0.99 / procs) * phases)[None, :])
    steps = [row for row in table.to_pylist() if row["pattern"] == "stepwise" and row["status"] == "found"]
    assert sorted(row["step"] for row in steps) == [1, 2]
    factors = {row["from_procs"]: row["factor"] for row in steps}
    assert factors == pytest.approx({16: 0.5, 256: 1 / 1.8}, rel=0.05)


def test_the_declining_piece_is_found_where_it_begins() -> None:
    rising_s = (100 / PROCS + 0.4 * PROCS)[None, :]
    row = rows_of(patterns_of(PROCS, rising_s), "declining", 1)[0]
    assert (row["status"], row["from_procs"]) == ("found", 16)
    assert row["words"] == "More than 16 processors would make it slower: request at most 16."
    rising_at_once = rows_of(patterns_of(PROCS, (1 + PROCS)[None, :]), "declining", 1)[0]
    assert rising_at_once["words"] == "More than 1 processor would make it slower: request at most 1."
    falling_s = (100 / PROCS + 0.1)[None, :]
    assert rows_of(patterns_of(PROCS, falling_s), "declining", 1)[0]["status"] == "not_found"


def test_counts_beyond_a_decline_are_advised_by_it() -> None:
    """No law declines: that the nearest one misses some count by far says nothing of the runs."""
    procs = PROCS[:8]
    tables = fit_and_predict(
        as_observations(procs, (40 + 5 * procs**0.8)[None, :], 0.02).slice(0, 8), [1, 64, 256], None
    )
    advice = {row["procs"]: row["advice"] for row in tables["predictions"].to_pylist()}
    assert advice[64] == advice[256] == "More than 1 processor would make it slower: request at most 1." != advice[1]


@pytest.mark.parametrize(("least_s", "n_sizes"), [(20, 4), (20, 8), (200, 10)])
def test_no_count_is_advised_that_was_slower_than_a_smaller_one(least_s: float, n_sizes: int) -> None:
    """No law rises from its first processor on, so the average of those that fit turns later."""
    procs = PROCS[:n_sizes]
    observed = as_observations(procs, (least_s + procs)[None, :])
    row = rows_of(find_patterns(observed, ScreenRules())[0], "declining", 1)[0]
    assert row["words"] == "More than 1 processor would make it slower: request at most 1."


def test_constraints_are_said() -> None:
    squares = np.array([4.0, 9, 16, 25, 36, 49])
    table = patterns_of(squares, 100 / squares[None, :])
    words = {row["pattern"]: (row["status"], row["words"]) for row in table.to_pylist()[:4]}
    assert words["squares"][0] == "one_class_only"
    assert words["squares"][1] == "All measured counts are squares; runtimes at other counts are interpolated."
    slower_s = (100 / SQUARE * np.where(CLASSES["squares"](SQUARE), 1.0, 1.3))[None, :]
    row = rows_of(patterns_of(SQUARE, slower_s), "squares", 1)[0]
    assert row["words"] == "Run on 4, 9, 16, 25, 36, ...: other counts take 1.30 times as long."


def test_too_few_points_are_said() -> None:
    table = patterns_of(PROCS[:3], 100 / PROCS[None, :3])
    assert {row["status"] for row in table.to_pylist()} == {"too_few_points"}
    five = {row["pattern"]: row["status"] for row in patterns_of(PROCS[:5], 100 / PROCS[None, :5]).to_pylist()[:4]}
    assert (five["stepwise"], five["declining"]) == ("too_few_points", "not_found")
    assert find_patterns(OBSERVATIONS.empty(), ScreenRules())[0].num_rows == 0


def test_order_of_rows_does_not_matter() -> None:
    runtime_s = noisy(30, MIXED, seed=5) * np.where(CLASSES["powers_of_two"](MIXED), 1.0, 1.2)
    observed = as_observations(MIXED, runtime_s, 0.02)
    shuffled = observed.take(pa.array(np.random.default_rng(0).permutation(observed.num_rows)))
    whole, again = (find_patterns(one, ScreenRules())[0] for one in (observed, shuffled))
    assert whole == again


def test_an_odd_size_of_a_stepped_series_is_told_from_the_step() -> None:
    runtime_s = (1000 * (0.01 + 0.99 / PROCS) * np.where(PROCS >= 32, 0.5, 1.0))[None, :]
    runtime_s[0, 2] *= 1.3
    observed = as_observations(PROCS, runtime_s, 0.02)
    patterns, _ = find_patterns(observed, ScreenRules())
    table, _ = screen(observed, patterns, ScreenRules())
    rows = {row["procs"]: row for row in table.to_pylist()[:10]}
    assert [procs for procs, row in rows.items() if row["odd"]] == [4]
    assert rows[4]["expected_s"] == pytest.approx(1000 * (0.01 + 0.99 / 4), rel=0.05)


def test_levelling_leaves_one_curve_and_is_undone_in_predictions() -> None:
    curve_s = 1000 * (0.01 + 0.99 / PROCS)
    stepped_s = curve_s * np.where(PROCS >= 32, 1.0, 2.0)
    observed = as_observations(PROCS, stepped_s[None, :], 0.02)
    patterns, _ = find_patterns(observed, ScreenRules())
    levelled, report = level(observed, patterns)
    medians = np.array(levelled.column("runtime_s_median").to_pylist()[:10])
    np.testing.assert_allclose(medians / curve_s, (medians / curve_s)[-1], rtol=0.03)
    assert report.facts["observations_levelled"] == 5
    speedup = medians[0] / medians
    ends = dict.fromkeys(("runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95"), medians)
    predicted = PREDICTIONS.build(
        group_id=["g000000"] * 10,
        procs=PROCS.astype(np.int64),
        runtime_s=medians,
        speedup=speedup,
        efficiency=speedup / PROCS,
        is_extrapolated=np.zeros(10, bool),
        method=["amdahl"] * 10,
        reliability=["ok"] * 10,
        run_id=["0"] * 10,
        **ends,
    )
    table = unlevel(predicted, patterns)
    for name in ("runtime_s", *ends):
        np.testing.assert_allclose(table.column(name), stepped_s)
    np.testing.assert_allclose(table.column("speedup"), stepped_s[0] / stepped_s)
    np.testing.assert_allclose(table.column("efficiency"), stepped_s[0] / stepped_s / PROCS)
    untouched = unlevel(predicted, patterns.slice(0, 0))
    assert untouched == predicted


def test_a_group_whose_repeats_spread_widely_is_left_alone() -> None:
    """Different work on different counts is no decline."""
    rising_s = 100 / PROCS + 0.4 * PROCS
    observed = as_observations(PROCS, rising_s[None, :], 0.02).slice(0, 10)
    spread = pa.array(np.full(10, 0.8))
    for name, values in (("log_sd", spread), ("n_jobs", pa.array(np.full(10, 4)))):
        place = observed.column_names.index(name)
        observed = observed.set_column(place, observed.schema.field(name), values)
    table, _ = find_patterns(observed, ScreenRules())
    assert {row["status"] for row in table.to_pylist()} == {"wide_group"}
    assert screen(observed, table, ScreenRules())[1].facts["series_screened"] == 0
