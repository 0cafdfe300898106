"""CPU time and peak memory of a whole `walltime ingest` of a PBS accounting file, beside a plain-Python parser's.

python benchmarks/bench_pbs.py [--records N] [--repeats N] [--json]

The log is made from a fixed seed: Q, S and E of each job, in the form of OpenPBS 23.06. The
other process does what site scripts do: line.split(";"), the message split at blanks and "=", a dictionary of jobs by
id, and a CSV of nine columns; no checks, no states, no quoting, no dates. Both run in turn; figures are medians.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

OURS = """
import sys
from flows.cli import main
sys.argv = ["walltime", "ingest", sys.argv[1], "--out", sys.argv[2]]
main()
"""
PLAIN = """
import csv, sys
jobs = {}
for line in open(sys.argv[1], encoding="utf-8"):
    date, kind, job_id, message = line.rstrip("\\n").split(";", 3)
    if kind == "E":
        jobs[job_id] = dict(pair.split("=", 1) for pair in message.split() if "=" in pair)
    elif kind in "QS":
        jobs.setdefault(job_id, {}).update(pair.split("=", 1) for pair in message.split() if "=" in pair)
def seconds(text):
    hours, minutes, rest = text.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(rest)
with open(sys.argv[2], "w", newline="") as out:
    writer = csv.writer(out)
    for job_id, said in jobs.items():
        asked = said.get("Resource_List.walltime")
        used = said.get("resources_used.walltime")
        writer.writerow([
            job_id, said.get("user"), said.get("queue"), int(said.get("ctime", 0)), int(said.get("start", 0)),
            int(said.get("end", 0)), int(said.get("Resource_List.ncpus", 0)),
            seconds(asked) if asked else None, seconds(used) if used else None,
        ])
"""
LINES_AT_ONCE = 30_000


def made_log(path: Path, n_records: int, seed: int = 7) -> Path:
    """An accounting file of about n_records records, in order of their dates, the same for the same seed."""
    rng = np.random.default_rng(seed)
    n_jobs, first_s = n_records // 3, 1_700_000_000
    users, names = [f"user{k:03d}" for k in range(300)], [f"app{k:03d}.sh" for k in range(900)]
    waiting: list[tuple[int, str]] = []
    submit = first_s
    with path.open("w", encoding="utf-8") as log:
        for job in range(1, n_jobs + 1):
            gap, wait, runtime, nodes, user, name = (
                int(value) for value in rng.integers(0, [40, 4_000, 20_000, 8, len(users), len(names)])
            )
            submit += gap
            waiting += _job(job, submit, submit + wait, runtime, nodes + 1, users[user], names[name])
            if len(waiting) > 2 * LINES_AT_ONCE or job == n_jobs:
                waiting.sort()
                cut = len(waiting) if job == n_jobs else LINES_AT_ONCE
                log.writelines(line for _, line in waiting[:cut])
                del waiting[:cut]
    return path


def _job(job: int, submit: int, start: int, runtime: int, nodes: int, user: str, name: str) -> list[tuple[int, str]]:
    end, job_id = start + runtime, f"{job}.pbsserver"
    who = f'user={user} group=users account="proj{job % 40}" project=_pbs_project_default jobname={name} queue=workq'
    times = f"ctime={submit} qtime={submit} etime={submit}"
    hosts = "+".join(f"node{(job + k) % 512:04d}/0*16" for k in range(nodes))
    vnodes = "+".join(f"(node{(job + k) % 512:04d}:ncpus=16:mem=67108864kb)" for k in range(nodes))
    asked = (
        f"Resource_List.mem={64 * nodes}gb Resource_List.mpiprocs={16 * nodes} Resource_List.ncpus={16 * nodes} "
        f"Resource_List.nodect={nodes} Resource_List.place=scatter "
        f"Resource_List.select={nodes}:ncpus=16:mpiprocs=16:mem=64gb "
        f"Resource_List.walltime={_clock(2 * runtime + 600)}"
    )
    placed = f"start={start} exec_host={hosts} exec_vnode={vnodes} {asked}"
    used = (
        f"session={job} end={end} Exit_status={0 if job % 13 else 1} resources_used.cpupercent=1590 "
        f"resources_used.cput={_clock(15 * nodes * runtime)} resources_used.mem={nodes * 9_000_000}kb "
        f"resources_used.ncpus={16 * nodes} resources_used.vmem={nodes * 12_000_000}kb "
        f"resources_used.walltime={_clock(runtime)} eligible_time={_clock(start - submit)} run_count=1"
    )
    return [
        (submit, f"{_date(submit)};Q;{job_id};{who} {times} {asked} \n"),
        (start, f"{_date(start)};S;{job_id};{who} {times} {placed} resource_assigned.ncpus={16 * nodes} \n"),
        (end, f"{_date(end)};E;{job_id};{who} {times} {placed} {used}\n"),
    ]


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _date(second: int) -> str:
    return time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(second))


def measured(code: str, *arguments: str) -> tuple[float, float]:
    """User + system time in seconds and peak memory in MiB of one Python process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code, *arguments], environment, file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"a measured process failed with status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(log: Path, n_records: int, repeats: int, folder: Path) -> dict[str, float | int]:
    """Both processes in turn, ours once unmeasured to compile, then `repeats` times."""
    measured(OURS, str(log), str(folder / "warm.parquet"))
    pairs = [
        (measured(OURS, str(log), str(folder / "jobs.parquet")), measured(PLAIN, str(log), str(folder / "jobs.csv")))
        for _ in range(repeats)
    ]
    ours, plain = zip(*pairs, strict=True)
    figures: dict[str, float | int] = {
        "records": n_records,
        "log_mib": round(log.stat().st_size / 2**20),
        "repeats": repeats,
    }
    for name, runs in (("ingest", ours), ("plain_python", plain)):
        cpu_s = statistics.median(run[0] for run in runs)
        figures |= {
            f"{name}_cpu_s": round(cpu_s, 2),
            f"{name}_records_per_cpu_s": round(n_records / cpu_s),
            f"{name}_peak_mib": round(max(run[1] for run in runs)),
        }
    figures["plain_python_over_ingest"] = round(statistics.median(p[0] / o[0] for o, p in pairs), 2)
    return figures


def main() -> None:
    """Measure, and print a line a figure, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = made_log(folder / "made.acct", options.records)
        figures = measure(log, options.records // 3 * 3, options.repeats, folder)
    print(json.dumps(figures) if options.json else "\n".join(f"{key:28} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
