"""The jobs of a log in order of their group, so that groups can be computed a few at a time.

Ids of groups are hashes. Rows go to buckets by the first digits of their group's id; each bucket is sorted in memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import category_codes, grouped_jobs, proc_seconds
from pipeline.core.buffers import unknown
from pipeline.core.group_parts import PART_ROWS
from pipeline.core.group_settings import GroupSettings
from pipeline.core.report import Report, Tally, total
from pipeline.core.stored_table import LargeTable, parts_of, stored
from pipeline.core.tables import GROUPED_JOBS

_NEEDED = ("site", "problem_size", "procs", "requested_procs", "submit_s", "start_s", "end_s", "runtime_s", "energy_j",
           "is_lower_bound")  # fmt: skip
_DIGITS = 4
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def sort_by_group(jobs: LargeTable, settings: GroupSettings, folder: Path | None) -> tuple[LargeTable, Report]:
    """GROUPED_JOBS: the jobs that have a group in order of its id, with the columns of the template; others are null.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        Grouped JOBS.
    settings : GroupSettings
        The template.
    folder : Path or None
        Where the table is written; None: it stays in memory.

    Returns
    -------
    table : pa.Table or StoredTable
        GROUPED_JOBS.
    report : Report
        Jobs with a group.
    """
    names = tuple(dict.fromkeys((*_NEEDED, *settings.columns)))
    parts = (grouped_jobs(part, names) for part in parts_of(jobs, PART_ROWS, ("group_id", *names)))
    n_buckets = 1 if folder is None else max(1, -(-jobs.num_rows // PART_ROWS))
    counted: list[Tally] = []
    table = stored(map(_widened, _sorted(parts, n_buckets, folder, counted)), GROUPED_JOBS, folder, GROUPED_JOBS.name)
    whole = total(counted)
    return table, Report("sort", "job", whole, whole).check()


def _widened(table: pa.Table) -> pa.Table:
    """With every column of GROUPED_JOBS; one without values takes no memory."""
    there, n_rows = set(table.column_names), table.num_rows
    columns = [table.column(f.name) if f.name in there else unknown(n_rows, f.type) for f in GROUPED_JOBS.schema()]
    return GROUPED_JOBS.check(pa.table(columns, schema=GROUPED_JOBS.schema()))


def _sorted(parts: Iterator[pa.Table], n_buckets: int, folder: Path | None, counted: list[Tally]) -> Iterator[pa.Table]:
    if n_buckets == 1:
        buckets: Iterator[pa.Table] = iter([pa.concat_tables(parts)])
    else:
        buckets = _buckets(parts, n_buckets, folder)
    for bucket in buckets:
        table = bucket.unify_dictionaries().combine_chunks()
        counted.append(Tally(table.num_rows, float(proc_seconds(table).sum())))
        yield table.take(pa.array(np.argsort(category_codes(table, "group_id")[0], kind="stable")))


def _buckets(parts: Iterator[pa.Table], n_buckets: int, folder: Path | None) -> Iterator[pa.Table]:
    """The rows of each bucket, in their order; they wait in files until all have been read."""
    with TemporaryDirectory(prefix=".buckets.", dir=folder) as held:
        paths = [Path(held) / f"{place}.arrows" for place in range(n_buckets)]
        schema = _spill(parts, paths)
        for path in paths:
            yield _read(path, schema)
            path.unlink()


def _spill(parts: Iterator[pa.Table], paths: Sequence[Path]) -> pa.Schema:
    schema = None
    with ExitStack() as stack:
        writers: list[pa.ipc.RecordBatchStreamWriter] = []
        for part in map(_with_ids_as_texts, parts):
            if schema is None:
                schema = part.schema
                sinks = [stack.enter_context(pa.OSFile(str(path), "wb")) for path in paths]
                writers = [stack.enter_context(pa.ipc.new_stream(s, schema, options=_OPTIONS)) for s in sinks]
            for writer, rows in zip(writers, _by_bucket(part, len(paths)), strict=True):
                writer.write_table(rows)
    assert schema is not None  # nosec B101 # parts_of gives at least one
    return schema


def _with_ids_as_texts(part: pa.Table) -> pa.Table:
    """Each batch of a file would carry the ids of all groups as its dictionary."""
    place = part.column_names.index("group_id")
    return part.set_column(place, "group_id", part.column("group_id").cast(pa.string()))


def _by_bucket(part: pa.Table, n_buckets: int) -> list[pa.Table]:
    codes, ids = category_codes(part, "group_id")
    of_id = np.array([int(name[:_DIGITS], 16) * n_buckets >> 4 * _DIGITS for name in ids], np.int64)
    bucket = of_id[codes]
    order = np.argsort(bucket.astype(np.int16), kind="stable")
    ordered = part.unify_dictionaries().combine_chunks().take(pa.array(order))
    counts = np.bincount(bucket, minlength=n_buckets)
    return [ordered.slice(int(end - n), int(n)) for end, n in zip(np.cumsum(counts), counts, strict=True)]


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return pa.Table.from_batches(list(reader), schema)
