"""The tables that flow between the rooms: columns, key, check()."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core import compute as pc
from pipeline.core.buffers import integers
from pipeline.core.columns import CATEGORY, TEMPLATE_COLUMNS, Column, columns
from pipeline.core.errors import TableError


@dataclass(frozen=True, slots=True)
class TableKind:
    """A table's name, columns and key. `check` is the one gate a table passes between rooms."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    meaning: str

    def schema(self, *, on_disk: bool = False) -> pa.Schema:
        """The Arrow schema; on disk categories are plain strings, so that any reader opens them."""
        return pa.schema([column.field(on_disk=on_disk) for column in self.columns], metadata={"table": self.name})

    def empty(self) -> pa.Table:
        """A table of this kind with no rows."""
        return pa.table([pa.nulls(0, f.type) for f in self.schema()], schema=self.schema())

    def build(self, **values: object) -> pa.Table:
        """A checked table from arrays or sequences by column name; columns not named are null."""
        unknown = sorted(set(values) - {column.name for column in self.columns})
        if unknown:
            raise TableError(self.name, f"columns {', '.join(unknown)}", "declared columns only")
        n_rows = len(next(iter(values.values())))  # type: ignore[arg-type]
        fields = self.schema()
        arrays = [as_array(values[f.name], f.type) if f.name in values else pa.nulls(n_rows, f.type) for f in fields]
        return self.check(pa.table(arrays, schema=fields))

    def check(self, table: pa.Table) -> pa.Table:
        """The same table under the declared schema; TableError where columns, types, nulls, bounds or key differ."""
        if table.column_names != [column.name for column in self.columns]:
            raise TableError(self.name, f"columns {table.column_names}", f"{[c.name for c in self.columns]}")
        conformed = pa.table([_conform(self.name, table, column) for column in self.columns], schema=self.schema())
        for column in self.columns:
            _check_values(self.name, conformed.column(column.name), column)
        _check_key(self.name, conformed, self.key)
        return conformed


def as_array(values: object, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Values as an Arrow array of the wanted type; NaN in a numpy array is null."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.type == wanted:
            return values
        return values.dictionary_encode().cast(wanted) if wanted == CATEGORY else values.cast(wanted)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        array = pa.array(values, mask=np.isnan(values))
        return array.cast(wanted)
    if wanted == CATEGORY:
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, wanted)


def _conform(kind: str, table: pa.Table, column: Column) -> pa.ChunkedArray:
    values = table.column(column.name)
    if values.type == column.type:
        return values
    if column.type == CATEGORY and (pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)):
        return values.cast(pa.string()).dictionary_encode()
    raise TableError(kind, f"column {column.name} of type {values.type}", f"type {column.type}")


def _check_values(kind: str, values: pa.ChunkedArray, column: Column) -> None:
    if column.is_required and values.null_count:
        raise TableError(kind, f"{values.null_count} nulls in column {column.name}", "a value in every row")
    if column.minimum is not None and len(values) > values.null_count:
        least = pc.min(values).as_py()
        if least < column.minimum:
            raise TableError(kind, f"{column.name} = {least}", f"at least {column.minimum:g}")


def _codes(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The column's distinct values as numbers from 1, null as 0."""
    array = values.unify_dictionaries().combine_chunks() if values.type == CATEGORY else values.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    indices, is_null = integers((array if array.type == CATEGORY else array.dictionary_encode()).indices)
    return np.where(is_null, 0, indices.astype(np.int64) + 1)


def _n_distinct(columns: list[npt.NDArray[np.int64]]) -> int:
    """Distinct rows; a column whose every value differs settles it, and one that never varies plays no part."""
    varying = [column for column in columns if column.max() > column.min()]
    if any(np.bincount(column).max() == 1 for column in varying):
        return len(columns[0])
    codes = np.zeros(len(columns[0]), np.int64)
    for column in varying:
        codes = np.unique(codes * (int(column.max()) + 1) + column, return_inverse=True)[1]
    return int(codes.max()) + 1


def _shows_no_repeat(values: pa.ChunkedArray) -> bool:
    """Whether all are texts of different numbers, and so differ: told in a fifth of the time that hashing takes."""
    if values.type != pa.string() or values.null_count:
        return False
    try:
        numbers = integers(values.cast(pa.int64()))[0]
    except pa.ArrowInvalid:
        return False
    steps = np.diff(numbers)
    return bool((steps > 0).all() or (np.diff(np.sort(numbers)) > 0).all())


def _check_key(kind: str, table: pa.Table, key: tuple[str, ...]) -> None:
    if not key or table.num_rows < 2 or any(_shows_no_repeat(table.column(name)) for name in key):
        return
    n_distinct = _n_distinct([_codes(table.column(name)) for name in key])
    if n_distinct != table.num_rows:
        raise TableError(kind, f"{table.num_rows - n_distinct} rows repeating the key", f"one row per {', '.join(key)}")


JOBS = TableKind(
    "jobs",
    columns(
        "site", "job_id", "restart", "user", "user_group", "account", "application", "queue", "partition", "qos",
        "job_name", "problem_size", "submit_s", "eligible_s", "start_s", "end_s", "procs", "nodes", "gpus", "runtime_s",
        "suspended_s", "requested_procs", "requested_nodes", "requested_s", "requested_mem_kib", "requested_memory",
        "used_mem_kib", "max_rss_kib", "cpu_s", "energy_j", "state", "exit_code", "derived_exit_code", "array_id",
        "het_id", "preceding_job_id", "think_s", "submit_tokens", "work_dir_hash",
        "source_file", "source_line", "flag", "burst_id", "is_lower_bound", "group_id",
    ),
    ("site", "job_id", "restart"),
    "One row per accounting record of one allocation: read by ingest, flagged by clean, grouped by group.",
)  # fmt: skip

SET_LATER = ("flag", "burst_id", "is_lower_bound", "group_id")
"""The columns of JOBS that ingest leaves null: clean sets all but the last, group that."""

UNREADABLE = TableKind(
    "unreadable",
    columns("source_file", "source_line", "byte_offset", "reason", "raw"),
    ("source_file", "source_line", "byte_offset"),
    "Records that could not be read, with where they stand and why.",
)

BURSTS = TableKind(
    "bursts",
    columns(
        "burst_id", "tier", "screen", "user", "n_jobs", "first_submit_s", "last_submit_s", "span_days",
        "share_of_span", "machine_weeks", "alike_procs", "alike_application", "runtime_spread", "runtime_s_q25",
        "runtime_s_median", "runtime_s_q75", "proc_hours", "why",
    ),
    ("burst_id",),
    "Bursts of one user: those set aside and those only listed, with the figures that tell one from the other.",
)  # fmt: skip

EFFECT = TableKind(
    "effect",
    columns(
        "selection", "n_jobs", "n_users", "proc_hours", "runtime_s_mean", "runtime_s_median", "procs_mean",
        "procs_median", "jobs_per_day_mean", "jobs_per_day_median", "load",
    ),
    ("selection",),
    "What cleaning changed: the whole log, what is kept, and what each flag set aside.",
)  # fmt: skip

GROUPS = TableKind(
    "groups",
    columns(
        "group_id", "site", "template", "label", *TEMPLATE_COLUMNS, "n_jobs", "n_sizes", "first_start_s", "last_end_s",
    ),
    ("group_id",),
    "One row per similarity group: the template's values its jobs share.",
)  # fmt: skip

TEMPLATES = TableKind(
    "templates",
    columns(
        "template", "error_later", "n_later", "share_covered", "n_groups", "n_scaling_groups", "scaling_proc_hours",
        "score", "is_chosen", "is_previous", "why",
    ),
    ("template",),
    "The templates compared by their error on the log's later jobs and the series they yield; best score first.",
)  # fmt: skip

OBSERVATIONS = TableKind(
    "observations",
    columns(
        "group_id", "procs", "n_jobs", "n_censored", "runtime_s_median", "runtime_s_q10", "runtime_s_q90", "log_sd",
        "repeat_log_lo95", "repeat_log_hi95", "n_energy", "energy_j_median", "energy_delay_js_median",
        "first_start_s", "last_end_s", "odd", "deviation", "expected_s", "fit_weight",
    ),
    ("group_id", "procs"),
    "Runtime statistics per group and processor count; a group's rows in order of procs are its scalability series.",
)  # fmt: skip

FITS = TableKind(
    "fits",
    columns(
        "group_id", "law", "t1_s", "tinf_s", "avg_parallelism", "avg_parallelism_lo", "avg_parallelism_hi", "sigma",
        "serial_fraction", "overhead_s", "exponent", "n_points", "n_jobs", "procs_min", "procs_max", "wssre",
        "loo_log_rmse", "core_log_sd", "repeat_log_lo95", "repeat_log_hi95", "status", "is_chosen",
    ),
    ("group_id", "law"),
    "One row per group and law, failed fits too; is_chosen marks the law that answers for the group.",
)  # fmt: skip

PATTERNS = TableKind(
    "patterns",
    columns(
        "group_id", "pattern", "step", "status", "log_odds", "factor", "from_procs", "node_procs", "n_points", "words",
    ),
    ("group_id", "pattern", "step"),
    "Per group and pattern what its series shows: steps, favoured processor counts, a declining piece; not found, too.",
)  # fmt: skip

RUNTIME_CLASSES = TableKind(
    "runtime_classes",
    columns("group_id", "runtime_class", "class_factor", "class_share", "n_jobs"),
    ("group_id", "runtime_class"),
    "Classes of runtime inside a group whose problem size nothing names: the same curve times a factor each.",
)

ACROSS = TableKind(
    "across",
    columns(
        "group_id", "base_group_id", "procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95",
        "runtime_s_hi95", "ratio_s", "own_s", "status", "same_application", "overhead_power",
    ),
    ("group_id", "procs"),
    "Runtimes of a problem size from few of its own sizes and the series of another one; a constant ratio beside them.",
)  # fmt: skip

PREDICTIONS = TableKind(
    "predictions",
    columns(
        "group_id", "procs", "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95",
        "speedup", "efficiency", "is_extrapolated", "reliability", "advice", "near_share", "holds_until_s",
        "method", "run_id",
    ),
    ("group_id", "procs"),
    "Predicted runtime per group on a grid of processor counts, with intervals for one new run.",
)  # fmt: skip

SCALABILITY = TableKind(
    "scalability",
    columns(
        "group_id", "law", "t1_s", "avg_parallelism", "sigma", "largest_useful_procs", "working_set_procs",
        "working_set_speedup", "working_set_efficiency", "time_optimal_procs", "efficiency_80_procs",
        "efficiency_50_procs",
        "reliability", "advice", "run_id",
    ),
    ("group_id",),
    "One row per group whose law scales: how many processors are worth asking for.",
)  # fmt: skip

ESTIMATES = TableKind(
    "estimates",
    columns(
        "site", "template", "chain_rank", "who", "what", "queue", "requested_s", "procs", "runtime_s_q10",
        "runtime_s_q50", "runtime_s_q80", "runtime_s_q90", "runtime_s_q95", "runtime_s_q99", "ratio_q10", "ratio_q50",
        "ratio_q80", "ratio_q90", "ratio_q95", "ratio_q99", "n_jobs", "n_effective", "newest_end_s", "run_id",
    ),
    ("site", "template", "who", "what", "queue", "requested_s", "procs"),
    "Runtime quantiles to look up at a job's submit: of the rows that have its values (null: any) the one of least "
    "chain_rank; its ratios times the request where both are there, else its seconds, the median at most the request. "
    "A job that requests no runtime has requested_s 0.",
)  # fmt: skip

STATE = TableKind(
    "state",
    columns("array", "shape", "floats", "integers", "flags", "texts"),
    ("array",),
    "What the estimator walltime has learnt from the log and answers from: one row per array.",
)

SCALING_ERRORS = TableKind(
    "scaling_errors",
    columns(
        "predictor", "split", "n_series", "n_targets", "n_answered", "median_abs_error_pct", "n_near",
        "near_median_abs_error_pct",
    ),
    ("predictor", "split"),
    "How far each predictor is off on measured series; no run publishes it.",
)  # fmt: skip

BACKTEST = TableKind(
    "backtest",
    columns(
        "log", "estimator", "stale_days", "learnt_from", "part", "part_value", "n_jobs", "n_fallback", "n_unanswered",
        "mae_s", "mae_over_mean",
        "median_abs_pct", "share_under", "pinball_q10_s", "pinball_q50_s", "pinball_q80_s", "pinball_q90_s",
        "pinball_q95_s", "pinball_q99_s", "coverage_q10", "coverage_q50", "coverage_q80", "coverage_q90",
        "coverage_q95", "coverage_q99", "coverage_80",
        "q95_over_request",
    ),
    ("log", "estimator", "stale_days", "learnt_from", "part", "part_value"),
    "How good each method's estimates were, made as of every submit; of all jobs scored, and of parts of them.",
)  # fmt: skip

TABLES = {
    kind.name: kind
    for kind in (
        JOBS, UNREADABLE, BURSTS, EFFECT, TEMPLATES, GROUPS, OBSERVATIONS, PATTERNS, RUNTIME_CLASSES, ACROSS, FITS,
        PREDICTIONS, SCALABILITY, ESTIMATES, STATE, BACKTEST,
    )
}  # fmt: skip
