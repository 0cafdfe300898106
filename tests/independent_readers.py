"""Plain readers of accounting logs, written from the formats' public descriptions alone: nothing of `pipeline` is used.

Each gives the jobs of one log with id, submit as it is written, processors and runtime; a record that does not fit its
format is a ValueError. They know no dialect and guess nothing: they judge what `ingest` makes of a log.

swf         Chapin et al., JSSPP 1999: field 1 id, 2 submit, 4 runtime, 5 and 8 processors; -1 is unknown.
sacct text  man sacct, --parsable: names in the first line; a text may hold the delimiter or a line's end.
sacct JSON  openapi/dbv0.0.38 of Slurm: jobs[].time and jobs[].tres.allocated.
pbs         PBS Professional 2024.1 Administrator's Guide 12.4: a record a line, E ends a job, S starts one, Q queues
            one; a record may be wrapped.
table       A CSV or Parquet whose columns the caller names.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class PlainJob(NamedTuple):
    """One job; None: unknown. The record with the largest `order` of one job and submit stands for all of them."""

    job_id: str
    submit: str
    procs: float | None
    runtime_s: float | None
    order: tuple[Any, ...] = ()


def text_of(path: Path) -> str:
    """The text of a log, unpacked."""
    with OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8", errors="surrogateescape", newline="") as file:
        return str(file.read()).replace("\r\n", "\n")


def swf(path: Path) -> list[PlainJob]:
    """A line of numbers a job; the processors that were asked for, where those it had are unknown."""
    jobs = []
    for line in text_of(path).split("\n"):
        fields = line.split()
        if fields and not line.startswith(";"):
            runtime, procs, asked = (None if field == "-1" else float(field) for field in itemgetter(3, 4, 7)(fields))
            jobs.append(PlainJob(fields[0], fields[1], asked if procs is None else procs, runtime))
    return jobs


CELL, FREE = r"[^\x1f\n]*", r"[\s\S]*?"
FREE_TEXTS = {
    "jobname", "comment", "admincomment", "systemcomment", "workdir", "submitline", "constraints", "reason", "extra",
}  # fmt: skip
TYPED = {
    "jobid": r"\d+[\w.+\[\],%-]*", "jobidraw": r"\d+[\w.+-]*", "associd": r"\d+", "alloccpus": r"\d*",
    "ncpus": r"\d*", "reqcpus": r"\d*", "allocnodes": r"\d*", "nnodes": r"\d*", "elapsed": r"[\d:-]*",
    "elapsedraw": r"\d*", "submit": rf"[\dUN]{CELL}", "start": rf"[\dUN]{CELL}", "end": rf"[\dUN]{CELL}",
    "state": r"[A-Z_]+(?: by \d+)?", "exitcode": r"(?:\d+:\d+)?", "alloctres": rf"(?:\w[\w/:.]*={CELL})?",
}  # fmt: skip
"""What stands in the columns that say where a record's cells lie, where a text holds the delimiter."""


def clock_s(text: str) -> float:
    """Seconds of [days-][hours:]minutes:seconds."""
    days, _, clock = text.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = 60 * total + float(part)
    return total + 86_400 * float(days or 0)


def sacct_text(path: Path, names: Sequence[str] = ()) -> list[PlainJob]:
    """Rows of cells; names: the columns of a dump whose first line does not name them, delimited by `|`."""
    text, mark = text_of(path), "|"
    if not names:
        head, _, text = text.partition("\n")
        mark = re.findall(r"\W+", head)[0]
        names = head.removesuffix(mark).split(mark)
        text = text.replace(f"{mark}\n", "\n") if head.endswith(mark) else text
    jobs = []
    for row in sacct_rows(text.replace(mark, "\x1f"), [name.lower() for name in names]):
        job_id, procs = row.get("jobid") or row["jobidraw"], row.get("alloccpus") or row.get("ncpus")
        elapsed = row.get("elapsedraw") or row.get("elapsed")
        if "." not in job_id:  # A step has the id of its job, a dot and a name.
            job_id = f"{row.get('cluster', '')} {job_id}"
            runtime_s, n_procs = clock_s(elapsed) if elapsed else None, float(procs) if procs else None
            jobs.append(PlainJob(job_id, row["submit"], n_procs, runtime_s, (row["end"],)))
    return jobs


def sacct_rows(text: str, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Cells by name. A line that does not begin as a record goes on with a text of the record before it."""
    first_names = names[: min(8, names.index("jobname") if "jobname" in names else len(names))]
    begin = re.compile("".join(f"(?:{TYPED.get(name, CELL)})\x1f" for name in first_names))
    whole = re.compile("\x1f".join(f"({FREE if name in FREE_TEXTS else TYPED.get(name, CELL)})" for name in names))
    records: list[list[str]] = []
    for line in text.rstrip("\n").split("\n"):
        if begin.match(line) or not records:
            records.append([])
        records[-1].append(line)
    for record in map("\n".join, records):
        cells: Sequence[str] = record.split("\x1f")
        if len(cells) != len(names) or "\n" in record:
            found = whole.fullmatch(record)
            if found is None:
                raise ValueError(f"no record of sacct: {record[:200]!r}")
            cells = found.groups()
        yield dict(zip(names, cells, strict=True))


def sacct_json(path: Path) -> list[PlainJob]:
    """The list `jobs` of the document."""
    jobs = []
    for job in json.loads(text_of(path))["jobs"]:
        cpus = [tres["count"] for tres in job["tres"]["allocated"] if tres["type"] == "cpu"]
        times = job["time"]
        job_id = f"{job['cluster']} {job['job_id']}"
        jobs.append(PlainJob(job_id, str(times["submission"]), sum(cpus), float(times["elapsed"]), (times["end"],)))
    return jobs


def pbs(path: Path) -> list[PlainJob]:
    """Of each job its runs, by their start: R or E says how one ended; a job that never started has its Q, if any."""
    runs: dict[tuple[str, str], dict[str, str]] = {}
    queued = set()
    for line in re.sub(r"\n(?!\d\d/\d\d/\d{4} )(?=\S)", " ", text_of(path)).splitlines():
        _date, kind, job_id, said = f"{line};".split(";", 3)
        if kind == "Q" and "[]" not in job_id:
            queued.add(job_id)
        elif kind in "SRE" and "[]" not in job_id:
            values = dict(re.findall(r"(?:^| )([\w.]+)=([^\s;]*)", said))
            runs.setdefault((job_id, values["start"]), {}).update(values)
    jobs = [PlainJob(job_id, start, pbs_procs(run), pbs_runtime_s(run)) for (job_id, start), run in runs.items()]
    return jobs + [PlainJob(job_id, "", None, None) for job_id in queued - {job_id for job_id, _ in runs}]


def pbs_procs(run: dict[str, str]) -> float | None:
    """The CPUs used; else the slots of exec_host: `n1/0*4+n2/0,2-3` has 4 and 3; else what was asked for."""
    if "resources_used.ncpus" in run:
        return float(run["resources_used.ncpus"])
    if "exec_host" in run:
        total = 0
        for slots in run["exec_host"].split("+"):
            places, _, times = slots.partition("/")[2].partition("*")
            spans = (place.split("-") for place in places.split(","))
            total += int(times) if times else sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
        return total
    return float(run["Resource_List.ncpus"]) if "Resource_List.ncpus" in run else None


def pbs_runtime_s(run: dict[str, str]) -> float | None:
    """The walltime used, else the time from start to end; None of a run that has not ended."""
    if "resources_used.walltime" in run:
        return clock_s(run["resources_used.walltime"])
    return float(run["end"]) - float(run["start"]) if "end" in run else None


def table(path: Path, job_id: str | None, times: Sequence[str], procs: str, runtime: str) -> list[PlainJob]:
    """A row a job; without a column of ids each row is a job of its own."""
    rows: Iterable[dict[str, Any]]
    if path.suffix == ".parquet":
        rows = pq.read_table(path, columns=[*times, procs, runtime]).to_pylist()
    else:
        rows = csv.DictReader(io.StringIO(text_of(path)))
    jobs = []
    for place, row in enumerate(rows):
        length, submit = row[runtime], " ".join(str(row[name]) for name in times)
        runtime_s = length.total_seconds() if hasattr(length, "total_seconds") else float(length) if length else None
        jobs.append(PlainJob(row[job_id] if job_id else str(place), submit, float(row[procs]), runtime_s))
    return jobs
