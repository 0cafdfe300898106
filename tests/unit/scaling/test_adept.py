"""ADEPT's parts one by one, and its search beside the exact fit."""

import numpy as np
import pytest

from pipeline.evaluate.scaling_errors import PREDICTORS, PredictionTask
from pipeline.laws import LAWS
from pipeline.scaling import adept
from pipeline.scaling.fit import fit_law
from pipeline.scaling.series import SeriesBatch


def curve(law, n, A, sigma):
    """In units of tau."""
    t1 = A if law == "downey_low" else A * (1 + sigma)
    return LAWS[law].runtime_s({"t1_s": t1, "avg_parallelism": A, "sigma": sigma}, np.asarray(n, float))


def boxes_of(n, t, delta):
    """The lower and the upper ends of (A, sigma, mode) of every box, in units of tau."""
    _, lows, highs = adept.envelope(np.asarray(n, float), np.asarray(t, float)[None], delta)
    return lows, highs


def one(n, t):
    return SeriesBatch(np.array([0, len(n)]), np.asarray(n, float), np.asarray(t, float), np.ones(len(n)))


def holds(boxes, A, sigma, is_high):
    lows, highs = boxes
    point = np.array([A, sigma, is_high])
    return ((lows <= point * (1 + 1e-9) + 1e-9) & (point <= highs * (1 + 1e-9) + 1e-9)).all(axis=1).any()


@pytest.mark.parametrize(
    ("law", "n", "A", "sigma"),
    [
        ("downey_low", (2, 8), 20.0, 0.5),  # both in piece 1
        ("downey_low", (8, 30), 20.0, 0.5),  # pieces 1 and 2
        ("downey_low", (24, 34), 20.0, 0.5),  # both in piece 2
        ("downey_high", (2, 30), 20.0, 3.0),  # both sloped
        ("downey_high", (30, 200), 20.0, 3.0),  # slope and plateau
    ],
)
def test_each_of_the_five_cases_finds_the_curve_through_two_points(law, n, A, sigma):
    lows, _ = boxes_of(n, curve(law, n, A, sigma), 1e-9)
    assert any(np.allclose(pair, (A, sigma), rtol=1e-5) for pair in lows[:, :2])


def test_the_envelope_holds_the_truth_when_every_runtime_is_off_by_no_more_than_delta():
    rng = np.random.default_rng(3)
    for _ in range(300):
        law = rng.choice(["downey_low", "downey_high"])
        A, sigma = rng.uniform(3, 60), rng.uniform(0.05, 1) if law == "downey_low" else rng.uniform(1.1, 6)
        n = np.sort(rng.choice(np.arange(1, int(2.5 * A)), 5, replace=False)).astype(float)
        t = curve(law, n, A, sigma) / (1 + rng.uniform(-0.05, 0.05, 5) * 0.99)
        # Two points off the plateau, or in high mode one there, are what a case needs
        bend = 2 * A - 1 if law == "downey_low" else A + A * sigma - sigma
        if (n < bend).sum() >= 2:
            assert holds(boxes_of(n, t, 0.06), A, sigma, law == "downey_high"), (law, A, sigma, n)


def test_sigma_is_clipped_to_its_mode():
    rng = np.random.default_rng(4)
    for _ in range(50):
        n = np.array([1.0, 3, 9, 20, 50])
        lows, highs = boxes_of(n, curve("downey_low", n, 30.0, 0.6) * np.exp(rng.normal(0, 0.2, 5)), 0.1)
        is_high = lows[:, 2] == 1
        assert (lows[~is_high, 1] >= 0).all() and (highs[~is_high, 1] <= 1).all() and (lows[is_high, 1] >= 1).all()
        assert (lows[:, 0] >= 1).all() and (lows <= highs).all()


def test_weights_fall_with_distance_to_the_target_and_are_1_where_there_is_none():
    w = adept.distance_weights(np.array([1.0, 4, 8]), np.array([1.0, 1, 10]), 16.0)
    assert w.tolist() == [15.0, 18.0, 220.0]
    assert adept.distance_weights(np.array([4.0]), np.ones(1), 4.0).tolist() == [1.0]


@pytest.mark.parametrize("law", ["downey_low", "downey_high"])
def test_the_search_is_never_below_the_exact_fit_and_close_to_it(law):
    rng, n = np.random.default_rng(6), np.array([1.0, 2, 4, 8, 16, 32, 64])
    for _ in range(5):
        t = curve(law, n, rng.uniform(5, 30), rng.uniform(0.1, 0.9) + (law == "downey_high"))
        batch = one(n, 100 * t * np.exp(rng.normal(0, 0.03, n.size)))
        found = adept.find(batch, np.zeros(1, np.int64), np.array([64.0]))
        w = adept.Q * 63 - (64 - n)
        weighted = SeriesBatch(batch.offsets, batch.procs, batch.runtime_s, w)
        exact = min(fit_law(mode, weighted).wssre[0] for mode in ("downey_low", "downey_high"))
        reached = (w * (1 - adept.runtime_s(found, n) / batch.runtime_s) ** 2).sum()
        assert exact * (1 - 1e-9) <= reached <= 1.5 * exact + 1e-3 * w.sum()


def test_one_target_and_many_take_the_same_path():
    rng, n = np.random.default_rng(7), np.array([1.0, 2, 4, 8])
    t = [100 * curve("downey_low", n, A, 0.5) * np.exp(rng.normal(0, 0.05, 4)) for A in (3.0, 6.0, 40.0)]
    batch = SeriesBatch(np.array([0, 4, 8, 12]), np.tile(n, 3), np.concatenate(t), np.ones(12))
    series, targets = np.array([2, 0, 1, 0]), np.array([16.0, 32.0, 16.0, 1.0])
    found = adept.find(batch, series, targets)
    for k, (i, target) in enumerate(zip(series, targets, strict=True)):
        alone = adept.find(one(n, t[i]), np.zeros(1, np.int64), np.array([target]))
        np.testing.assert_array_equal(alone[0], found[k])


def test_seconds_of_any_scale_give_the_same_curve():
    n = np.array([1.0, 2, 4, 8, 16])
    t = curve("downey_low", n, 6.0, 0.5)
    A = [adept.find(one(n, s * t), np.zeros(1, np.int64), np.array([32.0]))[0, adept.AVG] for s in (1e-3, 1e6)]
    assert A[0] == pytest.approx(6.0, rel=0.01)
    assert A[1] == pytest.approx(A[0], rel=1e-3)


def test_what_cannot_be_found_is_nan():
    n = np.array([1.0, 2, 4])
    for t in ([4.0, 2.0], [4.0, np.nan, 2.0], [1.0, 30.0, 900.0]):
        batch = one(n[: len(t)], t)
        assert np.isnan(adept.find(batch, np.zeros(1, np.int64), np.array([4.0]))).all()
    gaps = SeriesBatch(np.array([0, 0, 3]), n, 12 / n, np.ones(3))
    found = adept.runtime_s(adept.find(gaps, np.arange(2), np.array([1.0, 4.0])), np.array([1.0, 4.0]))
    assert np.isnan(found[0]) and np.isfinite(found[1])


def test_every_law_is_a_predictor_and_follows_its_own_curve():
    n, targets = np.array([1.0, 2, 4, 8, 16]), np.array([1.0, 8, 64, 512])
    asked = PredictionTask(SeriesBatch(np.array([0, 5]), n, 90 / n + 10, np.ones(5)), np.zeros(1, np.int64), np.ones(5),
                  np.full(5, np.nan), np.zeros(4, np.int64), targets)  # fmt: skip
    assert set(PREDICTORS) == {"average", "walltime", *LAWS, "downey", "adept"}
    for name in ("amdahl", "dowdy", "usl", "amdahl_log"):
        np.testing.assert_allclose(PREDICTORS[name](asked), 90 / targets + 10, rtol=1e-9)
    for name, predictor in PREDICTORS.items():
        assert predictor(asked).shape == (4,), name
