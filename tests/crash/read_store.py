"""A reader that follows the manifest without this project's code: `python -m tests.crash.read_store LIBRARY ...`.

It reads the current version again and again until a stop file appears, and checks that each version is whole and is
the one that an undisturbed run publishes. It prints one JSON object: looks, versions seen, overtaken looks, problems.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

PAUSE_S, SHARE = 0.3, 0.25
"""At least so long between two looks, and at most this share of a processor: the runs need the rest."""

NAMED = {"predictions": "run_id", "scalability": "run_id", "estimates": "run_id", "jobs": "site"}
"""Tables with a column that names their version: the run, or the site, which differs from night to night here."""


def with_pandas(path: str, column: str | None) -> tuple[int, set[str]]:
    table = pd.read_parquet(path)
    return len(table), set(table[column].astype(str)) if column else set()


def with_duckdb(path: str, column: str | None) -> tuple[int, set[str]]:
    connection = duckdb_connection()
    (count,) = connection.execute(f"SELECT count(*) FROM '{path}'").fetchone() or (-1,)
    names = connection.execute(f"SELECT DISTINCT {column} FROM '{path}'").fetchall() if column else []
    return int(count), {str(name) for (name,) in names}


@cache
def duckdb_connection() -> duckdb.DuckDBPyConnection:
    """One connection for all looks, which keeps nothing of a file that it has read."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET enable_external_file_cache = false")
    return connection


LIBRARIES: dict[str, Callable[[str, str | None], tuple[int, set[str]]]] = {
    "pandas": with_pandas,
    "duckdb": with_duckdb,
}


def problems_of(store: Path, manifest: dict[str, Any], expected: dict[str, Any], library: str) -> list[str]:
    """What is wrong with the version of a manifest; an error of reading passes through."""
    known = expected.get(manifest["run_id"])
    if known is None:
        return [f"run {manifest['run_id']} of {manifest['site']} is none that an undisturbed run makes"]
    found = [] if set(known["tables"]) == set(manifest["tables"]) else ["the manifest names other tables"]
    for name, entry in manifest["tables"].items():
        path = store / entry["path"]
        column = NAMED.get(name)
        n_rows, names = LIBRARIES[library](str(path), column)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        wanted = {manifest[column]} if column and n_rows else set()
        if not (sha256 == entry["sha256"] == known["tables"][name]["sha256"]):
            found.append(f"{path}: hash {sha256}, manifest {entry['sha256']}")
        if not (n_rows == entry["rows"] == known["tables"][name]["rows"]):
            found.append(f"{path}: {n_rows} rows, manifest {entry['rows']}")
        if names != wanted:
            found.append(f"{path}: {column} {sorted(names)}, manifest {sorted(wanted)}")
    return found


def look(store: Path, expected: dict[str, Any], library: str) -> tuple[str, list[str]]:
    """One look at the current version: its run, or an empty text where another version overtook it; and problems."""
    text = (store / "manifest.json").read_text()
    manifest = json.loads(text)
    try:
        return manifest["run_id"], problems_of(store, manifest, expected, library)
    except (OSError, ValueError, duckdb.Error) as error:
        if (store / "manifest.json").read_text() != text:
            return "", []
        return manifest["run_id"], [f"{type(error).__name__}: {error}"]


def main(library: str, store: Path, expected: Path, stop: Path) -> None:
    versions = json.loads(expected.read_text())
    seen: dict[str, int] = {}
    n_changes, last, problems = 0, "", []
    while not stop.exists():
        began_s = time.process_time()
        run_id, found = look(store, versions, library)
        seen[run_id] = seen.get(run_id, 0) + 1
        n_changes += bool(run_id and last and run_id != last)
        last = run_id or last
        problems += found
        time.sleep(max(PAUSE_S, (time.process_time() - began_s) * (1 / SHARE - 1)))
    overtaken = seen.pop("", 0)
    summary = {"looks": sum(seen.values()), "versions": len(seen), "changes": n_changes, "overtaken": overtaken}
    sys.stdout.write(json.dumps(summary | {"problems": problems[:20]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:5]))
