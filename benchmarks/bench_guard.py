"""The guard's round over 2,000 jobs of a real Slurm, with a look-up of 1,000,000 rows.

python -m benchmarks.bench_guard [CONF] [--jobs 2000] [--rows 1000000] [--json]

CONF is the slurm.conf of a Slurm that may be changed (shared/slurm/up.sh makes one); without it nothing is measured.
The jobs are held, because a small machine cannot run so many: squeue, scontrol and sacct answer as for running jobs,
and the guard is told that they run.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import flows.services.guard as services
from benchmarks.bench_lua import table_of
from flows.services.schedulers import SLURM
from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import LOOKUP_FILE
from pipeline.ingest.slurm_texts import limit_comment
from pipeline.limits.plan import PendingJob
from pipeline.settings import ExportSettings, RunSettings

REQUEST_MIN, FIRST_MIN, A_CALL = 600, 30, 200
SHARE_NEAR = 1 / 40
"""Of the jobs in a round: each is raised every twenty minutes."""


def submit(environment: dict[str, str], user: str, n_jobs: int) -> None:
    """Submit held jobs under a limit of ours."""
    user_words = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
    for number in range(n_jobs):
        words = ["sbatch", "-H", "-Q", "--parsable", "-o", "/dev/null", "-J", f"application_{number % 40}_{number}.sh",
                 "-t", str(REQUEST_MIN), "-n8", "--wrap", "true"]  # fmt: skip
        subprocess.run([*user_words, *words], check=True, cwd="/", env=environment, capture_output=True)
    comment = limit_comment("limit", "stamp=bench row=6 jobs=20 median_s=300", FIRST_MIN, REQUEST_MIN)
    set_first(environment, [job.job_id for job in SLURM.queued(environment)], f"AdminComment={comment}")


def set_first(environment: dict[str, str], ids: Sequence[str], *more: str) -> None:
    """Give jobs their first limits."""
    for first in range(0, len(ids), A_CALL):
        words = ["scontrol", "update", f"JobId={','.join(ids[first : first + A_CALL])}", f"TimeLimit={FIRST_MIN}"]
        subprocess.run([*words, *more], check=True, env=environment)


def measured(environment: dict[str, str], rows: int) -> dict[str, float]:
    """Seconds of rounds in which some, none and all of the jobs are near their limits, and of a withdrawal."""
    n_near, as_read = 0, SLURM.jobs_of

    def running(said: str) -> list[PendingJob]:
        now_s = time.time()
        return [
            dataclasses.replace(job, start_s=now_s - 1200, end_s=now_s + (300 if n < n_near else 6000), fault="")
            for n, job in enumerate(as_read(said))
        ]

    services.SLURM = dataclasses.replace(SLURM, jobs_of=running)  # type: ignore[attr-defined]
    export = ExportSettings(mode="limit")
    with tempfile.TemporaryDirectory(prefix="walltime-guard-") as folder:
        guard = services.Guard(lambda: RunSettings(output_dir=folder, export=export), environment, is_dry_run=False)
        (guard.folder / LOOKUP_FILE).write_bytes(lookup_file(table_of(rows), {}))
        n_jobs = len(SLURM.queued(environment))
        found: dict[str, float] = {"jobs": n_jobs}
        for what, share in (("first_round", SHARE_NEAR), ("a_round", SHARE_NEAR), ("none_near", 0), ("all_near", 1)):
            n_near, tried = int(share * n_jobs), []
            for _ in range(1 if what in ("first_round", "all_near") else 5):
                done = guard.run_round(time.time())
                tried.append(done["took_s"])
                set_first(environment, [one["job_id"] for one in done["changes"]])
                refused = [one["refused"] for one in done["changes"] if one["refused"]]
                assert len(done["changes"]) == n_near and not refused, (what, len(done["changes"]), refused)
            found |= {f"{what}_s": sorted(tried)[len(tried) // 2], f"{what}_raised": n_near}
        guard.is_leaving = True
        found |= {"withdrawal_s": guard.run_round(time.time())["took_s"]}
    return found


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conf", type=Path, nargs="?", help="slurm.conf of a Slurm")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--user", default="alice")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(given)
    if options.conf is None:
        print("Without the slurm.conf of a Slurm nothing was measured", file=sys.stderr)
        return 0
    environment = {**os.environ, "SLURM_CONF": str(options.conf)}
    submit(environment, options.user, options.jobs)
    found = measured(environment, options.rows)
    print(json.dumps(found) if options.json else "\n".join(f"{name:18} {value:,.3f}" for name, value in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
