"""PHASE_TIMES: the times of planned occurrences on a platform, and of a control chosen without phases."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.buffers import arrow, integers
from pipeline.core.errors import InputError
from pipeline.core.phase_tables import PHASE_TIMES
from pipeline.core.table_kind import as_array
from pipeline.phases.prediction.occurrences import Occurrences, evenly_spaced

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def planned_times(points: pa.Table, plan: pa.Table, times_s: Floats, platform: str) -> pa.Table:
    """PHASE_TIMES from the time of every occurrence (s, in the order of the run, NaN: unknown).

    The control has as many occurrences as are timed, spread evenly over the run. InputError where the time of a
    planned occurrence is unknown.
    """
    found = Occurrences.of(points)
    timed, warmups = planned_places(found, plan)
    missing = np.flatnonzero(np.isnan(times_s[np.r_[timed, warmups]]))
    if len(missing):
        place = np.r_[timed, warmups][missing[0]]
        which = f"phase {found.phase[place]}, occurrence {found.occurrence[place]}"
        raise InputError(f"platform {platform}", f"no time of {which}", "the times of all planned occurrences")
    control = evenly_spaced(len(found), max(len(timed), 1))
    control = control[~np.isnan(times_s[control])]
    # An incomplete control would compare other times with these.
    control = control if len(control) == len(timed) else control[:0]
    places = np.concatenate([timed, warmups, control])
    uses = np.repeat([0, 1, 2], [len(timed), len(warmups), len(control)])
    named = (plan.column("trace_id")[0].as_py(), platform)
    return times_table(found, places, times_s[places], uses == 1, uses == 2, named)


def times_table(
    found: Occurrences,
    places: Ints,
    times_s: Floats,
    is_warmup: npt.NDArray[np.bool_],
    is_control: npt.NDArray[np.bool_],
    named: tuple[str, str],
) -> pa.Table:
    """PHASE_TIMES of some places; `named` are trace and platform."""
    trace_id, platform = named
    return PHASE_TIMES.build(
        trace_id=[trace_id] * len(places), phase_id=arrow(found.phase[places]), platform=[platform] * len(places),
        occurrence=arrow(found.occurrence[places]), time_s=arrow(times_s),
        reference_s=as_array(found.reference_s(places), pa.float64()),
        is_warmup=arrow(is_warmup), is_control=arrow(is_control),
    )  # fmt: skip


def planned_places(found: Occurrences, plan: pa.Table) -> tuple[Ints, Ints]:
    """The places of timed and of warm-up occurrences of a plan, in order of the run."""
    phase, occurrence = (integers(plan.column(name))[0] for name in ("phase_id", "occurrence"))
    is_warmup = plan.column("is_warmup").to_numpy(zero_copy_only=False)
    width = int(found.occurrence.max()) + 1
    keys = found.phase * width + found.occurrence
    planned = phase * width + occurrence
    return np.flatnonzero(np.isin(keys, planned[~is_warmup])), np.flatnonzero(np.isin(keys, planned[is_warmup]))
