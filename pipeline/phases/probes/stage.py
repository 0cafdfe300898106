"""Finds the phases of a serial run: basic-block vectors in, PHASES and PHASE_POINTS out."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.buffers import arrow
from pipeline.core.errors import InputError
from pipeline.core.phase_settings import PhaseSettings
from pipeline.core.phase_tables import PHASE_POINTS, PHASES
from pipeline.core.report import Fact, Report, Tally
from pipeline.phases.prediction.relevance import relevant
from pipeline.phases.probes.frequency_vectors import FrequencyVectors
from pipeline.phases.probes.probe_phases import ProbePhases, cluster_intervals, last_is_shorter, with_last_apart
from pipeline.phases.probes.removal_curve import removal_curve

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def find_probe_phases(
    vectors: FrequencyVectors, trace_id: str, settings: PhaseSettings, interval_s: Floats | None
) -> tuple[pa.Table, pa.Table, Report]:
    """PHASES and PHASE_POINTS of a serial run, and a Report of its intervals.

    Parameters
    ----------
    vectors : FrequencyVectors
        The intervals of the run.
    trace_id : str
        The name of the run in the tables.
    settings : PhaseSettings
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
    found = cluster_intervals(vectors, settings.probes)
    labels = with_last_apart(found.labels) if last_is_shorter(vectors) else found.labels
    phases = _phases_table(labels, vectors.totals, interval_s, trace_id, settings)
    rows = Tally(vectors.n_intervals)
    facts = _facts(vectors, found, interval_s)
    return (
        phases,
        _points_table(labels, vectors.totals, interval_s, trace_id),
        Report("find_phases", "interval", rows, rows, facts=facts),
    )


def _check_times(vectors: FrequencyVectors, interval_s: Floats | None) -> None:
    if interval_s is None:
        return
    expected = f"a measured time of each of the {vectors.n_intervals} intervals"
    if len(interval_s) != vectors.n_intervals:
        raise InputError(vectors.label, f"times of {len(interval_s)} intervals", expected)
    untimed = np.flatnonzero(np.isnan(interval_s))
    if len(untimed):
        raise InputError(vectors.label, f"no time of interval {untimed[0]} ({len(untimed)} without)", expected)


def _phases_table(
    labels: Integers, totals: Floats, interval_s: Floats | None, trace_id: str, settings: PhaseSettings
) -> pa.Table:
    n_occurrences = np.bincount(labels)
    n = len(n_occurrences)
    work = totals if interval_s is None else interval_s
    sums = np.bincount(labels, work)
    shares = sums / sums.sum()
    plan, pas2p = settings.plan, settings.pas2p
    return PHASES.build(
        trace_id=[trace_id] * n, phase_id=arrow(np.arange(n)), level=arrow(np.zeros(n, np.int64)),
        ticks=arrow(np.ones(n, np.int64)), events=arrow(np.bincount(labels, totals) / n_occurrences),
        n_occurrences=arrow(n_occurrences), time_s=arrow(sums, np.full(n, interval_s is None)), share=arrow(shares),
        is_relevant=arrow(relevant(shares, pas2p.relevant_share, pas2p.least_coverage)),
        repetitive=arrow(n_occurrences > plan.repetition_samples * (1 + plan.warmup)),
    )  # fmt: skip


def _points_table(labels: Integers, totals: Floats, interval_s: Floats | None, trace_id: str) -> pa.Table:
    n = len(labels)
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    executed = np.concatenate(([0], np.cumsum(totals.astype(np.int64))))
    clock_s = np.concatenate(([0.0], np.cumsum(totals if interval_s is None else interval_s)))
    is_untimed = np.full(n, interval_s is None)
    return PHASE_POINTS.build(
        trace_id=[trace_id] * n, phase_id=arrow(ordered),
        occurrence=arrow(np.arange(n) - np.searchsorted(ordered, ordered, "left")), position=arrow(order),
        rank=arrow(np.zeros(n, np.int64)), from_event=arrow(executed[order]), to_event=arrow(executed[order + 1]),
        t_start_s=arrow(clock_s[order], is_untimed), t_end_s=arrow(clock_s[order + 1], is_untimed),
    )  # fmt: skip


def _facts(vectors: FrequencyVectors, found: ProbePhases, interval_s: Floats | None) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "intervals": vectors.n_intervals,
        "blocks": len(vectors.block_ids),
        "executions": float(vectors.totals.sum()),
        "comments": vectors.n_comments,
        "phases": len(found.weights),
        "representatives": " ".join(str(one) for one in found.representatives if one >= 0),
        "runtime_s": None if interval_s is None else float(interval_s.sum()),
    }
    if interval_s is None:
        return facts
    counts = np.bincount(found.labels)
    means_s = np.bincount(found.labels, interval_s) / counts
    curve = removal_curve(found.weights, means_s, len(interval_s), float(interval_s.sum()))
    return facts | {f"accuracy_with_{step.n_phases}": step.accuracy for step in curve}
