"""The version of the code: the release and a digest of the library's sources."""

import hashlib
from functools import cache
from pathlib import Path

RELEASE = "0.2.0"


@cache
def code_version() -> str:
    """The release and 12 hex digits of a hash of the library's sources, so that any change of code changes it."""
    root = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for source in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()):
        digest.update(source.relative_to(root).as_posix().encode())
        digest.update(source.read_bytes())
    return f"{RELEASE}+{digest.hexdigest()[:12]}"
