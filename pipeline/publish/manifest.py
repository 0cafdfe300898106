"""The manifest: one JSON file that names every table of one complete version. Readers start from it.

A store's own files may be hostile: the names and paths that they give stay inside the store. The folder of the
published tables may be a symbolic link, because its owner chose it. Below it a link leads nowhere outside, and a
version is never a link. Whoever may write in the store while it is read can still exchange its files.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow.compute as pc

from pipeline.errors import InputError, did_you_mean, printable
from pipeline.publish.mirror import fetched, is_mirrored
from pipeline.publish.store import LOCK, damage
from pipeline.report import FieldError, Report, parsed_json, read_dataclass
from pipeline.schema import TableKind
from pipeline.storage import expecting_table, file_stamp, read_rows, sha256_once
from pipeline.tables import OBSERVATIONS, TABLES

FORMAT_VERSION = 2
MANIFEST, VERSIONS = "manifest.json", "versions"
OWN_MANIFEST = "version.json"
"""The manifest of one version, in its folder. It never changes, so that a version can be published again."""

PIN = "pin.json"
OWN_FILES = {OWN_MANIFEST, PIN, LOCK, "datapackage.json"}
"""Files beside the tables of a version. A folder with any other file is not ours, and is never removed.

The last two are in versions of earlier releases.
"""

_FOLDER = re.compile(r"[^./\\\0][^/\\\0]*")
_PATH = re.compile(rf"(files|{VERSIONS}/[^/]+)/[a-z0-9_]+\.parquet")
_DO = "use these tables only after you know who changed them; a run publishes new ones"
_GO_BACK = "`walltime versions rollback` returns to the version before, "
_DAMAGED = "a run publishes the table anew, and `walltime doctor` finds what else is damaged"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One log that was read."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One column as it stands in its file, so that a reader without this project knows its unit and meaning.

    `nulls`: the number of rows without a value.
    """

    name: str
    type: str
    unit: str | None
    meaning: str
    nullable: bool
    nulls: int


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
    """A version that is or was published.

    `until_s`: when another version was published instead; null for the one that is published. `is_withdrawn`: a
    rollback took it back, so that it is no answer to a question about a date. `name`: what a user gave; empty for a
    night, and in the entries of earlier releases.
    """

    run_id: str
    folder: str
    created_s: int
    until_s: int | None = None
    is_withdrawn: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of manifest.json or of a version's own manifest; `root` is the folder with manifest.json.

    `created_s`: when the version was made; its folder's name has that time. `published_s`: when it was last published;
    null where it never was. `from_s`, `to_s`: the window of a rerun.
    """

    format_version: int = FORMAT_VERSION
    run_id: str
    folder: str = ""
    created_s: int
    data_newest_end_s: int | None
    site: str
    code: str
    settings: dict[str, Any]
    logs: tuple[LogEntry, ...]
    tables: dict[str, TableEntry]
    reports: tuple[dict[str, Any], ...]
    previous: tuple[VersionEntry, ...] = ()
    root: Path
    name: str = ""
    from_s: int | None = None
    to_s: int | None = None
    published_s: int | None = None

    @property
    def history(self) -> list[VersionEntry]:
        """The published version and those published before it, latest first."""
        newest = VersionEntry(self.run_id, self.folder, self.created_s, name=self.name)
        return [newest, *(entry for entry in self.previous if entry.folder != self.folder)]

    def path(self, table: str) -> Path:
        """The path of a table's Parquet file; InputError where the file was changed after it was published."""
        path, sha256 = fetched(self.root, self.place(table)), self.tables[table].sha256
        if found := damage(path, sha256):
            if is_mirrored(self.root):
                path.unlink(missing_ok=True)  # The next reader fetches it again.
            where = f"{printable(str(path), 1000)} (table {table} of version {printable(self.folder)})"
            do = (_GO_BACK if any(not one.is_withdrawn for one in self.previous) else "") + _DAMAGED
            raise InputError(where, found, f"SHA-256 {printable(sha256, 24)}", do)
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

    def check(self) -> Self:
        """Itself; InputError where a table is missing or has another size, or a link leads out of the store."""
        for name, entry in self.tables.items():
            path = self.place(name)
            check_inside(self.root, path)
            # A table of a copy elsewhere is fetched when it is read.
            found = "" if is_mirrored(self.root) and not path.exists() else damage(path, n_bytes=entry.bytes)
            if found:
                raise InputError(printable(str(path)), found, f"{entry.bytes} bytes as in the manifest", "run again")
        return self

    def to_json(self) -> str:
        """The manifest as ASCII JSON; a number that is not finite becomes null."""
        return json.dumps(finite({name: one for name, one in asdict(self).items() if name != "root"}), indent=1) + "\n"


def load_manifest(output_dir: Path, folder: str | None = None) -> Manifest:
    """The manifest of the current version; InputError where it is invalid or a file is missing or has another size.

    Parameters
    ----------
    output_dir : Path
        Folder of the published versions.
    folder : str, optional
        Name of the version whose manifest is read instead; it need not be published.

    Returns
    -------
    Manifest
        The version's tables, columns, reports and logs.

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
    return read_manifest(output_dir, folder).check()


def manifest_or_none(output_dir: Path, folder: str | None = None) -> Manifest | None:
    """The manifest as `load_manifest` gives it; None where it is not valid."""
    with suppress(InputError):
        return load_manifest(output_dir, folder)
    return None


def read_manifest(output_dir: Path, folder: str | None = None) -> Manifest:
    """The manifest of the current version, or of another one, without a look at its tables; InputError if invalid."""
    path = output_dir / MANIFEST
    if folder is not None:
        path = fetched(output_dir, output_dir / VERSIONS / folder / OWN_MANIFEST)
        check_inside(output_dir, path)
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
    if folder not in (None, manifest.folder):
        found = f"the manifest of {printable(manifest.folder)}"
        raise InputError(where, found, "the manifest of the version in this folder")
    return manifest


def _check_names(manifest: Manifest, where: str) -> None:
    """InputError unless folders have plain names, and each table's path is its own file in the version's folder.

    A plain name has no separator and is not hidden. In a copy elsewhere a table's file has its digest as its name.
    """
    for name in (manifest.folder, *(entry.folder for entry in manifest.previous)):
        if not _FOLDER.fullmatch(name):
            found = f"a version named {printable(name) or '(an empty name)'}"
            raise InputError(where, found, "the name of a folder", _DO)
    for table, entry in manifest.tables.items():
        own = f"{VERSIONS}/{manifest.folder}/{table}.parquet"
        if entry.path not in (own, f"files/{entry.sha256}.parquet") or not _PATH.fullmatch(entry.path):
            found = f"table {printable(table)} at {printable(entry.path)}"
            raise InputError(where, found, printable(own, 400), _DO)


def check_inside(root: Path, path: Path) -> None:
    """InputError where links lead from a path below the store to a place outside it."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise InputError(printable(str(path)), "a link that leaves the folder", "a file of the published tables", _DO)


def made_manifest(
    staged: Mapping[str, Path], reports: Sequence[Report], run: Mapping[str, Any], output_dir: Path, created_s: int
) -> Manifest:
    """The manifest of staged tables that are to be published in `output_dir`, before they have a folder there.

    `run` has the fields that say which run made them: run_id, site, code, settings, logs; name, from_s and to_s.
    """
    newest_s = None
    if OBSERVATIONS.name in staged:
        seen = read_rows(staged[OBSERVATIONS.name], OBSERVATIONS, ["last_end_s"])
        newest_s = pc.max(seen["last_end_s"]).as_py()
    return Manifest(
        created_s=created_s,
        data_newest_end_s=newest_s,
        tables={name: table_entry(path, TABLES[name]) for name, path in staged.items()},
        reports=tuple(one.as_dict() for one in reports),
        root=output_dir,
        **run,
    )


def table_entry(path: Path, kind: TableKind) -> TableEntry:
    """What a manifest says of a Parquet file of this kind; the key and what a column means are those declared."""
    stamp = file_stamp(path)
    with opened_rows(path, kind) as rows:
        nulls = [rows.count_rows(filter=pc.field(one.name).is_null()) for one in kind.columns]
        n_rows = rows.count_rows()
    columns = tuple(
        ColumnEntry(one.name, str(one.field(on_disk=True).type), one.unit, one.meaning, not one.is_required, n_nulls)
        for one, n_nulls in zip(kind.columns, nulls, strict=True)
    )
    return TableEntry(f"{kind.name}.parquet", n_rows, stamp.bytes, sha256_once(path, stamp), kind.key, columns)


@contextmanager
def opened_rows(path: Path, kind: TableKind) -> Iterator[Any]:
    """The rows of a file as a dataset; InputError where it is no Parquet table, or lacks a column that is read."""
    from pyarrow.dataset import dataset  # noqa: PLC0415  (a query does without it)

    with expecting_table(path, f"a {kind.name} table"):
        yield dataset(str(path), format="parquet")


def finite(value: Any) -> Any:
    """Plain values for JSON; tuples are lists, and a number that is not finite is null."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
