"""Types records of sacct, from text or JSON: what Slurm's numbers mean in the columns of JOBS."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import CATEGORY, Bools, Floats, arrow, integers, nulls, one_piece, replaced, unknown, words_of
from pipeline.ingest import reader, slurm_texts, values
from pipeline.ingest.formats.sacct import columns
from pipeline.ingest.formats.sacct.columns import COLUMNS, STATES, Kind
from pipeline.ingest.raw_table import INSTANTS, RawTable
from pipeline.ingest.reader import STEPS, Folded, Remarks, by_word, categories, constant, jobs_table, real, whole
from pipeline.ingest.sources import Source
from pipeline.ingest.values import JOB, NODE, PROCESSOR, Bytes, Memory, Typed, truths
from pipeline.large_tables import connected
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

REASONS = (
    "too_few_fields", "too_many_fields", "ambiguous_fields", *columns.REASONS.values(), "time_without_date",
    "not_a_record", "line_too_long", "cut_off", "joined_records", "shifted_fields",
)  # fmt: skip
CODE = {reason: code for code, reason in enumerate(REASONS, 1)}
"""A reason as a number; 0: the record is good so far."""

LINE = "line"
"""Where a record's first line is: a column of some records beside those of COLUMNS."""

ZONE, STATE, CLUSTER = "zone ", "state ", "cluster "
"""What remarks on the zone of local times, on a state and on a cluster begin with; its name follows."""

_NUMBER, _TASK = r"\d{1,10}", r"_(?:\d+|\[[^\]]*\]?)"
"""A job's number has 32 bits in Slurm, a federation's too: longer ones are two that ran together."""
ID = (
    rf"(?s)^(?P<job_id>(?P<het_id>{_NUMBER}(?:{_TASK})?)\+\d+|(?P<array_id>{_NUMBER}){_TASK}|{_NUMBER})"
    r"(?:\.(?P<step>.+))?$"
)

_MOST = 2.0**40
"""More of anything countable is an error in the log."""

_SHORT_DIGITS = 8
_STAMP = re.compile(columns.STAMP)


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

    rows: texts by what they tell (COLUMNS), and LINE. bad: 0, or the code of the first reason met.
    """

    rows: pa.Table
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

    def typed(self, what: str, **options: Any) -> Typed:
        """The values of a column of durations, counts, sizes, energies or exit codes."""
        kind = COLUMNS[what].kind
        found = _TYPED[kind](self.text(what), **options)
        if kind is Kind.ENERGY:
            self.remarks["odd_energies"] += int(np.count_nonzero(found.invalid))
        else:
            self.mark(found.invalid, columns.REASONS[kind])
        return found

    def floats(self, what: str) -> Floats:
        """The same, NaN where unknown."""
        return self.typed(what).floats()

    def memory(self, what: str) -> Memory:
        """KiB of what was asked for, and what they are counted per; a bare number is in MiB."""
        return cast(Memory, self.typed(what, plain_kib=1024.0))

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

    def mark(self, invalid: Bools, reason: str) -> None:
        """Set records aside that have no reason yet."""
        if invalid.any():
            self.bad[invalid & (self.bad == 0)] = CODE[reason]

    def tally(self, prefix: str, column: pa.DictionaryArray) -> None:
        """Count the records by the words of a column."""
        n_each = np.bincount(integers(column.indices.drop_null())[0], minlength=len(column.dictionary)).tolist()
        self.remarks.update(
            {f"{prefix}{word}": n for word, n in zip(column.dictionary.to_pylist(), n_each, strict=True)}
        )


def _durations(words: pa.Array) -> Typed:
    """Seconds; negative ones are invalid."""
    typed = values.durations(words)
    return Typed(typed.values, typed.missing, typed.invalid | (typed.floats() < 0))


def _counts(words: pa.Array) -> Typed:
    """Whole numbers: 1.50K is 1536, 10.0 is 10."""
    typed = values.integers(words)
    if typed.invalid.any():
        odd = np.flatnonzero(typed.invalid)
        scaled = values.memory(words.take(arrow(odd)))
        typed.invalid[odd] = scaled.invalid | (scaled.values > _MOST)
        typed.missing[odd] = scaled.missing | typed.invalid[odd]
        typed.values[odd] = np.where(typed.missing[odd], 0.0, scaled.values * 1024).astype(np.int64)
    return typed


def _exit_codes(words: pa.Array) -> Typed:
    """The code, 128 + signal where one ended it."""
    codes = by_word(categories(words, str), slurm_texts.exit_code)
    return Typed(codes, np.isnan(codes), np.isnan(codes) & ~nulls(words))


_TYPED: Mapping[Kind, Callable[..., Typed]] = {
    Kind.DURATION: _durations,
    Kind.COUNT: _counts,
    Kind.MEMORY: values.memory,
    Kind.ENERGY: values.energy_j,
    Kind.EXIT: _exit_codes,
}


def chunk_of(raw: RawTable, shown: Callable[[int], bytes], context: Context, remarks: Remarks) -> reader.Chunk:
    """Records as jobs (JOBS and EXTRAS) and STEPS; those that cannot be typed are UNREADABLE.

    raw: texts by what they tell (COLUMNS). shown: a record as it stands in the source.
    """
    ids, bad = one_piece(raw.rows["id"]), np.zeros(len(raw.rows), np.uint8)
    if "raw_id" in raw.rows.column_names:
        is_other = pc.and_(pc.not_equal(raw.rows["raw_id"], ids), pc.utf8_is_digit(ids))
        bad[truths(is_other)] = CODE["shifted_fields"]
    # What the ids name: the job, its array, its heterogeneous job, the step.
    named = {"job_id": ids} | dict.fromkeys(("array_id", "het_id", "step"), unknown(len(ids), pa.string()))
    is_odd = ~truths(pc.match_substring_regex(ids, f"^{_NUMBER}$"))
    if is_odd.any():
        parts = pc.extract_regex(ids.filter(arrow(is_odd)), ID)
        for name, column in named.items():
            part = pc.struct_field(parts, name)
            named[name] = pc.replace_with_mask(column, arrow(is_odd), pc.if_else(pc.equal(part, ""), None, part))
    rows = raw.rows
    for name, column in (named | {LINE: arrow(raw.line)}).items():
        rows = rows.append_column(name, column)
    is_named, is_step = ~nulls(named["job_id"]), ~nulls(named["step"])
    bad[~is_named & (bad == 0)] = CODE["no_job_id"]
    tables = []
    for chosen, typed, said in ((is_named & ~is_step, _jobs, remarks), (is_named & is_step, _steps, Remarks())):
        own = rows if chosen.all() else rows.filter(arrow(chosen)).combine_chunks()
        fields = Fields(own, context, said, bad[chosen])
        table = typed(fields)
        tables.append(table.filter(arrow(fields.bad == 0)) if fields.bad.any() else table)
        bad[chosen] = fields.bad
    unreadable = list(raw.unreadable)
    for row in np.flatnonzero(bad).tolist():
        where, reason = (int(raw.line[row]), int(raw.offset[row])), REASONS[bad[row] - 1]
        unreadable.append(reader.unreadable_row(context.source, *where, reason, shown(row)))
    unreadable.sort(key=lambda one: (one["source_line"], one["byte_offset"]))
    jobs, steps = tables
    lost = reader.unreadable_table(unreadable)
    return reader.Chunk(jobs, lost, raw.lines, raw.n_lines, raw.n_bytes, remarks, parts=steps)


_CATEGORIES = ("cluster", "user", "user_group", "account", "queue", "qos")
_TEXTS = ("job_id", "job_name", "comment", "submit_line", "work_dir")


def _jobs(fields: Fields) -> pa.Table:
    """JOBS and EXTRAS of records of jobs."""
    n, context = len(fields.rows), fields.context
    typed = {what: fields.category(what) for what in _CATEGORIES} | {what: fields.text(what) for what in _TEXTS}
    typed |= {name: categories(fields.text(name), str) for name in ("array_id", "het_id")}
    typed["state"] = categories(fields.category("state"), _state_name)
    fields.tally(CLUSTER, typed["cluster"])
    fields.tally(STATE, typed["state"])
    typed |= {
        **_times(fields),
        **_sizes(fields),
        **_limits(fields),
        **{what: whole(fields.floats(what)) for what in ("exit_code", "derived_exit_code")},
        "attempt_key": fields.typed("attempt_key").arrow(),
        "site": constant(context.site.name, n),
        "source_file": constant(context.source.label, n),
        "source_line": one_piece(fields.rows[LINE]),
    }
    return jobs_table(n, **typed)


def _steps(fields: Fields) -> pa.Table:
    """STEPS. The exit code of .batch and .extern is the job's own and not one of its steps'."""
    is_own, largest_kib = truths(pc.match_substring_regex(fields.text("step"), "^[0-9i]")), fields.floats("max_rss")
    found = {
        "cluster": fields.category("cluster"),
        "job_id": fields.text("job_id"),
        "attempt_key": fields.typed("attempt_key").arrow(),
        "start_s": fields.instants("start_s").arrow(),
        "max_rss_kib": real(largest_kib),
        "used_mem_kib": real(_used_kib(fields, largest_kib)),
        "energy_j": real(fields.floats("energy")),
        "derived_exit_code": whole(np.where(is_own, fields.floats("exit_code"), np.nan)),
    }
    return pa.table(found, schema=STEPS)


def _used_kib(fields: Fields, largest_kib: Floats) -> Floats:
    """Memory of all tasks together, KiB: their number times the mean of their largest, or else times the largest.

    NaN where the number of tasks is not told: a step of one task cannot be told from one of a thousand.
    """
    if not fields.has("n_tasks"):
        return np.full(len(fields.rows), np.nan)
    task_kib = values.first_known(fields.floats("mean_rss"), largest_kib)
    return values.positive(task_kib) * fields.floats("n_tasks")


def _sizes(fields: Fields) -> dict[str, pa.Array]:
    """Processors, nodes, and what is counted per processor; a job that was given no processor was given no node."""
    number = {name: fields.floats(name) for name in ("procs", "nodes", "requested_procs", "requested_nodes")}
    number["nodes"] *= np.where(number["procs"] == 0, 0.0, 1.0)
    allocated, requested = fields.category("alloc_tres"), fields.category("req_tres")
    if fields.has("req_tres") and not fields.has("requested_nodes"):
        number["requested_nodes"] = by_word(requested, partial(slurm_texts.resource, "nodes"))
    for name in ("procs", "nodes"):
        # In a text, where two columns tell different numbers of what Slurm writes from one, fields are shifted.
        other = by_word(allocated, partial(slurm_texts.resource, name, odd=-1.0))
        is_other = ~np.isnan(other) & ~np.isnan(number[name]) & (other != number[name])
        fields.mark(is_other & fields.context.is_text, "shifted_fields")
    listed = by_word(allocated, slurm_texts.gpus_of)
    gpus = values.first_known(listed, by_word(requested, slurm_texts.gpus_of))
    gpu_types = pa.nulls(len(gpus), CATEGORY)
    if (gpus > 0).any():
        # As allocated, else as asked for.
        text = pc.if_else(arrow(~np.isnan(listed)), allocated.cast(pa.string()), requested.cast(pa.string()))
        gpu_types = categories(pc.if_else(arrow(gpus > 0), text, None), lambda word: slurm_texts.gpu_type(word) or None)
    given, placed, asked, asked_nodes = map(values.positive, number.values())
    procs = values.first_known(asked, given)
    memory, largest_kib = fields.memory("requested_mem"), fields.floats("max_rss")
    as_typed = fields.memory("typed_mem") if fields.has("typed_mem") else memory
    # --mem=0 asks for all memory of a node.
    own_kib = values.per_processor(
        values.positive(memory.floats()), memory.per, procs, values.first_known(placed, asked_nodes),
        values.first_known(given, asked),
    )  # fmt: skip
    return {name: whole(found) for name, found in number.items()} | {
        "gpus": whole(gpus),
        "gpu_type": gpu_types,
        "requested_mem_kib": real(own_kib),
        "requested_memory": _typed_memory(fields, as_typed, values.first_known(asked_nodes, placed), procs),
        "max_rss_kib": real(largest_kib),
        "used_mem_kib": real(_used_kib(fields, largest_kib) / given),
        "cpu_s": real(fields.floats("total_cpu") / given),
        "energy_j": real(fields.floats("energy")),
    }


def _typed_memory(fields: Fields, memory: Memory, nodes: Floats, procs: Floats) -> pa.Array:
    """Memory as typed. Slurm 21.08 and later write the job's total, for --mem as for --mem-per-cpu.

    Such a total is divided by processors where the submit line has --mem-per-cpu, else by the nodes asked for, as if
    it had --mem; where these are unknown it stays a job's. A cluster's default per processor reads as --mem too: the
    comparison of templates has requested_mem_kib, which is per processor, as another reading.
    """
    kib, is_total = values.positive(memory.floats()), memory.per == JOB
    per = np.where(is_total & ~np.isnan(nodes), NODE, memory.per).astype(np.int8)
    if is_total.any() and fields.has("submit_line"):
        is_per_cpu = truths(pc.match_substring(fields.text("submit_line"), "--mem-per-cpu"))
        per[is_total & is_per_cpu & ~np.isnan(procs)] = PROCESSOR
    divisor = np.where(per == PROCESSOR, procs, np.where(per == NODE, nodes, 1.0))
    return values.requested_memory(np.where(is_total, kib / divisor, kib), per)


def _limits(fields: Fields) -> dict[str, pa.Array]:
    """The limit that the user asked for, and the first one that we set; a limit that others changed is the request."""
    if fields.has("limit_min"):
        minutes = fields.floats("limit_min")
        limit_s = np.where(np.isin(minutes, values.NO_VALUES), np.nan, minutes * 60.0)
    else:
        limit_s = fields.floats("requested_s")
    fields.mark(limit_s < 0, "not_a_duration")
    comments = fields.category("admin_comment")
    asked_s, set_s = (by_word(comments, value_of) for value_of in (slurm_texts.asked_s_of, slurm_texts.noted_s_of))
    # The guard raises a limit up to what was asked for; below or beyond, somebody else has changed it.
    is_others = (limit_s < set_s) | (limit_s > asked_s)
    set_s[is_others], asked_s[is_others] = np.nan, np.nan
    by = categories(comments, slurm_texts.noted_by_of)
    return {
        "requested_s": real(values.first_known(asked_s, limit_s)),
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


_CLOCK_S = 1.0
"""Slurm's Elapsed is End - Start - Suspended to the second."""


def _times(fields: Fields) -> dict[str, pa.Array]:
    """Instants, runtime_s and suspended_s.

    runtime_s is Elapsed; in a dump without that column it is End - Start - Suspended. A start or end that came twice
    when clocks went back is the one that agrees with Elapsed; the first where both do, or none.
    """
    times = {name: fields.instants(name) for name in INSTANTS}
    suspended_s, elapsed_s = fields.floats("suspended_s"), fields.floats("runtime_s")
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
# A step is an attempt's where Slurm's DBIndex says so. Without it, it goes to the attempt of its job that started last
# before it, or to the only one. All records of one attempt (overlapping dumps) share what its steps tell. So the
# outcome hangs on the set of rows alone, as attempts of one job never run at one time.

_TOLD = ("max_rss_kib", "used_mem_kib", "energy_j", "derived_exit_code")
"""Columns of which a job has the largest value of its own and its steps'.

A step's used memory is that of all its tasks, a job's is per processor.

A job's own energy is never less than a step's: it is that of the extern step, which sees all nodes all the time, or the
sum of its steps. So the largest is the job's own where that is known.
"""

_PAIRED = """
CREATE TEMP TABLE paired AS WITH pairs AS (
    SELECT step.nr AS step, job.nr AS job, step.start_s AS step_start_s, coalesce(job.start_s, -1) AS start_s,
        step.attempt_key = job.attempt_key AS is_own
    FROM steps AS step JOIN jobs AS job ON step.job_id = job.job_id AND step.cluster IS NOT DISTINCT FROM job.cluster
)
SELECT step, job FROM pairs WHERE is_own IS DISTINCT FROM FALSE
WINDOW own AS (PARTITION BY step)
QUALIFY is_own OR (count(is_own) OVER own = 0 AND coalesce(
    start_s = max(start_s) FILTER (start_s <= step_start_s) OVER own,
    min(start_s) OVER own = max(start_s) OVER own))
"""
"""Each step beside the attempts that it is of: those of its key, else those of its id that started last before it, else
any, where all started at one time."""
_SHARED = """
WITH told AS (
    SELECT cluster, job_id, submit_s, max_rss_kib, used_mem_kib, energy_j, derived_exit_code FROM jobs
    UNION ALL
    SELECT job.cluster, job.job_id, job.submit_s, step.max_rss_kib,
        step.used_mem_kib / CASE WHEN job.procs > 0 THEN job.procs END, step.energy_j, step.derived_exit_code
    FROM paired JOIN steps AS step ON step.nr = paired.step JOIN jobs AS job ON job.nr = paired.job
), attempt AS (SELECT cluster, job_id, submit_s, {largest} FROM told GROUP BY ALL)
SELECT attempt.* FROM jobs JOIN attempt ON jobs.job_id = attempt.job_id
    AND jobs.cluster IS NOT DISTINCT FROM attempt.cluster AND jobs.submit_s IS NOT DISTINCT FROM attempt.submit_s
ORDER BY jobs.nr
"""
"""What each job's records and steps tell; a job and a submit are one attempt."""


def fold(jobs: pa.Table, steps: pa.Table, _site: SiteSettings, _settings: IngestSettings) -> Folded:
    """The jobs with what their steps tell; steps by whether they found a job.

    jobs: JOBS with attempt_key, all records of some job ids; steps: the STEPS of those ids.
    """
    n_found = 0
    if steps.num_rows or pc.count_distinct(jobs["job_id"]).as_py() < jobs.num_rows:
        read = ("cluster", "job_id", "submit_s", "start_s", "attempt_key", "procs", *_TOLD)
        with connected() as database:
            for name, rows in (("jobs", jobs.select(read)), ("steps", steps)):
                database.register(name, rows.append_column("nr", arrow(np.arange(rows.num_rows))))
            database.execute(_PAIRED)
            (n_found,) = database.sql("SELECT count(DISTINCT step) FROM paired").fetchall()[0]
            largest = ", ".join(f"max({name}) AS {name}" for name in _TOLD)
            told = database.sql(_SHARED.format(largest=largest)).to_arrow_table()
        for name in _TOLD:
            jobs = replaced(jobs, name, told[name])
    lines = {"step": n_found, "orphan_step": steps.num_rows - n_found}
    return Folded(jobs.select(JOBS.schema().names), {name: n for name, n in lines.items() if n})
