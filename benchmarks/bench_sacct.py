"""CPU time of a whole `walltime ingest` of a sacct dump, beside slurm2sql's import of the same rows.

python benchmarks/bench_sacct.py [--rows N] [--repeats N] [--json]

The dump is made from a fixed seed: 49 columns, jobs with their .batch, .extern and numbered steps; some job names hold
the delimiter, some a line's end. slurm2sql (0.9.9, installed from the package index into a temporary environment if it
cannot be imported) gets the first 30,000 rows or so with clean names, because a line's end in a name breaks its import,
and its time is scaled to all rows after what it takes for no row is taken off. Both run in turn, whole processes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

COLUMNS = (
    "JobID", "JobIDRaw", "JobName", "User", "Group", "Account", "State", "Timelimit", "Elapsed", "Submit", "Start",
    "End", "Partition", "ExitCode", "NodeList", "Priority", "ReqNodes", "NNodes", "AllocNodes", "NTasks", "NCPUS",
    "ReqCPUS", "AllocCPUS", "CPUTime", "TotalCPU", "UserCPU", "SystemCPU", "MinCPU", "MinCPUNode", "MinCPUTask",
    "ReqMem", "AveRSS", "MaxRSS", "MaxRSSNode", "MaxRSSTask", "AveDiskRead", "AveDiskWrite", "MaxDiskRead",
    "MaxDiskReadNode", "MaxDiskWrite", "MaxDiskWriteNode", "Comment", "ConsumedEnergyRaw", "MaxPages", "MaxVMSize",
    "ReqTRES", "AllocTRES", "SubmitLine", "WorkDir",
)  # fmt: skip
ROWS = 1_000_000
SLURM2SQL_ROWS = 30_000
SLURM2SQL = """
import csv, sqlite3, sys
csv.field_size_limit(1 << 24)
import slurm2sql
rows = csv.DictReader(open(sys.argv[1]), delimiter="|", quoting=csv.QUOTE_NONE)
slurm2sql.slurm2sql(sqlite3.connect(sys.argv[2]), csv_input=rows)
"""
_STATES = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1004", "OUT_OF_MEMORY")
_EXITS = {"COMPLETED": "0:0", "FAILED": "1:0", "TIMEOUT": "0:0", "CANCELLED by 1004": "0:15", "OUT_OF_MEMORY": "0:125"}
_NAMES = ("cfd_solver", "md_run", "train ml", "blast", "plot.post", "spawner-jupyterhub", "vasp_relax_007")


def made_dump(path: Path, n_rows: int, *, is_clean: bool = False, seed: int = 7) -> Path:
    """A `--parsable2` dump of about n_rows rows (whole jobs), the same for the same seed; clean: plain names only."""
    rng = np.random.default_rng(seed)
    n_rows_made, job, clock = 0, 1_000_000, np.datetime64("2024-01-01T00:00:00")
    with path.open("w", encoding="utf-8") as dump:
        dump.write("|".join(COLUMNS) + "\n")
        while n_rows_made < n_rows:
            size = min(20_000, n_rows - n_rows_made)
            job, clock, n_made = _batch(dump, rng, size, job, clock, is_clean=is_clean)
            n_rows_made += n_made
    return path


def _batch(dump, rng, n_rows, job, clock, *, is_clean):
    """Up to n_rows rows of jobs in order of submit; the next job's number and time, and how many rows."""
    n_jobs = max(1, n_rows * 2 // 5)
    submit = clock + np.cumsum(rng.integers(0, 30, n_jobs)).astype("timedelta64[s]")
    start = submit + rng.integers(0, 9_000, n_jobs).astype("timedelta64[s]")
    runtime = rng.integers(1, 90_000, n_jobs)
    times = [np.datetime_as_string(t) for t in (submit, start, start + runtime.astype("timedelta64[s]"))]
    procs, user = 2 ** rng.integers(0, 8, n_jobs), rng.integers(1, 400, n_jobs)
    state = rng.choice(len(_STATES), n_jobs, p=[0.8, 0.1, 0.05, 0.03, 0.02])
    n_steps, rss = rng.choice([1, 2], n_jobs), rng.integers(1_000, 64_000_000, n_jobs)
    name, odd = rng.integers(0, len(_NAMES), n_jobs), rng.random(n_jobs)
    lines, n_made = [], 0
    for i in range(n_jobs):
        row = _job(job + i, _name(name[i], odd[i], is_clean), int(user[i]), _STATES[state[i]], int(runtime[i]),
                   [str(t[i]) for t in times], int(procs[i]), int(rss[i]))  # fmt: skip
        lines += row[: 1 + n_steps[i]]
        n_made += 1 + int(n_steps[i])
    dump.write("".join(lines))
    return job + n_jobs, submit[-1], n_made


def _name(kind, odd, is_clean):
    if is_clean or odd > 0.002:
        return f"{_NAMES[kind]}_{int(odd * 1e6) % 50}"
    return f"{_NAMES[kind]}|a|b" if odd > 0.001 else f"{_NAMES[kind]}\nsecond line"


def _job(job, name, user, state, runtime, times, procs, rss):
    """The lines of a job, its .batch and its first step."""
    submit, start, end = times
    nodes, elapsed = max(1, procs // 32), _clock(runtime)
    host, part = f"n{job % 90 + 100}", ("batch", "gpu", "debug")[job % 3]
    mem = f"cpu={procs},{'gres/gpu=2,' if part == 'gpu' else ''}mem={procs * 2000}M,node={nodes}"
    cpu, account, who = _clock(runtime * procs), f"acct{user % 40}", f"user{user}"
    sizes = [nodes, nodes, nodes]
    when = [elapsed, submit, start, end]
    whole = [
        job, job, name, who, f"group{user % 20}", account, state, "2-00:00:00", *when, part, _EXITS[state],
        f"n[{job % 90 + 100}-{job % 90 + 99 + nodes}]", job % 99999, *sizes, "", procs, procs, procs, cpu, cpu, cpu,
        "00:00:01", "", "", "", f"{procs * 2000}M", *[""] * 14, f"billing={procs},{mem}", f"billing={procs},{mem}",
        f"sbatch -J run -n {procs} --mem-per-cpu=2000M -t 2-0 /home/{who}/jobs/run_{job % 977}.sh",
        f"/scratch/{who}/project{user % 7}/case{job % 977}",
    ]  # fmt: skip
    rest = [
        "", *when, "", _EXITS[state], host, "", *sizes, procs, procs, procs, procs, cpu, cpu, cpu, "00:00:01", elapsed,
        host, "0", "", f"{rss}K", f"{rss}K", host, "0", "12.5M", "3.1M", "12.5M", host, "3.1M", host, "", "0", "0",
        f"{rss * 2}K", "", mem, "", "",
    ]  # fmt: skip
    batch = [f"{job}.batch", f"{job}.batch", "batch", "", "", account, state.split()[0], *rest]
    step = [f"{job}.0", f"{job}.0", "solver", "", "", account, "COMPLETED", *rest]
    return ["|".join(map(str, cells)) + "\n" for cells in (whole, batch, step)]


def _clock(seconds):
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def measured(command: list[str]) -> tuple[float, float]:
    """User + system time of one process, its children included, and its largest resident memory in MiB."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(command[0], command, env, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"a measured process failed with status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def slurm2sql_python(folder: Path) -> str | None:
    """A Python that can import slurm2sql 0.9.9; None where it cannot be had."""
    if subprocess.run([sys.executable, "-c", "import slurm2sql"], capture_output=True, check=False).returncode == 0:
        return sys.executable
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    done = subprocess.run([python, "-m", "pip", "install", "-q", "slurm2sql==0.9.9"], capture_output=True, check=False)
    return python if done.returncode == 0 else None


def measure(n_rows: int, repeats: int, folder: Path) -> dict[str, float | int | str]:
    """Both in turn, ours once unmeasured to fill caches, then `repeats` times."""
    dump, sample = made_dump(folder / "made.txt", n_rows), folder / "sample.txt"
    n_sample = min(SLURM2SQL_ROWS, n_rows)
    made_dump(sample, n_sample, is_clean=True)
    nothing = folder / "nothing.txt"
    nothing.write_text("|".join(COLUMNS) + "\n", encoding="utf-8")
    with sample.open() as lines:
        n_sample = sum(1 for _ in lines) - 1
    with dump.open(encoding="utf-8") as lines:
        n_real = sum(1 for line in lines if line[0].isdigit())
    ours = [sys.executable, "-m", "flows.cli", "ingest", str(dump), "--out", str(folder / "jobs.parquet")]
    python = slurm2sql_python(folder)
    measured(ours)
    figures, others = [], []
    for turn in range(repeats):
        figures.append(measured(ours))
        if python is not None:
            base, _ = measured([python, "-c", SLURM2SQL, str(nothing), str(folder / f"nothing{turn}.db")])
            whole, _ = measured([python, "-c", SLURM2SQL, str(sample), str(folder / f"sample{turn}.db")])
            others.append((whole - base) * n_real / n_sample)
    cpu_s = statistics.median(cpu for cpu, _ in figures)
    said: dict[str, float | int | str] = {
        "rows": n_real,
        "columns": len(COLUMNS),
        "dump_mib": round(dump.stat().st_size / 2**20, 1),
        "repeats": repeats,
        "ingest_cpu_s_median": round(cpu_s, 3),
        "rows_per_cpu_s": round(n_real / cpu_s),
        "peak_rss_mib": round(max(rss for _, rss in figures)),
    }
    if not others:
        return said | {"slurm2sql": "could not be installed"}
    ratios = [other / cpu for other, (cpu, _) in zip(others, figures, strict=True)]
    return said | {
        "slurm2sql_sample_rows": n_sample,
        "slurm2sql_rows_per_cpu_s": round(n_real / statistics.median(others)),
        "slurm2sql_over_ingest": round(statistics.median(ratios), 1),
    }


def main() -> None:
    """Measure, and print a line a figure, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = measure(options.rows, options.repeats, Path(name))
    print(json.dumps(figures) if options.json else "\n".join(f"{key:26} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
