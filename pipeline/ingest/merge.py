"""Merges sorted runs on disk into one sorted stream; only a window of each run is in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.arrays import Ints
from pipeline.ingest.combine import ORDERING, in_order, leading_keys
from pipeline.ingest.spill import Room, append, stored_batches, under_schema

Key = tuple[int, int]


@dataclass(slots=True)
class _Run:
    """The rows of a run that are in memory, and an iterator over its later batches."""

    coming: Iterator[pa.Table]
    schema: pa.Schema
    rows: pa.Table = field(init=False)
    keys: tuple[Ints, Ints] = field(init=False)
    is_whole: bool = False

    def __post_init__(self) -> None:
        self._set(under_schema([], self.schema))

    def fill(self, n_rows: int) -> None:
        """Read until at least `n_rows` are in memory, or the run has ended."""
        parts = [self.rows]
        while sum(part.num_rows for part in parts) < n_rows and not self.is_whole:
            batch = next(self.coming, None)
            self.is_whole = batch is None
            if batch is not None:
                parts.append(under_schema([batch], self.schema))
        if len(parts) > 1:
            self._set(pa.concat_tables(parts))

    def last(self) -> Key:
        """Key of the last row in memory."""
        return int(self.keys[0][-1]), int(self.keys[1][-1])

    def below(self, cut: Key) -> pa.Table:
        """Remove and return the rows below this key."""
        first, second = self.keys
        n_rows = int(np.searchsorted(first, cut[0], "left"))
        end = int(np.searchsorted(first, cut[0], "right"))
        n_rows += int(np.searchsorted(second[n_rows:end], cut[1], "left"))
        return self.take(n_rows)

    def take(self, n_rows: int) -> pa.Table:
        """Remove and return the first rows."""
        taken, self.rows = self.rows.slice(0, n_rows), self.rows.slice(n_rows)
        self.keys = self.keys[0][n_rows:], self.keys[1][n_rows:]
        return taken

    def _set(self, rows: pa.Table) -> None:
        self.rows, self.keys = rows, leading_keys(rows)


def write_run(path: Path, rows: pa.Table, n_runs: int, room: Room) -> None:
    """Write sorted rows as a run, in batches small enough for a merge of `n_runs` runs."""
    append(path, rows, max(512, room.window_rows // (4 * n_runs)))


def merged(runs: Sequence[Path], schema: pa.Schema, room: Room) -> Iterator[pa.Table]:
    """The rows of sorted runs, in the order of all, as `joined` gives them."""
    used = _used(runs, schema)
    for table in _joined([_Run(stored_batches(path), used) for path in runs], room):
        yield under_schema([table], schema)


def joined(streams: Sequence[Iterator[pa.Table]], schema: pa.Schema, room: Room) -> Iterator[pa.Table]:
    """The rows of sorted streams in the order of all; each table is as `in_order` leaves it, after the one before.

    Memory holds the room's window and, of rows with one submit and one leading number in their job id, all.
    """
    return _joined([_Run(stream, schema) for stream in streams], room)


def _joined(open_runs: list[_Run], room: Room) -> Iterator[pa.Table]:
    share = max(1, room.window_rows // max(1, len(open_runs)))
    wanted = share
    while open_runs:
        for run in open_runs:
            run.fill(wanted)
        cut = min((run.last() for run in open_runs if not run.is_whole), default=None)
        parts = [run.take(run.rows.num_rows) if cut is None else run.below(cut) for run in open_runs]
        found = [part for part in parts if part.num_rows]
        if found:
            yield in_order(pa.concat_tables(found))
        # Without a row below the cut, more rows than a share have one key.
        wanted = share if found else 2 * wanted
        open_runs = [run for run in open_runs if run.rows.num_rows or not run.is_whole]


def _used(runs: Sequence[Path], schema: pa.Schema) -> pa.Schema:
    """The columns that any run has, and those that put rows in order: the others need no room while runs are merged.

    Categories that a run keeps as texts are texts here.
    """
    firsts = [next(stored_batches(path)).schema for path in runs]
    names = {name for first in firsts for name in first.names} | {*ORDERING}
    texts = {field.name for first in firsts for field in first if field.type == pa.string()}
    return pa.schema(
        [pa.field(field.name, pa.string()) if field.name in texts else field for field in schema if field.name in names]
    )
