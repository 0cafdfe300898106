"""Which column of a table holds what: declared by the settings, told by a public set, or guessed from names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import InputError, did_you_mean, printable
from pipeline.ingest.formats.table.public_sets import public_set
from pipeline.settings import IngestSettings, LogColumn

INSTANTS = ("submit_s", "eligible_s", "start_s", "end_s")
DURATIONS = ("runtime_s", "requested_s", "suspended_s", "wait_s", "cpu_s")
COUNTS = ("procs", "nodes", "gpus", "requested_procs", "requested_nodes")
EXIT_CODES = ("exit_code", "derived_exit_code")
MEMORY = ("requested_mem_kib", "used_mem_kib", "max_rss_kib")
CATEGORIES = (
    "user", "user_group", "account", "application", "queue", "partition", "qos", "problem_size", "gpu_type", "array_id",
    "state",
)  # fmt: skip
TEXTS = ("job_id", "job_name", "preceding_job_id", "comment", "submit_line", "work_dir")
TARGETS = (*INSTANTS, *DURATIONS, *COUNTS, *EXIT_CODES, *MEMORY, "energy_j", *CATEGORIES, *TEXTS)
"""What a column of a table may hold: columns of JOBS, texts that rules read, and `wait_s`, from submit to start (s)."""

TIME_UNITS = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86_400.0,
}  # fmt: skip
MEMORY_UNITS = {
    "B": 1 / 1024, "KiB": 1.0, "MiB": 1024.0, "GiB": 1024.0**2, "TiB": 1024.0**3, "kB": 1000 / 1024, "MB": 1e6 / 1024,
    "GB": 1e9 / 1024,
}  # fmt: skip
ENERGY_UNITS = {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6}
COUNT_UNITS = {"1": 1.0, "%": 0.01, "milli": 1e-3}


def units_of(target: str) -> Mapping[str, float]:
    """The units of a number in the column for this target, each as a factor to JOBS's own; none for texts."""
    if target in INSTANTS or target in DURATIONS:
        return TIME_UNITS
    by_kind = ((MEMORY, MEMORY_UNITS), (COUNTS, COUNT_UNITS), (("energy_j",), ENERGY_UNITS))
    return next((units for names, units in by_kind if target in names), {})


_NAMES: Mapping[str, str] = {
    "job_id": "job_id jobid id_job jid job_number job id",
    "user": "user user_id userid username user_name usr uid id_user owner submitter",
    "user_group": "user_group group group_id gid id_group group_name",
    "account": "account account_name account_id project project_id project_name allocation",
    "queue": "queue queue_name partition partition_name virtual_cluster vc",
    "qos": "qos qos_name",
    "job_name": "job_name jobname name jnam jobname_hash",
    "application": "application app app_name executable exe program",
    "state": "state status job_state job_status exit_state final_state exit_status",
    "exit_code": "exit_code exitcode",
    "submit_s": "submit_s submit_time submit submitted submission_time submitted_time time_submit submit_timestamp "
    "submission submit_ts qtime queued_time creation_time timestamp",
    "eligible_s": "eligible_s eligible_time eligible time_eligible",
    "start_s": "start_s start_time start started starting_time time_start begin_time start_timestamp start_ts",
    "end_s": "end_s end_time end ended finish_time finish completion_time time_end stop_time end_timestamp end_ts",
    "runtime_s": "runtime_s runtime run_time elapsed elapsed_time elapsedraw duration walltime wall_time walltime_used "
    "execution_time makespan used_walltime resources_used_walltime wallclock_used",
    "wait_s": "wait_s wait_time wait waiting_time queue_time queue_wait",
    "requested_s": "requested_s requested_time wallclock_req walltime_req requested_walltime time_limit timelimit "
    "time_req walltime_requested req_walltime requested_wall_time resource_list_walltime",
    "suspended_s": "suspended_s suspended suspended_time time_suspended",
    "procs": "procs processors cpus cores ncpus num_cpus num_cores n_cores num_procs cpus_alloc cores_alloc alloccpus "
    "alloc_cpus cores_used cpus_used processors_used num_cpus_alloc num_cores_alloc cpu_count",
    "requested_procs": "requested_procs processors_req cpus_req cores_req req_cpus reqcpus requested_cpus "
    "requested_cores num_cores_req num_cpus_req requested_number_of_resources",
    "nodes": "nodes num_nodes nnodes n_nodes node_count nodes_used nodes_alloc alloc_nodes num_nodes_alloc",
    "requested_nodes": "requested_nodes nodes_req req_nodes reqnodes num_nodes_req nodes_requested",
    "gpus": "gpus num_gpus n_gpus ngpus gpu_count gpus_alloc num_gpus_alloc gpu_num gpus_used num_gpu gpus_req "
    "gpus_requested num_gpus_req",
    "gpu_type": "gpu_type gpu_model gpu_name gpu_types",
    "requested_mem_kib": "requested_mem_kib mem_req memory_req requested_memory requested_mem req_mem reqmem",
    "used_mem_kib": "used_mem_kib mem_used memory_used used_memory used_mem",
    "max_rss_kib": "max_rss_kib max_rss maxrss peak_memory max_memory",
    "cpu_s": "cpu_s cpu_time cputime total_cpu",
    "energy_j": "energy_j energy consumed_energy total_energy energy_consumed",
    "array_id": "array_id array_job_id id_array_job",
    "work_dir": "work_dir workdir working_directory",
    "submit_line": "submit_line submitline",
    "comment": "comment",
}  # fmt: skip
"""By target the names by which it is guessed, the surer first; a name may end with its unit, as in time_limit_min."""

_UNIT_WORDS = {
    "ns": "ns", "us": "us", "ms": "ms", "s": "s", "sec": "s", "secs": "s", "seconds": "s", "min": "min", "mins": "min",
    "minutes": "min", "h": "h", "hr": "h", "hrs": "h", "hours": "h", "days": "days", "kib": "KiB", "mib": "MiB",
    "gib": "GiB", "kb": "KiB", "mb": "MiB", "gb": "GiB", "bytes": "B", "j": "J", "joules": "J", "kj": "kJ",
    "kwh": "kWh", "wh": "Wh",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MappedColumns:
    """Per target the table's column, and how it is known: "declared", a public set's name, or "guessed"."""

    columns: Mapping[str, LogColumn]
    known_by: Mapping[str, str]

    @property
    def used(self) -> list[str]:
        """The columns of the table that are read."""
        named = [name for one in self.columns.values() for name in (one.column, one.times) if name is not None]
        return list(dict.fromkeys(named))

    @property
    def is_log(self) -> bool:
        """Whether they tell when jobs ran and for how long."""
        told = set(self.columns)
        has_instant = bool(told & {"submit_s", "start_s", "end_s"})
        return has_instant and ("runtime_s" in told or {"start_s", "end_s"} <= told)


def mapped_columns(names: Sequence[str], settings: IngestSettings, where: str) -> MappedColumns:
    """The map for a table with these columns; InputError where a declared column is not there, or one that is needed.

    What the settings declare comes first, then the map of a public set, and without such a set guesses from names.
    """
    declared = {target: _declared(target, said, names, where) for target, said in settings.columns.items()}
    found = guessed(names, declared)
    if not found.is_log:
        listed = ", ".join(printable(name, 40) for name in names[:12]) or "none"
        expected = "columns for submit_s, start_s or end_s, and for runtime_s or both start_s and end_s"
        do = 'name them in the config, as in [ingest.columns] submit_s = "time of submit"'
        raise InputError(where, f"the columns {listed}", expected, do)
    return found


def guessed(names: Sequence[str], declared: Mapping[str, LogColumn] | None = None) -> MappedColumns:
    """The map that names tell, with what is declared."""
    columns, known_by = dict(declared or {}), dict.fromkeys(declared or {}, "declared")
    public = public_set(names)
    taken = {column.column for column in columns.values()}
    for target, column in public.columns.items() if public else _by_name(names):
        if target not in columns and column.column in names and (public or column.column not in taken):
            columns[target], known_by[target] = column, public.name if public else "guessed"
    return MappedColumns(columns, known_by)


def _by_name(names: Sequence[str]) -> list[tuple[str, LogColumn]]:
    """Per target the column whose name is the surest; no column is guessed to hold two things."""
    plain = {name: _words(name) for name in names}
    found: list[tuple[str, LogColumn]] = []
    for target, known in _NAMES.items():
        ranks = {word: rank for rank, word in enumerate(known.split())}
        fits = [(ranks[word], name, unit) for name in names for word, unit in plain[name] if word in ranks]
        if fits:
            _, name, unit = min(fits, key=lambda fit: fit[0])
            found.append((target, LogColumn(column=name, unit=unit if unit in units_of(target) else None)))
    return found


def _words(name: str) -> list[tuple[str, str | None]]:
    """A column's name in small letters joined by underscores; also without the unit it ends with, and that unit."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    word = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")
    stem, _, last = word.rpartition("_")
    plain: list[tuple[str, str | None]] = [(word, None), (word.replace("_", ""), None)]
    return [*plain, (stem, _UNIT_WORDS[last])] if stem and last in _UNIT_WORDS else plain


def _declared(target: str, said: LogColumn | str | int, names: Sequence[str], where: str) -> LogColumn:
    """The column that the settings name; InputError where the target, the column or the unit is not known."""
    setting = f"ingest.columns.{printable(target)}"
    if target not in TARGETS:
        do = did_you_mean(target, TARGETS, otherwise="correct or remove it")
        raise InputError(setting, "an unknown name", f"one of {', '.join(TARGETS)}", do)
    if isinstance(said, int):
        if not 1 <= said <= len(names):
            raise InputError(setting, f"column {said}", f"a number from 1 to {len(names)}, the columns of {where}")
        return LogColumn(column=names[said - 1])
    column = LogColumn(column=said) if isinstance(said, str) else said
    for name in (column.column, column.times):
        if name is not None and name not in names:
            listed = ", ".join(printable(one, 40) for one in names[:12])
            do = did_you_mean(name, names, otherwise="correct the name")
            raise InputError(setting, f"{printable(repr(name))}, no column of {where}", f"one of {listed}", do)
    units = units_of(target)
    if column.unit is not None and column.unit not in units:
        expected = f"one of {', '.join(units)}" if units else "no unit"
        raise InputError(f"{setting}.unit", printable(repr(column.unit)), expected)
    return column
