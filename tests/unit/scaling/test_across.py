"""One problem size tells another's runtimes: moved shapes are recovered, different applications are told apart."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.scaling.fitted_series import fit_and_predict
from pipeline.scaling.problem_sizes import AcrossRules, across, predict_across, ratio_at_common
from pipeline.scaling.series import SeriesBatch
from pipeline.tables import ACROSS, GROUPS, OBSERVATIONS, PREDICTIONS

SETTINGS = AcrossRules()


def one_series(procs, runtime_s, rules):
    return SeriesBatch(np.array([0, procs.size]), procs, runtime_s, np.full(procs.size, rules.run_log_sd**-2))


PROCS = 2.0 ** np.arange(8)
SCALING = Path(__file__).parents[4] / "shared" / "data" / "scaling"


def curve(work_s: float, overhead_s: float, procs: np.ndarray = PROCS) -> np.ndarray:
    return work_s / procs + overhead_s * np.log2(2 * procs)


def pair(target_s: np.ndarray, base_s: np.ndarray | None = None, n_given: int = 2) -> tuple[SeriesBatch, SeriesBatch]:
    base = one_series(PROCS, curve(100.0, 4.0) if base_s is None else base_s, SETTINGS)
    return base, one_series(PROCS[:n_given], target_s[:n_given], SETTINGS)


def predicted(
    two: tuple[SeriesBatch, SeriesBatch], procs: np.ndarray, rules: AcrossRules = SETTINGS
) -> SimpleNamespace:
    return SimpleNamespace(**across(*two, procs, rules))


def test_a_common_shape_is_a_constant_ratio() -> None:
    one = predicted(pair(7 * curve(100.0, 4.0), n_given=5), PROCS)
    assert one.status == "same_shape"
    np.testing.assert_allclose(one.ratio_s, 7 * curve(100.0, 4.0), rtol=0.02)


def test_a_moving_shape_is_recovered_where_the_ratio_fails() -> None:
    """Work grows eightfold and overhead twofold: b = 1/3; simulated with 2% noise, over 40 pairs, two points given."""
    rng = np.random.default_rng(1)
    truth_s = curve(800.0, 8.0)
    noisy = [(curve(100.0, 4.0) * rng.lognormal(0, 0.02, 8), truth_s * rng.lognormal(0, 0.02, 8)) for _ in range(40)]
    found = [predicted(pair(target, base), PROCS[2:]) for base, target in noisy]
    apart = AcrossRules(same_prior=1e-9)
    alone = [predicted(pair(target, base), PROCS[2:], apart) for base, target in noisy]
    errors = {
        name: np.median([np.median(np.abs(getattr(one, name) / truth_s[2:] - 1)) for one in found])
        for name in ("runtime_s", "ratio_s")
    }
    errors["alone"] = np.median([np.median(np.abs(one.runtime_s / truth_s[2:] - 1)) for one in alone])
    assert errors["runtime_s"] < 0.75 * errors["alone"]
    assert errors["runtime_s"] < 0.5 * errors["ratio_s"]
    assert [one.status for one in found].count("shape_moves") == 40
    assert np.median([one.overhead_power for one in found]) == pytest.approx(1 / 3, abs=0.2)
    inside = [(one.runtime_s_lo95 <= truth_s[2:]) & (truth_s[2:] <= one.runtime_s_hi95) for one in found]
    assert np.mean(inside) >= 0.92


def test_more_points_make_narrower_intervals_and_tell_two_applications_apart() -> None:
    truth_s = curve(800.0, 8.0)
    few, more = (predicted(pair(truth_s, n_given=n), PROCS[6:]) for n in (2, 6))
    assert ((more.runtime_s_hi80 / more.runtime_s_lo80) < (few.runtime_s_hi80 / few.runtime_s_lo80)).all()
    assert predicted(pair(np.full(8, 50.0), n_given=7), PROCS).status == "two_applications"


def test_intervals_of_moved_shapes_cover_what_they_say() -> None:
    """Four kinds of overhead, b from 0 to 1, 5% noise; the curve borrowed is right about as often as not."""
    rng, given, truth = np.random.default_rng(5), [], []
    for _ in range(150):
        grown = (np.log2(2 * PROCS), np.sqrt(PROCS), np.ones(8), 1 + PROCS / 5)[rng.integers(4)]
        overhead_s, rho, fall = 100 * 10 ** rng.uniform(-3, -0.5), 2 ** rng.uniform(1, 4), rng.choice([0, 0, 0.2, 0.4])
        base_s = (100 / PROCS + overhead_s * grown) * rng.lognormal(0, 0.05, 8)
        target_s = 100 * rho / PROCS + overhead_s * rho ** rng.uniform(0, 1) * grown * PROCS**-fall
        target_s = target_s * rng.lognormal(0, 0.05, 8)
        given.append(pair(target_s, base_s))
        truth.append(target_s[2:])
    found = [predicted(one, PROCS[2:]) for one in given]
    for level, least, most in ((80, 0.75, 0.93), (95, 0.92, 1.0)):
        low_s, high_s = ([getattr(one, f"runtime_s_{end}{level}") for one in found] for end in ("lo", "hi"))
        inside = [(low <= t) & (t <= high) for low, high, t in zip(low_s, high_s, truth, strict=True)]
        assert least <= np.mean(inside) <= most


def test_a_smaller_problem_borrows_nothing_of_a_larger_one_but_a_rerun_of_the_same_one_does() -> None:
    """A larger base still scales where the smaller target is held up by overhead that the base does not show."""
    small_s, large_s = curve(100.0, 4.0), curve(800.0, 8.0)
    one = predicted(pair(small_s, large_s), PROCS[2:])
    assert one.status == "larger_base"
    np.testing.assert_allclose(one.runtime_s, one.own_s)
    assert ((one.runtime_s_lo80 < one.own_s) & (one.own_s < one.runtime_s_hi80)).all()
    again = predicted(pair(0.95 * large_s, large_s), PROCS[2:])
    assert again.status in ("same_shape", "shape_moves")


def test_one_run_of_a_size_is_answered_from_a_whole_other_size() -> None:
    truth_s = curve(800.0, 8.0)
    one = predicted(pair(truth_s, n_given=1), PROCS[1:])
    errors = np.abs(one.runtime_s / truth_s[1:] - 1), np.abs(one.own_s / truth_s[1:] - 1)
    assert errors[0].mean() < 0.5 * errors[1].mean()


def test_units_of_time_do_not_matter() -> None:
    for two in (pair(curve(800.0, 8.0)), pair(curve(300.0, 30.0))):
        one, in_minutes = (
            predicted(tuple(one._replace(runtime_s=one.runtime_s / unit) for one in two), PROCS) for unit in (1, 60)
        )
        np.testing.assert_allclose(in_minutes.runtime_s * 60, one.runtime_s, rtol=1e-6)


def test_the_ratio_is_that_at_the_smallest_common_count() -> None:
    target = one_series(PROCS[1:3], 2 * curve(100.0, 4.0)[1:3], SETTINGS)
    assert ratio_at_common(one_series(PROCS, curve(100.0, 4.0), SETTINGS), target) == pytest.approx(2.0)


def test_groups_that_differ_in_problem_size_alone_are_paired() -> None:
    names = ["base", "other", "size"]
    groups = GROUPS.build(
        group_id=names, site=["s"] * 3, template=["user+problem_size"] * 3, label=names, user=["u", "v", "u"],
        problem_size=["W", "A", "A"], n_jobs=[8, 2, 2], n_sizes=[8, 2, 2],
    )  # fmt: skip
    sizes = np.concatenate([PROCS, PROCS[:2], PROCS[:2]])
    observed = OBSERVATIONS.build(
        group_id=["base"] * 8 + ["other"] * 2 + ["size"] * 2,
        procs=sizes.astype(np.int64),
        n_jobs=np.ones(12, np.int64),
        runtime_s_median=np.concatenate([curve(100.0, 4.0), curve(9.0, 9.0)[:2], curve(800.0, 8.0)[:2]]),
    )
    table, report = predict_across(groups, observed, SETTINGS)
    assert set(table.column("group_id").to_pylist()) == {"size"}
    assert set(table.column("base_group_id").to_pylist()) == {"base"}
    assert table.column("procs").to_pylist() == PROCS.tolist()
    assert (report.kept.rows, report.set_aside["no_base"].rows) == (1, 2)
    assert report.facts == {"groups_shape_moves": 1}
    nothing, _ = predict_across(GROUPS.empty(), OBSERVATIONS.empty(), SETTINGS)
    assert nothing == ACROSS.empty()


def test_a_group_of_few_sizes_is_answered_from_the_other_size_where_it_did_not_run() -> None:
    ids = ["application=a problem_size=1", "application=a problem_size=8"]
    truth_s = curve(800.0, 8.0)
    observed = OBSERVATIONS.build(
        group_id=[ids[0]] * 8 + [ids[1]], procs=np.append(PROCS, 4).astype(np.int64), n_jobs=np.ones(9, np.int64),
        runtime_s_median=np.append(curve(100.0, 4.0), truth_s[2]),
    )  # fmt: skip
    tables = fit_and_predict(observed, [4, 16, 64], None)
    rows = [row for row in tables[PREDICTIONS.name].to_pylist() if row["group_id"] == ids[1]]
    assert [(row["procs"], row["method"]) for row in rows] == [(4, "observed"), (16, "across"), (64, "across")]
    assert np.abs(np.array([row["runtime_s"] for row in rows]) / truth_s[[2, 4, 6]] - 1).max() < 0.5
    assert all(row["runtime_s_lo95"] < row["runtime_s_lo80"] < row["runtime_s"] < row["runtime_s_hi80"] for row in rows)
    assert {row["method"] for row in tables[PREDICTIONS.name].to_pylist() if row["group_id"] == ids[0]} == {"average"}


@pytest.mark.shared
@pytest.mark.skipif(not SCALING.exists(), reason=f"{SCALING} is not there")
def test_measured_codes_gain_by_borrowing_and_intervals_hold_on_codes_left_out() -> None:
    """From one, two and three sizes, of ten codes and of six simulated ones."""
    from benchmarks.bench_across import covered, scored, summary

    rows, points = scored(SCALING, AcrossRules())
    found = summary(rows).reset_index()
    borrowing = found[found.borrows]
    assert len(borrowing) == 6 and (borrowing.published < borrowing.own).all()
    assert borrowing.published.sum() < 0.75 * borrowing.own.sum()
    assert (borrowing.better > 0.95 * borrowing.worse).all() and borrowing.better.sum() > 2 * borrowing.worse.sum()
    cells = covered(points)
    assert cells.in80.between(0.75, 0.9).all() and cells.in95.between(0.92, 0.99).all()


def test_two_applications_are_answered_by_the_targets_own_points() -> None:
    one = predicted(pair(np.full(8, 50.0), n_given=7), PROCS)
    np.testing.assert_array_equal(one.runtime_s, one.own_s)
