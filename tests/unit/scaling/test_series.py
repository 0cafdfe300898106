"""Batches of series, and repeats merged without loss."""

import numpy as np
import pytest

from pipeline.scaling.solvers.series import SeriesBatch, merged_series


def test_arrays_that_do_not_fit_together_are_refused():
    three = np.ones(3)
    for offsets in ([0, 2], [1, 3], [0, 2, 1, 3], []):
        with pytest.raises(ValueError, match="offsets"):
            SeriesBatch(np.array(offsets, np.int64), three, three, three)
    with pytest.raises(ValueError, match="one length"):
        SeriesBatch(np.array([0, 3]), three, three, np.ones(2))
    with pytest.raises(ValueError, match="float64"):
        SeriesBatch(np.array([0, 3]), np.ones(3, np.int64), three, three)


def test_merging_repeats_changes_the_objective_by_the_constant_alone():
    rng = np.random.default_rng(3)
    series, procs = rng.integers(0, 4, 200), 2.0 ** rng.integers(0, 5, 200)
    runtime_s, weights = np.exp(rng.normal(5, 1, 200)), rng.exponential(1, 200)
    batch, lost = merged_series(5, series, procs, runtime_s, weights)
    assert batch.n_points.tolist() == [5, 5, 5, 5, 0]
    for _ in range(5):
        curve = dict(zip(2.0 ** np.arange(5), np.exp(rng.normal(5, 1, 5)), strict=True))
        for i in range(5):
            mine, part = series == i, slice(batch.offsets[i], batch.offsets[i + 1])
            loose = sum(
                w * (1 - curve[n] / t) ** 2 for n, t, w in zip(procs[mine], runtime_s[mine], weights[mine], strict=True)
            )
            t_eff, w_eff = batch.runtime_s[part], batch.weights[part]
            merged = sum(w * (1 - curve[n] / t) ** 2 for n, t, w in zip(batch.procs[part], t_eff, w_eff, strict=True))
            assert loose == pytest.approx(merged + lost[i], rel=1e-12)


def test_a_single_run_is_kept_to_the_bit_and_the_order_of_runs_does_not_matter():
    rng = np.random.default_rng(4)
    series, procs = np.repeat([0, 1], 20), np.tile(np.repeat([1.0, 2, 4, 8], 5), 2)
    runtime_s, weights = np.exp(rng.normal(0, 1, 40)), rng.exponential(1, 40)
    first, _ = merged_series(2, series, procs, runtime_s, weights)
    order = rng.permutation(40)
    again, _ = merged_series(2, series[order], procs[order], runtime_s[order], weights[order])
    for column in ("offsets", "procs", "runtime_s", "weights"):
        np.testing.assert_array_equal(getattr(first, column), getattr(again, column))
    alone, lost = merged_series(1, np.zeros(1, np.int64), np.ones(1), np.array([0.1]), np.array([0.3]))
    assert (alone.runtime_s[0], alone.weights[0], lost[0]) == (0.1, 0.3, 0.0)


def test_one_bad_run_makes_its_size_bad_and_no_run_at_all_is_no_size():
    procs, runtime_s = np.array([1.0, 1, 2]), np.array([1.0, -1, 1])
    batch, _ = merged_series(1, np.zeros(3, np.int64), procs, runtime_s, np.ones(3))
    assert np.isnan(batch.runtime_s).tolist() == [True, False]
    empty, lost = merged_series(2, np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))
    assert (empty.n_series, empty.procs.size, lost.tolist()) == (2, 0, [0.0, 0.0])
