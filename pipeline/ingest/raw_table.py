"""Makes JOBS of raw tables: what a format has split into columns of text is typed, and filled in from one another.

A format names its columns and splits its source into `RawTable`s; `chunk_of` does the rest. A row with a value that
cannot be read is set aside with its reason. What no column tells is null.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import LATEST_S, Bools, Floats, Ints, arrow, floats_of, integers, nulls, one_piece, texts
from pipeline.errors import printable
from pipeline.ingest import values
from pipeline.ingest.reader import (
    Chunk,
    Layout,
    Reader,
    Remarks,
    by_word,
    categories,
    constant,
    jobs_table,
    named,
    real,
    unreadable_row,
    unreadable_table,
    whole,
)
from pipeline.ingest.slurm_texts import exit_code, gpus_of, resource
from pipeline.ingest.sources import Source, line_blocks
from pipeline.ingest.values import JOB, NODE, PROCESSOR, Bytes, Memory, Per, Typed, truths
from pipeline.settings import IngestSettings, SiteSettings

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

TRES, WAIT = "tres", "wait"
"""Units of counts that stand in lists of Slurm's resources, and of exit codes that are statuses of wait(2)."""

REASONS = (
    "not_a_time", "not_a_duration", "not_a_number", "not_a_memory_size", "no_job_id", "number_of_values", "not_json",
    "no_line_end", "not_a_record",
)  # fmt: skip
_REASON = {
    **dict.fromkeys(INSTANTS, "not_a_time"),
    **dict.fromkeys((*DURATIONS, "energy_j"), "not_a_duration"),
    **dict.fromkeys(MEMORY, "not_a_memory_size"),
}
_PER = {"processor": PROCESSOR, "node": NODE, "job": JOB}


@dataclass(frozen=True, slots=True)
class RawTable:
    """Rows of a source in columns of text (or of Arrow's times and durations), and what else a part of it holds.

    line, offset: where each row stands, from 1 and from byte 0. unreadable: rows of UNREADABLE. lines: as in `Chunk`.
    """

    rows: pa.Table
    line: Ints
    offset: Ints
    n_lines: int
    n_bytes: int
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a raw table that is read.

    target: a column of JOBS, or `wait_s`, from submit to start (s). factor: of its numbers, to the unit of JOBS; None:
    unknown. unit: TRES, WAIT, or the unit's name. per: what memory and processor time are counted per. times: a column
    by which a count is multiplied. zone: of times that name none. states: Slurm's terms by word in small letters.
    """

    target: str
    name: str
    factor: float | None = 1.0
    unit: str = ""
    per: str = "job"
    times: str | None = None
    zone: str = "UTC"
    day_first: bool = False
    zero_is_known: bool = False
    states: Mapping[str, str] = field(default_factory=dict)

    def typed(self, rows: pa.Table) -> Typed:
        """The values in the unit of JOBS."""
        array, factor = one_piece(rows[self.name]), 1.0 if self.factor is None else self.factor
        if self.target in INSTANTS:
            return instants(array, factor, self.zone, day_first=self.day_first, zero_is_known=self.zero_is_known)
        if self.target in MEMORY:
            return memory(array, self.factor)
        if self.target in EXIT_CODES:
            return exit_codes(array, is_status=self.unit == WAIT)
        if self.target not in COUNTS:
            return durations(array, factor)
        if self.unit == TRES:
            return _of_words(array, partial(resource, self.target))
        is_list = self.target == "gpus" and numbers(array).invalid.any()
        return _of_words(array, gpus_of) if is_list else counts(array, factor)


def chunk_of(
    raw: RawTable, columns: Mapping[str, Column], source: Source, site: SiteSettings, remarks: Remarks
) -> Chunk:
    """A part of a source as JOBS, its rows that can be read, and UNREADABLE; columns: by target."""
    jobs, unreadable = jobs_table(0), list(raw.unreadable)
    if raw.rows.num_rows:
        rows = _Rows(raw.rows, columns, site, remarks)
        jobs = _jobs(rows, source, raw.line)
        for row in np.flatnonzero(rows.bad).tolist():
            pairs = raw.rows.slice(row, 1).to_pylist()[0].items()
            shown = ", ".join(f"{name} = {value}" for name, value in pairs).encode("utf-8", "backslashreplace")
            where, reason = (int(raw.line[row]), int(raw.offset[row])), REASONS[rows.bad[row] - 1]
            unreadable.append(unreadable_row(source, *where, reason, shown))
    unreadable.sort(key=lambda row: (row["source_line"], row["byte_offset"]))
    return Chunk(jobs, unreadable_table(unreadable), raw.lines, raw.n_lines, raw.n_bytes, remarks)


Split = Callable[[bytes], Mapping[str, str | None] | str]
"""A line's texts by column, or the name under which a line that is no record is counted; ValueError or LookupError
where it cannot be read."""


def reader_of_lines(name: str, expects: str, columns: Sequence[Column], split: Split, begins: str) -> Reader:
    """The Reader of a format with a job in each line. begins: a pattern that matches where a record begins."""
    record = re.compile(begins.encode(), re.MULTILINE)
    names = [column.name for column in columns]

    def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
        by_target = {column.target: replace(column, zone=site.timezone) for column in columns}
        is_last_whole = settings.last_line == "take"
        for raw in tables_of_lines(source, names, split, "not_a_record", is_last_whole=is_last_whole):
            yield chunk_of(raw, by_target, source, site, Remarks())

    def looks_right(head: bytes) -> bool:
        return record.search(head) is not None

    return Reader(
        name, expects, REASONS, ("submit_s", "start_s"), looks_right, read, lambda said, _settings: notes(said),
        layout=lambda _source, _site, _settings: Layout(tuple(names)),
    )  # fmt: skip


def tables_of_lines(
    source: Source, names: Sequence[str], split: Split, reason: str, *, is_last_whole: bool
) -> Iterator[RawTable]:
    """The lines of a text, each split into columns of these names, a block of the source at a time.

    reason: of a line that cannot be read. is_last_whole: whether a last line without a line end is read.
    """
    for block in line_blocks(source):
        found, at, unreadable, others = list[Mapping[str, str | None]](), list[tuple[int, int]](), [], Counter[str]()
        lines = block.data.split(b"\n")
        n_whole = block.n_lines if is_last_whole else len(lines) - 1
        offset = block.offset
        for place, text in enumerate(lines[: block.n_lines]):
            try:
                said = "blank" if not text.strip() else split(text) if place < n_whole else "no_line_end"
            except (ValueError, LookupError):
                said = reason
            if said in REASONS:
                unreadable.append(unreadable_row(source, block.line + place, offset, str(said), text))
            elif isinstance(said, str):
                others[said] += 1
            else:
                found.append(said)
                at.append((block.line + place, offset))
            offset += len(text) + 1
        rows = pa.table({name: texts([one.get(name) or None for one in found]) for name in names})
        line, start = np.array(at, np.int64).reshape(-1, 2).T
        yield RawTable(rows, line, start, block.n_lines, len(block.data) + block.n_dropped, unreadable, dict(others))


_LOCAL, _SIZES, _MISSING, _PARTS = "local times", "sizes ", "missing ", "parts "
_COSTS = {
    "job_id": "no column has a job's id: the number of its row and its file's name are one",
    "submit_s": "no column has the time of submit: each job's start stands in for it, so that no job waits",
    "user": "no column has users: jobs of different users are not told apart",
    "requested_s": "no column has the time that users asked for: estimates, limits and replays do without requests",
    "state": "no column has a state: which jobs failed or were cancelled is unknown",
}
_SIZE_NOTES = {
    "nodes": "{} rows have no processors: nodes are counted as processors (set site.procs_per_node to multiply them)",
    "procs_per_node": "{} rows have no processors: they are the nodes times site.procs_per_node",
    "gpus": "{} rows have no processors and no nodes: GPUs are counted as processors",
    "none": "{} rows have no processors, nodes or GPUs: cleaning sets those jobs aside (no_procs)",
}


def notes(remarks: Remarks) -> list[str]:
    """What was assumed of zones and sizes, and what is missing, a sentence each."""
    said = [_SIZE_NOTES[name].format(f"{n:,}") for name, n in named(remarks, _SIZES).items()]
    said += [f"{n:,} values of {name} have a fraction and are rounded up" for name, n in named(remarks, _PARTS).items()]
    said += [
        f"times without a zone are read as of {printable(zone, 60)} (site.timezone, or timezone of ingest.columns)"
        for zone in named(remarks, f"{_LOCAL} ")
    ]
    return said + [_COSTS[name] for name in named(remarks, _MISSING)]


@dataclass
class _Rows:
    """Some rows, asked for by target. bad: 0, or the first reason met for setting a row aside, 1 + its index."""

    table: pa.Table
    columns: Mapping[str, Column]
    site: SiteSettings
    remarks: Remarks

    @cached_property
    def bad(self) -> Bytes:
        return np.zeros(self.table.num_rows, np.uint8)

    def mark(self, is_bad: Any, reason: str) -> None:
        """Note why rows are set aside that no earlier reason sets aside."""
        self.bad[is_bad & (self.bad == 0)] = 1 + REASONS.index(reason)

    def typed(self, target: str) -> Typed:
        """The values of a column that is there, in the unit of JOBS."""
        found = self.columns[target].typed(self.table)
        if isinstance(found, Timed):
            self.remarks[f"{_LOCAL} {self.columns[target].zone}"] += found.n_local
        self.mark(found.invalid, _REASON.get(target, "not_a_number"))
        return found

    def floats(self, target: str) -> Floats:
        """The same, NaN where unknown, as all are where no column tells them."""
        return self.typed(target).floats() if target in self.columns else np.full(self.table.num_rows, np.nan)

    def counts(self, target: str) -> Floats:
        """Whole numbers, rounded up, as a part of a GPU keeps it from others, which is said; NaN where unknown."""
        found = self.floats(target)
        times = self.columns[target].times if target in self.columns else None
        if times is not None:
            factors = numbers(one_piece(self.table[times]))
            self.mark(factors.invalid, "not_a_number")
            found = found * factors.floats()
        up = np.ceil(found - 1e-9)
        self.remarks[f"{_PARTS}{target}"] += int(np.count_nonzero(up - found > 1e-6))
        return up

    def memory(self, target: str) -> tuple[Floats, Per]:
        """KiB, and what they are counted per, which the text may say."""
        if target not in self.columns:
            return self.floats(target), np.full(self.table.num_rows, PROCESSOR, np.int8)
        found = cast(Memory, self.typed(target))
        per = np.where(found.per == JOB, _PER[self.columns[target].per], found.per)
        return found.floats(), per.astype(np.int8)


def _jobs(rows: _Rows, source: Source, line: Ints) -> pa.Table:
    """JOBS and EXTRAS of the rows that can be read; `bad` tells the others."""
    n = rows.table.num_rows
    rows.remarks.update({f"{_MISSING}{name}": n for name in _COSTS if name not in rows.columns})
    typed = _times(rows) | _sizes(rows) | _texts(rows, source, line)
    if "energy_j" in rows.columns:
        typed["energy_j"] = real(rows.floats("energy_j"))
    site, file = constant(rows.site.name, n), constant(source.label, n)
    jobs = jobs_table(n, **typed, site=site, source_file=file, source_line=arrow(line))
    return jobs.filter(arrow(rows.bad == 0)) if rows.bad.any() else jobs


def _times(rows: _Rows) -> dict[str, pa.Array]:
    """Instants, runtime and suspension; of start, end and runtime two tell the third, and a wait tells the start."""
    at = {name: rows.floats(name) for name in INSTANTS}
    took = {name: rows.floats(name) for name in DURATIONS if name != "cpu_s"}
    runtime_s, idle_s = took["runtime_s"], np.nan_to_num(took["suspended_s"])
    start_s = values.first_known(at["start_s"], at["submit_s"] + took["wait_s"], at["end_s"] - runtime_s - idle_s)
    end_s = values.first_known(at["end_s"], start_s + runtime_s + idle_s)
    between_s = end_s - start_s - idle_s
    runtime_s = values.first_known(runtime_s, np.where(between_s >= 0, between_s, np.nan))
    submit_s = at["submit_s"] if "submit_s" in rows.columns else start_s
    known = at | {"submit_s": submit_s, "start_s": start_s, "end_s": end_s}
    return {name: whole(np.floor(found)) for name, found in known.items()} | {
        "runtime_s": real(runtime_s),
        "suspended_s": real(took["suspended_s"]),
        "requested_s": real(values.positive(took["requested_s"])),
    }


def _sizes(rows: _Rows) -> dict[str, pa.Array]:
    """Counts, and memory and processor time per processor. Where rows have no processors, their nodes or else their
    GPUs stand in for them, which is said."""
    number = {name: rows.counts(name) for name in COUNTS}
    nodes = values.first_known(values.positive(number["nodes"]), values.positive(number["requested_nodes"]))
    per_node, gpus = rows.site.procs_per_node, number["gpus"]
    lacks = ~(number["procs"] > 0) & ~(number["requested_procs"] > 0)
    kinds = {
        "nodes" if per_node is None else "procs_per_node": lacks & (nodes > 0),
        "gpus": lacks & ~(nodes > 0) & (gpus > 0),
        "none": lacks & ~(nodes > 0) & ~(gpus > 0),
    }
    rows.remarks.update({f"{_SIZES}{name}": int(np.count_nonzero(of_kind)) for name, of_kind in kinds.items()})
    stand_ins = [nodes * (per_node or 1), gpus, number["procs"]]
    number["procs"] = np.select(list(kinds.values()), stand_ins, number["procs"])
    procs = values.first_known(values.positive(number["procs"]), values.positive(number["requested_procs"]))
    found = {name: whole(one) for name, one in number.items()}
    found |= {name: whole(rows.floats(name)) for name in EXIT_CODES}
    used_kib, used_per = rows.memory("used_mem_kib")
    asked_kib, asked_per = rows.memory("requested_mem_kib")
    # A request of 0 is one for all memory of a node.
    asked_kib = values.positive(asked_kib)
    if "requested_mem_kib" in rows.columns:
        found["requested_memory"] = values.requested_memory(asked_kib, asked_per)
    is_per_processor = "cpu_s" in rows.columns and rows.columns["cpu_s"].per == "processor"
    return found | {
        "requested_mem_kib": real(values.positive(values.per_processor(asked_kib, asked_per, procs, nodes))),
        "used_mem_kib": real(values.per_processor(used_kib, used_per, procs, nodes)),
        "max_rss_kib": real(rows.memory("max_rss_kib")[0]),
        "cpu_s": real(rows.floats("cpu_s") / (1.0 if is_per_processor else procs)),
    }


def _texts(rows: _Rows, source: Source, line: Ints) -> dict[str, pa.Array]:
    """Names, ids and free texts. Where no column has an id, a row's number and its file's name are one."""
    found: dict[str, pa.Array] = {}
    for target in (name for name in ("cluster", *CATEGORIES, *TEXTS) if name in rows.columns):
        words = as_texts(one_piece(rows.table[rows.columns[target].name]))
        if target == "array_id":
            # ClusterCockpit and slurmdbd give a job that is in no array the array 0.
            words = pc.if_else(pc.equal(words, "0"), None, words)
        if target == "state":
            found[target] = categories(words, partial(_state, rows.columns[target].states))
        else:
            found[target] = words if target in TEXTS else categories(words, str)
    if "job_id" in found:
        rows.mark(nulls(found["job_id"]), "no_job_id")
    else:
        found["job_id"] = pc.binary_join_element_wise(arrow(line).cast(pa.string()), f"@{source.label}", "")
    return found


def _state(terms: Mapping[str, str], word: str) -> str:
    """Slurm's term where a word stands for one, else the word."""
    found = re.sub(r" by \S+$", "", word.strip())
    return terms.get(found.lower().replace(" ", "_"), found)


# ---------------- values of columns

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_PANDAS_DAYS = r"^(-?\d+) days?,? \+?"
_MOST = 2.0**40
"""More s, processors or GiB is an error in the table."""

_BIT_63, _PER_CPU = 1 << 63, r"^-?9223372036\d{9}$"
_FRACTION = r"(:\d\d)\.\d+"
DOTTED = r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})"


@dataclass(frozen=True, slots=True)
class Timed(Typed):
    """UTC s; n_local: how many named no zone."""

    n_local: int = 0


def numbers(words: pa.Array) -> Typed:
    """float64; words for "unknown", infinite numbers and Slurm's marks for no value are unknown."""
    if not pa.types.is_string(words.type):
        return Typed(np.zeros(len(words)), np.ones(len(words), np.bool_), ~nulls(words))
    # Not all that Unicode counts as white: a digit of which a bit has flipped can become a control character.
    trimmed = pc.utf8_trim(words, " \t\u00a0")
    is_number = pc.match_substring_regex(trimmed, _NUMBER)
    is_word = pc.is_in(pc.utf8_lower(trimmed), pa.array([*values.NO_LIMIT, ""]))
    found = floats_of(pc.if_else(is_number, trimmed, pa.scalar(None, pa.string())).cast(pa.float64()))
    # Slurm's marks of 64 bits are near 2^64, and pandas' for no time is -2^63.
    is_mark = np.isin(found, values.NO_VALUES) | ((np.abs(found) >= _BIT_63) & (np.abs(found) <= 2 * _BIT_63))
    return Typed(found, ~np.isfinite(found) | is_mark, ~truths(pc.or_(is_number, is_word)) & ~nulls(words))


def is_numeric(words: pa.Array) -> bool:
    """Whether most of the values that are known are numbers."""
    read = numbers(words)
    return int(np.count_nonzero(~read.missing)) > int(np.count_nonzero(read.invalid))


def _with_texts(read: Typed, words: pa.Array, typed: Callable[[pa.Array], Typed]) -> Typed:
    """Numbers, and for the texts that are none what `typed` makes of them."""
    # A text that is no number has the value 0; a number that is too large has its own, and is no text.
    odd = np.flatnonzero(read.invalid & (read.values == 0))
    if not len(odd) or not pa.types.is_string(words.type):
        return read
    found = typed(words.take(arrow(odd)))
    for all_rows, part in ((read.values, found.values), (read.missing, found.missing), (read.invalid, found.invalid)):
        all_rows[odd] = part
    return replace(found, values=read.values, missing=read.missing, invalid=read.invalid)


def instants(
    array: pa.Array, factor: float, zone: str, *, day_first: bool = False, zero_is_known: bool = False
) -> Typed:
    """UTC s of timestamps, texts, or numbers in `factor` s since 1970; those without a zone are of `zone`.

    A negative number is unknown, and 0 unless it is known.
    """
    if pa.types.is_timestamp(array.type):
        missing, n_local = nulls(array), 0
        at_s = integers(array.cast(pa.timestamp("s", array.type.tz), safe=False).cast(pa.int64()))[0]
        missing |= (at_s < 0) | (at_s > LATEST_S)
        at_s = np.where(missing, 86_400, at_s)
        if array.type.tz is None:
            at_s, n_local = values.utc_of_local(at_s, zone)[0], len(array) - array.null_count
        return Timed(at_s, missing, np.zeros(len(array), np.bool_), n_local)

    def of_texts(words: pa.Array) -> Timed:
        plain_times = pc.replace_substring_regex(words, _FRACTION, r"\1")
        typed = values.instants(pc.replace_substring_regex(plain_times, DOTTED, r"\1/\2/\3"), zone, day_first=day_first)
        return Timed(typed.values.astype(np.float64), typed.missing, typed.invalid, typed.n_local)

    least = 0.0 if zero_is_known else 1.0
    read = _scaled(array, factor, LATEST_S, lambda found: np.floor(found + 1e-6) >= least)
    return _with_texts(Timed(np.floor(read.values + 1e-6), read.missing, read.invalid), array, of_texts)


def durations(array: pa.Array, factor: float) -> Typed:
    """Seconds of durations, texts (`1-02:03:04`, `1 days 02:03:04`), or numbers in `factor` s; -1 is unknown."""
    if pa.types.is_duration(array.type):
        per_s, missing = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[array.type.unit], nulls(array)
        took_s = integers(array.cast(pa.int64()))[0] / per_s
        return Typed(np.where(missing, np.nan, took_s), missing, np.zeros(len(array), np.bool_))
    found = _scaled(array, factor, _MOST, lambda took_s: took_s != -factor)
    return _with_texts(
        found, array, lambda words: values.durations(pc.replace_substring_regex(words, _PANDAS_DAYS, r"\1-"))
    )  # fmt: skip


def counts(array: pa.Array, factor: float) -> Typed:
    """Counts, with the part of a processor or GPU that a job shares; negative ones are unknown."""
    return _scaled(array, factor, _MOST, lambda found: found >= 0)


def _scaled(array: pa.Array, factor: float, most: float, is_known: Callable[[Floats], Bools]) -> Typed:
    """Numbers times a factor; what is more is invalid."""
    read = numbers(array)
    found = np.where(read.missing, 0.0, read.values) * factor
    unknown = read.missing | ~is_known(found)
    too_much = ~unknown & (np.abs(found) > most)
    return Typed(found, unknown | too_much, read.invalid | too_much)


def exit_codes(array: pa.Array, *, is_status: bool) -> Typed:
    """Codes of numbers, or of texts such as `1:0` and `0:9`, where 128 + the signal is the code; else unknown.

    is_status: a number is a status of wait(2), with the code in its second byte and the signal in its first.
    """
    read = numbers(array)
    read = _of_words(array, exit_code) if read.invalid.any() else read
    codes = np.where(read.missing | (np.abs(read.values) > _MOST), np.nan, read.values)
    if is_status:
        signal = codes % 128
        codes = np.where(signal > 0, 128 + signal, codes // 256 % 256)
    return Typed(codes, np.isnan(codes), np.zeros(len(array), np.bool_))


def memory(array: pa.Array, factor: float | None) -> Memory:
    """KiB of texts (`8G`, `4000Mn`) or numbers in `factor` KiB; a number without a unit is unknown.

    Slurm marks a number that is per processor by its highest bit, of 64.
    """
    read = numbers(array)
    if read.invalid.any():
        return values.memory(as_texts(array), factor or 1 / 1024)
    is_marked = truths(pc.match_substring_regex(array, _PER_CPU))
    # An integer with a sign holds the highest bit as its sign.
    marked = [int(word) % (2 * _BIT_63) - _BIT_63 for word in array.filter(arrow(is_marked)).to_pylist()]
    kib = read.values * (factor or 1.0)
    kib[is_marked] = np.array(marked, np.float64) * (factor or 1.0)
    unknown = (read.missing & ~is_marked) | ~((kib >= 0) & (kib < values.NO_KIB)) | np.bool_(factor is None)
    return Memory(kib, unknown, read.invalid, np.where(is_marked, PROCESSOR, JOB).astype(np.int8))


def _of_words(array: pa.Array, value_of: Callable[[str], float | None]) -> Typed:
    """A function's value of each text; unknown where it gives None."""
    found = by_word(as_texts(array).dictionary_encode(), value_of)
    return Typed(found, np.isnan(found), np.zeros(len(array), np.bool_))


def as_texts(array: pa.Array) -> pa.StringArray:
    """The values as text, null where that is empty."""
    text = array if pa.types.is_string(array.type) else array.cast(pa.string())
    return pc.if_else(pc.equal(pc.utf8_length(text), 0), pa.scalar(None, pa.string()), text)
