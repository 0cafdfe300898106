"""The manifest: one JSON file that names every table of one complete version. Readers start from it.

A store's own files may be hostile: the names and paths that they give stay inside the store. The folder of the
published tables may be a symbolic link, because its owner chose it. Below it a link leads nowhere outside, and a
version is never a link. Whoever may write in the store while it is read can still exchange its files.

Beside the tables of a version stands `datapackage.json`, a Data Package (version 2.0, datapackage.org) of what they
hold: each file with bytes, SHA-256, rows, columns, units and key, and what the tables were made from (the logs with
their SHA-256, the settings and the code). All of it comes from the version's manifest.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, did_you_mean, printable
from pipeline.report import FieldError, parsed_json, read_dataclass
from pipeline.storage import file_stamp, sha256_once
from pipeline.tables import TABLES

_TABLE = re.compile(r"[a-z][a-z0-9_]*")
_DO = "use these tables only after you know who changed them; a run publishes new ones"
_GO_BACK = "`walltime versions rollback` returns to the version before, "
_DAMAGED = "a run publishes the table anew, and `walltime doctor` finds what else is damaged"
FORMAT_VERSION = 2
MANIFEST = "manifest.json"
VERSIONS = "versions"
OWN_MANIFEST = "version.json"
"""The manifest of one version, in its folder. It never changes, so that a version can be published again."""


def is_plain_name(name: str) -> bool:
    """Whether a text names an entry of a folder: no separator, no hidden file, not empty."""
    return bool(name) and not name.startswith(".") and not set(name) & {"/", "\\", "\0"}


def check_inside(root: Path, path: Path) -> None:
    """InputError where links lead from a path below the store to a place outside it."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise InputError(printable(str(path)), "a link that leaves the folder", "a file of the published tables", _DO)


def check_no_link(folder: Path) -> Path:
    """The folder, in which a writer creates and removes others; InputError where it is a symbolic link."""
    if folder.is_symlink():
        do = f"make {printable(str(folder.parent))} itself the link"
        raise InputError(printable(str(folder)), "a symbolic link", "a folder", do)
    return folder


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Which run made the tables: its id, site, settings, logs (name and SHA-256) and code."""

    run_id: str
    site: str
    settings: Mapping[str, Any]
    logs: Sequence[tuple[str, str]]
    code: str
    name: str = ""
    """The name that a user gave to the run; empty for a nightly run."""

    window_s: tuple[int | None, int | None] = (None, None)
    """Begin and end of the jobs that were used, UTC epoch seconds; null where open."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One log that was read."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One column as it stands in its file, so that a reader without this project knows its unit and meaning."""

    name: str
    type: str
    unit: str | None
    meaning: str
    nullable: bool
    nulls: int
    """Number of rows without a value."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table of the version; `path` is relative to the folder of the manifest."""

    path: str
    rows: int
    bytes: int
    sha256: str
    key: tuple[str, ...]
    columns: tuple[ColumnEntry, ...]


@dataclass(frozen=True, slots=True)
class VersionEntry:
    """A previously published version that is still on disk."""

    run_id: str
    folder: str
    created_s: int
    until_s: int | None = None
    """When another version was published instead; null for the one that is published."""

    is_withdrawn: bool = False
    """Whether a rollback took it back: it is then no answer to a question about a date."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of manifest.json, and its folder. `created_s`: when the version was made; its name has that time."""

    format_version: int
    run_id: str
    folder: str
    created_s: int
    data_newest_end_s: int | None
    site: str
    code: str
    settings: dict[str, Any]
    logs: tuple[LogEntry, ...]
    tables: dict[str, TableEntry]
    reports: tuple[dict[str, Any], ...]
    previous: tuple[VersionEntry, ...]
    root: Path
    """The folder that holds the manifest."""

    name: str = ""
    from_s: int | None = None
    to_s: int | None = None
    published_s: int | None = None
    """When it was last published; null where it never was."""

    def path(self, table: str) -> Path:
        """The path of a table's Parquet file to read; InputError unless its bytes are those that were published.

        A process hashes a file once, and again when its size, its times or its inode differ.
        """
        path, sha256 = self.place(table), self.tables[table].sha256
        try:
            found = sha256_once(path, file_stamp(path))
        except OSError as error:
            found = error.strerror or "an error of the disk"
        if found != sha256:
            where = f"{printable(str(path), 1000)} (table {table} of version {printable(self.folder)})"
            differs = f"damaged bytes ({printable(found, 24)})"
            do = (_GO_BACK if any(not one.is_withdrawn for one in self.previous) else "") + _DAMAGED
            raise InputError(where, differs, f"SHA-256 {printable(sha256, 24)}", do)
        return path

    def place(self, table: str) -> Path:
        """Where a table's Parquet file is, unread; InputError lists the tables where there is no such table."""
        if table not in self.tables:
            where = printable(str(self.root / MANIFEST))
            hint = did_you_mean(table, self.tables)
            raise InputError(where, f"no table {printable(table)}", f"one of {', '.join(self.tables)}", hint)
        return self.root / self.tables[table].path

    def report(self, stage: str) -> Mapping[str, Any] | None:
        """The report of a stage in plain values; None where the version has none."""
        return next((report for report in self.reports if report.get("stage") == stage), None)

    def to_json(self) -> str:
        """The manifest as ASCII JSON; a number that is not finite becomes null."""
        plain = {name: value for name, value in asdict(self).items() if name != "root"}
        return json.dumps(finite(plain), indent=1) + "\n"


def load_manifest(output_dir: Path) -> Manifest:
    """The manifest of the current version; InputError where it is invalid or a file is missing or has another size.

    Parameters
    ----------
    output_dir : Path
        Folder of the published versions.

    Returns
    -------
    Manifest
        The current version's tables, columns, reports and logs.

    Raises
    ------
    InputError
        If there is no manifest, or it does not match the files.

    Examples
    --------
    >>> load_manifest(Path("no_such_folder"))
    Traceback (most recent call last):
        ...
    pipeline.errors.InputError: ...
    """
    manifest = read_manifest(output_dir)
    _check_files(manifest)
    return manifest


def read_manifest(output_dir: Path) -> Manifest:
    """The manifest of the current version, without a look at the files; InputError where it is invalid."""
    return _read(output_dir / MANIFEST, output_dir)


def or_none(read: Callable[..., Manifest], *arguments: object) -> Manifest | None:
    """What a reader of manifests gives of its arguments; None where there is none that is valid."""
    with suppress(InputError):
        return read(*arguments)
    return None


def load_version(output_dir: Path, folder: str) -> Manifest:
    """The manifest of a version that need not be published; InputError as `load_manifest`."""
    path = output_dir / VERSIONS / folder / OWN_MANIFEST
    check_inside(output_dir, path)
    manifest = _read(path, output_dir)
    if manifest.folder != folder:
        where, expected = printable(str(path)), "the manifest of the version in this folder"
        raise InputError(where, f"the manifest of {printable(manifest.folder)}", expected)
    _check_files(manifest)
    return manifest


def _check_files(manifest: Manifest) -> None:
    for name, entry in manifest.tables.items():
        path = manifest.place(name)
        check_inside(manifest.root, path)
        size = None
        with suppress(FileNotFoundError, NotADirectoryError):
            size = path.stat().st_size
        if size != entry.bytes:
            found = "no such file" if size is None else f"{size} bytes"
            raise InputError(printable(str(path)), found, f"{entry.bytes} bytes as in the manifest", "run again")


def _read(path: Path, output_dir: Path) -> Manifest:
    where, expected, again = printable(str(path)), "the manifest of published tables", "run again to publish it anew"
    try:
        plain = parsed_json(path.read_text(encoding="utf-8"))
        if not isinstance(plain, dict):
            raise InputError(where, f"a JSON {type(plain).__name__}", expected, again)
        version = plain.get("format_version")
        if version != FORMAT_VERSION:
            do = "install a newer Walltime" if isinstance(version, int) and version > FORMAT_VERSION else again
            raise InputError(where, f"format version {printable(str(version))}", str(FORMAT_VERSION), do)
        manifest = read_dataclass(Manifest, plain | {"root": output_dir})
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(where, "no such file", expected, "give the folder a run has written") from None
    except FieldError as error:
        raise InputError(where, str(error), expected, again) from None
    except (OSError, ValueError) as error:
        raise InputError(where, f"a file that is not valid JSON ({error})", expected, again) from None
    _check_names(manifest, where)
    return manifest


def _check_names(manifest: Manifest, where: str) -> None:
    """InputError unless folders have plain names, and each table's path is its own file in the version's folder."""
    for name in (manifest.folder, *(entry.folder for entry in manifest.previous)):
        if not is_plain_name(name):
            found = f"a version named {printable(name) or '(an empty name)'}"
            raise InputError(where, found, "the name of a folder", _DO)
    for table, entry in manifest.tables.items():
        expected = f"{VERSIONS}/{manifest.folder}/{table}.parquet"
        if not _TABLE.fullmatch(table) or entry.path != expected:
            found = f"table {printable(table)} at {printable(entry.path)}"
            raise InputError(where, found, printable(expected, 400), _DO)


def finite(value: Any) -> Any:
    """Plain values for JSON; tuples are lists, and a number that is not finite is null."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


DATAPACKAGE = "datapackage.json"
_PROFILES = "https://datapackage.org/profiles/2.0"
_TYPES = {"string": "string", "int64": "integer", "double": "number", "bool": "boolean"}
_TEXT_CHARS = 4_000


def package_text(manifest: Manifest) -> str:
    """The descriptor of a version's tables as ASCII JSON."""
    package = {
        "$schema": f"{_PROFILES}/datapackage.json",
        "title": f"Runtimes of the jobs of {printable(manifest.site)}",
        "description": "Tables that Walltime made from a cluster's accounting log.",
        "created": datetime.fromtimestamp(manifest.created_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "sources": [{"title": printable(log.name, _TEXT_CHARS), "sha256": log.sha256} for log in manifest.logs],
        "walltime": {
            "site": printable(manifest.site, _TEXT_CHARS),
            "run_id": manifest.run_id,
            "created_s": manifest.created_s,
            "code": manifest.code,
            "settings": _printable_texts(finite(manifest.settings)),
        },
        "resources": [_resource(name, entry) for name, entry in manifest.tables.items()],
    }
    return json.dumps(package, indent=1) + "\n"


def _resource(name: str, entry: TableEntry) -> dict[str, Any]:
    """A table of the package. A key with nullable columns is a unique key, because a primary key has none."""
    nullable = {column.name for column in entry.columns if column.nullable}
    key = {"uniqueKeys": [list(entry.key)]} if nullable & set(entry.key) else {"primaryKey": list(entry.key)}
    return {
        "$schema": f"{_PROFILES}/dataresource.json",
        "name": name,
        "type": "table",
        "path": f"{name}.parquet",
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "description": TABLES[name].meaning,
        "bytes": entry.bytes,
        "hash": f"sha256:{entry.sha256}",
        "rows": entry.rows,
        "schema": {"$schema": f"{_PROFILES}/tableschema.json", "fields": [_field(c) for c in entry.columns], **key},
    }


def _field(column: ColumnEntry) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": "array" if column.type.startswith("list") else _TYPES.get(column.type, "any"),
        "description": column.meaning,
        "constraints": {"required": not column.nullable},
        "unit": column.unit,
        "arrowType": column.type,
        "nulls": column.nulls,
    }


def _printable_texts(value: Any) -> Any:
    """Plain values whose texts have no control, format or surrogate characters."""
    if isinstance(value, dict):
        return {printable(name): _printable_texts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_printable_texts(one) for one in value]
    return printable(value, _TEXT_CHARS) if isinstance(value, str) else value
