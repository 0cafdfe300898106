"""What `walltime versions list` lists."""

from pathlib import Path
from typing import Any

from flows.services.quantities import instant
from pipeline.errors import InputError, printable
from pipeline.publish.version_store import StoredVersion, stored_versions


def version_rows(output_dir: Path) -> list[dict[str, Any]]:
    """The versions in a folder in plain values, the published one first; InputError where there is none."""
    rows = [version_row(one) for one in stored_versions(output_dir)]
    if not rows:
        where, do = printable(str(output_dir)), "give the folder to which a run has published"
        raise InputError(where, "no versions", "published tables", do)
    return rows


def version_row(one: StoredVersion) -> dict[str, Any]:
    """One version; what nothing on disk says is null."""
    own = one.manifest
    return {
        "version": one.folder,
        "name": one.name,
        "run_id": one.run_id or None,
        "made": instant(one.created_s),
        "site": own.site if own else None,
        "logs": [log.name for log in own.logs] if own else None,
        "newest_job": instant(own.data_newest_end_s) if own else None,
        "from": instant(own.from_s) if own else None,
        "to": instant(own.to_s) if own else None,
        "is_published": one.place == 0,
        "is_pinned": one.is_pinned,
        "is_withdrawn": one.is_withdrawn,
        "was_published": one.place is not None,
        "bytes": one.bytes,
    }
