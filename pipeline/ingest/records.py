"""Puts the records of all logs together: each record once, the restarts of a job numbered, all in one order.

Rows stay in memory while they are few; more go to files, which DuckDB puts in order within its own bounds of memory.
Which rows are one record, and which of its readings is kept, DuckDB says for the ids that several rows bear. The result
depends neither on where the rows were nor on the order in which they came.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import (
    CATEGORY,
    Bools,
    Ints,
    arrow,
    dense_codes,
    integers,
    one_piece,
    replaced,
    unknown,
)
from pipeline.errors import TableError
from pipeline.large_tables import connected
from pipeline.schema import TableKind
from pipeline.tables import JOB, JOBS, SET_LATER

HOLD_BYTES = 112 << 20
"""Rows stay in memory up to this size, some half a million jobs."""

BATCH_ROWS = 50_000
"""Rows that come out of DuckDB at a time: folding and combining them takes some 1 KB a row."""

PARTIAL = "PARTIAL"
"""The state of a record that tells of a part of a job's execution."""

OPEN_STATES = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING", "REQUEUE_HOLD")


FATES = ("new", "unchanged", "completed", "changed", "newer_in_earlier", "other_sites", "earlier_only")
"""What became of a row of an earlier table and of the new records, by the number in the column `fate`."""

FATE = pa.field("fate", pa.int8())
FORMAT = pa.field("format", pa.int32())
MARKS = (pa.field("part", pa.int32()), FORMAT, pa.field("is_new", pa.bool_()))
"""What `distinct` sees beside JOBS: 0 for a whole job's record, else the rank of a partial execution's; which of the
lists of `same_record` is a row's own; false for rows of an earlier table."""

FOUND = pa.schema([*JOBS.schema(), FORMAT, FATE])

_OF_ITS_RECORD = {
    "site", "cluster", "job_id", "restart", "submit_s", "start_s", "end_s", "runtime_s", "is_lower_bound",
    "suspended_s", "procs", "state", "source_file", "source_line", "flag", "burst_id", "group_id",
}  # fmt: skip
SUPPLEMENTED = tuple(name for name in JOBS.schema().names if name not in _OF_ITS_RECORD)
"""Columns that a job's kept record takes from its other records where it has null: exports differ in their columns.

What tells how a job went (times, size, state) is the kept record's alone, null or not.
"""

_CONTENT = tuple(n for n in JOBS.schema().names if n not in {"source_file", "source_line", "restart", *SET_LATER})
_DISTINCT = """
WITH known AS (  -- An unknown cluster is that of the other records with the id, if these name only one.
    SELECT * REPLACE (coalesce(cluster, CASE WHEN min(cluster) OVER id = max(cluster) OVER id
        THEN min(cluster) OVER id END) AS cluster) FROM rows WINDOW id AS (PARTITION BY job_id)
), judged AS (  -- Only where one source has an identity several times do two times mean two jobs.
    SELECT *, end_s IS NULL OR coalesce(state IN {open_states}, false) AS is_open,
        greatest(count(*) FILTER (is_new) OVER same, count(*) FILTER (NOT is_new) OVER same) > 1 AS is_shared
    FROM known WINDOW same AS (PARTITION BY {identity})
), chained AS (  -- Readings of one record, the one to keep last: of two final ones the one that was read last is right.
    SELECT *, row_number() OVER same AS place, min(nr) OVER (PARTITION BY {identity}, {agreeing}) AS chain
    FROM judged WINDOW same AS (PARTITION BY {identity}, {agreeing} ORDER BY
        NOT is_open AND NOT is_shared, NOT is_open AND NOT is_shared AND is_new, end_s, runtime_s, is_new,
        {content}, restart, source_file, source_line)
), ended AS (
    SELECT *, lead(start_s) OVER readings AS next_start_s, lead(end_s) OVER readings AS next_end_s,
        lead(nr) OVER readings IS NULL OR (is_shared AND start_s IS NOT NULL AND end_s IS NOT NULL
            AND next_start_s IS NOT NULL AND next_end_s IS NOT NULL
            AND (start_s <> next_start_s OR end_s <> next_end_s)) AS is_kept
    FROM chained WINDOW readings AS (PARTITION BY chain ORDER BY place)
), parted AS (
    SELECT *, coalesce(sum(is_kept::INT) OVER (PARTITION BY chain ORDER BY place
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS part_of_chain FROM ended
), told AS (
    SELECT *, {fate} AS fate {supplements}
    FROM parted WINDOW readings AS (PARTITION BY chain, part_of_chain ORDER BY place)
)
SELECT * REPLACE (CASE WHEN is_kept THEN row_number() OVER (PARTITION BY is_kept, cluster, job_id
    ORDER BY part > 0, submit_s NULLS LAST, start_s NULLS LAST, part, end_s NULLS LAST, restart, {content_last},
    source_file NULLS LAST, source_line NULLS LAST) - 1 ELSE restart END AS restart {filled}) FROM told
"""
_FATE = """
CASE WHEN lag(nr) OVER readings IS NULL OR lag(is_new) OVER readings = is_new
        THEN CASE WHEN is_new THEN {new} ELSE {earlier_only} END
    WHEN NOT is_new THEN {newer_in_earlier}
    WHEN {is_equal} THEN {unchanged}
    WHEN lag(is_open) OVER readings AND NOT is_open THEN {completed}
    ELSE {changed} END"""


def distinct(rows: pa.Table, same_record: Sequence[Sequence[str]]) -> tuple[pa.Table, pa.Table]:
    """Each record once, with the column FATE and its restart; and the readings of it that were not kept.

    rows: JOBS with MARKS. Two rows are the same record read twice where job, part and their own columns agree, or,
    without a submit time, all but their position. The one that ends later is kept, then the one that sorts last; of a
    final record of an earlier table and a new one, the new one. What it does not tell comes from the others
    (SUPPLEMENTED). Two of one source that both tell start and end, and not alike, are never one: exports that drop
    array indices give all tasks one id. The other records of a job id are its restarts: whole jobs first, then parts,
    each by submit, start, part, end and the rest.
    """
    is_several = _is_repeated(rows["job_id"])
    is_new = integers(rows["is_new"].cast(pa.int64()))[0] == 1
    fate = np.where(is_new, FATES.index("new"), FATES.index("earlier_only")).astype(np.int8)
    alone = replaced(rows, "restart", arrow(np.zeros(rows.num_rows, np.int64))).append_column(FATE, arrow(fate))
    alone = alone.select(FOUND.names)
    if not is_several.any():
        return alone, JOBS.empty()
    rows = rows.filter(arrow(is_several)).append_column("nr", arrow(np.arange(np.count_nonzero(is_several))))
    with connected() as database:
        database.register("rows", rows)
        judged = database.sql(_query(rows, same_record)).to_arrow_table()
    found = under_schema([judged.filter(judged["is_kept"])], FOUND)
    lost = under_schema([judged.filter(pc.invert(judged["is_kept"]))], JOBS.schema())
    return pa.concat_tables([alone.filter(arrow(~is_several)), found]).unify_dictionaries(), lost


def marked(jobs: pa.Table, **marks: npt.ArrayLike) -> pa.Table:
    """JOBS with MARKS: a value a row or one for all, or as the table has them."""
    given = {mark: np.broadcast_to(value, jobs.num_rows) for mark, value in marks.items()}
    columns = [jobs[name] for name in JOBS.schema().names]
    columns += [arrow(given[m.name]).cast(m.type) if m.name in given else jobs[m.name] for m in MARKS]
    return pa.table(columns, schema=pa.schema([*JOBS.schema(), *MARKS]))


def _query(rows: pa.Table, same_record: Sequence[Sequence[str]]) -> str:
    """The query that tells readings of one record apart, over the columns that have a value."""
    content = [name for name in _CONTENT if rows[name].null_count < rows.num_rows]
    # What a row's own format does not name is equal in all rows of that format, and to no value of another's.
    own = {
        name: [place for place, names in enumerate(same_record) if name in names]
        for name in sorted({name for names in same_record for name in names})
    }
    is_own = {name: f"format IN ({', '.join(map(str, places))})" for name, places in own.items()}
    identity = [f"{said}, CASE WHEN {said} THEN {name} END" for name, said in is_own.items()]
    lacking = [name for name in SUPPLEMENTED if name in content and rows[name].null_count]
    known = "last_value(CASE WHEN {0} IS NOT NULL THEN {1} END IGNORE NULLS) OVER readings AS {0}_{2}"
    taken = (
        "CASE WHEN is_kept AND {0}_start IS NOT DISTINCT FROM coalesce(start_s, -1) THEN {0}_known ELSE {0} END AS {0}"
    )
    equal = "({0} IS NOT DISTINCT FROM lag({0}) OVER readings{1})"
    is_equal = " AND ".join(equal.format(n, f" OR {n} IS NULL" if n in SUPPLEMENTED else "") for n in content)
    fate = _FATE.format(is_equal=is_equal, **{name: place for place, name in enumerate(FATES)})
    return _DISTINCT.format(
        open_states=OPEN_STATES,
        identity=", ".join([*JOB, "part", *identity]),
        agreeing=f"CASE WHEN submit_s IS NULL THEN row({', '.join(content)}) END",
        content=", ".join(content),
        content_last=", ".join(f"{name} NULLS LAST" for name in content),
        fate=FATES.index("new") if pc.all(rows["is_new"]).as_py() else fate,
        supplements="".join(
            f", {known.format(n, n, 'known')}, {known.format(n, 'coalesce(start_s, -1)', 'start')}" for n in lacking
        ),
        filled="".join(f", {taken.format(name)}" for name in lacking),
    )


def _is_repeated(ids: pa.ChunkedArray) -> Bools:
    """Rows whose id another row bears too."""
    numbers = _as_integers(ids)
    if numbers is not None and bool((np.diff(numbers) > 0).all()):
        return np.zeros(len(ids), np.bool_)
    codes = dense_codes(ids if numbers is None else arrow(numbers))
    is_repeated: Bools = np.bincount(codes)[codes] > 1
    return is_repeated


# ---------------------------------------------------------------- the order of rows

_ORDERING = ("submit_s", "job_id", "restart", "cluster", "site")
_ORDERED = r"""
SELECT * EXCLUDE (n) FROM (
    SELECT {}, regexp_extract(job_id, '^(-?\d{{0,18}})(\D*)(\d{{0,18}})', ['first', 'word', 'second']) AS n FROM rows
) ORDER BY submit_s NULLS LAST, coalesce(try_cast(n.first AS BIGINT), -1), n.word,
    coalesce(try_cast(n.second AS BIGINT), -1), job_id, restart, cluster, site
"""
"""By submit (unknown last), job id (its numbers as numbers: 9_2 before 9_10 before 10), restart, cluster, site."""


def is_in_order(jobs: pa.Table) -> bool:
    """Whether jobs surely stand in the order of _ORDERED: their submits, or else the numbers of their ids, tell."""
    numbers = _as_integers(leading_digits(jobs["job_id"]))
    if numbers is None:
        return False
    submit_s, is_unknown = integers(jobs["submit_s"])
    later = np.diff(np.where(is_unknown, np.iinfo(np.int64).max, submit_s))
    return bool(((later > 0) | ((later == 0) & (np.diff(numbers) > 0))).all())


def _as_integers(ids: pa.ChunkedArray) -> Ints | None:
    """Ids as int64, where all are integers of up to 18 digits as these are usually written; else None."""
    try:
        numbers = ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    is_usual = pc.all(pc.equal(numbers.cast(pa.string()), ids), min_count=0).as_py()
    return integers(numbers)[0] if is_usual and integers(pc.binary_length(ids))[0].max(initial=0) <= 18 else None


def with_sorted_categories(jobs: pa.Table) -> pa.Table:
    """Every category's dictionary sorted, and without values no row has."""
    columns = [_sorted_category(column) if column.type == CATEGORY else column for column in jobs.columns]
    return pa.table(columns, schema=jobs.schema)


def _sorted_category(chunks: pa.ChunkedArray) -> pa.Array:
    if chunks.null_count == len(chunks):
        return unknown(len(chunks), CATEGORY)
    column = one_piece(chunks)
    used = column.dictionary.take(column.indices.unique().drop_null())
    words = used.take(pc.array_sort_indices(used))
    return pa.DictionaryArray.from_arrays(pc.index_in(column.dictionary, words).take(column.indices), words)


# ---------------------------------------------------------------- rows in memory or in files


def leading_digits(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """What ids begin with, equal for the tasks and components of a job: their digits, or all where there are none."""
    return pc.replace_substring_regex(ids, r"(?s)^(\d+).*", r"\1")


_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")
_KEYED = r"""SELECT '{0}' AS _kind, regexp_replace(job_id, '^(\d+).*', '\1', 's') AS _key, {1} FROM "{0}" """


class Records:
    """Tables of several kinds: in memory while they are few, else in files, which a database puts in order.

    schemas: by kind; columns that its tables lack are null. folder: an empty one; None: all rows stay in memory.
    """

    def __init__(self, schemas: Mapping[str, pa.Schema], folder: Path | None, hold_bytes: int) -> None:
        """No file is opened before there are many rows."""
        self.schemas, self.folder, self.hold_bytes = dict(schemas), folder, hold_bytes
        self.is_spilled = False
        self._held_bytes = 0
        self._held = defaultdict[str, list[pa.Table]](list)
        self._files: dict[str, pa.ipc.RecordBatchStreamWriter] = {}
        self._filled = defaultdict[str, set[str]](set)

    def add(self, kind: str, table: pa.Table) -> None:
        """Add rows of a kind."""
        if not table.num_rows:
            return
        filled = [name for name in table.column_names if table[name].null_count < table.num_rows]
        self._filled[kind].update(filled)
        if self.is_spilled:
            self._file(kind).write_table(under_schema([table], self.schemas[kind]))
            return
        self._held[kind].append(table.select(filled))
        self._held_bytes += self._held[kind][-1].nbytes
        if self.folder and self._held_bytes > self.hold_bytes:
            self.is_spilled = True
            for other, tables in self._held.items():
                while tables:
                    self.add(other, tables.pop(0))

    def batches(self, kinds: Sequence[str]) -> Iterator[dict[str, pa.Table]]:
        """The rows of these kinds, all of one job and its tasks and components together."""
        if not self.is_spilled:
            held = {kind: under_schema(self._held.pop(kind, []), self.schemas[kind]) for kind in kinds}
            # What becomes of them is in memory too.
            self.hold_bytes = sys.maxsize
            yield held
            return
        query = " UNION ALL BY NAME ".join(_KEYED.format(kind, self._names(kind)) for kind in kinds)
        waiting: list[pa.Table] = []
        for rows in self._found(f"{query} ORDER BY _key", {kind: self._reader(kind) for kind in kinds}):
            n_whole = pc.index(rows["_key"], rows["_key"][-1]).as_py()
            if n_whole:
                yield self._by_kind([*waiting, rows.slice(0, n_whole)], kinds)
                waiting = []
            waiting.append(rows.slice(n_whole))
        if waiting:
            yield self._by_kind(waiting, kinds)

    def tables(self, kind: str) -> Iterator[pa.Table]:
        """The rows of a kind as they were added: all, where they are in memory, else a batch at a time."""
        if self.is_spilled:
            yield from (pa.Table.from_batches([batch]) for batch in self._reader(kind))
        else:
            yield under_schema(self._held.pop(kind, []), self.schemas[kind])

    def ordered(self, kind: str) -> Iterator[pa.Table]:
        """The jobs of a kind in one order."""
        rows = self.tables(kind)
        if not self.is_spilled:
            (held,) = rows
            if is_in_order(held):
                yield held
                return
            rows = iter([held])
        schema = self.schemas[kind]
        reader = pa.RecordBatchReader.from_batches(schema, (batch for table in rows for batch in table.to_batches()))
        for table in self._found(_ORDERED.format(self._names(kind)), {"rows": reader}):
            yield under_schema([table], schema)

    def check_key(self, kind: TableKind) -> None:
        """TableError where rows in files, which no check sees together, repeat their key."""
        if self.is_spilled:
            query = f"SELECT count(*) - count(DISTINCT ({', '.join(kind.key)})) AS n FROM rows"  # noqa: S608
            (n_repeated,) = (rows["n"][0].as_py() for rows in self._found(query, {"rows": self._reader(kind.name)}))
            if n_repeated:
                found, expected = f"{n_repeated} rows repeating the key", f"one row per {', '.join(kind.key)}"
                raise TableError(kind.name, found, expected)

    def _found(self, query: str, rows: Mapping[str, pa.RecordBatchReader]) -> Iterator[pa.Table]:
        """What a query of some rows finds, a batch at a time."""
        with connected(self.folder) as database:
            for name, reader in rows.items():
                database.register(name, reader)
            for batch in database.sql(query).to_arrow_reader(BATCH_ROWS):
                yield pa.Table.from_batches([batch])

    def _by_kind(self, tables: Sequence[pa.Table], kinds: Sequence[str]) -> dict[str, pa.Table]:
        rows = pa.concat_tables(tables)
        own = {kind: rows.filter(pc.equal(rows["_kind"], kind)) for kind in kinds}
        return {kind: under_schema([table], self.schemas[kind]) for kind, table in own.items()}

    def _names(self, kind: str) -> str:
        """The columns of a kind that have a value: a sort of the others would take as long."""
        names = {*self._filled[kind], *_ORDERING}
        return ", ".join(f'"{name}"' for name in self.schemas[kind].names if name in names)

    def _file(self, kind: str) -> pa.ipc.RecordBatchStreamWriter:
        if kind not in self._files:
            self._files[kind] = pa.ipc.new_stream(self._path(kind), self.schemas[kind], options=_PACKED)
        return self._files[kind]

    def _path(self, kind: str) -> str:
        assert self.folder is not None  # nosec B101 # for the type checker
        return str(self.folder / f"{kind}.arrow")

    def _reader(self, kind: str) -> pa.RecordBatchReader:
        self._file(kind).close()
        return pa.ipc.open_stream(self._path(kind))


def under_schema(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenates tables under their full schema; columns that a table lacks are null."""
    whole = pa.concat_tables(tables, promote_options="default") if tables else pa.table({})
    there = set(whole.column_names)
    columns = [whole[f.name].cast(f.type) if f.name in there else unknown(whole.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)
