"""The tables of room `phases`: calls of a trace, phases, their occurrences, a plan, times, and predictions."""

from pipeline.columns import columns
from pipeline.schema import TableKind

MPI_CALLS = TableKind(
    "mpi_calls",
    columns(
        "rank", "event", "op", "source", "destination", "root", "tag", "bytes", "communicator", "completed_by",
        "t_start_s", "t_end_s",
    ),
    ("rank", "event"),
    "The MPI calls of one run, in order of rank and call.",
)  # fmt: skip

PHASES = TableKind(
    "phases",
    columns(
        "trace_id", "phase_id", "level", "ticks", "events", "n_occurrences", "time_s", "share", "relative_sd",
        "is_relevant", "repetitive",
    ),
    ("trace_id", "phase_id"),
    "The repeating phases of a run, with their weights and shares of its time.",
)  # fmt: skip

PHASE_POINTS = TableKind(
    "phase_points",
    columns(
        "trace_id", "phase_id", "occurrence", "position", "rank", "from_event", "to_event", "phase_points/t_start_s",
        "phase_points/t_end_s",
    ),
    ("trace_id", "phase_id", "occurrence", "rank"),
    "Where each occurrence of a phase begins and ends on each rank; their mean progress over ranks is its time.",
)  # fmt: skip

PHASE_PLAN = TableKind(
    "phase_plan",
    columns("trace_id", "phase_id", "occurrence", "rank", "from_event", "to_event", "is_warmup", "reference_s"),
    ("trace_id", "phase_id", "occurrence", "rank"),
    "Which occurrences to time on another machine: from which call to which, per rank.",
)

PHASE_TIMES = TableKind(
    "phase_times",
    columns(
        "trace_id", "phase_id", "platform", "occurrence", "phase_times/time_s", "phase_times/reference_s",
        "phase_times/is_warmup", "is_control",
    ),
    ("trace_id", "phase_id", "platform", "occurrence", "is_warmup", "is_control"),
    "Measured times of occurrences on a platform.",
)  # fmt: skip

PLATFORM_PREDICTIONS = TableKind(
    "platform_predictions",
    columns(
        "trace_id", "platform", "platform_predictions/application", "platform_predictions/procs",
        "platform_predictions/runtime_s", "platform_predictions/runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95",
        "runtime_s_hi95", "coverage", "set_s", "set_share", "platform_predictions/status",
        "platform_predictions/method", "control_s", "control_factor_s", "measured_s", "error",
    ),
    ("trace_id", "platform"),
    "Predicted runtimes on other platforms, from the times of some occurrences of each phase.",
)  # fmt: skip

PHASE_TABLES = (MPI_CALLS, PHASES, PHASE_POINTS, PHASE_PLAN, PHASE_TIMES, PLATFORM_PREDICTIONS)
