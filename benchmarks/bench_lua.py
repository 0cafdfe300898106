"""Submissions to a real Slurm with the plug-in and a look-up of 1,000,000 estimates, beside ones without it.

python -m benchmarks.bench_lua [--rows 1000000] [--slurm CONF] [--json]

It writes the look-up and measures it in Lua alone. With the slurm.conf of a Slurm whose folder this process may write
(shared/slurm/up.sh makes one), it also submits held jobs, in turn in blocks without a plug-in and with ours, so that
both meet the same load. The exit code is 1 where the median time of sbatch is more than 10% higher with the plug-in.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import HEARTBEAT_FILE, plugin
from pipeline.settings import ExportSettings
from pipeline.tables import ESTIMATES

MOST = 1.1
A_BLOCK = 40
NAME_KEYS, REQUESTS_S, SIZES = 40, (900, 3600, 14_400, 43_200, 86_400), (1, 2, 4, 8, 16, 32, 64, 128)


def table_of(n_rows: int) -> pa.Table:
    """ESTIMATES of many users with 40 applications each, and rows of each user alone and of all."""
    n_users = 1 + n_rows // (NAME_KEYS * len(REQUESTS_S) * len(SIZES))
    place = np.arange(n_rows - n_users - 1)
    who = [f"user{one}" for one in place // (NAME_KEYS * 40)] + [f"user{one}" for one in range(n_users)] + [None]
    what = [f"application_{one}" for one in place % NAME_KEYS] + [None] * (n_users + 1)
    request_s = [float(REQUESTS_S[one]) for one in place // NAME_KEYS % 5] + [None] * (n_users + 1)
    procs = [SIZES[one] for one in place // (NAME_KEYS * 5) % 8] + [None] * (n_users + 1)
    kinds = [("who+what+queue+requested_s+procs", 0)] * len(place) + [("who", 6)] * n_users + [("all", 8)]
    runtime_s = np.random.default_rng(1).lognormal(6, 1, n_rows)
    quantiles = {f"runtime_s_q{q}": runtime_s * (1 + q / 100) for q in (10, 50, 80, 90, 95, 99)}
    ratios = {f"ratio_q{q}": [None] * len(place) + [q / 100] * (n_users + 1) for q in (10, 50, 80, 90, 95, 99)}
    return ESTIMATES.build(
        site=["bench"] * n_rows, template=[kind for kind, _ in kinds], chain_rank=[rank for _, rank in kinds],
        who=who, what=what, queue=["batch"] * len(place) + [None] * (n_users + 1), requested_s=request_s,
        procs=pa.array(procs, pa.float64()), n_jobs=[20] * n_rows,
        newest_end_s=[int(time.time())] * n_rows, run_id=["bench"] * n_rows, **quantiles, **ratios,
    )  # fmt: skip


LUA = """
slurm = { SUCCESS = 0, log_info = function() end, log_user = function() end,
  log_error = function(...) io.stderr:write(string.format(...), "\\n") end }
local began = os.clock()
dofile("job_submit.lua")
local function submit(n, name)
  slurm_job_submit({ user_name = "user" .. n, name = name, partition = "batch", time_limit = 60, min_cpus = 8,
    script = "#!/bin/sh" }, {}, 1)
end
submit(1, "application_7")
local first = os.clock() - began
began = os.clock()
for n = 1, 20000 do submit(n % 600, "application_" .. n % 40 .. ".sh") end
local known = (os.clock() - began) / 20000
began = os.clock()
for n = 1, 2000 do submit(n % 600, "a new name of job " .. n) end
local new = (os.clock() - began) / 2000
began = os.clock()
for n = 1, 200 do submit(n % 600, ("n1_x2.v3-"):rep(30) .. n) end
local long = (os.clock() - began) / 200
print(("load_ms=%.1f known_name_us=%.0f new_name_us=%.0f long_name_us=%.0f memory_mib=%.1f"):format(
  first * 1e3, known * 1e6, new * 1e6, long * 1e6, collectgarbage("count") / 1024))
"""


def in_lua(folder: Path) -> dict[str, float]:
    """Figures of the plug-in in each interpreter that is there."""
    (folder / "job_submit.lua").write_text(plugin(ExportSettings(mode="limit"), False, str(folder / "walltime.lookup")))
    (folder / "bench.lua").write_text(LUA)
    found = {}
    for name in ("lua5.1", "lua5.3", "lua5.4"):
        beat(folder)
        if shutil.which(name):
            done = subprocess.run([name, "bench.lua"], cwd=folder, check=True, capture_output=True, text=True)
            figures = (word.partition("=") for word in done.stdout.split())
            found |= {f"{name}.{figure}": float(value) for figure, _, value in figures}
    return found


def beat(folder: Path) -> None:
    """Write the heartbeat of a guard, without which no limit is set."""
    (folder / HEARTBEAT_FILE).write_text(f"{time.time():.0f}\n")


class Slurm:
    """A Slurm whose configuration may be changed."""

    def __init__(self, conf: Path, user: str) -> None:
        self.conf, self.user, self.plain = conf, user, re.sub(r"(?m)^JobSubmitPlugins=.*\n", "", conf.read_text())
        self.environment = os.environ | {"SLURM_CONF": str(conf)}

    def call(self, *command: str) -> str:
        """What a command of this Slurm prints."""
        return subprocess.run(command, check=True, cwd="/", env=self.environment, capture_output=True, text=True).stdout

    def configure(self, has_plugin: bool) -> None:
        """Use our plug-in, or none."""
        self.conf.write_text(("JobSubmitPlugins=lua\n" if has_plugin else "") + self.plain)
        (self.conf.parent / "job_submit.lua").write_text(plugin(ExportSettings(mode="limit"), False))
        self.call("scontrol", "reconfigure")
        time.sleep(1.0)
        for number in range(5):
            self.submit(number)
        self.call("sdiag", "--reset")

    def submit(self, number: int) -> float:
        """Seconds that one sbatch takes; every fourth name is new."""
        name = f"application_{number % 40}.sh" if number % 4 else f"a new name {number} of a job"
        words = ["sbatch", "-H", "-Q", "-o", "/dev/null", "-J", name, "-t", "60", "-n8", "--wrap", "true"]
        began = time.perf_counter()
        self.call("setpriv", "--reuid", self.user, "--regid", self.user, "--clear-groups", *words)
        return time.perf_counter() - began

    def own_s(self) -> float:
        """slurmctld's mean time per submission since the last reset, s."""
        found = re.search(r"REQUEST_SUBMIT_BATCH_JOB.*ave_time:(\d+)", self.call("sdiag"))
        return float(found[1]) / 1e6 if found else float("nan")


def on_slurm(folder: Path, slurm: Slurm, submits: int) -> dict[str, float]:
    """Figures of submissions, so many of each kind."""
    latency_s: dict[bool, list[float]] = {False: [], True: []}
    own_s: dict[bool, list[float]] = {False: [], True: []}
    shutil.copy(folder / "walltime.lookup", slurm.conf.parent / "walltime.lookup")
    for block in range(2 * submits // A_BLOCK):
        has_plugin = block % 4 in (1, 2)
        slurm.configure(has_plugin)
        beat(slurm.conf.parent)
        latency_s[has_plugin] += [slurm.submit(number) for number in range(A_BLOCK)]
        own_s[has_plugin].append(slurm.own_s())
        slurm.call("scancel", "--user", slurm.user)
    found: dict[str, float] = {"submissions_each": len(latency_s[True])}
    for has_plugin, name in ((False, "without"), (True, "with")):
        q25, q50, q75 = statistics.quantiles(latency_s[has_plugin])
        own_ms = 1e3 * statistics.mean(own_s[has_plugin])
        own = {f"sbatch_ms_{name}": 1e3 * q50, f"sbatch_ms_{name}_q25": 1e3 * q25, f"sbatch_ms_{name}_q75": 1e3 * q75}
        found |= own | {f"slurmctld_ms_{name}": own_ms}
    return found | {"with_over_without": found["sbatch_ms_with"] / found["sbatch_ms_without"]}


def main() -> int:
    """Write the look-up, measure, and print; 1 where the plug-in costs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--slurm", type=Path, help="slurm.conf of a Slurm")
    parser.add_argument("--submits", type=int, default=400, help="submissions of each kind")
    parser.add_argument("--user", default="alice")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="walltime-lua-") as name:
        folder = Path(name)
        table = table_of(given.rows)
        began = time.perf_counter()
        content = lookup_file(table, {})
        found = {"rows": given.rows, "mib": len(content) / 2**20, "write_s": time.perf_counter() - began}
        (folder / "walltime.lookup").write_bytes(content)
        found |= in_lua(folder)
        if given.slurm:
            found |= on_slurm(folder, Slurm(given.slurm, given.user), given.submits)
        else:
            print("Without --slurm no submission to Slurm was measured", file=sys.stderr)
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{k:24} {v:,.4g}" for k, v in found.items()))
    return int(found.get("with_over_without", 0.0) > MOST)


if __name__ == "__main__":
    sys.exit(main())
