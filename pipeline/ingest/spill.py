"""Keeps rows by partition of their job id: in memory while they are few, else in files.

A file is a sequence of Arrow IPC streams, one for each table appended, each without its empty columns. The partition of
a row decides only how much is in memory at a time, never a byte of the result.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import arrow, unknown


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a log's rows is in memory at a time; no byte of the result depends on it."""

    hold_bytes: int = 112 << 20
    """Rows stay in memory up to this size, some half a million jobs; beyond it all of them go to disk."""

    spill_bytes: int = 32 << 20
    """The size of the rows that go to disk at a time; sorting them by partition takes as much memory again."""

    partition_rows: int = 100_000
    """The wanted number of rows in a partition: folding and sorting them takes some 1 KB a row."""

    most_partitions: int = 128
    most_rows: int = 200_000
    """A partition of more rows is split."""

    window_rows: int = 1 << 16
    """Rows of all partitions together that are in memory while these are merged."""


NARROW = Room()
WIDE = Room(spill_bytes=96 << 20, partition_rows=250_000, most_partitions=160, most_rows=1_000_000, window_rows=1 << 19)
"""For a run, whose later steps take more memory than this: twice as fast as the default on ten million jobs."""

_SPLITS = 8
_MOST_SPLITS = 3
_FAR = np.iinfo(np.int64).max
_WEIGHTS = np.array([pow(0x9E3779B97F4A7C15, i + 1, 1 << 64) | 1 for i in range(64)], np.uint64)
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(slots=True)
class PartitionedRows:
    """Tables of several kinds, each row with a job_id; `partitions` gives them back, all of one job id together."""

    folder: Path | None
    n_partitions: int = 16
    room: Room = Room()
    n_splits: int = 0
    n_rows: int = 0
    _held: list[tuple[str, pa.Table]] = field(default_factory=list)
    _held_bytes: int = 0
    _schemas: dict[str, pa.Schema] = field(default_factory=dict)
    _rows: dict[int, int] = field(default_factory=dict)
    is_spilled: bool = False
    """Whether rows have gone to disk."""

    def declare(self, kind: str, schema: pa.Schema) -> None:
        """Set the columns that `partitions` gives for a kind; columns that its tables lack are null."""
        self._schemas[kind] = schema

    def add(self, kind: str, table: pa.Table) -> None:
        """Add rows of a declared kind."""
        if not table.num_rows:
            return
        self._held.append((kind, rare_categories_as_texts(without_empty_columns(table))))
        self._held_bytes += self._held[-1][1].nbytes
        self.n_rows += table.num_rows
        room = self.room
        most = min(room.hold_bytes, room.spill_bytes) if self.is_spilled else room.hold_bytes
        if self.folder is not None and self._held_bytes > most:
            self._spill()

    def partitions(self) -> Iterator[dict[str, pa.Table]]:
        """Yield the rows of each partition by kind; a partition's rows are released when it is yielded."""
        if not self.is_spilled:
            held, self._held = self._held, []
            yield self._by_kind(held)
            return
        self._spill()
        for partition in sorted(self._rows):
            if self._rows[partition] > self.room.most_rows and self.n_splits < _MOST_SPLITS:
                yield from self._split(partition)
            else:
                yield self._by_kind(self._read(partition))

    def _by_kind(self, tables: Iterable[tuple[str, pa.Table]]) -> dict[str, pa.Table]:
        found: dict[str, list[pa.Table]] = {kind: [] for kind in self._schemas}
        for kind, table in tables:
            found[kind].append(table)
        return {kind: under_schema(found.pop(kind), schema) for kind, schema in self._schemas.items()}

    def _spill(self) -> None:
        self.is_spilled = True
        held, self._held, self._held_bytes = self._held[::-1], [], 0
        while held:
            portion, n_bytes = [], 0
            while held and n_bytes < self.room.spill_bytes:
                portion.append(held.pop())
                n_bytes += portion[-1][1].nbytes
            self._spread(portion)

    def _spread(self, held: list[tuple[str, pa.Table]]) -> None:
        """Rows to the files of their partitions."""
        for kind in self._schemas:
            tables = [table for named, table in held if named == kind]
            if not tables:
                continue
            names = {name for table in tables for name in table.column_names}
            fields = [field for field in self._schemas[kind] if field.name in names]
            table = pa.table({field.name: _joined(tables, field) for field in fields})
            codes = partition_of(table.column("job_id"), self.n_partitions, self.n_splits)
            order = np.argsort(codes, kind="stable")
            counts = np.bincount(codes, minlength=self.n_partitions)
            ends = np.cumsum(counts)
            ordered = table.unify_dictionaries().take(arrow(order))
            for partition in np.flatnonzero(counts).tolist():
                n_rows = int(counts[partition])
                append(self._file(partition, kind), ordered.slice(int(ends[partition]) - n_rows, n_rows))
                self._rows[partition] = self._rows.get(partition, 0) + n_rows

    def _read(self, partition: int) -> Iterator[tuple[str, pa.Table]]:
        for kind in self._schemas:
            path = self._file(partition, kind)
            if path.exists():
                yield from ((kind, table) for table in stored_batches(path))
                path.unlink()

    def _split(self, partition: int) -> Iterator[dict[str, pa.Table]]:
        """Splits a partition that has grown too large, by another hash."""
        assert self.folder is not None  # nosec B101 # for the type checker
        room = replace(self.room, hold_bytes=0)
        parts = PartitionedRows(self.folder / str(partition), _SPLITS, room, self.n_splits + 1)
        parts._schemas = dict(self._schemas)
        for kind, table in self._read(partition):
            parts.add(kind, table)
        yield from parts.partitions()

    def _file(self, partition: int, kind: str) -> Path:
        assert self.folder is not None  # nosec B101 # for the type checker
        return self.folder / f"{partition}.{list(self._schemas).index(kind)}.arrow"


def partitions_for(n_rows: float, room: Room) -> int:
    """How many partitions suit so many rows."""
    return int(np.clip(n_rows / room.partition_rows, 4, room.most_partitions))


def partition_of(ids: pa.ChunkedArray, n_partitions: int, salt: int = 0) -> npt.NDArray[np.int64]:
    """A number below `n_partitions` for each id, the same for ids with the same leading digits.

    An id without leading digits goes by all its bytes.
    """
    hashed = (id_keys(ids) ^ np.uint64(salt * 0x2545F4914F6CDD1D % (1 << 64))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return ((hashed >> np.uint64(33)) % np.uint64(n_partitions)).astype(np.int64)


def id_keys(ids: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """A hash of each id, the same for ids with the same leading digits."""
    parts = [_hashed(chunk) for chunk in ids.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _hashed(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """Sum over the bytes that count, each times the weight of its place."""
    if not len(ids):
        return np.empty(0, np.uint64)
    _, offsets, data = ids.buffers()
    ends = np.frombuffer(offsets, np.int32, count=ids.offset + len(ids) + 1)[ids.offset :].astype(np.int64)
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    lengths, starts = np.diff(ends), ends[:-1] - ends[0]
    place = np.arange(len(text)) - np.repeat(starts, lengths)
    filled = np.flatnonzero(lengths)
    hashed = np.zeros(len(ids), np.uint64)
    if not len(filled):
        return hashed
    is_digit = (text >= 48) & (text <= 57)
    n_leading = np.minimum.reduceat(np.where(is_digit, _FAR, place), starts[filled])
    counted = np.where(n_leading == 0, _FAR, n_leading)
    products = text.astype(np.uint64) * _WEIGHTS[place & 63]
    products[place >= np.repeat(counted, lengths[filled])] = 0
    hashed[filled] = np.add.reduceat(products, starts[filled])
    return hashed


def without_empty_columns(table: pa.Table) -> pa.Table:
    """The columns with a value in any row, without metadata."""
    kept = [i for i, column in enumerate(table.columns) if column.null_count < table.num_rows]
    fields = [pa.field(table.field(i).name, table.field(i).type) for i in kept]
    return pa.table([table.column(i) for i in kept], schema=pa.schema(fields))


def rare_categories_as_texts(table: pa.Table) -> pa.Table:
    """Turns categories whose values hardly repeat into texts, because unifying their dictionaries is slow."""
    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) and 2 * sum(len(c.dictionary) for c in column.chunks) > table.num_rows:
            table = table.set_column(place, table.field(place).name, column.cast(pa.string()))
    return table


def under_schema(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenates tables under their full schema; columns that a table lacks are null."""
    if not tables:
        return pa.table([pa.nulls(0, f.type) for f in schema], schema=schema)
    columns = [_joined(tables, field) for field in schema]
    return pa.table(
        [c if c.type == f.type else c.dictionary_encode() for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def _joined(tables: list[pa.Table], field: pa.Field) -> pa.ChunkedArray:
    """One column of all tables: null where a table lacks it; a category is texts where any table has it as texts."""
    found = [table.column(field.name) if field.name in table.column_names else None for table in tables]
    is_category = pa.types.is_dictionary(field.type)
    has_texts = is_category and any(column is not None and column.type == pa.string() for column in found)
    kind = pa.string() if has_texts else field.type
    chunks = [
        chunk
        for table, column in zip(tables, found, strict=True)
        for chunk in ([unknown(table.num_rows, kind)] if column is None else column.cast(kind).chunks)
    ]
    return pa.chunked_array(chunks, kind)


def append(path: Path, table: pa.Table, batch_rows: int | None = None) -> None:
    """Add a portion of rows to a spill file; `stored_batches` gives it back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    compact = rare_categories_as_texts(_compact(without_empty_columns(table)))
    with path.open("ab") as file, pa.ipc.new_stream(file, compact.schema, options=_OPTIONS) as stream:
        stream.write_table(compact, max_chunksize=batch_rows)


def _compact(table: pa.Table) -> pa.Table:
    """Dictionaries longer than the table are cut to what it uses: a slice would carry them whole."""
    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) and any(len(c.dictionary) > table.num_rows for c in column.chunks):
            fresh = column.cast(pa.string()).dictionary_encode()
            table = table.set_column(place, table.field(place).name, fresh)
    return table.unify_dictionaries()


def stored_batches(path: Path) -> Iterator[pa.Table]:
    """What was appended to a spill file, a batch at a time."""
    size = path.stat().st_size
    with pa.OSFile(str(path)) as file:
        while file.tell() < size:
            for batch in pa.ipc.open_stream(file):
                yield pa.Table.from_batches([batch])


@dataclass(slots=True)
class SpooledTables:
    """Keeps tables in the order in which they are added: in memory while they are small, else in a file."""

    path: Path | None
    hold_bytes: int = 28 << 20
    _held: list[pa.Table] = field(default_factory=list)
    _held_bytes: int = 0

    def add(self, table: pa.Table) -> None:
        """Add rows."""
        if not table.num_rows:
            return
        self._held.append(table)
        self._held_bytes += table.nbytes
        if self.path is not None and self._held_bytes > self.hold_bytes:
            for held in self._held:
                append(self.path, held)
            self._held, self._held_bytes = [], 0

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The tables, under their full schema."""
        if self.path is not None and self.path.exists():
            yield from (under_schema([table], schema) for table in stored_batches(self.path))
        yield from self._held
