"""The files of data_samples/: logs, the truth beside them, the README made from the truth."""

import gzip
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.simulation.finished_text import jobcomp_file, lsf_accounting
from tools.simulation.gpu_runs import gpu_runs, gpu_sacct
from tools.simulation.laws import amdahl, downey_low
from tools.simulation.log import UNIX_START_S, SimulatedLog, simulate_log
from tools.simulation.millrace import day_truth, simulated_millrace, swf_log
from tools.simulation.named_inputs import named_inputs_log
from tools.simulation.pbs_text import pbs_accounting
from tools.simulation.phase_runs import block_files, phase_traces
from tools.simulation.plant import AFTER, BEFORE
from tools.simulation.planted_records import PLANTED_RECORDS
from tools.simulation.readme import readme
from tools.simulation.riverbend import SEED, simulated_riverbend
from tools.simulation.sacct_text import sacct_dump
from tools.simulation.solver_runs import solver_runs
from tools.simulation.table_text import table_of_attempts
from tools.simulation.workload import DAY_S, Application, Job

INPUTS_JOBS, INPUTS_SEED = 800, 17
GPU_JOBS, GPU_SEED = 1_000, 30
TRAPS_SEED = 48
TRAPS_APPLICATIONS = (
    Application(1, 1, 1_048_576, downey_low(36_000, 8, 0.5), (1, 2, 4, 8, 16, 32), 0.03),
    Application(2, 2, 524_288, amdahl(20_000, 0.05), (1, 2, 4, 8, 16), 0.04),
)
TRAPS_COUNTS = {"flurry": 8, "probe": 5, "cron": 5, "cancelled_before_start": 4}


def simulated_traps() -> SimulatedLog:
    """The small sample, always the same: two applications, two of every anomaly, every textual trap."""
    counts = dict.fromkeys([*BEFORE, *AFTER], 2) | TRAPS_COUNTS
    return simulate_log(
        np.random.default_rng(TRAPS_SEED), applications=TRAPS_APPLICATIONS, n_jobs=66, days=7, max_procs=64,
        anomalies=counts, computer="Oxbow, a simulated cluster", textual_traps=True,
    )  # fmt: skip


def sample_files() -> dict[str, bytes]:
    """Every file of data_samples/ by name, as bytes; the same on every call."""
    riverbend, traps = simulated_riverbend(), simulated_traps()
    truths = {
        "riverbend": log_truth(riverbend, "riverbend.swf.gz", SEED),
        "traps": log_truth(traps, "traps.swf", TRAPS_SEED) | line_truth(traps),
    }
    millrace = simulated_millrace()
    day = day_truth(millrace)
    return {
        "README.md": readme(truths["riverbend"], truths["traps"], day).encode(),
        "millrace.pbs": pbs_accounting(millrace).encode(),
        "millrace.lsb.acct": lsf_accounting(millrace).encode(),
        "millrace.jobcomp": jobcomp_file(millrace).encode(),
        "millrace.sacct.txt": sacct_dump(millrace, UNIX_START_S + DAY_S).encode(),
        "millrace.csv": table_of_attempts(millrace).encode(),
        "millrace.swf": swf_log(millrace).data,
        "millrace.truth.json": as_json(day).encode(),
        "gpus.sacct.gz": zipped(gpu_sacct(gpu_runs(GPU_JOBS, GPU_SEED)).encode()),
        "inputs.sacct.gz": zipped(named_inputs_log(INPUTS_JOBS, INPUTS_SEED).encode()),
        "riverbend.swf.gz": zipped(riverbend.data),
        "riverbend.truth.json": as_json(truths["riverbend"]).encode(),
        "traps.swf": traps.data,
        "traps.truth.json": as_json(truths["traps"]).encode(),
        "solves.csv": solver_runs().encode(),
        **{f"{name}.gz": zipped(text.encode()) for name, text in phase_traces().items()},
        **{name: text.encode() for name, text in block_files().items()},
    }


def differing(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Names of files that are absent from the folder or hold something else.

    Compressed files are compared by content: which bytes stand for it is up to the zlib at hand.
    """
    return [name for name, data in files.items() if not _is_same(folder / name, data)]


def _is_same(path: Path, data: bytes) -> bool:
    if not path.is_file():
        return False
    found = path.read_bytes()
    return gzip.decompress(found) == gzip.decompress(data) if path.suffix == ".gz" else found == data


def zipped(data: bytes) -> bytes:
    """Gzip without time or name, so that the same data give the same bytes."""
    sink = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, sink, mtime=0) as packer:
        packer.write(data)
    return sink.getvalue()


def log_truth(log: SimulatedLog, name: str, seed: int) -> dict[str, Any]:
    """What made a log: machine, counts, flags to expect, applications and laws, planted kinds with job numbers."""
    return {
        "log": name,
        "seed": seed,
        "max_procs": log.max_procs,
        "days": log.days,
        "unix_start_s": UNIX_START_S,
        "newline": "CRLF" if log.newline == "\r\n" else "LF",
        "lines": log.line_counts(),
        "clean_records": sum(not job.planted for job in log.jobs),
        "groups": len({(job.user, job.executable, job.requested_mem_kib) for job in log.jobs}),
        "flags": log.flags(),
        "applications": [application_truth(app, log.jobs) for app in log.applications],
        "planted": {kind: _kind_truth(kind, numbers, log.jobs) for kind, numbers in log.planted().items()},
    }


def application_truth(app: Application, jobs: Sequence[Job]) -> dict[str, Any]:
    """Who runs it, its law, what its sizes can tell, and clean jobs by size."""
    key = (app.user, app.executable, app.requested_mem_kib)
    clean = Counter(
        job.procs for job in jobs if not job.planted and (job.user, job.executable, job.requested_mem_kib) == key
    )
    bend = app.law.bend_procs
    return {
        "user": app.user,
        "executable": app.executable,
        "requested_mem_kib": app.requested_mem_kib,
        "law": app.law.name,
        **app.law.params(),
        "bend_procs": None if bend == float("inf") else round(bend, 3),
        "reach": app.reach,
        "repeat_log_sd": app.log_sd,
        "clean_jobs_by_procs": {str(procs): clean[procs] for procs in app.sizes},
    }


def _kind_truth(kind: str, numbers: Sequence[int], jobs: Sequence[Job]) -> dict[str, Any]:
    first = next(job for job in jobs if job.planted == kind)
    is_class = kind in ("flurry", "probe", "cron")
    who = {"user": first.user, "executable": first.executable, "requested_mem_kib": first.requested_mem_kib}
    about = {"records": len(numbers), "expected_flag": PLANTED_RECORDS[kind].expected_flag}
    about |= {"screen": PLANTED_RECORDS[kind].screen, "meaning": PLANTED_RECORDS[kind].meaning}
    return about | (who if is_class else {}) | {"job_ids": list(numbers)}


def line_truth(log: SimulatedLog) -> dict[str, Any]:
    """Line by line: every record with what was planted, every line that holds a textual trap or cannot be read."""
    numbered = list(enumerate(log.lines, start=1))
    records = [
        {
            "line": number, "job_id": line.job.job_id, "planted": line.job.planted or None, "trap": line.trap or None,
            "expected_flag": PLANTED_RECORDS[line.job.planted].expected_flag if line.job.planted else None,
        }
        for number, line in numbered if line.what == "record"
    ]  # fmt: skip
    traps = [{"line": number, "what": line.what, "trap": line.trap} for number, line in numbered if line.trap]
    unreadable = [number for number, line in numbered if line.what == "unreadable"]
    return {"unreadable_lines": unreadable, "textual_traps": traps, "records": records}


def as_json(truth: Mapping[str, Any]) -> str:
    """JSON a person can page through: one line an application, planted kind or record."""
    parts = [f" {json.dumps(name)}: {_block(value)}" for name, value in truth.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _block(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]"
    if isinstance(value, dict) and any(isinstance(row, dict) for row in value.values()):
        return "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(row)}" for k, row in value.items()) + "\n }"
    return json.dumps(value)
