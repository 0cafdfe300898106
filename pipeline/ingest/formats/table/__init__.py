"""Reads any table with a row for each job: Parquet, Arrow, CSV with any delimiter, and JSON with an object a job.

Which column holds what is declared (`ingest.columns`), told by a public set's column names, or guessed from names;
units that nothing declares come from the values, and a guess that they contradict is dropped (guesses.py). What was
assumed is in the notes. What no column tells is null. A row with a value that cannot be read is set aside with its
reason.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.arrays import Floats, Ints, arrow
from pipeline.errors import InputError, printable
from pipeline.ingest.formats.table import guesses, text_parts, values
from pipeline.ingest.formats.table.guesses import Guesses, MappedColumns, guessed
from pipeline.ingest.formats.table.text_parts import Part, first_line, names_in
from pipeline.ingest.jobs import Per, first_known, per_processor, positive, requested_memory
from pipeline.ingest.reader import (
    Chunk,
    Layout,
    Reader,
    Remarks,
    categories,
    constant,
    jobs_table,
    named,
    real,
    unreadable_row,
    unreadable_table,
    whole,
)
from pipeline.ingest.sources import ARROW, PARQUET, Source, head
from pipeline.ingest.values import JOB, NODE, PROCESSOR, Bytes, Memory, Typed
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import parquet_file

EXPECTS = "a table with a row for each job: Parquet, Arrow, CSV with column names, or JSON with an object a job"
_SACCTS = {"jobname", "alloccpus", "ncpus", "nnodes", "elapsedraw", "timelimit", "timelimitraw", "reqmem", "maxrss"}
"""Names that sacct writes: two of them show a dump of it, whose rows may be steps, as does JobID."""

_LEAST_COLUMNS = 3
_ASSUMED, _SET = "assumed ", "set "
PART_ROWS = 1 << 16


def looks_right(head: bytes) -> bool:
    """Whether first bytes are a table whose columns tell when jobs ran; a dump without job ids is left to sacct."""
    if is_binary(head):
        return True
    names = names_in(head)
    if guesses.public_set(names):
        return True
    has_id, n_saccts = _saccts(names)
    return guessed(names).is_log and (has_id or n_saccts < 2 or first_line(head).startswith((b"{", b"[")))


def told(head: bytes) -> Collection[str] | None:
    """What the columns tell where the names may be those of a dump of sacct; None for what can only be a table."""
    names = [] if is_binary(head) or first_line(head).startswith((b"{", b"[")) else names_in(head)
    return guessed(names).columns.keys() if _saccts(names)[0] and not guesses.public_set(names) else None


def _saccts(names: Sequence[str]) -> tuple[bool, int]:
    """Whether names have sacct's of a job id, and how many others are sacct's."""
    plain = {re.sub(r"\W", "", name).lower() for name in names}
    return bool(plain & {"jobid", "jobidraw"}), len(plain & _SACCTS)


def refusal(source: Source, start: bytes) -> InputError | None:
    """What a text lacks that is a table, but not one that tells when jobs ran; None for what is no table."""
    names = names_in(start)
    n_delimiters = [len(re.findall(rb"[,;\t|]", line)) for line in start.split(b"\n")[1:20]]
    if len(names) < _LEAST_COLUMNS or "=" in "".join(names) or max(n_delimiters, default=0) < len(names) - 1:
        return None
    return guesses.lacking(guessed(names), names, printable(source.label))


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A table's chunks; InputError where it names no columns, or none that tell when jobs ran, or is damaged."""
    names, mapped = _mapped(source, settings)
    found = _guesses(source, names, mapped, site, settings)
    remarks = Remarks({f"{_ASSUMED}{sentence}": 1 for sentence in found.said})
    if public := guesses.public_set(names):
        remarks[f"{_SET}{public}"] += 1
    for part in read_parts(source, names, mapped.used, settings):
        yield _chunk(part, found.columns, source, site, remarks)
        remarks = Remarks()


def _guesses(
    source: Source, names: list[str], mapped: MappedColumns, site: SiteSettings, settings: IngestSettings
) -> Guesses:
    """How the columns are read, by the first rows."""
    rows: list[pa.Table] = []
    for part in read_parts(source, names, mapped.used, settings):
        rows.append(part.rows)
        if sum(map(len, rows)) >= PART_ROWS // 4:
            break
    none = pa.table({name: pa.array([], pa.string()) for name in mapped.used})
    first = pa.concat_tables(rows).unify_dictionaries() if rows else none
    return guesses.checked(first, mapped, site, settings)


def _mapped(source: Source, settings: IngestSettings) -> tuple[list[str], MappedColumns]:
    names = names_of(source, settings)
    where = printable(source.label)
    if not names:
        raise InputError(f"{where}, line 1", "no column names", EXPECTS, "name the columns in ingest.fields")
    if double := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}, line 1", f"two columns {printable(double, 40)}", "each column once", "rename one")
    return names, guesses.mapped_columns(names, settings, where)


def _chunk(part: Part, columns: dict[str, guesses.Column], source: Source, site: SiteSettings, said: Remarks) -> Chunk:
    jobs, unreadable = jobs_table(0), list(part.unreadable)
    if part.rows.num_rows:
        rows = Rows(part.rows, columns, site, said)
        jobs = jobs_of_rows(rows, source, part.line)
        for place in np.flatnonzero(rows.bad).tolist():
            raw = _shown(part.rows.slice(place, 1))
            where = int(part.line[place]), int(part.offset[place])
            unreadable.append(unreadable_row(source, *where, REASONS[rows.bad[place] - 1], raw))
    unreadable.sort(key=lambda row: (row["source_line"], row["byte_offset"]))
    return Chunk(jobs, unreadable_table(unreadable), part.lines, part.n_lines, part.n_bytes, said)


def _shown(row: pa.Table) -> bytes:
    """The values of a row that is set aside, by column."""
    pairs = row.to_pylist()[0].items()
    return ", ".join(f"{name} = {value}" for name, value in pairs).encode("utf-8", "backslashreplace")


def is_binary(start: bytes) -> bool:
    """Whether a source's first bytes are those of Parquet or Arrow."""
    return start.startswith((PARQUET, ARROW))


def names_of(source: Source, settings: IngestSettings) -> list[str]:
    """The columns of a table, in order; InputError where it is damaged or names none."""
    start = head(source)
    if not is_binary(start):
        if settings.fields and not text_parts.has_header(start, settings):
            return list(settings.fields)
        return names_in(start, settings)
    with _opened(source, start) as file:
        schema: pa.Schema = file.schema_arrow if start.startswith(PARQUET) else file.schema
        return list(schema.names)


def read_parts(source: Source, names: Sequence[str], used: Sequence[str], settings: IngestSettings) -> Iterator[Part]:
    """The rows of a table in parts of some thousands, with the columns that are used."""
    start = head(source)
    if is_binary(start):
        yield from _binary_parts(source, used)
    elif first_line(start).startswith(b"["):
        yield from text_parts.array_parts(source, used)
    elif first_line(start).startswith(b"{"):
        yield from text_parts.json_parts(source, used)
    else:
        yield from text_parts.csv_parts(source, names, used, settings)


def _opened(source: Source, start: bytes) -> Any:
    try:
        if start.startswith(PARQUET):
            # Texts stay dictionaries, so that one that repeats is in memory once.
            schema = pq.read_schema(source.path)
            are_texts = (pa.types.is_string, pa.types.is_large_string)
            texts = [field.name for field in schema if any(is_text(field.type) for is_text in are_texts)]
            return parquet_file(source.path, read_dictionary=texts)
        return pa.ipc.open_file(source.opened() if source.opened else pa.memory_map(str(source.path)))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(source, error) from None


def _damaged(source: Source, error: Exception) -> InputError:
    found = f"a table that cannot be read ({printable(str(error), 120)})"
    return InputError(printable(source.label), found, "a whole file", "copy or export it again")


def _binary_parts(source: Source, used: Sequence[str]) -> Iterator[Part]:
    """The rows of Parquet or Arrow, PART_ROWS at a time or fewer; InputError for damage."""
    n_rows = 0
    with _opened(source, head(source)) as file:
        try:
            if isinstance(file, pq.ParquetFile):
                batches = file.iter_batches(PART_ROWS, columns=list(used))
            else:
                whole = (file.get_batch(place).select(list(used)) for place in range(file.num_record_batches))
                batches = (own.slice(at, PART_ROWS) for own in whole for at in range(0, own.num_rows, PART_ROWS))
            for batch in batches:
                line = n_rows + 1 + np.arange(batch.num_rows)
                n_rows += batch.num_rows
                yield Part(pa.Table.from_batches([batch]), line, np.zeros_like(line), batch.num_rows, batch.nbytes)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(source, error) from None


def layout(source: Source, site: SiteSettings, settings: IngestSettings) -> Layout:
    """The map of a table's columns, with the units that were assumed, for `walltime ingest --dry-run`."""
    names, mapped = _mapped(source, settings)
    columns = _guesses(source, names, mapped, site, settings).columns
    found = tuple(dict.fromkeys(name for one in columns.values() for name in (one.said.column, one.said.times) if name))
    missing = tuple(target for target in guesses.TARGETS if target not in columns)
    ignored = tuple(name for name in names if name not in found)
    return Layout(found, missing, ignored, tuple(column.sentence() for column in columns.values()))


_SIZE_NOTES = {
    "nodes": "{} rows have no processors: nodes are counted as processors (set site.procs_per_node to multiply them)",
    "procs_per_node": "{} rows have no processors: they are the nodes times site.procs_per_node",
    "gpus": "{} rows have no processors and no nodes: GPUs are counted as processors",
    "none": "{} rows have no processors, nodes or GPUs: cleaning sets those jobs aside (no_procs)",
}


def notes(remarks: Remarks, _settings: IngestSettings) -> list[str]:
    """What was assumed of units, zones and sizes, a sentence each."""

    said = [f"the columns are those of a public set of jobs: {name}" for name in named(remarks, _SET)]
    said += list(named(remarks, _ASSUMED))
    said += [_SIZE_NOTES[name].format(f"{remarks[SIZES + name]:,}") for name in named(remarks, SIZES)]
    said += [
        f"{remarks[PARTS + name]:,} values of {name} have a fraction and are rounded up"
        for name in named(remarks, PARTS)
    ]
    said += [
        f"times without a zone are read as of {printable(zone, 60)} (site.timezone, or timezone of ingest.columns)"
        for zone in named(remarks, f"{LOCAL} ")
    ]
    return said + [COSTS[name] for name in named(remarks, MISSING)]


# ---------------- jobs of rows
# Makes jobs of the rows of a table: each column typed, and what others tell filled in.

REASONS = (
    "not_a_time", "not_a_duration", "not_a_number", "not_a_memory_size", "no_job_id", "number_of_values", "not_json",
    "no_line_end",
)  # fmt: skip
_CODE = {reason: code for code, reason in enumerate(REASONS, 1)}
_REASON = {
    **dict.fromkeys(guesses.INSTANTS, "not_a_time"),
    **dict.fromkeys((*guesses.DURATIONS, "energy_j"), "not_a_duration"),
    **dict.fromkeys(guesses.MEMORY, "not_a_memory_size"),
}

LOCAL, SIZES, MISSING, PARTS = "local times", "sizes ", "missing ", "parts "
COSTS = {
    "job_id": "no column has a job's id: the number of its row and its file's name are one",
    "submit_s": "no column has the time of submit: each job's start stands in for it, so that no job waits",
    "user": "no column has users: jobs of different users are not told apart",
    "requested_s": "no column has the time that users asked for: estimates, limits and replays do without requests",
    "state": "no column has a state: which jobs failed or were cancelled is unknown",
}
"""What is said of a table that does not tell this."""

_PER = {"processor": PROCESSOR, "node": NODE, "job": JOB}


@dataclass(slots=True)
class Rows:
    """Some rows of a table, asked for by target; a value that cannot be read marks its row in `bad`.

    bad: 0, or the place of the first reason met in REASONS, from 1.
    """

    table: pa.Table
    columns: Mapping[str, guesses.Column]
    site: SiteSettings
    remarks: Remarks
    bad: Bytes = field(init=False)

    def __post_init__(self) -> None:
        self.bad = np.zeros(self.table.num_rows, np.uint8)

    def has(self, target: str) -> bool:
        """Whether a column tells this."""
        return target in self.columns

    def array(self, target: str) -> pa.Array:
        """The values as they came."""
        return self.columns[target].array(self.table)

    def typed(self, target: str) -> Typed:
        """The values in the unit of JOBS; all are unknown where no column tells them."""
        n = self.table.num_rows
        if not self.has(target):
            return Typed(np.full(n, np.nan), np.ones(n, np.bool_), np.zeros(n, np.bool_))
        found = self.columns[target].typed(self.table)
        if isinstance(found, values.Timed):
            self.remarks[f"{LOCAL} {self.columns[target].zone}"] += found.n_local
        return self._marked(found, _REASON.get(target, "not_a_number"))

    def floats(self, target: str) -> Floats:
        """The same, NaN where unknown."""
        return self.typed(target).floats()

    def counts(self, target: str) -> Floats:
        """Whole numbers, rounded up, as a part of a GPU keeps it from others, which is said; NaN where unknown."""
        found = self.floats(target)
        times = self.columns[target].said.times if self.has(target) else None
        if times is not None:
            found = found * self._marked(values.numbers(values.plain(self.table[times])), "not_a_number").floats()
        up = np.ceil(found - 1e-9)
        self.remarks[f"{PARTS}{target}"] += int(np.count_nonzero(up - found > 1e-6))
        return up

    def memory(self, target: str, procs: Floats, nodes: Floats) -> tuple[Floats, Floats, Per]:
        """KiB per processor (of max_rss_kib: as it stands), the amount as written, and what that is counted per."""
        typed = self.typed(target)
        kib, said = typed.floats(), self.columns[target].said if self.has(target) else None
        usual = PROCESSOR if said is None or said.column == target else JOB
        per = np.full(len(kib), _PER[said.per] if said and said.per else usual, np.int8)
        if isinstance(typed, Memory):
            per = np.where(typed.per == JOB, per, typed.per)
        return per_processor(kib, per, procs, nodes), kib, per

    def _marked(self, read: Typed, reason: str) -> Typed:
        self.bad[read.invalid & (self.bad == 0)] = _CODE[reason]
        return read


def jobs_of_rows(rows: Rows, source: Source, line: Ints) -> pa.Table:
    """JOBS and EXTRAS of the rows that can be read; `bad` tells the others."""
    n = rows.table.num_rows
    rows.remarks.update({f"{MISSING}{name}": n for name in COSTS if not rows.has(name)})
    typed = _times(rows) | _sizes(rows) | _texts(rows, source, line)
    if rows.has("energy_j"):
        typed["energy_j"] = real(rows.floats("energy_j"))
    typed |= {
        "site": constant(rows.site.name, n),
        "source_file": constant(source.label, n),
        "source_line": arrow(line),
    }
    jobs = jobs_table(n, **typed)
    return jobs.filter(arrow(rows.bad == 0)) if rows.bad.any() else jobs


def _times(rows: Rows) -> dict[str, pa.Array]:
    """Instants, runtime and suspension; of start, end and runtime two tell the third, and a wait tells the start."""
    at = {name: rows.floats(name) for name in guesses.INSTANTS}
    took = {name: rows.floats(name) for name in guesses.DURATIONS if name != "cpu_s"}
    runtime_s, idle_s = took["runtime_s"], np.nan_to_num(took["suspended_s"])
    start_s = first_known(at["start_s"], at["submit_s"] + took["wait_s"], at["end_s"] - runtime_s - idle_s)
    end_s = first_known(at["end_s"], start_s + runtime_s + idle_s)
    between_s = end_s - start_s - idle_s
    runtime_s = first_known(runtime_s, np.where(between_s >= 0, between_s, np.nan))
    submit_s = at["submit_s"] if rows.has("submit_s") else start_s
    instants = at | {"submit_s": submit_s, "start_s": start_s, "end_s": end_s}
    return {name: whole(np.floor(found)) for name, found in instants.items()} | {
        "runtime_s": real(runtime_s),
        "suspended_s": real(took["suspended_s"]),
        "requested_s": real(positive(took["requested_s"])),
    }


def _sizes(rows: Rows) -> dict[str, pa.Array]:
    """Counts, and memory and processor time per processor."""
    number = {name: rows.counts(name) for name in guesses.COUNTS}
    number["procs"] = _procs(rows, number)
    procs = first_known(positive(number["procs"]), positive(number["requested_procs"]))
    nodes = first_known(positive(number["nodes"]), positive(number["requested_nodes"]))
    found = {name: whole(one) for name, one in number.items()}
    found |= {name: whole(rows.floats(name)) for name in guesses.EXIT_CODES}
    for name in guesses.MEMORY[:2]:
        own, typed, per = rows.memory(name, procs, nodes)
        if name == "requested_mem_kib":
            # A request of 0 is one for all memory of a node.
            own, typed = positive(own), positive(typed)
        found[name] = real(own)
        if name == "requested_mem_kib" and rows.has(name):
            found["requested_memory"] = requested_memory(typed, per)
    found["max_rss_kib"] = real(rows.memory("max_rss_kib", procs, nodes)[1])
    is_own = rows.has("cpu_s") and rows.columns["cpu_s"].said.column == "cpu_s"
    found["cpu_s"] = real(rows.floats("cpu_s") / (1.0 if is_own else procs))
    return found


def _procs(rows: Rows, number: Mapping[str, Floats]) -> Floats:
    """Processors; in a row without them its nodes or else its GPUs, which is said with how many rows."""
    procs, per_node = number["procs"], rows.site.procs_per_node
    nodes = first_known(positive(number["nodes"]), positive(number["requested_nodes"]))
    lacks = ~(procs > 0) & ~(number["requested_procs"] > 0)
    kinds = {
        "nodes" if per_node is None else "procs_per_node": lacks & (nodes > 0),
        "gpus": lacks & ~(nodes > 0) & (number["gpus"] > 0),
        "none": lacks & ~(nodes > 0) & ~(number["gpus"] > 0),
    }
    rows.remarks.update({f"{SIZES}{name}": int(np.count_nonzero(of_kind)) for name, of_kind in kinds.items()})
    return np.select(list(kinds.values()), [nodes * (per_node or 1), number["gpus"], procs], procs)


def _texts(rows: Rows, source: Source, line: Ints) -> dict[str, pa.Array]:
    """Names, ids and free texts. Where no column has an id, a row's place and its file's name are one."""
    found: dict[str, pa.Array] = {}
    for name in (name for name in guesses.CATEGORIES if rows.has(name) and name != "state"):
        # ClusterCockpit and slurmdbd give a job that is in no array the array 0.
        words = values.as_texts(rows.array(name))
        found[name] = categories(pc.if_else(pc.equal(words, "0"), None, words) if name == "array_id" else words, str)
    for name in (name for name in guesses.TEXTS if rows.has(name)):
        found[name] = values.as_texts(rows.array(name))
    if rows.has("state"):
        are_slurms = rows.columns["state"].said.unit == guesses.SLURM
        found["state"] = _states(rows.array("state"), are_slurms=are_slurms)
    if rows.has("job_id"):
        missing = found["job_id"].is_null().to_numpy(zero_copy_only=False)
        rows.bad[missing & (rows.bad == 0)] = _CODE["no_job_id"]
    else:
        found["job_id"] = pc.binary_join_element_wise(arrow(line).cast(pa.string()), f"@{source.label}", "")
    return found


def _states(array: pa.Array, *, are_slurms: bool) -> pa.Array:
    """Categories in Slurm's terms where a word maps to one, else the word; are_slurms: numbers are slurmdbd's."""
    data = guesses.known_names()
    known: dict[str, str] = {word: state for state, words in data["states"].items() for word in words.split()}
    known |= {str(number): state for number, state in enumerate(data["slurm_states"] if are_slurms else ())}

    def term(word: str) -> str:
        found = re.sub(r" by \S+$", "", word.strip())
        return known.get(found.lower().replace(" ", "_"), found)

    return categories(values.as_texts(array), term)


TABLE = Reader(
    "table", EXPECTS, REASONS, ("submit_s",), looks_right, read, notes, layout=layout, refusal=refusal,
    told=told,
)  # fmt: skip
