"""PHASE_TIMES in, a row of PLATFORM_PREDICTIONS out."""

import pyarrow as pa

from pipeline.core.phase_settings import PhaseSettings
from pipeline.core.phase_tables import PLATFORM_PREDICTIONS
from pipeline.core.report import Report, Tally
from pipeline.phases.prediction.expand import expand
from pipeline.phases.prediction.repetition import NOT_REPETITIVE, status_of

RUN_IT_WHOLE = "The run is not repetitive: run it whole. Timing its phases takes almost as long as the run."


def predict_runtime(
    phases: pa.Table, times: pa.Table, settings: PhaseSettings, *, procs: int, measured_s: float | None = None,
    application: str | None = None,
) -> tuple[pa.Table, Report]:  # fmt: skip
    """One row of PLATFORM_PREDICTIONS, and a Report of the times; `measured_s` is the true time where it is known.

    The status is of the reference trace alone: `not_repetitive` stands beside the figures of a run that has to be run
    whole.
    """
    found = expand(phases, times, settings.expansion)
    status = status_of(phases, settings.plan)
    lo80, hi80 = found.interval80_s or (None, None)
    lo95, hi95 = found.interval95_s or (None, None)
    is_known = found.runtime_s is not None and measured_s
    row = {
        "trace_id": phases.column("trace_id")[0].as_py(), "platform": times.column("platform")[0].as_py(),
        "application": application, "procs": procs, "runtime_s": found.runtime_s,
        "runtime_s_lo80": lo80, "runtime_s_hi80": hi80, "runtime_s_lo95": lo95, "runtime_s_hi95": hi95,
        "coverage": found.coverage, "set_s": found.set_s,
        "set_share": found.set_s / found.runtime_s if found.runtime_s else None, "status": status,
        "control_s": found.control_s, "control_factor_s": found.control_factor_s, "measured_s": measured_s,
        "error": (found.runtime_s or 0.0) / measured_s - 1 if is_known and measured_s else None,
    }  # fmt: skip
    seen = Tally(times.num_rows)
    notes = (RUN_IT_WHOLE,) if status == NOT_REPETITIVE else ()
    table = PLATFORM_PREDICTIONS.build(**{name: [value] for name, value in row.items()})
    return table, Report("predict_phases", "time", seen, seen, notes=notes)
