"""Which code made a table: the release and a digest of the library's own sources."""

import hashlib
from functools import cache
from pathlib import Path

RELEASE = "0.1.0"


@cache
def code_version() -> str:
    """Release plus 12 hex digits over the sources of the library, so that a changed line changes the key."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for source in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()):
        digest.update(source.relative_to(root).as_posix().encode())
        digest.update(source.read_bytes())
    return f"{RELEASE}+{digest.hexdigest()[:12]}"
