"""Basic-block vectors as an input of the commands: probes find the phases, a CSV of times of intervals times them."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.core.phase_settings import PhaseSettings
from pipeline.core.report import Report, Tally
from pipeline.phases.phase_input import Extracted, PhaseInput, Tables, TargetTimes
from pipeline.phases.probes.frequency_vectors import looks_like_vectors, read_frequency_vectors
from pipeline.phases.probes.interval_times import read_interval_times
from pipeline.phases.probes.stage import find_probe_phases


def extract(path: Path, trace_id: str, settings: PhaseSettings, times: Path | None = None) -> Extracted:
    """The phases of a serial run; `times` is a CSV of the times of its intervals, or None where none were measured."""
    vectors = read_frequency_vectors(path)
    interval_s = None if times is None else read_interval_times(times, vectors.n_intervals)
    phases, points, found = find_probe_phases(vectors, trace_id, settings, interval_s)
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
