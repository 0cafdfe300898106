"""Aggregates over a Parquet file, computed out of core."""

from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.text import printable


def aggregates(path: Path, expressions: str) -> tuple[Any, ...]:
    """The values of SQL aggregates over the rows of a file; InputError where it cannot be read.

    The expressions are ours, or names that the caller has quoted.
    """
    # Its import takes as long as reading a small log, and most commands need none.
    import duckdb  # noqa: PLC0415

    query = f"SELECT {expressions} FROM read_parquet($path)"  # noqa: S608 # nosec B608 # our own expressions
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        try:
            row = database.execute(query, {"path": _literal_path(path)}).fetchone()
        except duckdb.Error as error:
            raise unreadable(path, error) from None
    assert row is not None  # nosec B101 # for the type checker
    return tuple(row)


def unreadable(path: Path, error: Exception) -> InputError:
    """The error about a file that is no Parquet table, or has other columns."""
    found = f"a file that cannot be read ({printable(str(error))})"
    return InputError(printable(str(path)), found, "a published table", "run again")


def _literal_path(path: Path) -> str:
    """The path for DuckDB, which would take *, ? and [ in it for a pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))
