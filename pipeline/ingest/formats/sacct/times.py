"""When a job was submitted, started and ended, and how long it ran."""

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.core.buffers import arrow
from pipeline.ingest.formats.sacct.fields import Fields
from pipeline.ingest.spans import Instants

TIMES = ("submit_s", "eligible_s", "start_s", "end_s")
_CLOCK_S = 1.0
"""Slurm's Elapsed is End - Start - Suspended to the second."""


def typed_times(fields: Fields) -> dict[str, pa.Array]:
    """The columns TIMES, runtime_s and suspended_s of some records.

    runtime_s is Elapsed; in a dump without that column it is End - Start - Suspended. A start or end that came twice
    when clocks went back is the one that agrees with Elapsed; the first where both do, or none.
    """
    times = {name: fields.instants(name) for name in TIMES}
    suspended_s, elapsed_s = fields.duration("suspended_s"), fields.duration("runtime_s")
    start, end = times["start_s"], times["end_s"]
    start_s, end_s, is_settled = _settled(start, end, elapsed_s + np.nan_to_num(suspended_s))
    for name, instants in times.items():
        is_doubtful = (instants.repeat_s > 0) & ~instants.missing
        by_elapsed = is_doubtful & is_settled & (name in ("start_s", "end_s"))
        fields.remarks["settled_times"] += int(np.count_nonzero(by_elapsed))
        fields.remarks["ambiguous_times"] += int(np.count_nonzero(is_doubtful & ~by_elapsed))
    if not fields.has("runtime_s"):
        elapsed_s = _between(start_s, end_s, start.missing | end.missing) - np.nan_to_num(suspended_s)
        elapsed_s[elapsed_s < 0] = np.nan
    read = {name: arrow(instants.values, instants.missing) for name, instants in times.items()}
    read |= {"start_s": arrow(start_s, start.missing), "end_s": arrow(end_s, end.missing)}
    durations = {"runtime_s": elapsed_s, "suspended_s": suspended_s}
    return read | {name: arrow(values, np.isnan(values)) for name, values in durations.items()}


def _settled(start: Instants, end: Instants, span_s: Floats) -> tuple[Ints, Ints, Bools]:
    """Starts and ends read the one way that is `span_s` apart, and where there is exactly one; else as they were."""
    start_s, end_s = start.values, end.values
    is_settled = np.zeros(len(start_s), np.bool_)
    rows = np.flatnonzero((start.repeat_s > 0) | (end.repeat_s > 0))
    if not len(rows):
        return start_s, end_s, is_settled
    n_fitting = np.zeros(len(rows), np.int64)
    found_s = np.stack([start_s[rows], end_s[rows]])
    is_unknown = (start.missing | end.missing)[rows]
    for start_again, end_again in ((0, 0), (0, 1), (1, 0), (1, 1)):
        of_start, of_end = start_again * start.repeat_s[rows], end_again * end.repeat_s[rows]
        is_new = (of_start > 0) >= bool(start_again)
        is_new &= (of_end > 0) >= bool(end_again)
        first_s, last_s = start_s[rows] + of_start, end_s[rows] + of_end
        fits = is_new & (np.abs(_between(first_s, last_s, is_unknown) - span_s[rows]) <= _CLOCK_S)
        n_fitting += fits
        found_s = np.where(fits, np.stack([first_s, last_s]), found_s)
    chosen = rows[n_fitting == 1]
    is_settled[chosen] = True
    start_s, end_s = start_s.copy(), end_s.copy()
    start_s[chosen], end_s[chosen] = found_s[:, n_fitting == 1]
    return start_s, end_s, is_settled


def _between(start_s: Ints, end_s: Ints, is_unknown: Bools) -> Floats:
    """Seconds from start to end, NaN where either is unknown."""
    return np.where(is_unknown, np.nan, (end_s - start_s).astype(np.float64))
