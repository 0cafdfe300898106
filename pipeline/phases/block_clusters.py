"""Finds phases in basic-block vectors: clusters of intervals that execute the same blocks, as SimPoint 3.2.

Vectors are projected to few dimensions, which nearly keeps their distances (Johnson and Lindenstrauss). k-means with
restarts clusters them for every k, and the BIC chooses k. Sources: Hamerly, Perelman, Lau, Calder, SimPoint 3.0 (2005),
for the procedure; Arthur and Vassilvitskii, k-means++ (2007), for the first centres; Pelleg and Moore, X-means (2000),
for the BIC.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.cluster.vq import kmeans2, vq
from scipy.sparse import csr_array

from pipeline.arrays import Floats, Ints
from pipeline.phases.block_vectors import FrequencyVectors
from pipeline.phases.mpi_calls import by_first_appearance
from pipeline.phases.phase_rules import ProbeRules


def project(vectors: FrequencyVectors, dimensions: int, seed: int) -> Floats:
    """Points of shape (intervals, dimensions): each interval's shares of blocks times a random matrix.

    The entries of the matrix are uniform in [-1, 1], as in SimPoint 3.2. Programs with no more blocks than
    dimensions keep their shares as they are.
    """
    shares = vectors.count / np.repeat(vectors.totals, np.diff(vectors.first_entry))
    n_blocks = len(vectors.block_ids)
    rows = csr_array((shares, vectors.block, vectors.first_entry), shape=(vectors.n_intervals, n_blocks))
    if n_blocks <= dimensions:
        return np.asarray(rows.toarray())
    matrix = np.random.default_rng(seed).uniform(-1, 1, (n_blocks, dimensions))
    return np.asarray(rows @ matrix)


STEPS_A_CALL = 5
"""Steps of k-means between two looks whether the centres still move: scipy's function knows no such test."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """One clustering: labels from 0 (n), centres (k, d), the sum of squared distances and the BIC."""

    labels: Ints
    centres: Floats
    squared_error: float
    bic: float


def cluster(points: Floats, k: int, restarts: int, max_steps: int, rng: np.random.Generator) -> Clustering:
    """The best of some runs of k-means with k-means++ centres: that of the least squared error."""
    runs = [_one_run(points, k, max_steps, rng) for _ in range(restarts)]
    return min(runs, key=lambda run: run.squared_error)


def clusterings(points: Floats, max_k: int, restarts: int, max_steps: int, seed: int) -> list[Clustering]:
    """The best clustering for every k from 1 to `max_k`, or to the number of distinct points where that is less."""
    limit = min(max_k, len(np.unique(points, axis=0)))
    return [cluster(points, k, restarts, max_steps, np.random.default_rng([seed, k])) for k in range(1, limit + 1)]


def choose(candidates: list[Clustering], share: float) -> Clustering:
    """The first (smallest k) whose BIC reaches `share` of the way from the worst to the best BIC."""
    bics = [candidate.bic for candidate in candidates]
    bound = min(bics) + share * (max(bics) - min(bics))
    return next(candidate for candidate in candidates if candidate.bic >= bound)


def spherical_bic(sizes: Ints, squared_error: float, dimensions: int) -> float:
    """The Bayesian information criterion of clusters as spherical Gaussians of one variance; larger is better.

    The parameters are the k - 1 shares, the k centres and the variance. Clusters without error (each point at its
    centre) have an infinite likelihood: the variance is kept above the rounding error.
    """
    n, k = int(sizes.sum()), len(sizes)
    variance = max(squared_error / (dimensions * max(n - k, 1)), np.finfo(np.float64).eps)
    held = sizes[sizes > 0].astype(np.float64)
    likelihood = float((held * np.log(held / n)).sum())
    likelihood -= n * dimensions / 2 * math.log(2 * math.pi * variance) + dimensions * (n - k) / 2
    return likelihood - (k - 1 + k * dimensions + 1) / 2 * math.log(n)


def _one_run(points: Floats, k: int, max_steps: int, rng: np.random.Generator) -> Clustering:
    with warnings.catch_warnings():
        # A cluster that loses its last point keeps its centre, of which scipy warns.
        warnings.simplefilter("ignore", UserWarning)
        centres, _ = kmeans2(points, k, iter=1, minit="++", rng=rng)
        for _ in range(0, max_steps, STEPS_A_CALL):
            before = centres
            centres, _ = kmeans2(points, before, iter=STEPS_A_CALL, minit="matrix")
            if np.array_equal(before, centres):
                break
    labels, distances = vq(points, centres)
    squared_error = float(np.square(distances).sum())
    sizes = np.bincount(labels, minlength=k)
    bic = spherical_bic(sizes, squared_error, points.shape[1])
    return Clustering(labels.astype(np.int64), centres, squared_error, bic)


@dataclass(frozen=True, slots=True)
class ProbePhases:
    """The phases of a run, numbered from 0 in order of their first interval.

    `labels` is the phase of each interval. `representatives` is the interval nearest to the centre of each phase, or
    -1 where the phase has only the last, shorter interval. `weights` are shares of intervals, and `bic_by_k` is the
    BIC of 1, 2, ... phases.
    """

    labels: Ints
    representatives: Ints
    weights: Floats
    bic_by_k: tuple[float, ...]


def cluster_intervals(vectors: FrequencyVectors, rules: ProbeRules) -> ProbePhases:
    """The phases of a run as SimPoint 3.2 finds them, with k-means++ in place of random first centres."""
    points = project(vectors, rules.dimensions, rules.seed)
    tried = clusterings(points, rules.max_phases, rules.restarts, rules.max_steps, rules.seed)
    chosen = choose(tried, rules.bic_share)
    first, labels = by_first_appearance(chosen.labels)
    centres = chosen.centres[chosen.labels[first]]
    distances = np.square(points - centres[labels]).sum(axis=1)
    if last_is_shorter(vectors):
        distances[-1] = np.inf
    nearest = _nearest(distances, labels, len(centres))
    return ProbePhases(labels, nearest, np.bincount(labels) / len(labels), tuple(run.bic for run in tried))


def last_is_shorter(vectors: FrequencyVectors) -> bool:
    """Whether the last interval is shorter than every other: its time then says nothing about theirs."""
    return vectors.n_intervals > 1 and bool(vectors.totals[-1] < vectors.totals[:-1].min())


def with_last_apart(labels: Ints) -> Ints:
    """The labels with the last interval as a phase of its own, so that it stands for no other interval."""
    apart = labels.copy()
    apart[-1] = labels.max() + 1
    return by_first_appearance(apart)[1]


def _nearest(distances: Floats, labels: Ints, n_phases: int) -> Ints:
    nearest = np.array([np.argmin(np.where(labels == phase, distances, np.inf)) for phase in range(n_phases)])
    return np.where(np.isinf(distances[nearest]) | (labels[nearest] != np.arange(n_phases)), -1, nearest)
