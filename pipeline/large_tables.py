"""Tables with a row for each job, on disk or in memory, read in parts so that memory does not grow with the log."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import code_version
from pipeline.arrays import Bools, category_codes, floats, tally_of
from pipeline.report import Report, Tally, joined_report, total
from pipeline.schema import TableKind
from pipeline.storage import ROW_GROUP_ROWS, expecting_table, read_rows, write_batches
from pipeline.tables import GROUPED_JOBS

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A Parquet file that `write_batches` wrote for a kind of table."""

    path: Path
    kind: TableKind

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        with expecting_table(self.path, f"a {self.kind.name} table"):
            return int(pq.read_metadata(self.path).num_rows)


LargeTable: TypeAlias = pa.Table | StoredTable
"""A table that has a row for each job."""

PART_ROWS = 1 << 20
"""Rows of such a table that are in memory at a time."""


def rows_of(
    table: LargeTable, first: int = 0, after: int | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """The rows from `first` to before `after`, of all columns where none are named, in memory."""
    after = table.num_rows if after is None else after
    if isinstance(table, pa.Table):
        return (table.select(list(columns)) if columns else table).slice(first, after - first)
    found = read_rows(table.path, table.kind, columns, first, after) if first < after else table.kind.empty()
    return found.select(columns) if columns else table.kind.check(found)


def parts_of(table: LargeTable, columns: Sequence[str] | None = None, after: int | None = None) -> Iterator[pa.Table]:
    """The rows before `after` in parts of PART_ROWS, the last one of the rest; without rows one part of none."""
    end = table.num_rows if after is None else after
    for first in range(0, max(end, 1), PART_ROWS):
        yield rows_of(table, first, min(first + PART_ROWS, end), columns)


def knows(table: LargeTable, column: str) -> bool:
    """Whether a column has any value."""
    return any(part.column(column).null_count < part.num_rows for part in parts_of(table, (column,)))


def stored(batches: Iterable[pa.Table], kind: TableKind, folder: Path | None, name: str) -> LargeTable:
    """Checked tables of one kind, one after another, as one: in a file of this folder, or in memory without one.

    The caller ensures that the key is unique across them.
    """
    if folder is None:
        return kind.check(pa.concat_tables([kind.empty(), *batches]).unify_dictionaries())
    path = write_batches(folder / f"{name}.parquet", batches, kind, {"code": code_version()})
    return StoredTable(path, kind)


DATABASE_MEMORY = "128MB"
"""What DuckDB may take for itself; what it hands over and what it reads come to that."""


def connected(folder: Path | None = None) -> "duckdb.DuckDBPyConnection":
    """A database in memory; where it has a folder, its memory is bounded, and it puts there what is beyond.

    Without one it writes nothing: DuckDB itself would write to the current folder.
    """
    import duckdb  # noqa: PLC0415  (a tenth of a second that most commands do without)

    bounds = {"temp_directory": ""}
    if folder:
        bounds = {"memory_limit": DATABASE_MEMORY, "temp_directory": str(folder / "database")}
    database = duckdb.connect(config={"autoinstall_known_extensions": "false", **bounds})
    database.execute("SET threads = 1; SET default_null_order = 'nulls_first'; SET enable_progress_bar = false")
    return database


@contextmanager
def database_of(jobs: LargeTable) -> Iterator["duckdb.DuckDBPyConnection"]:
    """A database with the view `jobs`."""
    with connected() as database:
        stored = database.read_parquet(str(jobs.path)) if isinstance(jobs, StoredTable) else database.from_arrow(jobs)
        stored.create_view("jobs")
        yield database


def sorted_rows(table: StoredTable, columns: Sequence[str], by: str) -> Iterator[pa.Table]:
    """The rows that have a value in the column `by`, in its order (ties as they stand), with these columns."""
    names = ", ".join(f'"{name}"' for name in columns)
    query = (
        f"SELECT {names} FROM read_parquet(?, file_row_number = true) "  # noqa: S608 # nosec B608 # declared columns
        f'WHERE "{by}" IS NOT NULL ORDER BY "{by}", file_row_number'
    )
    with TemporaryDirectory(prefix=".sorted.", dir=table.path.parent) as folder, connected(Path(folder)) as database:
        batches = database.sql(query, params=[str(table.path)]).to_arrow_reader(ROW_GROUP_ROWS)
        yield from (pa.Table.from_batches([batch]) for batch in batches)


Stage = Callable[[pa.Table], tuple[pa.Table, Report]]


def groups_of(grouped: LargeTable) -> Iterator[pa.Table]:
    """GROUPED_JOBS in parts of whole groups, each of about as many jobs; one empty part where there are none."""
    held: list[pa.Table] = []
    n_left = grouped.num_rows
    for part in parts_of(grouped, GROUPED_JOBS.schema().names):
        n_left -= part.num_rows
        last = part.num_rows
        if n_left and last:
            # The last group may go on in the next part.
            codes, _ = category_codes(part, "group_id")
            last = int(np.searchsorted(codes, codes[-1]))
        if last or not grouped.num_rows:
            yield pa.concat_tables([*held, part.slice(0, last)]).unify_dictionaries()
            held = []
        held.append(part.slice(last))


def each_part(grouped: LargeTable, stage: Stage) -> tuple[pa.Table, Report]:
    """The table and report of a stage that computes each group by itself, from parts of whole groups."""
    done = [stage(part) for part in groups_of(grouped)]
    if len(done) == 1:
        return done[0]
    table = pa.concat_tables([table for table, _ in done]).unify_dictionaries()
    return table, joined_report([report for _, report in done])


OLDER = "before_newest"
"""The reason in a Report for jobs that are older than the newest ones."""

_WORK = ("procs", "requested_procs", "runtime_s")


def newest_jobs(
    jobs: LargeTable, columns: Sequence[str], least_jobs: int, until_s: float = np.inf
) -> tuple[pa.Table, Tally]:
    """At least the newest `least_jobs` jobs by submit, and less than half as many more.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS in order of submit; those without a submit stand behind the others, and are kept.
    columns : sequence of str
        The columns that are wanted.
    least_jobs : int
        Least number of jobs with a submit up to `until_s`, where there are as many.
    until_s : float
        Jobs submitted later do not count, but are kept; s since 1970.

    Returns
    -------
    jobs : pa.Table
        The columns; of all jobs where there are less than half as many more than `least_jobs`.
    older : Tally
        The jobs that are left out.
    """
    step = max(least_jobs // 2, 1)
    n_older = (_n_submitted(jobs, jobs.num_rows, np.less_equal, until_s) - least_jobs) // step * step
    if n_older <= 0:
        return rows_of(jobs, columns=columns), Tally()
    first_s = floats(rows_of(jobs, n_older, n_older + 1, ["submit_s"]), "submit_s")[0]
    first = _n_submitted(jobs, n_older, np.less, first_s)
    return rows_of(jobs, first, columns=columns), total(map(tally_of, parts_of(jobs, _WORK, first)))


def _n_submitted(jobs: LargeTable, after: int, compare: Callable[..., Bools], time_s: float) -> int:
    """How many of the jobs before the row `after` were submitted before a time, or up to it."""
    submits = (floats(part, "submit_s") for part in parts_of(jobs, ["submit_s"], after))
    return sum(int(compare(submit_s, time_s).sum()) for submit_s in submits)
