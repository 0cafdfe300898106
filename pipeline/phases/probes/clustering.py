"""Finds phases in points: k-means with restarts for every k, and the number of phases by BIC, as SimPoint 3.2.

Sources: Hamerly, Perelman, Lau, Calder, SimPoint 3.0 (2005), for the procedure; Arthur and Vassilvitskii,
k-means++ (2007), for the first centres; Pelleg and Moore, X-means (2000), for the BIC.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.cluster.vq import kmeans2, vq

Points = npt.NDArray[np.float64]

STEPS_A_CALL = 5
"""Steps of k-means between two looks whether the centres still move: scipy's function knows no such test."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """One clustering: labels from 0 (n), centres (k, d), the sum of squared distances and the BIC."""

    labels: npt.NDArray[np.int64]
    centres: Points
    squared_error: float
    bic: float


def cluster(points: Points, k: int, restarts: int, max_steps: int, rng: np.random.Generator) -> Clustering:
    """The best of some runs of k-means with k-means++ centres: that of the least squared error."""
    runs = [_one_run(points, k, max_steps, rng) for _ in range(restarts)]
    return min(runs, key=lambda run: run.squared_error)


def clusterings(points: Points, max_k: int, restarts: int, max_steps: int, seed: int) -> list[Clustering]:
    """The best clustering for every k from 1 to `max_k`, or to the number of distinct points where that is less."""
    limit = min(max_k, len(np.unique(points, axis=0)))
    return [cluster(points, k, restarts, max_steps, np.random.default_rng([seed, k])) for k in range(1, limit + 1)]


def choose(candidates: list[Clustering], share: float) -> Clustering:
    """The first (smallest k) whose BIC reaches `share` of the way from the worst to the best BIC."""
    bics = [candidate.bic for candidate in candidates]
    bound = min(bics) + share * (max(bics) - min(bics))
    return next(candidate for candidate in candidates if candidate.bic >= bound)


def spherical_bic(sizes: npt.NDArray[np.int64], squared_error: float, dimensions: int) -> float:
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


def _one_run(points: Points, k: int, max_steps: int, rng: np.random.Generator) -> Clustering:
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
