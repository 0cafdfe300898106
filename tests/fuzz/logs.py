"""Logs that the fuzz damages: made ones, and the real ones beside the checkout where they are.

A log is a head (a header, or the beginning of a JSON document) and lines that are a record each, as a rule of one job.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_pbs import made_log as made_pbs
from benchmarks.bench_sacct import made_dump
from benchmarks.bench_swf import made_log as made_swf
from pipeline.ingest.sources import unpacked

SHARED = Path(__file__).parents[3] / "shared" / "data"
MADE_LINES = 2_000
MOST_LINES = 4_000
"""Of one log: a longer one has no other forms of lines, and takes longer to read."""

REAL: Mapping[str, tuple[str, ...]] = {
    "swf": ("swf/NASA-iPSC-1993-3.swf.gz", "swf/MetaCentrum-wagap-2013.swf.gz"),
    "sacct": ("sacct/real-slurm-22.05.8/sacct-steps-parsable2.txt.gz", "sacct/real-slurm-22.05.8/sacct-P-ALL.txt.gz"),
    "pbs": ("pbs/real-openpbs-23.06.06/20261121.gz", "pbs/torque-20130819.gz"),
    "sacct_json": ("sacct/real-slurm-22.05.8/sacct.json.gz", "sacct/real-slurm-22.05.8-cgroup/sacct.json.gz"),
    "table": ("sacct/eagle-sample.csv", "tables/philly-2017.csv.gz"),
}
FORMATS = tuple(REAL)


@dataclass(frozen=True, slots=True)
class Log:
    """The lines of a log, with their ends; mark: what stands between two fields of one."""

    head: list[bytes]
    lines: list[bytes]
    mark: bytes


def logs(name: str, folder: Path) -> list[Log]:
    """The logs of a format; a JSON or a table is made here where no real one is at hand."""
    made = folder / f"{name}.log"
    makers: Mapping[str, Callable[[], object]] = {
        "swf": lambda: made_swf(made, MADE_LINES),
        "sacct": lambda: made_dump(made, MADE_LINES),
        "pbs": lambda: made_pbs(made, MADE_LINES),
        "sacct_json": lambda: made.write_text(_made_json(200)),
        "table": lambda: made.write_text(_made_table(MADE_LINES)),
    }
    makers[name]()
    paths = [made, *(SHARED / path for path in REAL[name] if (SHARED / path).exists())]
    return [_log(name, unpacked(path).read()) for path in paths]


def _log(name: str, text: bytes) -> Log:
    if name == "sacct_json":
        jobs = json.loads(text)["jobs"]
        return Log([b'{"jobs": [\n'], [json.dumps(job).encode() + b",\n" for job in jobs[:MOST_LINES]], b", ")
    lines = text.splitlines(keepends=True)[:MOST_LINES]
    n_head = 1 if name in ("sacct", "table") else 0
    return Log(lines[:n_head], lines[n_head:], {"sacct": b"|", "table": b","}.get(name, b" "))


def _made_json(n_jobs: int) -> str:
    """A document in the form of data_parser/v0.0.39, where a number that may be unset is an object."""

    def number(value: int) -> dict[str, object]:
        return {"set": True, "infinite": False, "number": value}

    def job(place: int) -> dict[str, object]:
        start_s = 1_700_000_000 + 60 * place
        tres = [{"type": "cpu", "name": "", "count": 4}, {"type": "mem", "name": "", "count": 4000}]
        return {
            "account": f"acc{place % 3}", "array": {"job_id": 0, "task_id": number(0) | {"set": False}},
            "exit_code": {"status": ["SUCCESS"], "return_code": number(0)}, "name": f"relax_{place % 7}",
            "job_id": 5000 + place, "partition": "normal", "qos": "normal", "user": f"u{place % 5}",
            "required": {"CPUs": 4, "memory_per_cpu": number(1000)}, "state": {"current": ["COMPLETED"]},
            "time": {
                "submission": start_s - 30, "start": start_s, "end": start_s + 600, "elapsed": 600,
                "limit": number(60), "suspended": 0,
            },
            "tres": {"allocated": tres, "requested": tres}, "working_directory": "/scratch/x",
            "steps": [],
        }  # fmt: skip

    return json.dumps({"jobs": [job(place) for place in range(n_jobs)]})


def _made_table(n_rows: int) -> str:
    rows = [
        f"{7000 + row},u{row % 9},normal,2026-01-01 10:{row % 60:02d}:00,2026-01-01 11:{row % 60:02d}:00,"
        f"2026-01-01 12:{row % 60:02d}:30,{4 << row % 4},7200,COMPLETED"
        for row in range(n_rows)
    ]
    return "\n".join(["job_id,user,queue,submit_time,start_time,end_time,procs,time_limit_s,state", *rows, ""])
