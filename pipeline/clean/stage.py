"""The cleaning stage: one pure mask a flag, all computed from all jobs; the first reason that holds wins."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from pipeline.clean import records
from pipeline.core.arrays import Bools, Floats, proc_seconds
from pipeline.core.columns import CATEGORY
from pipeline.core.flags import Flag
from pipeline.core.report import Report, Tally
from pipeline.core.settings import CleanSettings
from pipeline.core.tables import JOBS

RULES: dict[Flag, Callable[[pa.Table], Bools]] = {
    Flag.PARTIAL_EXECUTION: records.partial_execution,
    Flag.UNFINISHED: records.unfinished,
    Flag.CANCELLED_BEFORE_START: records.cancelled_before_start,
    Flag.NEVER_RAN: records.never_ran,
    Flag.IMPOSSIBLE_TIMES: records.impossible_times,
    Flag.NO_PROCS: records.no_procs,
}


def clean(jobs: pa.Table, settings: CleanSettings) -> tuple[pa.Table, Report]:
    """JOBS with `flag` set anew (flags already there are not looked at), and the account of it per flag."""
    active = [flag for flag in RULES if flag not in settings.flags_off]
    places = np.full(jobs.num_rows, -1, np.int32)
    for place, flag in enumerate(active):
        places[(places < 0) & RULES[flag](jobs)] = place
    column = pa.DictionaryArray.from_arrays(
        pa.array(places, mask=places < 0), pa.array([str(f) for f in active], pa.string())
    ).cast(CATEGORY)
    flagged = jobs.set_column(jobs.column_names.index("flag"), JOBS.schema().field("flag"), column)
    return flagged, _report(places, active, proc_seconds(jobs))


def _report(places: Bools, active: list[Flag], proc_s: Floats) -> Report:
    def tally(chosen: Bools) -> Tally:
        return Tally(int(chosen.sum()), float(proc_s[chosen].sum()))

    counted = {str(flag): tally(places == place) for place, flag in enumerate(active)}
    set_aside = {reason: one for reason, one in counted.items() if one.rows}
    everything = Tally(len(places), float(proc_s.sum()))
    return Report("clean", "job", everything, tally(places < 0), set_aside, {"jobs": everything.rows}).check()
