"""Reads a folder of published tables: where it is, its live State, single rows without checks, and notes on its run.

The live State is the one that `walltime guard` continues from a published one; it stands beside the versions. A
version has all tables of a run, and seven are kept: one every few minutes would push out those of the nights. The live
State is a single table, which a pointer names. It counts only while the version it continues is the current one.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.arrays import matching_places
from pipeline.errors import InputError, printable
from pipeline.publish import Manifest
from pipeline.publish.manifest import MANIFEST
from pipeline.publish.mirror import is_url, store_of_copy
from pipeline.publish.store import kept_table
from pipeline.schema import TableKind
from pipeline.storage import expecting_table, parquet_file, read_metadata, read_table
from pipeline.tables import TEMPLATES

DEFAULT_FOLDER = Path("out")
"""The folder that is meant where none is given: the default of `output_dir` in a config."""

LIVE_FOLDER = "live"
CONTINUES = "continues"
"""The metadata of a live State: the run id and the code of the version that it continues."""


def published_folder(given: Path | None) -> Path:
    """The folder of published tables that a command line means; InputError for a config that cannot be used.

    A config (.toml) stands for its output_dir, and a URL as s3://bucket/prefix for a copy that `publish.mirror` makes:
    its manifest is fetched into the user's cache, and each table when it is read. Without a path it is DEFAULT_FOLDER,
    or the only folder in it that holds published tables, as `out/sample` after `make run`; InputError for several.
    """
    if given is not None and is_url(str(given)):
        return store_of_copy(str(given), os.environ)
    if given is not None and given.suffix == ".toml" and given.is_file():
        from flows.services.files.os_errors import config_settings  # noqa: PLC0415  (a query without a config starts faster)

        return Path(config_settings(given).output_dir)
    if given is not None or (DEFAULT_FOLDER / MANIFEST).exists():
        return given or DEFAULT_FOLDER
    below = sorted(path.parent for path in DEFAULT_FOLDER.glob(f"*/{MANIFEST}"))
    if len(below) > 1:
        folders = ", ".join(printable(str(folder)) for folder in below)
        raise InputError("the command line", f"no DIR, and published tables in {folders}", "one of these folders")
    return below[0] if below else DEFAULT_FOLDER


def live_pointer(output_dir: Path, name: str = "state") -> Path:
    """The file that names the live State, or another table of `guard` and `when`."""
    return output_dir / LIVE_FOLDER / f"{name}.json"


def continued(manifest: Manifest) -> str:
    """What the metadata of a State says that continues this version."""
    return f"{manifest.run_id} {manifest.code}"


def live_state(manifest: Manifest, name: str = "state") -> Path | None:
    """The live State of this version, or another table that continues it; None without one, or with damaged bytes."""
    with suppress(OSError, InputError):
        path = kept_table(live_pointer(manifest.root, name))
        if path is not None and read_metadata(path).get(CONTINUES) == continued(manifest):
            return path
    return None


def read_columns(path: Path, kind: TableKind, names: Sequence[str] | None = None) -> pa.Table:
    """The table (or the named columns) with plain strings and unchecked values, which is faster than `read_table`.

    InputError where columns are missing.
    """
    with expecting_table(path, f"a {kind.name} table"), parquet_file(path, memory_map=True) as file:
        missing = [column.name for column in kind.columns if column.name not in file.schema_arrow.names]
        if missing:
            found, expected = f"no column {', '.join(missing)}", f"a {kind.name} table"
            raise InputError(printable(str(path)), found, expected, "run again to publish it anew")
        return file.read(columns=list(names or (column.name for column in kind.columns)), use_threads=False)


def rows_where(path: Path, kind: TableKind, column: str, value: str, names: Sequence[str]) -> pa.Table:
    """The named columns of the rows with a text in the first column of the table's key, which stand together."""
    table = read_columns(path, kind, names)
    places = matching_places(table.select([column]), {column: value})
    # Arrow's `take` and `filter` would load pandas.
    return table.slice(int(places[0]) if len(places) else 0, len(places))


def unreliability_note(manifest: Manifest) -> str:
    """Why no prediction of the run is ok, and what would change it; empty where some are ok."""
    made = manifest.report("predict")
    if made is None or made.get("facts", {}).get("predictions_ok") != 0:
        return ""
    return " ".join(str(note) for note in made.get("notes", ()))


def compared_templates(manifest: Manifest) -> list[dict[str, Any]]:
    """The rows of table TEMPLATES, best first; none where it was not published."""
    if TEMPLATES.name not in manifest.tables:
        return []
    rows: list[dict[str, Any]] = read_table(manifest.path(TEMPLATES.name), TEMPLATES).to_pylist()
    return rows


def template_sentences(rows: list[dict[str, Any]]) -> str:
    """The chosen template, the reason, and the runner-up where one was scored; empty where no template is known."""
    chosen = next((row for row in rows if row["is_chosen"]), None)
    if chosen is None:
        return ""
    other = next((row for row in rows if not row["is_chosen"] and row["score"] is not None), None)
    sentence = f"Jobs are grouped by {chosen['template']}{_error(chosen)}: {chosen['why']}."
    return f"{sentence} The runner-up is {other['template']}{_error(other)}." if other else sentence


def _error(row: dict[str, Any]) -> str:
    if row["error_later"] is None:
        return ""
    return f" (error on later jobs {row['error_later']:.3g} log s, {row['n_scaling_groups']:,} series)"
