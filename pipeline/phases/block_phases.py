"""Finds the phases of a serial run in its basic-block vectors, and times them by the times of its intervals.

A phase is a cluster of intervals that execute the same blocks, as SimPoint 3.2 finds them. Vectors are projected to few
dimensions, which nearly keeps their distances (Johnson and Lindenstrauss). k-means with restarts clusters them for
every k, and the BIC chooses k. Sources: Hamerly, Perelman, Lau, Calder, SimPoint 3.0 (2005), for the procedure; Arthur
and Vassilvitskii, k-means++ (2007), for the first centres; Pelleg and Moore, X-means (2000), for the BIC.
"""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.cluster.vq import kmeans2, vq
from scipy.sparse import csr_array

from pipeline.arrays import Floats, Ints
from pipeline.errors import InputError
from pipeline.phases.block_vectors import (
    FrequencyVectors,
    looks_like_vectors,
    read_frequency_vectors,
    read_interval_times,
)
from pipeline.phases.mpi_calls import by_first_appearance
from pipeline.phases.occurrences import phases_table, points_table
from pipeline.phases.phase_input import Extracted, PhaseInput, PhaseRules, ProbeRules
from pipeline.report import Fact, Report, Tally


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


N_PHASES = (1, 2, 3, 5, 8)


def find_probe_phases(
    vectors: FrequencyVectors, trace_id: str, rules: PhaseRules, interval_s: Floats | None
) -> tuple[pa.Table, pa.Table, Report]:
    """PHASES and PHASE_POINTS of a serial run, and a Report of its intervals.

    Parameters
    ----------
    vectors : FrequencyVectors
        The intervals of the run.
    trace_id : str
        The name of the run in the tables.
    rules : PhaseRules
        How phases are found, and which ones are relevant and repetitive.
    interval_s : array of shape (intervals,) or None
        Measured time of each interval on the reference machine, s. Without it times are null, and shares are shares of
        executions.

    Notes
    -----
    An occurrence is one interval. Its events are the executions that the vectors count: instructions for exp-bbv. The
    last interval, where it is shorter, is a phase of its own.

    Raises
    ------
    InputError
        Where an interval has no measured time (NaN), or where times of another number of intervals were given.
    """
    _check_times(vectors, interval_s)
    found = cluster_intervals(vectors, rules.probes)
    labels = with_last_apart(found.labels) if last_is_shorter(vectors) else found.labels
    is_timed, n = interval_s is not None, vectors.n_intervals
    amount = vectors.totals if interval_s is None else interval_s
    phases = phases_table(trace_id, labels, np.ones(n, np.int64), vectors.totals, amount, rules, is_timed=is_timed)
    executed = np.concatenate(([0], np.cumsum(vectors.totals.astype(np.int64))))
    clock_s = np.concatenate(([0.0], np.cumsum(amount)))
    points = points_table(trace_id, labels, executed[:, None], clock_s[:, None], is_timed=is_timed)
    facts = _facts(vectors, found, interval_s)
    return phases, points, Report("find_phases", "interval", Tally(n), Tally(n), facts=facts)


def _check_times(vectors: FrequencyVectors, interval_s: Floats | None) -> None:
    if interval_s is None:
        return
    expected = f"a measured time of each of the {vectors.n_intervals} intervals"
    if len(interval_s) != vectors.n_intervals:
        raise InputError(vectors.label, f"times of {len(interval_s)} intervals", expected)
    untimed = np.flatnonzero(np.isnan(interval_s))
    if len(untimed):
        raise InputError(vectors.label, f"no time of interval {untimed[0]} ({len(untimed)} without)", expected)


def _facts(vectors: FrequencyVectors, found: ProbePhases, interval_s: Floats | None) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "intervals": vectors.n_intervals, "blocks": len(vectors.block_ids),
        "executions": float(vectors.totals.sum()), "comments": vectors.n_comments, "phases": len(found.weights),
        "representatives": " ".join(str(one) for one in found.representatives if one >= 0),
        "runtime_s": None if interval_s is None else float(interval_s.sum()),
    }  # fmt: skip
    if interval_s is None:
        return facts
    counts = np.bincount(found.labels)
    means_s = np.bincount(found.labels, interval_s) / counts
    curve = removal_curve(found.weights, means_s, len(interval_s), float(interval_s.sum()))
    return facts | {f"accuracy_with_{step.n_phases}": step.accuracy for step in curve}


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """With the `n_phases` heaviest phases: their share of intervals, the runtime (s), and 1 - |relative error|."""

    n_phases: int
    coverage: float
    runtime_s: float
    accuracy: float


def removal_curve(
    weights: Floats, phase_mean_s: Floats, n_intervals: int, run_s: float, n_phases: tuple[int, ...] = N_PHASES
) -> list[RemovalStep]:
    """The runtime from the phases of the most intervals alone, expanded to the run by their share of intervals.

    Source: Strube 2011, section 5.3 and figure 6.2.

    `weights` are shares of intervals, `phase_mean_s` the mean time of the timed intervals of each phase, and `run_s`
    the measured runtime of the run. Phases chosen by their time would be slow ones, which would bias the expansion by
    intervals. Where `n_phases` has counts above the number of phases, all phases are taken.
    """
    order = np.argsort(-weights, kind="stable")
    steps = []
    for n in sorted({min(n, len(order)) for n in n_phases}):
        kept = order[:n]
        coverage = float(weights[kept].sum())
        runtime_s = float((weights[kept] * phase_mean_s[kept]).sum()) * n_intervals / coverage
        steps.append(RemovalStep(n, coverage, runtime_s, 1 - abs(runtime_s / run_s - 1)))
    return steps


def extract(path: Path, trace_id: str, rules: PhaseRules, times: Path | None = None) -> Extracted:
    """The phases of a serial run; `times` is a CSV of the times of its intervals, or None where none were measured."""
    vectors = read_frequency_vectors(path)
    interval_s = None if times is None else read_interval_times(times, vectors.n_intervals)
    phases, points, found = find_probe_phases(vectors, trace_id, rules, interval_s)
    lines = Tally(vectors.n_intervals + vectors.n_comments)
    aside = {"comment": Tally(vectors.n_comments)}
    read = Report("read_vectors", "line", lines, Tally(vectors.n_intervals), aside).check()
    return Extracted(phases, points, 1, (read, found))


def times_of(points: pa.Table, _calls: pa.Table | None, path: Path) -> tuple[Floats, float | None]:
    """The times of the intervals on another machine; the run's time is their sum where all of them were timed."""
    times_s = read_interval_times(path, points.num_rows)
    return times_s, None if np.isnan(times_s).any() else float(times_s.sum())


PROBES = PhaseInput(
    "bbv", "basic-block vectors (.bb of SimPoint)", looks_like_vectors, extract, times_of, expansion="count"
)
"""Intervals of one phase have one length, so that the count form fits: their times on the reference are noise."""
