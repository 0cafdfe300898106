"""The names and paths that a store's own files give, which may be hostile: they stay inside the store.

The folder of the published tables may be a symbolic link, because its owner chose it. Below it a link leads nowhere
outside, and a version is never a link. Whoever may write in the store while it is read can still exchange its files.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.text import printable

_TABLE = re.compile(r"[a-z][a-z0-9_]*")
_DO = "use these tables only after you know who changed them; a run publishes new ones"


def is_plain_name(name: str) -> bool:
    """Whether a text names an entry of a folder: no separator, no hidden file, not empty."""
    return bool(name) and not name.startswith(".") and not set(name) & {"/", "\\", "\0"}


def check_names(where: str, folders: Iterable[str], tables: Mapping[str, str], own: str) -> None:
    """InputError unless `folders` are plain names, and each table's path is its own file in `own`, a relative path."""
    for name in folders:
        if not is_plain_name(name):
            found = f"a version named {printable(name) or '(an empty name)'}"
            raise InputError(where, found, "the name of a folder", _DO)
    for table, path in tables.items():
        expected = f"{own}/{table}.parquet"
        if not _TABLE.fullmatch(table) or path != expected:
            raise InputError(where, f"table {printable(table)} at {printable(path)}", printable(expected, 400), _DO)


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
