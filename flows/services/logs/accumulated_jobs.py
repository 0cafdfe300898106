"""The table of jobs kept of a live source: each reading adds what sacct has recorded since the one before.

A reading asks for the time from the last one's end, and for some time before it (OVERLAP_S), because records
come late; running jobs are in every window. The table and the time up to which it is complete change together: the
table's name has its digest in it, and one small file, replaced in one step, names the table and the time. Readers of
an earlier table keep it for some readings more.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import naming_path
from flows.services.logs.ingesting import sacct_records, time_window, write_updated
from pipeline.ingest.live import Window
from pipeline.ingest.privacy import hasher_of
from pipeline.publish.folders import LOCK, locked, remove_drafts_of
from pipeline.report import Report
from pipeline.settings import RunSettings
from pipeline.storage import file_sha256, sync_folder, write_text

FOLDER = "source"
_MARK = "watermark.json"
_DRAFT = "reading.parquet"
_KEPT = 3
OVERLAP_S = 21_600
"""What a later reading asks for again (s): slurmdbd stores records late where it was down or busy, rarely by hours."""

_NOT_CONTENT = {"sacct_command"}


@dataclass(frozen=True, slots=True)
class Accumulated:
    """The table of all jobs read so far, the window of the latest reading, and its report."""

    table: Path
    window: Window
    report: Report


def accumulated_jobs(settings: RunSettings, now_s: int) -> Accumulated:
    """Read the source up to `now_s`, and add it to the table in the output folder; InputError where sacct fails.

    A table of other settings, or one that is damaged, is not added to: all is read again from `source.since` on.
    """
    folder = Path(settings.output_dir) / FOLDER
    key = _key(settings)
    with naming_path(folder), locked(folder), _left_as_it_was(folder):
        mark = _mark(folder, key)
        window = _window(settings, mark, now_s)
        earlier = folder / mark["table"] if mark else None
        draft = folder / _DRAFT
        remove_drafts_of(draft)
        with sacct_records(settings, window) as (logs, site, how):
            report, written = write_updated(logs, site, how, draft, earlier)
        tables = [_put_in_place(folder, written), *(mark["tables"] if mark else [])]
        tables = list(dict.fromkeys(tables))
        state = {"key": key, "table": tables[0], "tables": tables[:_KEPT], "until_s": window.until_s}
        write_text(folder / _MARK, json.dumps(state, indent=1) + "\n")
        for name in tables[_KEPT:]:
            for path in (folder / name, _beside(folder / name)):
                path.unlink(missing_ok=True)
    return Accumulated(folder / tables[0], window, report)


@contextmanager
def _left_as_it_was(folder: Path) -> Iterator[None]:
    """Remove the folder again if a first reading fails."""
    try:
        yield
    finally:
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            with suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()


def _key(settings: RunSettings) -> str:
    """A digest of the settings that the values in the table depend on."""
    content = {
        "site": settings.site.model_dump(mode="json", include={"name", "anonymise"}),
        "names": hasher_of(settings.site).mark,
        "ingest": settings.ingest.model_dump(mode="json", exclude=_NOT_CONTENT),
        "inputs": settings.inputs.model_dump(mode="json"),
        "source": settings.source.model_dump(mode="json", include={"cluster", "since"}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _mark(folder: Path, key: str) -> dict[str, Any]:
    """The latest reading under these settings; empty where there is none, or its table is not what was written."""
    try:
        mark = json.loads((folder / _MARK).read_text(encoding="utf-8"))
        names = [str(name) for name in mark["tables"]]
        name, until_s = str(mark["table"]), int(mark["until_s"])
        is_own = mark["key"] == key and all(Path(one).name == one for one in [name, *names])
        if is_own and name == _name(folder / name):
            return {"table": name, "tables": names, "until_s": until_s}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {}


def _name(table: Path) -> str:
    return f"jobs-{file_sha256(table)[:16]}.parquet"


def _beside(table: Path) -> Path:
    return table.with_name(f"{table.stem}.unreadable.parquet")


def _window(settings: RunSettings, mark: Mapping[str, Any], now_s: int) -> Window:
    first = time_window(None, None, settings, now_s)
    if not mark:
        return first
    # A clock that was set back must not leave an empty window.
    return Window(min(mark["until_s"], now_s - 1) - OVERLAP_S, now_s)


def _put_in_place(folder: Path, written: Mapping[str, Path]) -> str:
    """Give the new tables names by their content; returns the name of that of the jobs."""
    name = _name(written["jobs"])
    if "unreadable" in written:
        written["unreadable"].replace(_beside(folder / name))
    written["jobs"].replace(folder / name)
    sync_folder(folder)
    return name
