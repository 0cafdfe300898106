"""The tables of room `phases`: calls of a trace, phases, their occurrences, a plan, times, and predictions."""

from pipeline.schema import TableKind, category, count, number, seconds, text, truth

_TRACE = text("trace_id", "The run that phases were found in: the name of its trace.", required=True)
_PHASE = count("phase_id", "The phase, numbered from 0 by first occurrence.", "number", required=True)
_OCCURRENCE = count("occurrence", "The occurrence of the phase, numbered from 0.", "number", required=True)
_RANK = count("rank", "The MPI rank, from 0; 0 for a serial program.", "rank", required=True)
_FROM = count("from_event", "The call after which it begins (null: with the run), or executions before it.", "call")
_TO = count("to_event", "The call with which it ends (from_event: no call), or executions at its end.", "call")
_PLATFORM = category("platform", "The machine that the times were measured on.", required=True)

MPI_CALLS = TableKind(
    "mpi_calls",
    (
        _RANK,
        count("event", "The place of the call among the rank's calls, from 0.", "call", required=True),
        category("op", "The MPI function.", required=True),
        count("source", "The rank that a receive names; null where it names any.", "rank"),
        count("destination", "The rank that a send names.", "rank"),
        count("root", "The root of a rooted collective.", "rank"),
        count("tag", "The message's tag.", "number", minimum=None),
        count("bytes", "Bytes of the message, or per destination; null: unknown.", "bytes"),
        category("communicator", "The communicator; null: the one of all ranks."),
        count("completed_by", "The call that completed a non-blocking receive; null: none in the trace.", "call"),
        seconds("t_start_s", "Start of the call, by the clock of the trace."),
        seconds("t_end_s", "End of the call, by the clock of the trace."),
    ),
    ("rank", "event"),
    "The MPI calls of one run, in order of rank and call.",
)

PHASES = TableKind(
    "phases",
    (
        _TRACE,
        _PHASE,
        count("level", "How often phases were joined to longer ones; 0: as the trace shows them.", "level"),
        count("ticks", "Length of the first occurrence, in ticks of the logical clock or in intervals.", "ticks"),
        number("events", "Communication events of an occurrence, or counted executions; the mean.", "events"),
        count("n_occurrences", "How often the phase occurs (its weight).", "occurrences", minimum=1),
        seconds("time_s", "Time in all occurrences, on the reference machine."),
        number("share", "Share of the run's time."),
        number("relative_sd", "Standard deviation of its occurrences' times, or events, over their mean.", minimum=0),
        truth("is_relevant", "Whether the prediction measures the phase."),
        truth("repetitive", "Whether it occurs often enough that timing some occurrences saves time."),
    ),
    ("trace_id", "phase_id"),
    "The repeating phases of a run, with their weights and shares of its time.",
)

PHASE_POINTS = TableKind(
    "phase_points",
    (
        _TRACE,
        _PHASE,
        _OCCURRENCE,
        count("position", "The place of the occurrence among those of all phases, from 0.", "number", required=True),
        _RANK,
        _FROM,
        _TO,
        seconds("t_start_s", "When the occurrence began on this rank, from the start of the run."),
        seconds("t_end_s", "When it ended on this rank, from the start of the run."),
    ),
    ("trace_id", "phase_id", "occurrence", "rank"),
    "Where each occurrence of a phase begins and ends on each rank; their mean progress over ranks is its time.",
)

PHASE_PLAN = TableKind(
    "phase_plan",
    (
        _TRACE,
        _PHASE,
        _OCCURRENCE,
        _RANK,
        _FROM,
        _TO,
        truth("is_warmup", "Whether the occurrence only warms up the next one, and is not used."),
        seconds("reference_s", "Time of the occurrence on the reference machine, the mean over ranks."),
    ),
    ("trace_id", "phase_id", "occurrence", "rank"),
    "Which occurrences to time on another machine: from which call to which, per rank.",
)

PHASE_TIMES = TableKind(
    "phase_times",
    (
        _TRACE,
        _PHASE,
        _PLATFORM,
        _OCCURRENCE,
        seconds("time_s", "Time of the occurrence on the platform, the mean over ranks."),
        seconds("reference_s", "Time of the same occurrence on the reference machine."),
        truth("is_warmup", "Whether the occurrence only warms up the next one."),
        truth("is_control", "Whether it belongs to the control, which is chosen without phases."),
    ),
    ("trace_id", "phase_id", "platform", "occurrence", "is_warmup", "is_control"),
    "Measured times of occurrences on a platform.",
)

PLATFORM_PREDICTIONS = TableKind(
    "platform_predictions",
    (
        _TRACE,
        _PLATFORM,
        category("application", "The application, where it was given with the trace."),
        count("procs", "Processors of the run: MPI ranks, or 1.", "processors", minimum=1),
        seconds("runtime_s", "Predicted runtime on the platform."),
        seconds("runtime_s_lo80", "Lower end of the 80% interval."),
        seconds("runtime_s_hi80", "Upper end of the 80% interval."),
        seconds("runtime_s_lo95", "Lower end of the 95% interval."),
        seconds("runtime_s_hi95", "Upper end of the 95% interval."),
        number("coverage", "Share of the reference run's time in the phases that were timed."),
        seconds(
            "set_s", "Time spent measuring on the platform, warm-up included, and the even sample where it answers."
        ),
        number("set_share", "set_s by the predicted runtime."),
        category("status", "ok, or not_repetitive: run it whole.", required=True),
        category("method", "phases, or even: an evenly spaced sample of the whole run, without phases."),
        seconds("control_s", "Runtime from as many evenly spaced occurrences, without phases; null: not measured."),
        seconds("control_factor_s", "Control: the whole reference time, scaled by the one factor of all samples."),
        seconds("measured_s", "The run's true time on the platform, where the trace has all of it."),
        number("error", "Relative error of runtime_s, where the true time is known."),
    ),
    ("trace_id", "platform"),
    "Predicted runtimes on other platforms, from the times of some occurrences of each phase.",
)

PHASE_TABLES = (MPI_CALLS, PHASES, PHASE_POINTS, PHASE_PLAN, PHASE_TIMES, PLATFORM_PREDICTIONS)
