"""Makes the final JOBS table: folds, settles and combines each partition, then merges the partitions in order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.core.buffers import arrow
from pipeline.core.errors import ConservationError
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.tables import JOBS
from pipeline.ingest.assemble.combine import FORMAT, combine
from pipeline.ingest.assemble.ingest_report import Account
from pipeline.ingest.assemble.merge import joined, merged, write_run
from pipeline.ingest.assemble.read_sources import EARLIER, SourceRows, jobs_kind, parts_kind
from pipeline.ingest.assemble.update import FATE, Fates, updated
from pipeline.ingest.reader import PART, Reader, Remarks


def assemble_jobs(
    taken: SourceRows, site: SiteSettings, settings: IngestSettings, scratch: Path | None, fates: Fates | None
) -> Iterator[pa.Table]:
    """Yields the final JOBS in order, checked, in one or more tables; the account is complete before the first."""
    at_first = {name: Remarks(remarks) for name, remarks in taken.account.remarks.items()}
    schema = pa.schema([*JOBS.schema(), FATE]) if fates else JOBS.schema()
    runs: list[Path] = []
    alone = pa.table([pa.nulls(0, f.type) for f in schema], schema=schema)
    for tables in taken.rows.partitions():
        jobs = _combined(tables, taken, at_first, site, settings, fates)
        if not taken.rows.is_spilled or scratch is None:
            alone = jobs
        elif jobs.num_rows:
            runs.append(scratch / "runs" / f"{len(runs)}.arrow")
            write_run(runs[-1], jobs, taken.rows.n_partitions, taken.rows.room)
    found = merged(runs, schema, taken.rows.room) if runs else iter([alone])
    if taken.earlier and taken.earlier.is_in_order:
        found = joined([found, taken.earlier.unchanged()], schema, taken.rows.room)
    for jobs in found:
        if fates:
            fates.count(jobs)
        yield JOBS.check(jobs.select(JOBS.schema().names))


def _combined(
    tables: dict[str, pa.Table],
    taken: SourceRows,
    remarks: dict[str, Remarks],
    site: SiteSettings,
    settings: IngestSettings,
    fates: Fates | None,
) -> pa.Table:
    """One partition's jobs, in order."""
    settled = []
    for place, reader in enumerate(taken.readers):
        jobs = _folded(tables, reader, taken.account, site, settings)
        jobs = reader.settle(jobs, remarks[reader.name], settings).select([*JOBS.schema().names, PART.name])
        if len(taken.readers) > 1:
            jobs = jobs.append_column(FORMAT, arrow(np.full(jobs.num_rows, place, np.int32)))
        settled.append(jobs)
    same_record = [reader.same_record for reader in taken.readers]
    together = settled[0] if len(settled) == 1 else pa.concat_tables(settled).unify_dictionaries()
    combined = combine(together, *same_record)
    if fates:
        fates.count_new(combined.jobs)
        combined = updated(combined, tables[EARLIER], site.name, same_record)
    taken.account.settle(combined)
    return combined.jobs.drop_columns([n for n in (FORMAT.name,) if n in combined.jobs.column_names])


def _folded(
    tables: dict[str, pa.Table], reader: Reader, account: Account, site: SiteSettings, settings: IngestSettings
) -> pa.Table:
    jobs = tables[jobs_kind(reader)]
    if reader.fold is None or reader.parts is None:
        return jobs.select(JOBS.schema().names)
    parts = tables[parts_kind(reader)]
    folded = reader.fold(jobs, parts, site, settings)
    n_in, n_out = jobs.num_rows + parts.num_rows, folded.jobs.num_rows + sum(folded.lines.values())
    if n_in != n_out:
        raise ConservationError(f"reader {reader.name}: found {n_out} records after folding, expected {n_in}.")
    account.fold(reader, folded)
    return folded.jobs.select(JOBS.schema().names)
