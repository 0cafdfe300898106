"""Logs cut at every byte of their last 2 KiB: no job with a value that its whole record does not have.

    python -m tests.fuzz.cut [--cuts 20000] [--seed 1] [--formats swf sacct pbs sacct_json table]

A log that is cut at a byte gives the jobs of its whole lines. The line that was cut may add to them only what the whole
line adds: every value of a job that the cut log gives is null, or stands in the job of the log without the cut line, or
in that of the log with the whole line.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.reader import chunks_of, jobs_table, reader_named
from pipeline.ingest.sources import Source
from pipeline.settings import IngestSettings, SiteSettings
from tests.fuzz.logs import FORMATS as NAMES
from tests.fuzz.logs import logs
from tests.fuzz.mutate import stretch

LINES_A_LOG = 12
CUT_BYTES = 2048
"""Of the end of a log, at each byte of which it is cut."""

Jobs = dict[tuple[str, int], dict[str, Any]]


def jobs_of(name: str, data: bytes, path: Path) -> Jobs:
    """The jobs of a log by id and line, its parts folded; none where the log is refused."""
    reader, site, settings = (
        reader_named(name),
        SiteSettings(name="fuzz"),
        IngestSettings.model_validate({"format": name, "max_damaged": 1.0}),
    )
    path.write_bytes(data)
    try:
        chunks = list(chunks_of(reader, Source(path, path.name), site, settings))
    except InputError:
        return {}
    tables = [jobs_table(0), *(chunk.jobs for chunk in chunks if chunk.jobs is not None)]
    jobs = pa.concat_tables(tables, promote_options="default")
    if reader.fold is not None and reader.parts is not None:
        parts = [chunk.parts for chunk in chunks if chunk.parts is not None]
        jobs = reader.fold(jobs, pa.concat_tables([reader.parts.empty_table(), *parts]), site, settings).jobs
    return {(job["job_id"], job["source_line"]): job for job in jobs.to_pylist()}


def invented(cut: Jobs, *whole: Jobs) -> list[tuple[tuple[str, int], str, Any]]:
    """Job, column and value of what a cut log gives and no log of whole lines does."""
    found = []
    for key, job in cut.items():
        for name, value in job.items():
            known = [jobs[key][name] for jobs in whole if key in jobs]
            if value is not None and value not in known:
                found.append((key, name, value))
    return found


def cuts(name: str, n_cuts: int, seed: int, folder: Path) -> Iterator[bool]:
    """Whether each cut log had a job; AssertionError where one has a value that is invented."""
    whole_logs, rng, path = logs(name, folder), np.random.default_rng(seed), folder / "cut.log"
    done = 0
    while done < n_cuts:
        part = stretch(whole_logs[int(rng.integers(0, len(whole_logs)))], rng, LINES_A_LOG)
        whole: dict[int, Jobs] = {}
        for cut in range(len(part) - 1, max(len(part) - CUT_BYTES, 1), -1)[: n_cuts - done]:
            low, high = part.rfind(b"\n", 0, cut) + 1, part.find(b"\n", cut) + 1 or len(part)
            if low not in whole:
                whole[low] = jobs_of(name, part[:low], path)
            jobs = jobs_of(name, part[:cut], path)
            # Most cut lines add nothing, so that the log with the whole line need not be read.
            if invented(jobs, whole[low]) and high not in whole:
                whole[high] = jobs_of(name, part[:high], path)
            found = invented(jobs, whole[low], whole.get(high, {}))
            if found:
                kept = Path(f"fuzz-cut-{name}-{seed}-{done}.log")
                kept.write_bytes(part[:cut])
                raise AssertionError(f"{name}: {found[:3]} in {kept}")
            done += 1
            yield bool(jobs)


def main() -> None:
    """Cut logs of the formats asked for, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=20_000, help="cuts per reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=list(NAMES), choices=NAMES)
    asked = parser.parse_args()
    for name in asked.formats:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = list(cuts(name, asked.cuts, asked.seed, Path(folder)))
        sys.stdout.write(f"{name}: {len(outcomes):,} cuts, {sum(outcomes):,} logs with jobs, no value invented\n")


if __name__ == "__main__":
    main()
