"""A copy of published versions elsewhere, as on S3, and a store here that stands for such a copy.

The copy has `files/SHA256.parquet`, `versions/VERSION/version.json` and `manifest.json`, which are written in this
order: what a manifest names is there. A file that is there already is not sent again, because its name is its content.
Nothing is removed there.

A reader gets a folder with the manifest of the copy, in which a table is fetched when it is first read. The folder is
kept in the user's cache, so that the next reader fetches what has changed.
"""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any, BinaryIO

from pipeline.errors import InputError, printable
from pipeline.storage import write_atomically, write_text

if TYPE_CHECKING:
    from pipeline.publish.manifest import Manifest

ORIGIN = "origin.txt"
"""The file of a store here that names the copy that it stands for."""

PAUSES_S = (1.0, 5.0, 25.0)
"""Before the second and later tries of a transfer."""

KEPT_S = 86_400
"""Fetched files that the newest manifest no longer names stay for so long, for those who still read them."""

_BLOCK_BYTES = 1 << 23


def mirror(manifest: "Manifest", to: str) -> None:
    """Copy a published version to a URL of pyarrow.fs, or to a folder; OSError where it fails after some tries."""
    tables = {name: replace(one, path=f"files/{one.sha256}.parquet") for name, one in manifest.tables.items()}
    text = replace(manifest, tables=tables).to_json().encode()
    for name, entry in tables.items():
        with manifest.path(name).open("rb") as source:
            _send(source, to, entry.path, entry.bytes)
    for target in (f"versions/{manifest.folder}/version.json", "manifest.json"):
        _send(BytesIO(text), to, target)


def _send(source: BinaryIO, to: str, target: str, n_bytes: int | None = None) -> None:
    """Write a file of the copy, in some tries; with `n_bytes` one of that size, whose name is its content, is left."""
    for pause_s in (*PAUSES_S, None):
        try:
            system, path = _place(to, target)
            if n_bytes is None or system.get_file_info(path).size != n_bytes:
                source.seek(0)
                if system.type_name == "local":
                    write_atomically(Path(path), lambda sink: copyfileobj(source, sink, _BLOCK_BYTES))
                else:
                    with system.open_output_stream(path) as sink:
                        copyfileobj(source, sink, _BLOCK_BYTES)
            return
        except OSError:
            if pause_s is None:
                raise
            time.sleep(pause_s)


def _place(to: str, target: str) -> tuple[Any, str]:
    """The file system of a copy, and where a file of it is there."""
    from pyarrow.fs import FileSystem  # noqa: PLC0415  (a query of a store here does without it)

    system, root = FileSystem.from_uri(to if is_url(to) else str(Path(to).absolute()))
    return system, f"{root.rstrip('/')}/{target}"


def is_url(text: str) -> bool:
    """Whether a text names a place of another file system, as s3://bucket/prefix; a path may have lost a slash."""
    return re.match(r"[a-z][a-z0-9+]+:/", text) is not None


def store_of_copy(url: str, environment: Mapping[str, str]) -> Path:
    """A folder here with the newest manifest of the copy at a URL; InputError where it cannot be read."""
    url = re.sub(r":/+", ":///" if url.startswith("file:") else "://", url, count=1)
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "walltime"
    root = cache / hashlib.sha256(url.encode()).hexdigest()[:24]
    write_text(root / ORIGIN, url)
    _fetch(root, root / "manifest.json")
    text, oldest_s = (root / "manifest.json").read_text(encoding="utf-8"), time.time() - KEPT_S
    for old in (root / "files").glob("*.parquet"):
        if old.stem not in text and old.stat().st_mtime < oldest_s:
            old.unlink(missing_ok=True)
    return root


def is_mirrored(root: Path) -> bool:
    """Whether a store stands for a copy elsewhere."""
    return (root / ORIGIN).exists()


def fetched(root: Path, path: Path) -> Path:
    """The path of a file of a store, after it was fetched where the store stands for a copy and does not have it."""
    if not path.exists() and is_mirrored(root):
        _fetch(root, path)
    return path


def _fetch(root: Path, path: Path) -> None:
    """Bring a file of the copy."""
    url, name = (root / ORIGIN).read_text(encoding="utf-8"), str(path.relative_to(root))
    try:
        system, place = _place(url, name)
        with system.open_input_stream(place) as source:
            write_atomically(path, lambda sink: copyfileobj(source, sink, _BLOCK_BYTES))
    except (OSError, ValueError) as error:
        found = f"no file to read ({printable(str(error), 300)})"
        expected, do = "a copy that publish.mirror has made", "see that the place can be read"
        raise InputError(printable(f"{url}/{name}", 1000), found, expected, do) from None
