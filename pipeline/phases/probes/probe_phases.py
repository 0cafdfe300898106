"""Phases of a run: clusters of intervals that execute the same blocks, with weights and representatives."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.core.probe_settings import ProbeSettings
from pipeline.phases.probes.clustering import choose, clusterings
from pipeline.phases.probes.frequency_vectors import FrequencyVectors
from pipeline.phases.probes.projection import project

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ProbePhases:
    """The phases of a run, numbered from 0 in order of their first interval.

    `labels` is the phase of each interval. `representatives` is the interval nearest to the centre of each phase, or
    -1 where the phase has only the last, shorter interval. `weights` are shares of intervals, and `bic_by_k` is the
    BIC of 1, 2, ... phases.
    """

    labels: Integers
    representatives: Integers
    weights: Floats
    bic_by_k: tuple[float, ...]


def cluster_intervals(vectors: FrequencyVectors, settings: ProbeSettings) -> ProbePhases:
    """The phases of a run as SimPoint 3.2 finds them, with k-means++ in place of random first centres."""
    points = project(vectors, settings.dimensions, settings.seed)
    tried = clusterings(points, settings.max_phases, settings.restarts, settings.max_steps, settings.seed)
    chosen = choose(tried, settings.bic_share)
    labels, old_numbers = _in_order_of_appearance(chosen.labels)
    distances = np.square(points - chosen.centres[old_numbers][labels]).sum(axis=1)
    if last_is_shorter(vectors):
        distances[-1] = np.inf
    nearest = _nearest(distances, labels, len(old_numbers))
    return ProbePhases(labels, nearest, np.bincount(labels) / len(labels), tuple(run.bic for run in tried))


def last_is_shorter(vectors: FrequencyVectors) -> bool:
    """Whether the last interval is shorter than every other: its time then says nothing about theirs."""
    return vectors.n_intervals > 1 and bool(vectors.totals[-1] < vectors.totals[:-1].min())


def with_last_apart(labels: Integers) -> Integers:
    """The labels with the last interval as a phase of its own, so that it stands for no other interval."""
    apart = labels.copy()
    apart[-1] = labels.max() + 1
    return _in_order_of_appearance(apart)[0]


def _in_order_of_appearance(labels: Integers) -> tuple[Integers, Integers]:
    """Labels renumbered from 0 by first appearance without gaps, and the old number of each."""
    old, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    new_number = np.empty(len(old), np.int64)
    new_number[order] = np.arange(len(old))
    return new_number[inverse], old[order]


def _nearest(distances: Floats, labels: Integers, n_phases: int) -> Integers:
    nearest = np.array([np.argmin(np.where(labels == phase, distances, np.inf)) for phase in range(n_phases)])
    return np.where(np.isinf(distances[nearest]) | (labels[nearest] != np.arange(n_phases)), -1, nearest)
