"""Phases of planted programs: known clusters, the BIC by its definition, and the tables of the room."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from benchmarks.probe_figures import adjusted_rand_index, predicted
from pipeline.errors import InputError
from pipeline.phases.blocks import (
    Clustering,
    FrequencyVectors,
    choose,
    cluster,
    cluster_intervals,
    find_probe_phases,
    project,
    read_frequency_vectors,
    removal_curve,
    spherical_bic,
)
from pipeline.phases.phase_input import PhaseRules, ProbeRules

SIZE = 10_000


def planted(labels: np.ndarray, n_blocks: int, seed: int, last: int = SIZE) -> FrequencyVectors:
    """A run whose phases execute different blocks in shares of their own, with the noise of counting."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(n_blocks, 0.2), labels.max() + 1)
    sizes = np.full(len(labels), SIZE)
    sizes[-1] = last
    counts = np.array([rng.multinomial(size, shares[label]) for size, label in zip(sizes, labels, strict=True)])
    rows, blocks = np.nonzero(counts)
    first = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(labels)))))
    count = counts[rows, blocks].astype(float)
    return FrequencyVectors("run.bb", first, blocks.astype(np.int32), count, np.arange(n_blocks), 0)


def alternating(n: int, n_phases: int, seed: int) -> np.ndarray:
    """Stretches of random lengths, with every phase at least once."""
    rng = np.random.default_rng(seed)
    found = list(range(n_phases))
    while len(found) < n:
        found += [int(rng.integers(n_phases))] * int(rng.integers(3, 12))
    return np.array(found[:n])


@pytest.mark.parametrize("n_phases", [2, 4, 7, 11])
def test_planted_phases_are_found(n_phases: int) -> None:
    labels = alternating(300, n_phases, seed=n_phases)
    found = cluster_intervals(planted(labels, 80, seed=n_phases), ProbeRules())
    assert adjusted_rand_index(found.labels, labels) > 0.99
    assert found.weights.sum() == pytest.approx(1)


def test_phases_are_numbered_by_first_interval_and_repeat_with_the_seed() -> None:
    vectors = planted(alternating(200, 5, seed=3), 60, seed=3)
    one, other = (cluster_intervals(vectors, ProbeRules(seed=4)) for _ in range(2))
    firsts = [int(np.argmax(one.labels == phase)) for phase in range(len(one.weights))]
    assert firsts == sorted(firsts) and one.labels[0] == 0
    assert one.labels.tobytes() == other.labels.tobytes() and one.bic_by_k == other.bic_by_k


def test_the_shorter_last_interval_represents_nothing() -> None:
    labels = np.array([0, 1] * 40 + [2])
    vectors = planted(labels, 60, seed=5, last=SIZE // 50)
    found = cluster_intervals(vectors, ProbeRules())
    assert vectors.last_is_shorter and len(labels) - 1 not in found.representatives
    for phase, chosen in enumerate(found.representatives):
        assert chosen == -1 or found.labels[chosen] == phase
    whole = planted(labels, 60, seed=5)
    assert not whole.last_is_shorter
    assert len(labels) - 1 in cluster_intervals(whole, ProbeRules()).representatives


def test_points_do_not_depend_on_the_length_of_an_interval() -> None:
    vectors = planted(alternating(50, 3, seed=1), 40, seed=1)
    scaled = FrequencyVectors("", vectors.first_entry, vectors.block, vectors.count * 3, vectors.block_ids, 0)
    assert np.allclose(project(vectors, 15, 0), project(scaled, 15, 0))


def test_projected_distances_are_in_proportion_to_the_true_ones() -> None:
    vectors = planted(alternating(60, 6, seed=2), 400, seed=2)
    few, all_blocks = project(vectors, 200, 0), project(vectors, 400, 0)
    true, seen = (np.linalg.norm(points[:6, None] - points[None, :6], axis=2) for points in (all_blocks, few))
    ratios = seen[np.triu_indices(6, 1)] / true[np.triu_indices(6, 1)]
    assert ratios.std() / ratios.mean() < 0.1 and ratios.mean() == pytest.approx(math.sqrt(200 / 3), rel=0.1)


def test_bic_is_the_likelihood_of_spherical_gaussians_less_the_penalty() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 1, (40, 3)), rng.normal(9, 1, (60, 3))])
    found = cluster(points, 2, 3, 50, rng)
    n, k, d = 100, 2, 3
    sizes = np.bincount(found.labels)
    variance = found.squared_error / (d * (n - k))
    likelihood = sum(
        math.log(sizes[label] / n) + multivariate_normal.logpdf(point, found.centres[label], variance)
        for point, label in zip(points, found.labels, strict=True)
    )
    assert found.bic == pytest.approx(likelihood - (k - 1 + k * d + 1) / 2 * math.log(n))


def test_bic_of_exact_clusters_is_finite() -> None:
    assert math.isfinite(spherical_bic(np.array([3, 4]), 0.0, 15))


def test_the_least_number_of_phases_near_the_best_bic_is_taken() -> None:
    runs = [Clustering(np.zeros(1, np.int64), np.zeros((1, 1)), 0.0, bic) for bic in (0.0, 89.0, 90.0, 100.0, 95.0)]
    assert choose(runs, 0.9) is runs[2] and choose(runs, 0.0) is runs[0] and choose(runs, 1.0) is runs[3]


def test_there_are_no_more_clusters_than_distinct_points() -> None:
    block = np.repeat(np.arange(3), 10)
    vectors = FrequencyVectors("", np.arange(31), block.astype(np.int32), np.full(30, 7.0), np.arange(3), 0)
    found = cluster_intervals(vectors, ProbeRules())
    assert len(found.bic_by_k) == 3 and found.labels.tolist() == block.tolist()
    one = FrequencyVectors("", np.arange(2), block[:1].astype(np.int32), np.full(1, 7.0), np.arange(3), 0)
    assert len(cluster_intervals(one, ProbeRules()).bic_by_k) == 1


def test_more_restarts_give_no_larger_error() -> None:
    points = np.random.default_rng(8).normal(size=(300, 4))
    errors = [cluster(points, 12, restarts, 100, np.random.default_rng(1)).squared_error for restarts in (1, 5, 20)]
    assert errors[0] >= errors[1] >= errors[2]


def test_tables_hold_every_interval_once_and_all_the_time() -> None:
    labels = alternating(120, 4, seed=9)
    vectors = planted(labels, 50, seed=9, last=SIZE // 3)
    times_s = np.random.default_rng(9).uniform(0.01, 0.02, len(labels))
    phases, points, report = find_probe_phases(vectors, "run", PhaseRules(), times_s)
    assert report.check().seen.rows == 120
    assert sum(phases.column("n_occurrences").to_pylist()) == points.num_rows == 120
    assert sum(phases.column("time_s").to_pylist()) == pytest.approx(times_s.sum(), rel=1e-12)
    assert sum(phases.column("share").to_pylist()) == pytest.approx(1, rel=1e-12)
    assert sorted(points.column("position").to_pylist()) == list(range(120))
    ordered = points.sort_by("position")
    assert ordered.column("from_event").to_pylist()[1:] == ordered.column("to_event").to_pylist()[:-1]
    assert ordered.column("to_event").to_pylist()[-1] == vectors.totals.sum()
    spans = np.subtract(ordered.column("t_end_s").to_pylist(), ordered.column("t_start_s").to_pylist())
    assert np.allclose(spans, times_s)
    last = ordered.column("phase_id").to_pylist()[-1]
    assert phases.filter(phases.column("phase_id").to_numpy() == last).column("n_occurrences").to_pylist() == [1]


def test_without_times_shares_are_of_executions_and_times_null() -> None:
    vectors = planted(alternating(90, 3, seed=2), 50, seed=2)
    phases, points, report = find_probe_phases(vectors, "run", PhaseRules(), None)
    assert phases.column("time_s").null_count == phases.num_rows
    assert points.column("t_end_s").null_count == points.num_rows
    assert phases.column("share").to_pylist() == pytest.approx(
        [n / 90 for n in phases.column("n_occurrences").to_pylist()]
    )
    assert report.facts["runtime_s"] is None


def test_times_of_other_intervals_are_refused() -> None:
    vectors = planted(alternating(40, 2, seed=2), 50, seed=2)
    for times_s in (np.ones(39), np.where(np.arange(40) == 7, np.nan, 1.0)):
        with pytest.raises(InputError, match=r"each of the 40 intervals"):
            find_probe_phases(vectors, "run", PhaseRules(), times_s)


def test_five_samples_of_each_phase_predict_a_machine_that_differs_by_phase() -> None:
    """The whole way, on 10 planted programs; the target speeds phases up by different factors."""
    scored, held = [], []
    for seed in range(10):
        labels = alternating(500, 6, seed=seed)
        rng = np.random.default_rng(seed + 100)
        means_s, factors = 1e-3 * np.exp(rng.normal(0, 0.4, 6)), np.exp(rng.normal(0, 0.5, 6))
        here_s = means_s[labels] * np.exp(rng.normal(0, 0.05, 500))
        there_s = (factors * means_s)[labels] * np.exp(rng.normal(0, 0.05, 500))
        vectors = planted(labels, 60, seed=seed)
        phases, points, _ = find_probe_phases(vectors, "run", PhaseRules(), here_s)
        found = predicted(phases, points, there_s, 5, "count")
        scored.append((found.error, found.control_error))
        held.append(found.in_95)
    errors, controls = np.mean(scored, axis=0)
    assert errors < 0.02 < controls
    assert np.mean(held) >= 0.9


def test_removal_keeps_the_phases_of_the_most_intervals() -> None:
    weights, means_s = np.array([0.6, 0.3, 0.1]), np.array([1.0, 4.0, 1.0])
    run_s = 100 * float(weights @ means_s)
    one, two, three = removal_curve(weights, means_s, 100, run_s, (1, 2, 9))
    assert (one.n_phases, one.coverage, one.runtime_s) == (1, pytest.approx(0.6), pytest.approx(100))
    assert two.accuracy == pytest.approx(1 - abs(100 * 1.8 / 0.9 / run_s - 1))
    assert three.n_phases == 3 and three.accuracy == pytest.approx(1)


DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "bbv"


@pytest.mark.shared
@pytest.mark.skipif(not DATA.exists(), reason="no shared/data/bbv beside this checkout: real vectors are not tested")
@pytest.mark.parametrize("run", ["bt.W.blk", "ep.W.blk", "lu.S.blk", "mg.S.ins"])
def test_phases_agree_with_simpoint(run: str) -> None:
    import gzip

    with gzip.open(DATA / f"{run}.labels.gz", "rt") as lines:
        theirs = np.array([int(line.split()[0]) for line in lines])
    ours = cluster_intervals(read_frequency_vectors(DATA / f"{run}.bb.gz"), ProbeRules())
    assert adjusted_rand_index(ours.labels, theirs) >= 0.65
