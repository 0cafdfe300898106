"""The tables that flow between the rooms, their columns, and the jobs that models over inputs learn from.

Every column is declared once in columns.tsv: name, type, unit, whether it is ever null, least, meaning. `least` is the
least value, or `>0` for values that are above 0 where they are published. A name such as `phases/share` is a column
`share` whose meaning differs from that of other tables.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from pipeline.arrays import CATEGORY, Bools, Floats, Ints
from pipeline.schema import Column, TableKind

LEVELS = (10, 50, 80, 90, 95, 99)
"""The quantiles of estimates, %."""

QUANTILES = tuple(f"runtime_s_q{level}" for level in LEVELS)
RATIOS = tuple(f"ratio_q{level}" for level in LEVELS)
INTERVALS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")

_TYPES = {
    "text": pa.string(),
    "category": CATEGORY,
    "integer": pa.int64(),
    "real": pa.float64(),
    "boolean": pa.bool_(),
}


def _declared() -> Iterator[tuple[str, Column]]:
    """The columns of the file by their names there; a type in the plural is a list."""
    for line in Path(__file__).with_name("columns.tsv").read_text("utf-8").splitlines()[1:]:
        if not line.startswith("#"):
            name, kind, unit, null, least, meaning = line.split("\t")
            of = _TYPES.get(kind) or pa.list_(pa.field("element", _TYPES[kind.removesuffix("s")]))
            bounds = {"is_positive": True} if least == ">0" else {"minimum": float(least)} if least else {}
            yield name, Column(name.rpartition("/")[2], of, meaning, unit or None, null == "never", **bounds)


COLUMNS = dict(_declared())

ASCENDING = (
    ("first_start_s", "last_end_s"),
    ("procs_min", "procs_max"),
    ("runtime_s_q10", "runtime_s_median", "runtime_s_q90"),
    ("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95"),
    QUANTILES,
    RATIOS,
)
"""Columns of one table whose values ascend in every row, where they are there; checked before publishing."""

TEMPLATE_COLUMNS = (
    "user",
    "user_group",
    "account",
    "application",
    "queue",
    "partition",
    "qos",
    "problem_size",
    "requested_s",
    "requested_mem_kib",
    "requested_memory",
    "job_name",
    "procs",
)
"""Columns a similarity template may name."""


def columns(*names: str, never_null: Collection[str] = ()) -> tuple[Column, ...]:
    """The declared columns of these names, in the given order; some that other tables leave null never are here."""
    unknown = sorted(set(never_null) - set(names))
    if unknown:
        raise ValueError(f"never_null names {', '.join(unknown)}, expected columns of the table")
    return tuple(replace(COLUMNS[name], is_required=True) if name in never_null else COLUMNS[name] for name in names)


JOB = ("cluster", "job_id")
"""What names a job of a site: each cluster of an accounting counts ids of its own. `restart` tells its records apart,
and what a format names beside (Reader.same_record, a submit among them) whether two of them are one, read twice."""

JOBS = TableKind(
    "jobs",
    columns(
        "site", "cluster", "job_id", "restart", "user", "user_group", "account", "application", "queue", "partition",
        "qos", "job_name", "problem_size", "submit_s", "eligible_s", "start_s", "end_s", "procs", "nodes", "gpus",
        "gpu_type", "runtime_s", "suspended_s", "requested_procs", "requested_nodes", "requested_s", "limit_set_s",
        "limit_set_by", "requested_mem_kib", "requested_memory", "used_mem_kib", "max_rss_kib", "cpu_s", "energy_j",
        "state", "exit_code", "derived_exit_code", "array_id", "het_id", "preceding_job_id", "think_s",
        "submit_tokens", "inputs", "work_dir_hash", "source_file", "source_line", "flag", "burst_id",
        "is_lower_bound", "group_id",
    ),
    ("site", *JOB, "restart"),
    "One row per accounting record of one allocation: read by ingest, flagged by clean, grouped by group.",
)  # fmt: skip

SET_LATER = ("flag", "burst_id", "is_lower_bound", "group_id")
"""The columns of JOBS that ingest leaves null: clean sets all but the last one, group sets the last one."""

GROUPED_JOBS = TableKind(
    "grouped_jobs",
    columns(
        "group_id", "site", *TEMPLATE_COLUMNS, "requested_procs", "nodes", "gpus", "gpu_type", "submit_s", "start_s",
        "end_s", "runtime_s", "energy_j", "is_lower_bound", never_null=("group_id",),
    ),
    (),
    "The jobs that have a group, in order of its id; between the steps of a run, never published.",
)  # fmt: skip

UNREADABLE = TableKind(
    "unreadable",
    columns("source_file", "source_line", "byte_offset", "reason", "raw"),
    ("source_file", "source_line", "byte_offset"),
    "Records that could not be read, with file, line and reason.",
)

BURSTS = TableKind(
    "bursts",
    columns(
        "burst_id", "tier", "screen", "user", "n_jobs", "first_submit_s", "last_submit_s", "span_days",
        "share_of_span", "machine_weeks", "alike_procs", "alike_application", "runtime_spread", "runtime_s_q25",
        "runtime_s_median", "runtime_s_q75", "proc_hours", "why",
        never_null=("burst_id",),
    ),
    ("burst_id",),
    "Bursts of one user, set aside or only listed, and why.",
)  # fmt: skip

EFFECT = TableKind(
    "effect",
    columns(
        "selection", "n_jobs", "n_users", "proc_hours", "runtime_s_mean", "runtime_s_median", "procs_mean",
        "procs_median", "jobs_per_day_mean", "jobs_per_day_median", "load",
    ),
    ("selection",),
    "The effect of cleaning: figures of the whole log, of the kept jobs, and of the jobs of each flag.",
)  # fmt: skip

GROUPS = TableKind(
    "groups",
    columns(
        "group_id", "site", "template", "label", *TEMPLATE_COLUMNS, "gpu_type", "axis", "n_jobs", "n_sizes",
        "first_start_s", "last_end_s",
        never_null=("group_id", "site", "template"),
    ),
    ("group_id",),
    "One row per similarity group, with the template values that its jobs share.",
)  # fmt: skip

TEMPLATES = TableKind(
    "templates",
    columns(
        "template", "error_later", "n_later", "share_covered", "n_groups", "n_scaling_groups", "scaling_proc_hours",
        "score", "is_chosen", "is_previous", "why",
        never_null=("template",),
    ),
    ("template",),
    "The templates, compared by their error on later jobs and their series; best score first.",
)  # fmt: skip

OBSERVATIONS = TableKind(
    "observations",
    columns(
        "group_id", "axis", "procs", "n_jobs", "n_censored", "runtime_s_median", "runtime_s_q10", "runtime_s_q90",
        "log_sd", "repeat_log_lo95", "repeat_log_hi95", "n_energy", "energy_j_median", "energy_delay_js_median",
        "first_start_s", "last_end_s", "odd", "deviation", "expected_s", "fit_weight",
        never_null=("group_id", "procs"),
    ),
    ("group_id", "procs"),
    "Runtime statistics per group and count on its axis; a group's rows in order of procs are its scalability series.",
)  # fmt: skip

FITS = TableKind(
    "fits",
    columns(
        "group_id", "axis", "law", "t1_s", "tinf_s", "avg_parallelism", "avg_parallelism_lo", "avg_parallelism_hi",
        "sigma", "serial_fraction", "overhead_s", "exponent", "n_points", "n_jobs", "procs_min", "procs_max", "wssre",
        "loo_log_rmse", "core_log_sd", "repeat_log_lo95", "repeat_log_hi95", "status", "is_chosen",
        never_null=("group_id", "law"),
    ),
    ("group_id", "law"),
    "One row per group and law, failed fits included; is_chosen marks the law that is used for the group.",
)  # fmt: skip

PATTERNS = TableKind(
    "patterns",
    columns(
        "group_id", "pattern", "step", "status", "log_odds", "factor", "from_procs", "node_procs", "n_points", "words",
        never_null=("group_id",),
    ),
    ("group_id", "pattern", "step"),
    "The result of each pattern test per group: steps, favoured processor counts, a decline, or none.",
)  # fmt: skip

ACROSS = TableKind(
    "across",
    columns(
        "group_id", "base_group_id", "procs", *INTERVALS, "ratio_s", "own_s", "status", "same_application",
        "overhead_power",
        never_null=("group_id", "procs"),
    ),
    ("group_id", "procs"),
    "Runtimes of a problem size with few processor counts, predicted from another problem size.",
)  # fmt: skip

PREDICTIONS = TableKind(
    "predictions",
    columns(
        "group_id", "axis", "procs", *INTERVALS, "speedup", "efficiency", "is_extrapolated", "reliability", "advice",
        "kept_share", "n_later", "method", "run_id",
        never_null=("group_id", "procs"),
    ),
    ("group_id", "procs"),
    "Runtime of the runs of a group at each of some processor counts (or GPUs, nodes), with intervals.",
)  # fmt: skip

SCALABILITY = TableKind(
    "scalability",
    columns(
        "group_id", "axis", "law", "t1_s", "avg_parallelism", "sigma", "largest_useful_procs", "working_set_procs",
        "working_set_speedup", "working_set_efficiency", "time_optimal_procs", "efficiency_80_procs",
        "efficiency_50_procs",
        "reliability", "advice", "run_id",
        never_null=("group_id",),
    ),
    ("group_id",),
    "One row per group that gains from more of its axis, with the counts to request.",
)  # fmt: skip

ESTIMATES = TableKind(
    "estimates",
    columns(
        "site", "template", "chain_rank", "who", "what", "queue", "requested_s", "procs", "gpus", "gpu_type",
        *QUANTILES, *RATIOS, "n_jobs", "newest_end_s", "run_id",
        never_null=("site", "template"),
    ),
    ("site", "template", "who", "what", "queue", "requested_s", "procs", "gpus", "gpu_type"),
    "Runtime quantiles to look up at a job's submit: the row of least chain_rank whose values are the job's or null. "
    "Where the row has ratios and the job a request, multiply them, else take the seconds. The median is at most the "
    "request. A job without a requested runtime has requested_s 0.",
)  # fmt: skip

ADVICE = TableKind(
    "advice",
    columns(
        "site", "who", "what", "procs", "gpus", "gpu_type", "requested_s", "recommended_s", "chance_longer", "n_jobs",
        "n_checked", "newest_end_s", "run_id",
        never_null=("site", "procs", "requested_s", "recommended_s", "chance_longer"),
    ),
    ("site", "who", "what", "procs", "gpus", "gpu_type", "requested_s"),
    "What to request: a time that about 3% of later jobs of a user, application, processor count and request exceed. "
    "Where it cannot be determined there is no row.",
)  # fmt: skip

MEMORY = TableKind(
    "memory",
    columns(
        "site", "template", "chain_rank", "who", "what", "queue", "requested_mem_kib", "procs", "gpus", "gpu_type",
        "used_mem_kib_q50", "largest_mem_kib", "recommended_mem_kib", "recommended_share", "n_jobs",
        "newest_end_s", "run_id",
        never_null=("site", "template", "recommended_mem_kib"),
    ),
    ("site", "template", "who", "what", "queue", "requested_mem_kib", "procs", "gpus", "gpu_type"),
    "Memory to look up at a job's submit, as in estimates. A job without a requested memory has requested_mem_kib 0. "
    "Empty where the log records no used memory.",
)  # fmt: skip

WASTE = TableKind(
    "waste",
    columns(
        "site", "kind", "name", "n_jobs", "proc_hours", "n_cpu", "unused_proc_hours", "n_gpu", "gpu_hours", "n_gpu_cpu",
        "unused_gpu_hours", "n_one_proc_gpu", "one_proc_gpu_hours", "n_memory", "gib_hours", "unused_gib_hours",
        "n_requested", "reserved_hours", "n_energy", "energy_kwh", "unused_kwh", "usual_procs", "ask_procs",
        "n_ask_procs", "ask_procs_share", "usual_mem_kib", "ask_mem_kib", "n_ask_mem", "ask_mem_share", "run_id",
        never_null=("site",),
    ),
    ("kind", "name"),
    "What jobs allocated and did not use, by application, account and user, and what to request instead; most unused "
    "processor-hours first. `walltime show` leaves out rows of users without --users.",
)  # fmt: skip

STARTS = TableKind(
    "starts",
    columns(
        "site", "job_id", "queue", "made_s", "start_s_q10", "start_s_q50", "start_s_q80", "start_s_q95", "answered_by",
        "is_newest", "started_s",
        never_null=("site", "job_id", "made_s"),
    ),
    ("job_id", "made_s"),
    "When pending jobs were expected to start: of each job the first answer and the newest one, for a week. Written by "
    "`walltime guard`, in the folder `live`.",
)  # fmt: skip

STATE = TableKind(
    "state",
    columns("array", "shape", "floats", "integers", "flags", "texts"),
    ("array",),
    "The trained estimator walltime: one row per array.",
)

MEMORY_STATE = TableKind(
    "memory_state",
    STATE.columns,
    STATE.key,
    "The same for memory, in KiB per processor. Empty where the log records no used memory.",
)

SCALING_ERRORS = TableKind(
    "scaling_errors",
    columns(
        "predictor", "split", "n_series", "n_targets", "n_answered", "median_abs_error_pct", "n_near",
        "near_median_abs_error_pct",
    ),
    ("predictor", "split"),
    "Errors of predictors on measured series; no run publishes this table.",
)  # fmt: skip

BACKTEST = TableKind(
    "backtest",
    columns(
        "log", "estimator", "stale_days", "learnt_from", "part", "part_value", "n_jobs", "n_fallback", "n_unanswered",
        "mae_s", "mae_over_mean", "median_abs_pct", "share_under", *[f"pinball_q{level}_s" for level in LEVELS],
        *[f"coverage_q{level}" for level in LEVELS], "coverage_80", "q95_over_request",
    ),
    ("log", "estimator", "stale_days", "learnt_from", "part", "part_value"),
    "The accuracy of each method's estimates, made as of every submit, over all scored jobs and over parts of them.",
)  # fmt: skip

BACKTEST_ERRORS = TableKind(
    "backtest_errors",
    columns(
        "log", "estimator", "stale_days", *JOB, "restart", "submit_s", "runtime_s", *QUANTILES, "runtime_quantile",
        "known_age_days",
    ),
    ("log", "estimator", "stale_days", *JOB, "restart"),
    "Each scored job's estimates by each method of a backtest, beside its runtime; no run publishes this table.",
)  # fmt: skip

ERRORS = TableKind(
    "errors",
    columns(
        "day", *JOB, "restart", "user", "account", "application", "procs", "requested_s", "submit_s", "end_s",
        "state", "runtime_s", *QUANTILES, "runtime_quantile", "why",
    ),
    (*JOB, "restart"),
    "Estimates of the last ended jobs at their submits beside what came, the worst first; made when it is asked for.",
)  # fmt: skip

REPLAY = TableKind(
    "replay",
    columns(
        "log", "policy", "estimates", "correction", "is_guarded", "convention", "has_waits", "n_shakes", "part",
        "part_value", "statistic", "n_jobs", "slowdown_mean", "slowdown_median", "wait_mean_s", "wait_p99_s",
        "wait_longest_s", "wait_wide_mean_s", "response_mean_s", "utilisation", "share_backfilled", "share_corrected",
        "slowdown_change", "wait_change_s",
    ),
    ("log", "policy", "estimates", "correction", "is_guarded", "part", "part_value", "statistic"),
    "What-if: how jobs would have waited under each policy with each estimates, over replays with shaken arrivals.",
)  # fmt: skip

INPUT_MODELS = TableKind(
    "input_models",
    columns(
        "site", "application", "input_names", "n_jobs", "n_scored", "model_mae_s", "last_two_mae_s", "request_mae_s",
        "walltime_mae_s", "is_published", "model", "model_arrays", "run_id",
        never_null=("application",),
    ),
    ("application", "input_names"),
    "Models of the runtime over inputs in job names, comments or submit lines, scored as of each submit.",
)  # fmt: skip

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

TABLES = {
    kind.name: kind
    for kind in (
        JOBS, UNREADABLE, BURSTS, EFFECT, TEMPLATES, GROUPS, OBSERVATIONS, PATTERNS, ACROSS, FITS,
        PREDICTIONS, SCALABILITY, ESTIMATES, ADVICE, WASTE, STARTS, STATE, MEMORY, MEMORY_STATE,
        INPUT_MODELS, BACKTEST, BACKTEST_ERRORS, ERRORS, REPLAY,
        *PHASE_TABLES,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SubmittedRuns:
    """Arrays of one value a job, in order of submit; NaN and -1 are unknown; times s since 1970, durations s."""

    submit_s: Floats
    known_s: Floats
    """The time up to which the estimate of a job may use events."""
    end_s: Floats
    """When the runtime is known; infinite where it is not."""
    runtime_s: Floats
    is_lower_bound: Bools
    is_learnt: Bools
    requested_s: Floats
    last_two_s: Floats
    """The mean of the submitter's last two ended jobs at the submit, else the request."""
    usual_s: Floats
    """The median of the estimator that answers where no model does, as of the submit; NaN: unknown."""
    procs: Floats
    user: Ints
    users: Sequence[str]
    application: Ints
    applications: Sequence[str]
    inputs: Ints
    inputs_texts: Sequence[str]
    """JSON objects of texts by name, as in the column `inputs` of JOBS."""
