"""Jobs a CPU-second that a replay schedules, per policy, beside a plain-Python replay of the log's first jobs.

python benchmarks/bench_replay.py [LOG.swf --procs N] [--peer 1500] [--shakes 20] [--compile] [--json]

Without a log the sample is replayed, repeated until it has 80,000 jobs. Times are CPU times of this process, after
compilation; --compile measures that too, in a process with an empty cache. --shakes: seconds for so many replays of
four policies (EASY, EASY-SJBF with a tenth of the request, corrected to the request, with fairness, and perfect
estimates under both).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pipeline.ingest import ingest  # noqa: E402
from pipeline.limits.soft import SoftRules  # noqa: E402
from pipeline.schedule.engine import (  # noqa: E402
    EASY_PLUS_PLUS,
    Policy,
    ReplayOptions,
    replay,
)
from pipeline.schedule.workload import Workload, workload_of_jobs  # noqa: E402
from pipeline.settings import IngestSettings, SiteSettings  # noqa: E402
from tests.unit.evaluate.plain_replay import plain_replay  # noqa: E402

SAMPLE, SAMPLE_PROCS, LEAST_JOBS = ROOT / "data_samples" / "riverbend.swf.gz", 512, 80_000
FAIR = ReplayOptions(policy=Policy.EASY_SJBF, rules=SoftRules())
CASES: dict[str, tuple[ReplayOptions, float | None]] = {
    "FCFS": (ReplayOptions(policy=Policy.FCFS), None),
    "EASY": (ReplayOptions(), None),
    "EASY-SJBF": (ReplayOptions(policy=Policy.EASY_SJBF), None),
    "EASY++": (EASY_PLUS_PLUS, None),
    "EASY-SJBF, a tenth of the request, fair": (FAIR, 0.1),
    "conservative": (ReplayOptions(policy=Policy.CONSERVATIVE), None),
}
"""Per name the options, and the prediction as a share of the request (None: the request)."""


def main() -> None:
    """Print the figures, as lines or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--procs", type=int, default=SAMPLE_PROCS, help="the machine's processors")
    parser.add_argument("--peer", type=int, default=1500, help="jobs for the plain-Python replay")
    parser.add_argument("--shakes", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    work = workload_of(args.log, args.procs)
    # The plain conservative replay looks at every job's hold for every waiting job, and takes minutes for 1,500 jobs.
    rows = [row(name, work, args.peer // (10 if name == "conservative" else 1)) for name in CASES]
    if args.shakes:
        rows.append({"shakes": args.shakes, "policies": 4, "cpu_s": seconds(lambda: shaken(work, args.shakes), 1)})
    if args.compile:
        rows += [{"compiling": name, "cpu_s": compile_seconds(name)} for name in ("EASY", "conservative")]
    for each in rows:
        print(json.dumps(each) if args.json else "  ".join(f"{name} {_shown(value)}" for name, value in each.items()))


def workload_of(log: Path, procs: int) -> Workload:
    """The log's workload; the sample's is repeated."""
    jobs = ingest([log], SiteSettings(), IngestSettings())[0]
    work = workload_of_jobs(jobs, procs)
    n = -(-LEAST_JOBS // len(work)) if log == SAMPLE else 1
    span_s = int(work.submit_s[-1] - work.submit_s[0]) + 3600
    arrays = {name: np.tile(getattr(work, name), n) for name in ("row", "run_s", "request_s", "procs", "user")}
    submit_s = np.concatenate([work.submit_s + i * span_s for i in range(n)])
    return replace(work, submit_s=submit_s, **arrays)


def row(name: str, work: Workload, n_peer: int) -> dict[str, Any]:
    """A policy's jobs a second, and the peer's on the first jobs."""
    options, share = CASES[name]
    first = replace(work, **{field: getattr(work, field)[:n_peer] for field in ARRAYS})
    given, of_first = (None if share is None else share * each.request_s for each in (work, first))
    replay(first, options, of_first)
    fast_s = seconds(lambda: replay(work, options, given), 3)
    plain_s = seconds(lambda: plain_replay(first, options, of_first), 1)
    return {
        "policy": name,
        "jobs": len(work),
        "jobs_a_second": len(work) / fast_s,
        "plain_python_jobs_a_second": len(first) / plain_s,
    }


ARRAYS = ("row", "submit_s", "run_s", "request_s", "procs", "user")


def shaken(work: Workload, n: int) -> None:
    """Replays of four policies with moved submits."""
    for seed in range(n):
        moved = work.submit_s + np.random.default_rng(seed).integers(-600, 601, len(work))
        order = np.argsort(moved, kind="stable")
        arrays = {name: getattr(work, name)[order] for name in ARRAYS}
        one = replace(work, **arrays | {"submit_s": moved[order]})
        replay(one, ReplayOptions())
        replay(one, FAIR, 0.1 * one.request_s)
        replay(one, ReplayOptions(), one.run_s)
        replay(one, ReplayOptions(policy=Policy.EASY_SJBF), one.run_s)


def seconds(call: Callable[[], object], n: int) -> float:
    """The least CPU time of n calls."""
    found = []
    for _ in range(n):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


def compile_seconds(name: str) -> float:
    """CPU seconds of a policy's first replay, with nothing compiled before."""
    code = (
        "import time, numpy as np\n"
        "from pipeline.schedule.engine import Policy, ReplayOptions, replay\n"
        "from pipeline.schedule.workload import workload\n"
        "one = np.ones(1, np.int64)\n"
        "work = workload(one, one, one, one, one, one, 1)\n"
        f"options = ReplayOptions(policy=Policy.{name.upper()})\n"
        "import numba\n"
        "begin = time.process_time()\n"
        "replay(work, options)\n"
        "print(time.process_time() - begin)\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _shown(value: object) -> str:
    return f"{value:,.{2 if value < 100 else 0}f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
