"""What `walltime show` reads: the facts of a manifest, and the rows of a table that match a condition."""

import re
from dataclasses import asdict
from typing import Any

import duckdb

from flows.services.quantities import instant
from pipeline.core.column import INSTANT_UNIT
from pipeline.core.errors import InputError
from pipeline.core.tables import TABLES
from pipeline.core.text import did_you_mean, printable
from pipeline.publish import Manifest


def manifest_facts(manifest: Manifest) -> dict[str, Any]:
    """The manifest in plain values: the run, its logs and settings, and the size of each table."""
    return {
        "run_id": manifest.run_id,
        "version": manifest.folder,
        "site": manifest.site,
        "created": instant(manifest.created_s),
        "newest_end": instant(manifest.data_newest_end_s),
        "code": manifest.code,
        "logs": [asdict(log) for log in manifest.logs],
        "previous": [asdict(entry) for entry in manifest.previous],
        "settings": manifest.settings,
        "tables": {
            name: {
                "rows": entry.rows,
                "bytes": entry.bytes,
                "path": str(manifest.path(name)),
                "meaning": TABLES[name].meaning if name in TABLES else "",
            }
            for name, entry in manifest.tables.items()
        },
    }


def table_rows(manifest: Manifest, table: str, where: str | None, limit: int) -> dict[str, Any]:
    """The first rows of a table that satisfy an SQL condition, and the number of all that do."""
    path = str(manifest.path(table))
    condition = f"WHERE ({where}\n)" if where is not None else ""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        try:
            if where is not None:
                database.extract_statements(f"SELECT * FROM t WHERE {where}")  # noqa: S608 # nosec B608 # only parsed
            view = f"SELECT * FROM read_parquet($path) {condition}"  # noqa: S608 # nosec B608 # the user's own condition
            matching = database.execute(f"SELECT count(*) FROM ({view})", {"path": path}).fetchone()  # noqa: S608 # nosec B608 # the user's own condition
            cursor = database.execute(f"{view} LIMIT {int(limit)}", {"path": path})
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall()
        except duckdb.Error as error:
            raise _bad_condition(error, manifest, table) from None
    return {
        "table": table,
        "rows": manifest.tables[table].rows,
        "matching": matching[0] if matching else 0,
        "shown": [dict(zip(names, row, strict=True)) for row in rows],
    }


def instant_columns(manifest: Manifest, table: str) -> frozenset[str]:
    """The names of a table's columns that hold instants."""
    return frozenset(column.name for column in manifest.tables[table].columns if column.unit == INSTANT_UNIT)


def _bad_condition(error: duckdb.Error, manifest: Manifest, table: str) -> InputError:
    """The database's error about the condition, without the parts about our own query."""
    columns = [column.name for column in manifest.tables[table].columns]
    message = re.split(r"\n|LINE \d+:|Candidate ", str(error))[0].partition(": ")[2].strip().rstrip(".!")
    if named := re.match(r'Referenced column "(.*?)" not found', message):
        hint = did_you_mean(named[1], columns, "texts stand in single quotes")
        return InputError("--where", f"no column {printable(named[1])}", f"one of {', '.join(columns)}", hint)
    found = f"a condition that cannot be used ({printable(message, 300)})"
    return InputError("--where", found, "an SQL condition on the table's columns", 'write it as in "procs > 64"')
