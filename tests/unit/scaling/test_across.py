"""One problem size tells another's runtimes: moved shapes are recovered, different applications are told apart."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.scaling.problem_sizes import SizePair, across, predict_across, ratio_at_common
from pipeline.scaling.rules import AcrossRules
from pipeline.tables import ACROSS, GROUPS, OBSERVATIONS

SETTINGS = AcrossRules()
PROCS = 2.0 ** np.arange(8)
RUNS = Path(__file__).parents[4] / "shared" / "data" / "scaling" / "npb-smpi" / "runs.csv"


def curve(work_s: float, overhead_s: float, procs: np.ndarray = PROCS) -> np.ndarray:
    return work_s / procs + overhead_s * np.log2(2 * procs)


def pair(target_s: np.ndarray, base_s: np.ndarray | None = None, n_given: int = 2) -> SizePair:
    return SizePair(PROCS, curve(100.0, 4.0) if base_s is None else base_s, PROCS[:n_given], target_s[:n_given])


def test_a_common_shape_is_a_constant_ratio() -> None:
    one = across([pair(7 * curve(100.0, 4.0), n_given=5)], [PROCS], SETTINGS)[0]
    assert one.status(SETTINGS) == "same_shape"
    np.testing.assert_allclose(one.ratio_s, 7 * curve(100.0, 4.0), rtol=1e-6)


def test_a_moving_shape_is_recovered_where_the_ratio_fails() -> None:
    """Work grows eightfold and overhead twofold: b = 1/3; simulated with 2% noise, over 40 pairs, two points given."""
    rng = np.random.default_rng(1)
    truth_s = curve(800.0, 8.0)
    noisy = [(curve(100.0, 4.0) * rng.lognormal(0, 0.02, 8), truth_s * rng.lognormal(0, 0.02, 8)) for _ in range(40)]
    found = across([pair(target, base) for base, target in noisy], [PROCS[2:]] * 40, SETTINGS)
    apart = AcrossRules(same_prior=1e-9)
    alone = across([pair(target, base) for base, target in noisy], [PROCS[2:]] * 40, apart)
    errors = {
        name: np.median([np.median(np.abs(getattr(one, name) / truth_s[2:] - 1)) for one in found])
        for name in ("runtime_s", "ratio_s")
    }
    errors["alone"] = np.median([np.median(np.abs(one.runtime_s / truth_s[2:] - 1)) for one in alone])
    assert errors["runtime_s"] < 0.75 * errors["alone"]
    assert errors["runtime_s"] < 0.5 * errors["ratio_s"]
    assert [one.status(SETTINGS) for one in found].count("shape_moves") == 40
    assert np.median([one.power for one in found]) == pytest.approx(1 / 3, abs=0.2)
    inside = [(one.lo95_s <= truth_s[2:]) & (truth_s[2:] <= one.hi95_s) for one in found]
    assert np.mean(inside) >= 0.92


def test_more_points_make_narrower_intervals_and_tell_two_applications_apart() -> None:
    truth_s = curve(800.0, 8.0)
    few, more = (across([pair(truth_s, n_given=n)], [PROCS[6:]], SETTINGS)[0] for n in (2, 6))
    assert ((more.hi80_s / more.lo80_s) < (few.hi80_s / few.lo80_s)).all()
    assert across([pair(np.full(8, 50.0), n_given=7)], [PROCS], SETTINGS)[0].status(SETTINGS) == "two_applications"


def test_agreement_narrows_intervals_about_the_same_median_and_more_the_surer_the_sizes_are_one() -> None:
    truth_s = curve(800.0, 8.0)
    plain, narrow = (across([pair(truth_s)], [PROCS[2:]], AcrossRules(agreement=share))[0] for share in (0.0, 0.7))
    np.testing.assert_array_equal(plain.runtime_s, narrow.runtime_s)
    for end in ("lo80_s", "hi80_s", "lo95_s", "hi95_s"):
        half, left = (np.log(getattr(one, end) / one.runtime_s) for one in (plain, narrow))
        np.testing.assert_allclose(left, (1 - 0.7 * plain.same) * half)


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
    found = across(given, [PROCS[2:]] * len(given), SETTINGS)
    for low, high, least, most in (("lo80_s", "hi80_s", 0.75, 0.88), ("lo95_s", "hi95_s", 0.91, 0.99)):
        inside = [(getattr(one, low) <= t) & (t <= getattr(one, high)) for one, t in zip(found, truth, strict=True)]
        assert least <= np.mean(inside) <= most


def test_a_smaller_problem_borrows_nothing_of_a_larger_one_but_a_rerun_of_the_same_one_does() -> None:
    """A larger base still scales where the smaller target is held up by overhead that the base does not show."""
    small_s, large_s = curve(100.0, 4.0), curve(800.0, 8.0)
    one = across([pair(small_s, large_s)], [PROCS[2:]], SETTINGS)[0]
    assert one.status(SETTINGS) == "larger_base"
    np.testing.assert_allclose(one.runtime_s, one.own_s)
    assert ((one.lo80_s < one.own_s) & (one.own_s < one.hi80_s)).all()
    loose = AcrossRules(is_guarded=False)
    other = across([pair(small_s, large_s)], [PROCS[2:]], loose)[0]
    assert other.status(loose) != "larger_base"
    assert (np.log(other.hi80_s / other.lo80_s) < np.log(one.hi80_s / one.lo80_s)).all()
    again = across([pair(0.95 * large_s, large_s)], [PROCS[2:]], SETTINGS)[0]
    assert again.status(SETTINGS) in ("same_shape", "shape_moves")


def test_too_few_points_predict_nothing() -> None:
    short = SizePair(PROCS[:3], PROCS[:3], PROCS[:2], PROCS[:2])
    single = pair(curve(800.0, 8.0), n_given=1)
    for one in across([short, single], [PROCS, PROCS], SETTINGS):
        assert one.status(SETTINGS) == "too_few_points"
        assert np.isnan(one.runtime_s).all()


def test_units_of_time_and_order_of_pairs_do_not_matter() -> None:
    pairs = [pair(curve(800.0, 8.0)), pair(curve(300.0, 30.0))]
    found = across(pairs, [PROCS, PROCS], SETTINGS)
    again = across(pairs[::-1], [PROCS, PROCS], SETTINGS)[::-1]
    in_minutes = across([SizePair(p.base_procs, p.base_s / 60, p.target_procs, p.target_s / 60) for p in pairs],
                        [PROCS, PROCS], SETTINGS)  # fmt: skip
    for one, other, minutes in zip(found, again, in_minutes, strict=True):
        np.testing.assert_array_equal(one.runtime_s, other.runtime_s)
        np.testing.assert_allclose(minutes.runtime_s * 60, one.runtime_s, rtol=1e-6)


def test_the_ratio_is_that_at_the_smallest_common_count() -> None:
    given = SizePair(PROCS, curve(100.0, 4.0), PROCS[1:3], 2 * curve(100.0, 4.0)[1:3])
    assert ratio_at_common(given, 0.07) == pytest.approx(2.0)


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


@pytest.mark.shared
@pytest.mark.skipif(not RUNS.exists(), reason=f"{RUNS} is not there")
def test_nas_kernels_across_classes_beat_the_targets_own_default_and_the_ratio() -> None:
    """Of 35 pairs at most one is more than 2 points worse than what the target's own two points give by default."""
    from benchmarks.bench_across import scored, size_pairs

    rows = scored(size_pairs(RUNS))
    for target in ("A", "W"):
        chosen = [row for row in rows if f" {target} from" in row["pair"]]
        published, own, ratio = (np.median([row[name] for row in chosen]) for name in ("published", "own", "ratio"))
        assert published < 0.75 * own < ratio
    assert len(rows) == 35
    assert sum(row["published"] > row["own"] + 2 for row in rows) <= 1
    assert np.mean([row["published"] for row in rows]) < 0.6 * np.mean([row["own"] for row in rows])
    assert all((row["ratio"] > 25) == (row["status"] != "same_shape") for row in rows)
    assert np.mean([row["inside80"] for row in rows]) >= 0.8
    assert np.mean([row["inside95"] for row in rows]) >= 0.95
    assert np.mean([row["width80"] for row in rows]) < 1.1


def test_a_gain_that_neither_size_shows_is_held_back() -> None:
    """The base takes longest in the middle and the target hardly gains; the joint fit promises half the runtime."""
    base_s = np.array([0.24, 0.45, 0.59, 0.64, 0.62, 0.58, 0.58, 0.58])
    given = SizePair(PROCS, base_s, PROCS[:2], np.array([0.86, 0.90]))
    free = across([given], [PROCS[2:]], AcrossRules(own_share=0, is_guarded=False))[0]
    held = across([given], [PROCS[2:]], SETTINGS)[0]
    assert free.runtime_s[-1] < 0.75 * free.own_s[-1]
    np.testing.assert_allclose(held.runtime_s, held.own_s, rtol=0.2)
    assert (held.runtime_s > free.runtime_s).all()
    np.testing.assert_allclose(held.hi80_s / held.lo80_s, free.hi80_s / free.lo80_s)


def test_two_applications_are_answered_by_the_targets_own_points() -> None:
    one = across([pair(np.full(8, 50.0), n_given=7)], [PROCS], SETTINGS)[0]
    np.testing.assert_array_equal(one.runtime_s, one.own_s)
