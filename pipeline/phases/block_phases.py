"""Finds the phases of a serial run in its basic-block vectors, and times them by the times of its intervals."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.errors import InputError
from pipeline.phases.block_clusters import ProbePhases, cluster_intervals, last_is_shorter, with_last_apart
from pipeline.phases.block_vectors import FrequencyVectors, looks_like_vectors, read_frequency_vectors
from pipeline.phases.occurrences import phases_table, points_table
from pipeline.phases.phase_input import Extracted, PhaseInput, Tables, TargetTimes
from pipeline.phases.phase_rules import PhaseRules
from pipeline.phases.platform_times import read_interval_times
from pipeline.report import Fact, Report, Tally

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


def times_of(points: pa.Table, kept: Tables, path: Path) -> TargetTimes:
    """The times of the intervals on another machine; the run's time is their sum where all of them were timed."""
    del kept  # The positions of the points are the numbers of the intervals.
    times_s = read_interval_times(path, points.num_rows)
    return TargetTimes(times_s, None if np.isnan(times_s).any() else float(times_s.sum()))


PROBES = PhaseInput(
    "bbv", "basic-block vectors (.bb of SimPoint)", looks_like_vectors, extract, times_of, expansion="count"
)
"""Intervals of one phase have one length, so that the count form fits: their times on the reference are noise."""
