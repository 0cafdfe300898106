"""When PBS records were written: their dates are local time, which comes twice when clocks go back."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Bools, Floats, Ints
from pipeline.ingest.formats.pbs.scan import KINDS
from pipeline.ingest.reader import Remarks
from pipeline.ingest.spans import Instants
from pipeline.ingest.spans.clock_changes import settled

OFF_S = 900.0
"""A record is written when its event happens, give or take the time that a job's epilogue takes."""

_Q, _S, _R, _E = (KINDS.index(letter) for letter in "QSRE")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, and where there are none; a time that is no local time never came twice."""

    values: Ints
    missing: Bools
    repeat_s: Ints


def record_dates(
    written: Instants, kind: Ints, instants: dict[str, Times], used_s: Floats, good: Bools
) -> tuple[Ints, Remarks]:
    """UTC seconds of each record's date, and how many doubtful ones stand for an instant that the record lacks.

    A date that came twice is the reading within OFF_S of the record's own instant. The rerun of a job without
    an end is the reading that is the walltime used (`used_s`, NaN: unknown) after its start.
    """
    ends, runs = np.isin(kind, [_E, _R]), np.isin(kind, [_S, _E, _R])
    sources = [(ends, "end"), (kind == _S, "start"), (~runs, "ctime")]
    event_s, lacks = np.zeros(len(kind), np.int64), np.ones(len(kind), np.bool_)
    for is_kind, name in sources:
        has = is_kind & ~instants[name].missing
        event_s[has], lacks[has] = instants[name].values[has], False
    start = instants["start"]
    by_walltime = lacks & ends & ~start.missing
    base_s = np.where(by_walltime, start.values, event_s)
    base = Times(base_s, lacks & ~by_walltime, np.zeros_like(base_s))
    _, dates_s, is_settled = settled(base, written, np.where(by_walltime, used_s, 0.0), OFF_S)
    is_doubtful = good & lacks & (written.repeat_s > 0)
    n_settled, n_doubtful = (int(np.count_nonzero(is_doubtful & own)) for own in (is_settled, ~is_settled))
    return dates_s, Remarks(settled_times=n_settled, ambiguous_times=n_doubtful)
