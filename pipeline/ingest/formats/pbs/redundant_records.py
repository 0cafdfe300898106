"""Records that another of their chunk makes redundant, taken out before they are kept anywhere.

Most jobs end soon after they start, so two thirds of a log's records need not wait for the fold. Taking them out
changes no job (a property test holds fold to it): a Q record counts only for a job without S, R or E, and an S record
only for what the R or E of its start does not say.
"""

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Bools, Ints
from pipeline.core.buffers import arrow, integers, nulls
from pipeline.ingest.formats.pbs.scan import KINDS

_Q, _S, _R, _E = (KINDS.index(letter) for letter in "QSRE")
_SHIFT = 34
_OF_ITSELF = ("kind", "record_s", "state", "source_file", "source_line")


def pruned(parts: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    """The records that a fold needs, in their order; how many were taken out, by the names `fold` counts them under."""
    if not parts.num_rows:
        return parts, {}
    parts = parts.combine_chunks()
    kind = integers(parts["kind"])[0]
    created, has_none = integers(parts["submit_s"])
    ids = integers(parts["job_id"].chunk(0).dictionary_encode().indices)[0]
    job = np.unique(np.where(has_none, -1, (ids << _SHIFT) + created), return_inverse=True)[1]
    is_run = np.isin(kind, (_S, _R, _E)) & ~has_none
    has_run = np.zeros(int(job.max()) + 1, np.bool_)
    has_run[job[is_run]] = True
    is_idle = (kind == _Q) & ~has_none & has_run[job]
    is_told = _told_elsewhere(parts, kind, job, has_none)
    lines = {"event_Q": int(np.count_nonzero(is_idle)), "event_S": int(np.count_nonzero(is_told))}
    kept = parts.filter(arrow(~(is_idle | is_told)))
    return kept, {name: n for name, n in lines.items() if n}


def _told_elsewhere(parts: pa.Table, kind: Ints, job: Ints, has_none: Bools) -> Bools:
    """The S records whose every value has one beside it in an R or E record of the same job and start."""
    start, no_start = integers(parts["start_s"])
    attempt = (job << _SHIFT) + start
    is_whole = ~no_start & ~has_none
    started = np.flatnonzero((kind == _S) & is_whole)
    ended = np.flatnonzero(((kind == _R) | (kind == _E)) & is_whole)
    is_told = np.zeros(len(kind), np.bool_)
    if not len(started) or not len(ended):
        return is_told
    ended = ended[np.argsort(attempt[ended], kind="stable")]
    place = np.minimum(np.searchsorted(attempt[ended], attempt[started]), len(ended) - 1)
    found = attempt[ended[place]] == attempt[started]
    started, other = started[found], ended[place[found]]
    lacks = np.zeros(len(started), np.bool_)
    for name in parts.column_names:
        if name not in _OF_ITSELF and parts[name].null_count:
            is_null = nulls(parts[name])
            lacks |= ~is_null[started] & is_null[other]
    is_told[started[~lacks]] = True
    return is_told
