"""Reads any table with a row for each job: Parquet, Arrow, CSV with any delimiter, and JSON with an object a job.

Which column holds what is declared (`ingest.columns`), told by a public set's column names, or guessed from names
(column_map.py); units that nothing declares come from the values (units.py). What was assumed is in the notes. What no
column tells is null. A row with a value that cannot be read is set aside with its reason.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.errors import InputError, printable
from pipeline.ingest.formats.table.column_map import TARGETS, MappedColumns, guessed, mapped_columns
from pipeline.ingest.formats.table.jobs import COSTS, LOCAL, MISSING, REASONS, SIZES, Rows, jobs_of_rows
from pipeline.ingest.formats.table.parts import is_binary, names_of, read_parts
from pipeline.ingest.formats.table.public_sets import public_set
from pipeline.ingest.formats.table.text_parts import Part, names_in
from pipeline.ingest.formats.table.units import Units, units_in
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
from pipeline.ingest.sources import Source
from pipeline.settings import IngestSettings, SiteSettings

EXPECTS = "a table with a row for each job: Parquet, Arrow, CSV with column names, or JSON with an object a job"
_SACCTS = (
    {"jobid", "jobidraw"},
    {
        "jobname",
        "alloccpus",
        "ncpus",
        "nnodes",
        "elapsedraw",
        "timelimit",
        "timelimitraw",
        "reqmem",
        "reqcpus",
        "maxrss",
    },
)
"""Names that sacct writes: one of the first, or two of the second, show a dump of it, whose rows may be steps."""
_ASSUMED, _SET = "assumed ", "set "


def looks_right(head: bytes) -> bool:
    """Whether first bytes are a table whose columns tell when jobs ran; dumps of sacct are left to its reader."""
    if is_binary(head):
        return True
    names = names_in(head)
    if public_set(names):
        return True
    plain = {name.strip().lower() for name in names}
    is_saccts = bool(plain & _SACCTS[0]) or len(plain & _SACCTS[1]) > 1
    return not is_saccts and guessed(names).is_log


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A table's chunks; InputError where it names no columns, or none that tell when jobs ran, or is damaged."""
    names, mapped = _mapped(source, settings)
    units: Units | None = None
    for part in read_parts(source, names, mapped.used, settings):
        remarks = Remarks()
        if units is None and part.rows.num_rows:
            units = units_in(part.rows, mapped)
            remarks.update({f"{_ASSUMED}{sentence}": 1 for sentence in units.said})
            if public := public_set(names):
                remarks[f"{_SET}{public.name}"] += 1
        yield _chunk(part, mapped, units, source, site, settings, remarks)


def _mapped(source: Source, settings: IngestSettings) -> tuple[list[str], MappedColumns]:
    names = names_of(source, settings)
    where = printable(source.label)
    if not names:
        raise InputError(f"{where}, line 1", "no column names", EXPECTS, "name the columns in ingest.fields")
    if double := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}, line 1", f"two columns {printable(double, 40)}", "each column once", "rename one")
    return names, mapped_columns(names, settings, where)


def _chunk(
    part: Part, mapped: MappedColumns, units: Units | None, source: Source, site: SiteSettings,
    settings: IngestSettings, remarks: Remarks,
) -> Chunk:  # fmt: skip
    jobs, unreadable = jobs_table(0), list(part.unreadable)
    if units is not None and part.rows.num_rows:
        rows = Rows(part.rows, mapped, units, site, settings, remarks)
        jobs = jobs_of_rows(rows, source, part.line)
        for place in np.flatnonzero(rows.bad).tolist():
            raw = _shown(part.rows.slice(place, 1))
            where = int(part.line[place]), int(part.offset[place])
            unreadable.append(unreadable_row(source, *where, REASONS[rows.bad[place] - 1], raw))
    unreadable.sort(key=lambda row: (row["source_line"], row["byte_offset"]))
    return Chunk(jobs, unreadable_table(unreadable), part.lines, part.n_lines, part.n_bytes, remarks)


def _shown(row: pa.Table) -> bytes:
    """The values of a row that is set aside, by column."""
    pairs = row.to_pylist()[0].items()
    return ", ".join(f"{name} = {value}" for name, value in pairs).encode("utf-8", "backslashreplace")


def layout(source: Source, site: SiteSettings, settings: IngestSettings) -> Layout:
    """The map of a table's columns, with the units that were assumed, for `walltime ingest --dry-run`."""
    del site
    names, mapped = _mapped(source, settings)
    said = [
        f"{target} = {printable(column.column, 60)}{f' in {column.unit}' if column.unit else ''} "
        f"({mapped.known_by[target]})"
        for target, column in mapped.columns.items()
    ]
    found, missing = tuple(mapped.used), tuple(target for target in TARGETS if target not in mapped.columns)
    return Layout(found, missing, tuple(name for name in names if name not in found), tuple(said))


_SIZE_NOTES = {
    "nodes": "the table has no processors: nodes are counted as processors (set site.procs_per_node to multiply them)",
    "procs_per_node": "the table has no processors: they are its nodes times site.procs_per_node",
    "gpus": "the table has no processors and no nodes: GPUs are counted as processors",
    "none": "no column has processors, nodes or GPUs: sizes are unknown, and cleaning sets the jobs aside (no_procs)",
}


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """What was assumed of units, zones and sizes, a sentence each."""
    del settings

    def named(prefix: str) -> list[str]:
        return [name.removeprefix(prefix) for name, n in sorted(remarks.items()) if name.startswith(prefix) and n]

    said = [f"the columns are those of a public set of jobs: {name}" for name in named(_SET)]
    said += named(_ASSUMED)
    said += [_SIZE_NOTES[name] for name in named(SIZES)]
    said += [
        f"times without a zone are read as of {printable(zone, 60)} (site.timezone, or timezone of ingest.columns)"
        for zone in named(f"{LOCAL} ")
    ]
    return said + [COSTS[name] for name in named(MISSING)]


TABLE = Reader("table", EXPECTS, REASONS, ("submit_s",), looks_right, read, as_whole, notes, layout=layout)
