"""Inspects logs before they are ingested: the format of each, its columns, and what would be set aside."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from pipeline.errors import InputError, printable
from pipeline.ingest import candidates_of, ingest, reader_of
from pipeline.ingest.jobs_tables import OWN_TABLE
from pipeline.ingest.privacy import unquoted
from pipeline.ingest.reader import Layout
from pipeline.ingest.sources import (
    ARROW,
    PARQUET,
    Source,
    beginning,
    compression_of,
    find_sources,
    head,
    is_table,
    with_members,
)  # fmt: skip
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS, SET_LATER, UNREADABLE

CUT_BY_BOUND = ("cut_off",)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of one source.

    format, report: None where no reader knows it, and `error` says why. layout: the log's own columns. filled, empty:
    columns of JOBS that get a value from what was read, and that get none. is_whole: whether that was all of it.
    """

    label: str
    compression: str
    format: str | None
    is_whole: bool
    timezone: str
    layout: Layout
    jobs: pa.Table
    unreadable: pa.Table
    report: Report | None
    error: str | None = None

    @property
    def filled(self) -> list[str]:
        """Columns of JOBS with a value in any row."""
        return [name for name in self.jobs.column_names if self.jobs.column(name).null_count < self.jobs.num_rows]

    @property
    def empty(self) -> list[str]:
        """Columns of JOBS without one, but for those that later stages fill."""
        return [name for name in self.jobs.column_names if name not in {*self.filled, *SET_LATER}]


def inspect(
    paths: Sequence[Path | Source], site: SiteSettings, settings: IngestSettings, *, is_all: bool = False
) -> Iterator[Inspection]:
    """Each source behind the paths, by label; InputError where a path leads to none."""
    for source in find_sources(paths):
        try:
            for member in with_members([source], []):
                yield _inspected(member, site, settings, is_all=is_all)
        except InputError as error:
            yield _failed(_unseen(source, site), error, site)


def _unseen(source: Source, site: SiteSettings) -> Inspection:
    nothing = (JOBS.empty(), UNREADABLE.empty(), None)
    return Inspection(source.label, compression_of(source), None, True, site.timezone, Layout(), *nothing)


def _failed(seen: Inspection, error: InputError, site: SiteSettings) -> Inspection:
    return replace(seen, error=unquoted(str(error)) if site.anonymise else str(error))


def _inspected(source: Source, site: SiteSettings, settings: IngestSettings, *, is_all: bool) -> Inspection:
    seen = _unseen(source, site)
    try:
        if is_table(source):
            raise InputError(printable(source.label), "a table of Walltime, not a log", "a log", OWN_TABLE)
        reader = reader_of(replace(source, is_named=True), candidates_of(settings))
        assert reader is not None  # nosec B101 # for the type checker
        shown, is_whole = _bounded(source, settings)
        layout = reader.layout(shown, site, settings) if reader.layout else Layout()
        shown, is_whole = (source, True) if is_all else (shown, is_whole)
        seen = replace(seen, format=reader.name, is_whole=is_whole, layout=layout)
        alone = settings.model_copy(update={"format": reader.name, "max_damaged": settings.max_damaged and 1.0})
        jobs, unreadable, report = ingest([shown], site, alone)
        lines = unreadable
        if not is_whole:
            lines = lines.filter(pa.array([r not in CUT_BY_BOUND for r in lines["reason"].to_pylist()], pa.bool_()))
        return replace(seen, jobs=jobs, unreadable=lines, report=report)
    except InputError as error:
        return _failed(seen, error, site)


def _bounded(source: Source, settings: IngestSettings) -> tuple[Source, bool]:
    """The source's first bytes, up to the end of a line, or of a table the first rows; whether they are all."""
    if head(source).startswith((PARQUET, ARROW)):
        return _first_rows(source, settings)
    return beginning(source)


def _first_rows(source: Source, settings: IngestSettings) -> tuple[Source, bool]:
    """The first rows of a table, as a table in memory; whether they are all."""
    from pipeline.ingest.formats.table import names_of, read_parts  # noqa: PLC0415  (kernels that text does without)

    names = names_of(source, settings)
    rows = list(islice(read_parts(source, names, names, settings), 2))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows[0].rows.schema) as file:
        file.write(rows[0].rows)
    data = sink.getvalue().to_pybytes()
    return replace(source, opened=lambda: cast(BinaryIO, io.BytesIO(data))), len(rows) < 2
