"""When a job was submitted, started and ended, and how long it ran."""

import numpy as np
import pyarrow as pa

from pipeline.core.buffers import arrow
from pipeline.ingest.formats.sacct.fields import Fields
from pipeline.ingest.spans.clock_changes import seconds_between, settled

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
    start_s, end_s, is_settled = settled(start, end, elapsed_s + np.nan_to_num(suspended_s), _CLOCK_S)
    for name, instants in times.items():
        is_doubtful = (instants.repeat_s > 0) & ~instants.missing
        by_elapsed = is_doubtful & is_settled & (name in ("start_s", "end_s"))
        fields.remarks["settled_times"] += int(np.count_nonzero(by_elapsed))
        fields.remarks["ambiguous_times"] += int(np.count_nonzero(is_doubtful & ~by_elapsed))
    if not fields.has("runtime_s"):
        elapsed_s = seconds_between(start_s, end_s, start.missing | end.missing) - np.nan_to_num(suspended_s)
        elapsed_s[elapsed_s < 0] = np.nan
    read = {name: arrow(instants.values, instants.missing) for name, instants in times.items()}
    read |= {"start_s": arrow(start_s, start.missing), "end_s": arrow(end_s, end.missing)}
    durations = {"runtime_s": elapsed_s, "suspended_s": suspended_s}
    return read | {name: arrow(values, np.isnan(values)) for name, values in durations.items()}
