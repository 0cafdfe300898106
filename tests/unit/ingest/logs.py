"""Small SWF logs for the tests, and how they are read."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.ingest import ingest
from pipeline.ingest.sources import Source
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

UNIX_START = "; UnixStartTime: 1000\n"
ROW = "7 50 20 300 16 250 2048 32 600 4096 1 5 6 8 3 2 4 9"
FIELDS = (
    "job_id", "submit_s", "wait_s", "runtime_s", "procs", "cpu_s", "used_mem_kib", "requested_procs", "requested_s",
    "requested_mem_kib", "status", "user", "user_group", "application", "queue", "partition", "preceding_job_id",
    "think_s",
)  # fmt: skip


def in_memory(data: bytes) -> Source:
    """A log that is no file."""
    return Source(Path("log"), "log", opened=lambda: io.BytesIO(data))


def row(**changed: Any) -> str:
    """ROW with some fields changed, by name."""
    return " ".join(str(changed.get(name, value)) for name, value in zip(FIELDS, ROW.split(), strict=True))


def read(folder: Path, *logs: str | bytes, **settings: Any) -> tuple[pa.Table, pa.Table, Report]:
    """What ingest makes of logs written into a folder as 0.swf, 1.swf, ..."""
    paths = []
    for number, text in enumerate(logs):
        path = folder / f"{number}.swf"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    return ingest(paths, SiteSettings(name="here"), IngestSettings(format="swf", **settings))


def only(folder: Path, line: str, header: str = UNIX_START, **settings: Any) -> dict[str, Any]:
    """The one job of a log of one line."""
    jobs, unreadable, _ = read(folder, header + line + "\n", **settings)
    assert (jobs.num_rows, unreadable.num_rows) == (1, 0)
    return jobs.to_pylist()[0]
