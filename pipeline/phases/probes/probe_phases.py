"""Phases of a run: clusters of intervals that execute the same blocks, with weights and representatives."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.core.probe_settings import ProbeSettings
from pipeline.phases.probes.clustering import Clustering, choose, clusterings
from pipeline.phases.probes.frequency_vectors import FrequencyVectors
from pipeline.phases.probes.projection import project
from pipeline.phases.probes.sampling import evenly_spaced

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ProbePhases:
    """The phases of a run, numbered from 0 in order of their first interval.

    `labels` is the phase of each interval. `representatives` is the interval nearest to the centre of each phase, or
    -1 where the phase has only the last interval of the run. `weights` are shares of intervals, `bic_by_k` the BIC of
    1, 2, ... phases.
    """

    labels: Integers
    representatives: Integers
    weights: Floats
    bic_by_k: tuple[float, ...]

    @property
    def n_phases(self) -> int:
        """Number of phases."""
        return len(self.weights)

    def members(self, phase: int) -> Integers:
        """All intervals of a phase, in order."""
        return np.flatnonzero(self.labels == phase)

    def eligible(self, phase: int) -> Integers:
        """The intervals of a phase that may be timed: the last one of the run is shorter, and never among them."""
        return self.members(phase)[self.members(phase) != len(self.labels) - 1]

    def shares(self, interval_s: Floats | None) -> Floats:
        """Each phase's share of the measured time, or of the intervals where no time was measured; they sum to 1."""
        if interval_s is None:
            return self.weights
        time_s = np.bincount(self.labels, weights=interval_s, minlength=self.n_phases)
        return np.asarray(time_s / interval_s.sum())

    def samples(self, n_samples: int) -> list[Integers]:
        """For each phase the intervals to time; empty where the phase has only the last interval."""
        return [evenly_spaced(self.eligible(phase), n_samples) for phase in range(self.n_phases)]


def find_phases(vectors: FrequencyVectors, settings: ProbeSettings) -> ProbePhases:
    """The phases of a run as SimPoint 3.2 finds them, with k-means++ in place of random first centres."""
    points = project(vectors, settings.dimensions, settings.seed)
    tried = clusterings(points, settings.max_phases, settings.restarts, settings.max_steps, settings.seed)
    chosen = choose(tried, settings.bic_share)
    labels, old_numbers = _in_order_of_appearance(chosen.labels)
    weights = np.bincount(labels) / len(labels)
    representatives = _nearest_to_centres(points, chosen, labels, old_numbers)
    return ProbePhases(labels, representatives, weights, tuple(run.bic for run in tried))


def relevant_phases(shares: Floats, min_share: float, min_coverage: float) -> npt.NDArray[np.bool_]:
    """Phases of at least `min_share`, and the longest of the others until all together cover `min_coverage`."""
    order = np.argsort(-shares, kind="stable")
    covered_before = np.concatenate(([0.0], np.cumsum(shares[order])[:-1]))
    is_relevant = np.zeros(len(shares), bool)
    is_relevant[order] = (shares[order] >= min_share) | (covered_before < min_coverage)
    return is_relevant


def _in_order_of_appearance(labels: Integers) -> tuple[Integers, Integers]:
    """Labels renumbered from 0 by first appearance without gaps, and the old number of each."""
    old, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    new_number = np.empty(len(old), np.int64)
    new_number[order] = np.arange(len(old))
    return new_number[inverse], old[order]


def _nearest_to_centres(points: Floats, chosen: Clustering, labels: Integers, old_numbers: Integers) -> Integers:
    distances = np.square(points - chosen.centres[old_numbers][labels]).sum(axis=1)
    # The last interval is shorter: its time says nothing about the others.
    distances[-1] = np.inf
    nearest = np.array([np.argmin(np.where(labels == phase, distances, np.inf)) for phase in range(len(old_numbers))])
    return np.where(np.isinf(distances[nearest]), -1, nearest)
