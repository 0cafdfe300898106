"""Types records of sacct, from text or JSON: what Slurm's numbers mean in the columns of JOBS."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import (
    CATEGORY,
    Bools,
    Floats,
    Ints,
    arrow,
    integers,
    nulls,
    one_piece,
    replaced,
    unknown,
    words_of,
)
from pipeline.ingest import values
from pipeline.ingest.formats.sacct import columns
from pipeline.ingest.formats.sacct.columns import COLUMNS, STATES, Kind
from pipeline.ingest.formats.sacct.scan import ID, LINE, MOST_DIGITS, RawTable
from pipeline.ingest.reader import (
    STEPS,
    Folded,
    Remarks,
    by_word,
    categories,
    constant,
    jobs_table,
    real,
    whole,
)
from pipeline.ingest.slurm_texts import (
    CPUS,
    NO_COUNT,
    NODES,
    asked_s_of,
    counted,
    exit_code,
    gpu_type,
    gpus_of,
    noted_by_of,
    noted_s_of,
)
from pipeline.ingest.sources import Source
from pipeline.ingest.values import JOB, NODE, PROCESSOR, Bytes, Per, truths
from pipeline.large_tables import connected
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

REASONS = (
    "too_few_fields", "too_many_fields", "ambiguous_fields", *columns.REASONS.values(), "time_without_date",
    "not_a_record", "line_too_long", "cut_off", "joined_records", "shifted_fields",
)  # fmt: skip
CODE = {reason: code for code, reason in enumerate(REASONS, 1)}
"""A reason as a number; 0: the record is good so far."""

ZONE, STATE, CLUSTER = "zone ", "state ", "cluster "
"""What remarks on the zone of local times, on an unknown state and on a cluster begin with; its name follows."""

_ID_PARTS = ("array_id", "het_id", "step")
_MOST = 2.0**40
"""More of anything countable is an error in the log."""


@dataclass(frozen=True, slots=True)
class Context:
    """What every piece of one source is read with."""

    source: Source
    site: SiteSettings
    settings: IngestSettings
    is_text: bool = True
    """Whether a damaged line may have moved a value to another column."""


@dataclass(slots=True)
class Fields:
    """Some records, asked for by what a column tells; a value that cannot be read marks its record in `bad`.

    bad: 0, or the code of the first reason met.
    """

    rows: RawTable
    context: Context
    remarks: Remarks
    bad: Bytes

    def has(self, what: str) -> bool:
        """Whether the dump has a column that tells this."""
        return what in self.rows.column_names

    def text(self, what: str) -> pa.Array:
        """A string."""
        return one_piece(self.rows[what]) if self.has(what) else unknown(len(self.rows), pa.string())

    def category(self, what: str) -> pa.Array:
        """A category."""
        found = categories(self.text(what), str)
        if COLUMNS[what].kind is Kind.NAME:
            is_other = by_word(found, lambda word: word in STATES or _STAMP.fullmatch(word) is not None) == 1
            self.mark(is_other, "shifted_fields")
        return found

    def by_word(self, what: str, value_of: Callable[[str], float | None]) -> Floats:
        """A function's value of each text, which it sees once; NaN where there is no text, or None."""
        return by_word(self.category(what), value_of)

    def instants(self, what: str) -> values.Instants:
        """UTC epoch seconds; those that came twice are not tallied yet."""
        words, zone = self.text(what), self.context.site.timezone
        typed = values.instants(words, zone, day_first=self.context.settings.day_first)
        self.mark(typed.has_no_date, "time_without_date")
        self.mark(typed.invalid, "not_a_time")
        if self.context.is_text:
            # So few digits are no time of an accounting log, but a number of another column.
            is_short = ~typed.missing & (typed.values < 10**_SHORT_DIGITS)
            if is_short.any():
                self.mark(is_short & (np.diff(words_of(words)[1]) <= _SHORT_DIGITS), "not_a_time")
        self.remarks["skipped_times"] += typed.n_skipped
        self.remarks["slashed_times"] += typed.n_slashed
        self.remarks[f"{ZONE}{zone}"] += typed.n_local
        return typed

    def duration(self, what: str) -> Floats:
        """Seconds, NaN where there are none."""
        typed = values.durations(self.text(what))
        self.mark(typed.invalid | (typed.floats() < 0), "not_a_duration")
        return typed.floats()

    def count(self, what: str) -> tuple[Ints, Bools]:
        """A whole number (1.50K is 1536, 10.0 is 10), and where there is none."""
        words = self.text(what)
        typed = values.integers(words)
        if typed.invalid.any():
            odd = np.flatnonzero(typed.invalid)
            scaled = values.memory(words.take(arrow(odd)))
            is_wrong = scaled.invalid | (scaled.values > _MOST)
            typed.values[odd] = np.where(scaled.missing | is_wrong, 0.0, scaled.values * 1024).astype(np.int64)
            typed.missing[odd] = scaled.missing
            self.mark(np.isin(np.arange(len(words)), odd[is_wrong]), "not_a_number")
        return typed.values, typed.missing

    def memory(self, what: str, plain_kib: float) -> tuple[Floats, Per]:
        """KiB, NaN where there are none, and what they are counted per; sacct writes ? for a size that it lost."""
        typed = values.memory(self.text(what), plain_kib)
        self.mark(typed.invalid, "not_a_memory_size")
        return typed.floats(), typed.per

    def energy_j(self) -> Floats:
        """Joules, NaN where none were measured; a text that is no energy is tallied, and its record stays."""
        typed = values.energy_j(self.text("energy"))
        self.remarks["odd_energies"] += int(np.count_nonzero(typed.invalid))
        return typed.floats()

    def exit_code(self, what: str) -> Floats:
        """The code, 128 + signal where one ended it, NaN where there is none."""
        code = self.by_word(what, exit_code)
        self.mark(np.isnan(code) & ~nulls(self.text(what)), "not_an_exit_code")
        return code

    def mark(self, invalid: Bools, reason: str) -> None:
        """Set records aside that have no reason yet."""
        if invalid.any():
            self.bad[invalid & (self.bad == 0)] = CODE[reason]


_TYPERS: Mapping[Kind, Callable[[Fields, str], pa.Array]] = {
    Kind.NAME: Fields.category,
    Kind.FREE: Fields.text,
    Kind.FOLDER: Fields.text,
    Kind.COMMAND: Fields.text,
    Kind.EXIT: lambda fields, what: whole(fields.exit_code(what)),
    Kind.COUNT: lambda fields, what: arrow(*fields.count(what)),
}
_AS_THEY_ARE = (
    "cluster", "user", "user_group", "account", "queue", "qos", "job_name", "exit_code", "derived_exit_code",
    "attempt_key",
)  # fmt: skip
"""Columns of JOBS and EXTRAS that hold what one column of sacct does."""


def typed_records(
    rows: RawTable, first_line: int, context: Context, remarks: Remarks, bad: Bytes
) -> tuple[pa.Table, pa.Table]:
    """Jobs (JOBS and EXTRAS), and STEPS. Records that cannot be typed are in neither table, and marked in `bad`."""
    rows, is_step = _with_ids(rows)
    bad[nulls(rows["job_id"]) & (bad == 0)] = CODE["no_job_id"]
    is_job = ~is_step & ~nulls(rows["job_id"])
    tables = []
    for chosen, typed, said in ((is_job, _jobs, remarks), (is_step, _steps, Remarks())):
        own = rows if chosen.all() else rows.filter(arrow(chosen)).combine_chunks()
        fields = Fields(own, context, said, bad[chosen])
        table = typed(fields, first_line)
        tables.append(table.filter(arrow(fields.bad == 0)) if fields.bad.any() else table)
        bad[chosen] = fields.bad
    jobs, steps = tables
    return jobs, steps


def _with_ids(rows: RawTable) -> tuple[RawTable, Bools]:
    """The rows with what their ids name: the job, its array, its heterogeneous job, the step; and which are steps."""
    ids = one_piece(rows["id"])
    is_odd = ~truths(pc.match_substring_regex(ids, rf"^\d{{1,{MOST_DIGITS}}}$"))
    named = {name: ids if name == "job_id" else unknown(len(ids), pa.string()) for name in ("job_id", *_ID_PARTS)}
    if is_odd.any():
        parts = pc.extract_regex(ids.filter(arrow(is_odd)), ID)
        job, number, task, component, step = (
            pc.struct_field(parts, name) for name in ("job", "number", "task", "component", "step")
        )
        own = {
            "job_id": job,
            "array_id": pc.if_else(pc.equal(task, ""), None, number),
            "het_id": pc.if_else(pc.equal(component, ""), None, pc.binary_join_element_wise(number, task, "")),
            "step": pc.if_else(pc.equal(step, ""), None, step),
        }
        named = {name: pc.replace_with_mask(column, arrow(is_odd), own[name]) for name, column in named.items()}
    for name, column in named.items():
        rows = rows.append_column(name, column)
    return rows, ~nulls(named["step"])


def _jobs(fields: Fields, first_line: int) -> pa.Table:
    """JOBS and EXTRAS of records of jobs."""
    n, context = len(fields.rows), fields.context
    typed = {what: _TYPERS[COLUMNS[what].kind](fields, what) for what in (*_AS_THEY_ARE, *_asked_texts(context))}
    typed |= _times(fields) | _sizes(fields)
    named = pc.value_counts(typed["cluster"].drop_null().cast(pa.string()))
    fields.remarks.update({f"{CLUSTER}{one['values']}": one["counts"] for one in named.to_pylist()})
    typed |= {
        "site": constant(context.site.name, n),
        "job_id": fields.text("job_id"),
        "array_id": categories(fields.text("array_id"), str),
        "het_id": categories(fields.text("het_id"), str),
        "state": _states(fields),
        **_limits(fields),
        "source_file": constant(context.source.label, n),
        "source_line": arrow(integers(fields.rows[LINE])[0] + first_line),
    }
    return jobs_table(n, **typed)


def _asked_texts(context: Context) -> list[str]:
    """The raw texts that rules, tokens and hashes will ask for."""
    settings = context.settings
    rules = (*settings.application_rules, *settings.problem_size_rules)
    asked = {"work_dir", *(rule.text for rule in rules), *(rule.text for rule in settings.input_rules)}
    asked |= {"submit_line"} if settings.keep_submit_line else set()
    return [name for name in ("comment", "submit_line", "work_dir") if name in asked]


def _steps(fields: Fields, _first_line: int) -> pa.Table:
    """STEPS. The exit code of .batch and .extern is the job's own and not one of its steps'."""
    code, largest_kib = fields.exit_code("exit_code"), fields.memory("max_rss", 1 / 1024)[0]
    is_own = truths(pc.match_substring_regex(fields.text("step"), "^[0-9i]"))
    found = {
        "cluster": fields.category("cluster"),
        "job_id": fields.text("job_id"),
        "attempt_key": arrow(*fields.count("attempt_key")),
        "start_s": fields.instants("start_s").arrow(),
        "max_rss_kib": real(largest_kib),
        "used_mem_kib": real(_used_kib(fields, largest_kib)),
        "energy_j": real(fields.energy_j()),
        "derived_exit_code": whole(np.where(is_own, code, np.nan)),
    }
    return pa.table(found, schema=STEPS)


def _used_kib(fields: Fields, largest_kib: Floats) -> Floats:
    """Memory of all tasks together, KiB: their number times the mean of their largest, or else times the largest.

    NaN where the number of tasks is not told: a step of one task cannot be told from one of a thousand.
    """
    if not fields.has("n_tasks"):
        return np.full(len(fields.rows), np.nan)
    n_tasks, unknown = fields.count("n_tasks")
    mean_kib = fields.memory("mean_rss", 1 / 1024)[0]
    task_kib = np.where(np.isnan(mean_kib), largest_kib, mean_kib)
    return np.where(unknown | ~(task_kib > 0), np.nan, task_kib * n_tasks)


_SHORT_DIGITS = 8
_STAMP = re.compile(columns.STAMP)


def _gpu_types(given: pa.Array, asked: pa.Array, gpus: Floats, listed: Floats) -> pa.Array:
    """The type of each job's GPUs: as allocated, else as asked for; null where it has none or the log does not tell."""
    if not (gpus > 0).any():
        return pa.nulls(len(gpus), CATEGORY)
    has_given = arrow(~np.isnan(listed))
    text = pc.if_else(has_given, given.cast(pa.string()), asked.cast(pa.string()))
    return categories(pc.if_else(arrow(gpus > 0), text, None), lambda word: gpu_type(word) or None)


def _sizes(fields: Fields) -> dict[str, pa.Array]:
    """Processors, nodes, and what is counted per processor; a job that was given no processor was given no node."""
    counts = {name: fields.count(name) for name in ("procs", "nodes", "requested_procs", "requested_nodes")}
    number = {name: np.where(missing, np.nan, values) for name, (values, missing) in counts.items()}
    typed = {name: arrow(*count) for name, count in counts.items()}
    number["nodes"] *= np.where(number["procs"] == 0, 0.0, 1.0)
    typed["nodes"] = whole(number["nodes"])
    if fields.has("req_tres") and not fields.has("requested_nodes"):
        asked = fields.by_word("req_tres", partial(counted, NODES))
        number["requested_nodes"] = np.where(asked == NO_COUNT, np.nan, asked)
        typed["requested_nodes"] = whole(number["requested_nodes"])
    given, placed, asked, asked_nodes = map(values.positive, number.values())
    # --mem=0 asks for all memory of a node.
    asked_kib, per = fields.memory("requested_mem", 1024.0)
    kib, typed_kib, typed_per = values.positive(asked_kib), values.positive(asked_kib), per
    if fields.has("typed_mem"):
        typed_kib, typed_per = fields.memory("typed_mem", 1024.0)
        typed_kib = values.positive(typed_kib)
    procs = values.first_known(asked, given)
    own_kib = values.per_processor(
        kib, per, procs, values.first_known(placed, asked_nodes), values.first_known(given, asked)
    )
    allocated, largest_kib = fields.category("alloc_tres"), fields.memory("max_rss", 1 / 1024)[0]
    for pattern, name in ((CPUS, "procs"), (NODES, "nodes")):
        # In a text, where two columns tell different numbers of what Slurm writes from one, fields are shifted.
        other = by_word(allocated, partial(counted, pattern))
        is_other = ~np.isnan(other) & ~np.isnan(number[name]) & (other != number[name])
        fields.mark(is_other & fields.context.is_text, "shifted_fields")
    listed = by_word(allocated, gpus_of)
    gpus = np.where(np.isnan(listed), fields.by_word("req_tres", gpus_of), listed)
    return typed | {
        "gpus": whole(gpus),
        "gpu_type": _gpu_types(allocated, fields.category("req_tres"), gpus, listed),
        "requested_mem_kib": real(own_kib),
        "requested_memory": _typed_memory(fields, typed_kib, typed_per, values.first_known(asked_nodes, placed), procs),
        "max_rss_kib": real(largest_kib),
        "used_mem_kib": real(_used_kib(fields, largest_kib) / given),
        "cpu_s": real(fields.duration("total_cpu") / given),
        "energy_j": real(fields.energy_j()),
    }


def _typed_memory(fields: Fields, kib: Floats, said_per: Per, nodes: Floats, procs: Floats) -> pa.Array:
    """Memory as typed. Slurm 21.08 and later write the job's total, for --mem as for --mem-per-cpu.

    Such a total is divided by processors where the submit line has --mem-per-cpu, else by the nodes asked for, as if
    it had --mem; where these are unknown it stays a job's. A cluster's default per processor reads as --mem too: the
    comparison of templates has requested_mem_kib, which is per processor, as another reading.
    """
    is_total = said_per == JOB
    per = np.where(is_total & ~np.isnan(nodes), NODE, said_per).astype(np.int8)
    if is_total.any() and fields.has("submit_line"):
        is_per_cpu = pc.fill_null(pc.match_substring(fields.text("submit_line"), "--mem-per-cpu"), False)
        per[is_total & is_per_cpu.to_numpy(zero_copy_only=False) & ~np.isnan(procs)] = PROCESSOR
    divisor = np.where(per == PROCESSOR, procs, np.where(per == NODE, nodes, 1.0))
    return values.requested_memory(np.where(is_total, kib / divisor, kib), per)


def _limits(fields: Fields) -> dict[str, pa.Array]:
    """The limit that the user asked for, and the first one that we set; a limit that others changed is the request."""
    if fields.has("limit_min"):
        minutes, missing = fields.count("limit_min")
        limit_s = np.where(missing | np.isin(minutes, values.NO_VALUES), np.nan, minutes * 60.0)
    else:
        limit_s = fields.duration("requested_s")
    fields.mark(limit_s < 0, "not_a_duration")
    comments = fields.category("admin_comment")
    asked_s, set_s = (fields.by_word("admin_comment", value_of) for value_of in (asked_s_of, noted_s_of))
    # The guard raises a limit up to what was asked for; below or beyond, somebody else has changed it.
    is_others = (limit_s < set_s) | (limit_s > asked_s)
    set_s[is_others], asked_s[is_others] = np.nan, np.nan
    by = categories(comments, noted_by_of)
    return {
        "requested_s": real(np.where(np.isnan(asked_s), limit_s, asked_s)),
        "limit_set_s": real(set_s),
        "limit_set_by": pc.if_else(arrow(np.isnan(set_s)), unknown(len(set_s), pa.string()), by.cast(pa.string())),
    }


_BY = re.compile(r" by \S+$")


def _state_name(text: str) -> str:
    """A state as one word: without who cancelled, a cut one (`OUT_OF_ME+`) written out where only one fits."""
    word = _BY.sub("", text.strip())
    if not word.endswith("+"):
        return word
    stem = word.rstrip("+")
    fitting = [state for state in STATES if state.startswith(stem)]
    return fitting[0] if len(fitting) == 1 else stem


def _states(fields: Fields) -> pa.Array:
    """States as one word each; those Slurm does not name are tallied."""
    encoded = fields.category("state")
    if encoded.null_count == len(encoded):
        return encoded
    merged = categories(encoded, _state_name)
    for place, name in enumerate(merged.dictionary.to_pylist()):
        if name not in STATES:
            fields.remarks[f"{STATE}{name}"] += pc.sum(pc.equal(merged.indices, place)).as_py() or 0
    return merged


_INSTANTS = ("submit_s", "eligible_s", "start_s", "end_s")
_CLOCK_S = 1.0
"""Slurm's Elapsed is End - Start - Suspended to the second."""


def _times(fields: Fields) -> dict[str, pa.Array]:
    """Instants, runtime_s and suspended_s.

    runtime_s is Elapsed; in a dump without that column it is End - Start - Suspended. A start or end that came twice
    when clocks went back is the one that agrees with Elapsed; the first where both do, or none.
    """
    times = {name: fields.instants(name) for name in _INSTANTS}
    suspended_s, elapsed_s = fields.duration("suspended_s"), fields.duration("runtime_s")
    start, end = times["start_s"], times["end_s"]
    start_s, end_s, is_settled = values.settled(start, end, elapsed_s + np.nan_to_num(suspended_s), _CLOCK_S)
    for name, instants in times.items():
        is_doubtful = (instants.repeat_s > 0) & ~instants.missing
        by_elapsed = is_doubtful & is_settled & (name in ("start_s", "end_s"))
        fields.remarks["settled_times"] += int(np.count_nonzero(by_elapsed))
        fields.remarks["ambiguous_times"] += int(np.count_nonzero(is_doubtful & ~by_elapsed))
    if not fields.has("runtime_s"):
        elapsed_s = values.seconds_between(start_s, end_s, start.missing | end.missing) - np.nan_to_num(suspended_s)
        elapsed_s[elapsed_s < 0] = np.nan
    read = {name: arrow(instants.values, instants.missing) for name, instants in times.items()}
    read |= {"start_s": arrow(start_s, start.missing), "end_s": arrow(end_s, end.missing)}
    return read | {"runtime_s": real(elapsed_s), "suspended_s": real(suspended_s)}


# ---------------- steps
# Steps folded into their jobs, whatever chunk or file either stands in.
#
# A step is an attempt's where Slurm's DBIndex says so, or, without it, where the step started while the attempt ran.
# What is then left goes to the attempt of its job that started last before it, or to the only one. All records of one
# attempt (overlapping dumps) share what its steps tell. So the outcome hangs on the set of rows alone, as attempts of
# one job never run at one time.

_TOLD = ("max_rss_kib", "used_mem_kib", "energy_j", "derived_exit_code")
"""Columns of which a job has the largest value of its own and its steps'.

A step's used memory is that of all its tasks, a job's is per processor.

A job's own energy is never less than a step's: it is that of the extern step, which sees all nodes all the time, or the
sum of its steps. So the largest is the job's own where that is known.
"""

_PAIRED = """
CREATE TEMP TABLE paired AS WITH pairs AS (
    SELECT step.nr AS step, job.nr AS job, step.start_s AS step_start_s, coalesce(job.start_s, -1) AS start_s,
        coalesce(CASE WHEN step.attempt_key IS NOT NULL THEN step.attempt_key = job.attempt_key
            ELSE job.end_s IS NOT NULL AND job.start_s <= step.start_s
                AND step.start_s < greatest(job.end_s, job.start_s + 1) END, FALSE) AS is_sure,
        step.attempt_key IS NULL OR job.attempt_key IS NULL AS may_be
    FROM steps AS step JOIN jobs AS job ON step.job_id = job.job_id AND step.cluster IS NOT DISTINCT FROM job.cluster
)
SELECT step, job FROM pairs WHERE is_sure
UNION ALL
SELECT step, job FROM pairs WHERE may_be AND step NOT IN (SELECT step FROM pairs WHERE is_sure)
WINDOW own AS (PARTITION BY step)
QUALIFY coalesce(start_s = max(start_s) FILTER (start_s <= step_start_s) OVER own,
    min(start_s) OVER own = max(start_s) OVER own)
"""
"""Each step beside the attempts that it is of: those that surely are, else those of its id that started last before it,
else any, where all started at one time."""
_SHARED = """
WITH own AS (
    SELECT paired.job AS nr, max(step.max_rss_kib) AS max_rss_kib, max(step.energy_j) AS energy_j,
        max(step.derived_exit_code) AS derived_exit_code,
        max(step.used_mem_kib / CASE WHEN job.procs > 0 THEN job.procs END) AS used_mem_kib
    FROM paired JOIN steps AS step ON step.nr = paired.step JOIN jobs AS job ON job.nr = paired.job GROUP BY paired.job
), told AS (
    SELECT jobs.nr, cluster, job_id, submit_s, {largest} FROM jobs LEFT JOIN own ON own.nr = jobs.nr
)
SELECT {shared} FROM told WINDOW attempt AS (PARTITION BY cluster, job_id, submit_s) ORDER BY nr
"""
"""What each job's records and steps tell; a job and a submit are one attempt."""


def fold(jobs: pa.Table, steps: pa.Table, _site: SiteSettings, _settings: IngestSettings) -> Folded:
    """The jobs with what their steps tell; steps by whether they found a job.

    jobs: JOBS with attempt_key, all records of some job ids; steps: the STEPS of those ids.
    """
    n_found = 0
    if steps.num_rows or pc.count_distinct(jobs["job_id"]).as_py() < jobs.num_rows:
        read = ("cluster", "job_id", "submit_s", "start_s", "end_s", "attempt_key", "procs", *_TOLD)
        with connected() as database:
            database.register("jobs", _numbered(jobs.select(read)))
            database.register("steps", _numbered(steps))
            database.execute(_PAIRED)
            (n_found,) = database.sql("SELECT count(DISTINCT step) FROM paired").fetchall()[0]
            largest = ", ".join(f"greatest(jobs.{name}, own.{name}) AS {name}" for name in _TOLD)
            shared = ", ".join(f"max({name}) OVER attempt AS {name}" for name in _TOLD)
            told = database.sql(_SHARED.format(largest=largest, shared=shared)).to_arrow_table()
        for name in _TOLD:
            jobs = replaced(jobs, name, told[name])
    lines = {"step": n_found, "orphan_step": steps.num_rows - n_found}
    return Folded(jobs.select(JOBS.schema().names), {name: n for name, n in lines.items() if n})


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column("nr", arrow(np.arange(rows.num_rows)))
