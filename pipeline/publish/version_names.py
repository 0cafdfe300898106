"""Names of versions: the time at which one was made, and the start of its run's id, so that names sort by time."""

import re
from datetime import UTC, datetime

from pipeline.core.errors import InputError
from pipeline.core.text import printable

ID_CHARS = 8
_RUN_ID = re.compile(r"\w[\w-]*")
_GIVEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def version_name(created_s: int, run_id: str) -> str:
    """The name of a version, as in 2026-11-22T0310Z-0a1b2c3d (UTC); InputError for an id that is no name of a file."""
    if not _RUN_ID.fullmatch(run_id):
        raise InputError("publish", f"run id {run_id!r}", "letters, digits, - and _")
    return f"{datetime.fromtimestamp(created_s, UTC):%Y-%m-%dT%H%MZ}-{run_id[:ID_CHARS]}"


def check_given_name(name: str) -> str:
    """The name that a user gives to a version; InputError for one that a terminal or a shell could misread."""
    if not _GIVEN.fullmatch(name):
        expected = "up to 64 letters, digits, dots, - and _, as in try-7"
        raise InputError("--name", printable(name) or "nothing", expected)
    return name
