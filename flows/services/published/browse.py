"""What `walltime show`, `versions list` and `report --user` read: manifests, rows of tables that match, columns."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from flows.services.files.os_errors import naming_path
from flows.services.published.published_folder import published_folder
from flows.services.quantities import check_known, instant
from pipeline.errors import InputError, did_you_mean, printable
from pipeline.publish import Manifest, read_version
from pipeline.publish.versions import stored_versions
from pipeline.schema import INSTANT_UNIT, Column, TableKind
from pipeline.storage import read_metadata
from pipeline.tables import ERRORS, JOBS, QUANTILES, TABLES, UNREADABLE, WASTE
from pipeline.usage.waste import USERS

_NO_EXTENSIONS: dict[str, Any] = {"autoinstall_known_extensions": "false"}


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table on disk, open for queries: its name, the units of its columns, and a database that has it as view t.

    In the database a condition can read the table's file and nothing else on the machine.
    """

    name: str
    units: dict[str, str | None]
    database: Any

    @property
    def instants(self) -> frozenset[str]:
        """The names of the columns that hold instants."""
        return frozenset(name for name, unit in self.units.items() if unit == INSTANT_UNIT)


@contextmanager
def shown_table(
    given: Path | None, as_of_s: int | None, name: str, *, users: bool = False
) -> Iterator[ShownTable | None]:
    """The table that a command line means: of a published folder, as `read_version` finds its version, or of a file.

    A file is a table that `walltime ingest` wrote, with that of the unreadable records beside it; None for the latter
    where every record could be read. InputError where there is no such table, or a condition cannot be used. Of table
    WASTE the rows of users are shown only with `users`. Table ERRORS is made of the version's state and jobs when it is
    asked for.
    """
    units = {one.name: one.unit for one in TABLES[name].columns} if name in TABLES else {}
    with duckdb.connect(config=_NO_EXTENSIONS) as database:
        if given is not None and given.suffix == ".parquet":
            with naming_path(given):
                path = _ingested_table(given, name)
            if path is None:
                yield None
                return
            table = database.read_parquet(str(path))
        else:
            manifest = read_version(published_folder(given), as_of_s)
            table, path = _published_table(database, manifest, name), None
            if name in manifest.tables:
                path, units = manifest.path(name), {one.name: one.unit for one in manifest.tables[name].columns}
        try:
            table.filter(f"kind <> '{USERS}'" if name == WASTE.name and not users else "true").create_view("t")
            allowed = "" if path is None else "'" + str(path).replace("'", "''") + "'"
            database.execute(f"SET allowed_paths = [{allowed}]")
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")
            yield ShownTable(name, units, database)
        except duckdb.Error as error:
            raise _bad_condition(error, list(units)) from None


def _published_table(database: duckdb.DuckDBPyConnection, manifest: Manifest, name: str) -> duckdb.DuckDBPyRelation:
    """A table of a version; ERRORS is made of its state and jobs."""
    if name != ERRORS.name:
        return database.read_parquet(str(manifest.path(name)))
    # Only these rows wait for the estimator's imports.
    from flows.services.published.worst_estimates import errors_of_version  # noqa: PLC0415

    return database.from_arrow(errors_of_version(manifest).cast(ERRORS.schema(on_disk=True)))


def _ingested_table(path: Path, name: str) -> Path | None:
    """The file of a table that ingest wrote, or beside one; None where it left out that of unreadable records."""
    own = read_metadata(path).get("table")
    if own == JOBS.name and name == UNREADABLE.name:
        beside = path.with_name(f"{path.stem}.{UNREADABLE.name}{path.suffix}")
        return beside if beside.exists() else None
    if name != own:
        raise InputError(printable(str(path)), f"table {printable(str(own))}", f"table {printable(name)}")
    return path


def manifest_facts(manifest: Manifest) -> dict[str, Any]:
    """The manifest in plain values: the run, its logs and settings, and the size of each table."""
    plain = asdict(manifest)
    tables = {
        name: {"rows": entry.rows, "bytes": entry.bytes, "path": str(manifest.place(name)),
               "meaning": TABLES[name].meaning if name in TABLES else ""}
        for name, entry in manifest.tables.items()
    }  # fmt: skip
    times = {"created": instant(manifest.created_s), "newest_end": instant(manifest.data_newest_end_s)}
    shown = {name: plain[name] for name in ("run_id", "site", "code", "logs", "previous", "settings")}
    return {"version": manifest.folder, **shown, **times, "tables": tables}


def version_rows(output_dir: Path) -> list[dict[str, Any]]:
    """The versions in a folder in plain values, the published one first; what nothing on disk says is null.

    InputError where there is none.
    """
    versions = stored_versions(output_dir)
    if not versions:
        where, do = printable(str(output_dir)), "give the folder to which a run has published"
        raise InputError(where, "no versions", "published tables", do)
    rows = []
    for one in versions:
        own = one.manifest
        rows.append({
            "version": one.folder,
            "name": one.name,
            "run_id": one.run_id or None,
            "made": instant(one.created_s or None),
            "site": own.site if own else None,
            "logs": [log.name for log in own.logs] if own else None,
            "newest_job": instant(own.data_newest_end_s) if own else None,
            "from": instant(own.from_s) if own else None,
            "to": instant(own.to_s) if own else None,
            "is_published": one.place == 0,
            "is_pinned": one.is_pinned,
            "is_withdrawn": one.is_withdrawn,
            "was_published": one.place is not None,
            "bytes": sum(file.stat().st_size for file in one.path.iterdir()),
        })  # fmt: skip
    return rows


def table_rows(table: ShownTable, where: str | None, select: str | None, limit: int) -> dict[str, Any]:
    """The first rows of a table that satisfy an SQL condition, and the number of all that do.

    Of table UNREADABLE also the number of records by reason, the most frequent first.
    """
    database, view = table.database, _view(where, select)
    counts = [database.execute(f"SELECT count(*) FROM ({one})").fetchone()[0] for one in ("FROM t", view)]  # noqa: S608 # nosec B608 # checked
    shown = plain_rows(database.execute(f"{view} LIMIT {int(limit)}"))
    found = {"table": table.name, "rows": counts[0], "matching": counts[1], "shown": shown}
    if table.name == UNREADABLE.name:
        by_reason = "SELECT reason, count(*) FROM t GROUP BY ALL ORDER BY count(*) DESC, reason"
        found["reasons"] = dict(database.execute(by_reason).fetchall())
    return found


def plain_rows(cursor: Any) -> list[dict[str, Any]]:
    """The rows of an executed query in plain values."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def queried_rows(manifest: Manifest, sql: str, **values: Any) -> list[dict[str, Any]]:
    """The rows of a query over the tables of a version, which have their own names there, in plain values.

    InputError where the version lacks one of them.
    """
    with duckdb.connect(config=_NO_EXTENSIONS) as database:
        for name in TABLES.keys() & set(re.findall(r"(?:FROM|JOIN) (\w+)", sql)):
            _published_table(database, manifest, name).create_view(name)
        return plain_rows(database.execute(sql, values))


def selected_rows(table: ShownTable, where: str | None, select: str | None, limit: int | None) -> pa.RecordBatchReader:
    """The chosen columns of the rows that satisfy a condition, as a stream that is read as it is taken."""
    query = _view(where, select) + (f" LIMIT {int(limit)}" if limit else "")
    return pa.RecordBatchReader.from_stream(table.database.sql(query))


def described_tables(table: str | None) -> dict[str, dict[str, Any]]:
    """Per table its meaning and, per column, name, type, unit, meaning and whether it is in the key or nullable.

    All tables without a name; InputError for a name that no table has.
    """
    if table is not None:
        check_known("TABLE", f"table {printable(table)}", table, TABLES)
    return {
        kind.name: {"meaning": kind.meaning, "columns": [_described(one, kind) for one in kind.columns]}
        for kind in TABLES.values()
        if table in (None, kind.name)
    }


def _described(column: Column, kind: TableKind) -> dict[str, Any]:
    plain = {"name": column.name, "type": str(column.field(on_disk=True).type), "unit": column.unit}
    return plain | {"meaning": column.meaning, "is_key": column.name in kind.key, "is_nullable": not column.is_required}


def _view(where: str | None, select: str | None) -> str:
    """A query for these columns (None: all) of the rows that satisfy a condition."""
    names = [name.strip().replace('"', '""') for name in (select or "").split(",") if name.strip()]
    chosen = ", ".join(f'"{name}"' for name in names) or "*"
    if where is not None:
        # Parsed alone, so that a condition cannot end its brackets.
        duckdb.extract_statements(f"SELECT * FROM t WHERE {where}")  # noqa: S608 # nosec B608 # only parsed
    return f"SELECT {chosen} FROM t" + ("" if where is None else f" WHERE ({where}\n)")  # noqa: S608 # nosec B608


def _bad_condition(error: duckdb.Error, columns: Sequence[str]) -> InputError:
    """The database's error about the condition, without the parts about our own query."""
    message = re.split(r"\n|LINE \d+:|Candidate ", str(error))[0].partition(": ")[2].strip().rstrip(".!")
    if named := re.match(r'Referenced column "(.*?)" not found', message):
        hint = did_you_mean(named[1], columns, "texts stand in single quotes")
        found = f"no column {printable(named[1])}"
        return InputError("--where or --select", found, f"one of {', '.join(columns)}", hint)
    found = f"a condition that cannot be used ({printable(message, 300)})"
    return InputError("--where", found, "an SQL condition on the table's columns", 'write it as in "procs > 64"')


_STORY_SQL = f"""
WITH records AS (
    SELECT cluster, job_id, restart, user, account, application, queue, procs, nodes, gpus, requested_s, submit_s,
           start_s, start_s - submit_s AS wait_s, end_s, runtime_s, state, exit_code, flag, group_id
    FROM jobs WHERE job_id = $job_id OR starts_with(job_id, $job_id || '.'))
SELECT r.*, {", ".join(QUANTILES)}, runtime_quantile, why
FROM records r LEFT JOIN errors e ON r.job_id = e.job_id AND r.restart = e.restart
     AND r.cluster IS NOT DISTINCT FROM e.cluster
ORDER BY r.cluster, r.job_id, r.restart"""  # noqa: S608 # nosec B608 # constants


def story_of_job(manifest: Manifest, job_id: str) -> list[dict[str, Any]]:
    """What is known of a job, a dict a record: its values, its estimate at the submit and `why` it may be off.

    The name of PBS's server may be left out: 170 is 170.server, too.
    The quantiles are None for a job that is not among the ended ones that the version compares. InputError where the
    version has no such job.
    """
    records = queried_rows(manifest, _STORY_SQL, job_id=job_id)
    if not records:
        raise InputError("show job", f"no job {printable(job_id, 40)}", "an id of the table jobs", "walltime show jobs")
    return records
