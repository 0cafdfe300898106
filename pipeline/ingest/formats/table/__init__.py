"""Reads any table with a row for each job: Parquet, Arrow, CSV with any delimiter, and JSON with an object a job.

Which column holds what is declared (`ingest.columns`), told by a public set's column names, or guessed from names;
units that nothing declares come from the values, and a guess that they contradict is dropped (guesses.py). What was
assumed is in the notes. What no column tells is null. A row with a value that cannot be read is set aside with its
reason.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError, printable
from pipeline.ingest.formats.table import guesses, text_parts
from pipeline.ingest.formats.table.guesses import Guesses, MappedColumns, guessed
from pipeline.ingest.formats.table.jobs import COSTS, LOCAL, MISSING, PARTS, REASONS, SIZES, Rows, jobs_of_rows
from pipeline.ingest.formats.table.text_parts import Part, first_line, names_in
from pipeline.ingest.reader import (
    Chunk,
    Layout,
    Reader,
    Remarks,
    as_whole,
    jobs_table,
    unreadable_row,
    unreadable_table,
)
from pipeline.ingest.sources import ARROW, PARQUET, Source, head
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
    """How the columns are read, by the first rows; all rows are looked at where day and month may be swapped."""
    rows: list[pa.Table] = []
    for part in read_parts(source, names, mapped.used, settings):
        rows.append(part.rows)
        if sum(map(len, rows)) >= PART_ROWS // 4:
            break
    none = pa.table({name: pa.array([], pa.string()) for name in mapped.used})
    first = pa.concat_tables(rows).unify_dictionaries() if rows else none
    dates = [] if settings.day_first else guesses.dates_in(first, mapped)
    every = (part.rows for part in read_parts(source, names, dates, settings)) if dates else ()
    return guesses.checked(first, mapped, site, settings, guesses.date_orders(every, dates))


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
            return _parquet(source)
        return pa.ipc.open_file(source.opened() if source.opened else pa.memory_map(str(source.path)))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(source, error) from None


def _parquet(source: Source) -> pq.ParquetFile:
    """A file whose texts stay dictionaries, so that one that repeats is in memory once."""
    schema = pq.read_schema(source.path)
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    return parquet_file(source.path, read_dictionary=texts)


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

    def named(prefix: str) -> list[str]:
        return [name.removeprefix(prefix) for name, n in sorted(remarks.items()) if name.startswith(prefix) and n]

    said = [f"the columns are those of a public set of jobs: {name}" for name in named(_SET)]
    said += named(_ASSUMED)
    said += [_SIZE_NOTES[name].format(f"{remarks[SIZES + name]:,}") for name in named(SIZES)]
    said += [f"{remarks[PARTS + name]:,} values of {name} have a fraction and are rounded up" for name in named(PARTS)]
    said += [
        f"times without a zone are read as of {printable(zone, 60)} (site.timezone, or timezone of ingest.columns)"
        for zone in named(f"{LOCAL} ")
    ]
    return said + [COSTS[name] for name in named(MISSING)]


TABLE = Reader(
    "table", EXPECTS, REASONS, ("submit_s",), looks_right, read, as_whole, notes, layout=layout, refusal=refusal,
    told=told,
)  # fmt: skip
