"""PBS accounting text for tests, and the reader run on it from bytes to jobs."""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from pipeline.ingest.formats import pbs
from pipeline.ingest.formats.pbs import PBS
from pipeline.ingest.reader import Remarks, chunks_of, jobs_table
from pipeline.ingest.records import FOUND, Records, distinct, marked
from pipeline.ingest.sources import find_sources, line_blocks
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

DATE = "11/21/2026 08:00:00"
T0 = 1_795_248_000
"""The same instant in UTC."""


@dataclass(frozen=True)
class Outcome:
    """What the reader makes of some logs; `lines` with those that folding adds."""

    jobs: pa.Table
    unreadable: pa.Table
    lines: Counter[str]
    remarks: Remarks
    n_lines: int

    def rows(self) -> dict[str, dict[str, Any]]:
        """A job's values by id, and by id and restart where one has several attempts."""
        return {r["job_id"] + (f"/{r['restart']}" if r["restart"] else ""): r for r in self.jobs.to_pylist()}

    def only(self) -> dict[str, Any]:
        """The one job."""
        assert self.jobs.num_rows == 1
        return self.jobs.to_pylist()[0]


def read_paths(
    *paths: Path, timezone: str = "UTC", block_bytes: int = 1 << 24, strict: bool = False, last_line: str = "set_aside"
) -> Outcome:
    """The reader's chunks, folded and combined; checks that no line is lost."""
    site, settings = (
        SiteSettings(name="s", timezone=timezone),
        IngestSettings.model_validate({"max_damaged": 0 if strict else 1, "last_line": last_line}),
    )
    chunks = []
    with patch.object(pbs, "line_blocks", lambda source, _, end: line_blocks(source, block_bytes, end)):
        for source in find_sources(paths):
            chunks += chunks_of(PBS, source, site, settings)
    parts = pa.concat_tables([chunk.parts for chunk in chunks])
    unreadable = pa.concat_tables([chunk.unreadable for chunk in chunks])
    assert PBS.fold is not None and parts.schema == PBS.parts
    folded = PBS.fold(jobs_table(0), parts, site, settings)
    lines = sum((Counter(chunk.lines) for chunk in chunks), Counter(folded.lines))
    n_lines = sum(chunk.n_lines for chunk in chunks)
    assert parts.num_rows == folded.jobs.num_rows + sum(folded.lines.values())
    assert n_lines == folded.jobs.num_rows + unreadable.num_rows + sum(lines.values())
    remarks = sum((chunk.remarks for chunk in chunks), Remarks())
    found, _ = distinct(marked(folded.jobs, part=0, format=0, is_new=True), [PBS.same_record])
    rows = Records({"found": FOUND}, None, 0)
    rows.add("found", found)
    jobs = JOBS.check(pa.concat_tables(rows.ordered("found")).select(JOBS.schema().names))
    return Outcome(_plain(jobs), _plain(unreadable), lines, remarks, n_lines)


def _plain(table: pa.Table) -> pa.Table:
    """Categories as strings: their dictionaries' order is settled later."""
    kinds = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(kinds)).combine_chunks()


def read(*logs: bytes | str, **options: Any) -> Outcome:
    """The same of logs given as text."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"2026112{number}" for number in range(len(logs))]
        for path, log in zip(paths, logs, strict=True):
            path.write_bytes(log.encode() if isinstance(log, str) else log)
        return read_paths(*paths, **options)


def record(kind: str, job_id: str = "1.srv", message: str = "", date: str = DATE) -> str:
    """A line."""
    return f"{date};{kind};{job_id};{message}\n"


def ended(message: str = "", job_id: str = "1.srv", status: int = 0, start: int = T0 + 10, end: int = T0 + 70) -> str:
    """An E record of PBS Pro with what every one has."""
    who = "user=ann group=users project=_pbs_project_default jobname=run queue=workq"
    times = f"ctime={T0} qtime={T0} etime={T0 + 1} start={start}"
    used = f"session=5 end={end} Exit_status={status} resources_used.walltime=00:01:00 run_count=1"
    return record("E", job_id, f"{who} {times} exec_host=n1/0*4 exec_vnode=(n1:ncpus=4) {message} {used}")


def started(job_id: str = "1.srv", start: int = T0 + 10, message: str = "") -> str:
    """An S record."""
    return record(
        "S", job_id, f"user=ann queue=workq ctime={T0} etime={T0 + 1} start={start} exec_host=n1/0*4 {message}"
    )


def queued(job_id: str = "1.srv", message: str = "") -> str:
    """A Q record of PBS Pro."""
    return record("Q", job_id, f"user=ann queue=workq ctime={T0} qtime={T0} etime=0 {message}")
