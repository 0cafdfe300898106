"""What the hook for OpenPBS costs with a look-up of 1,000,000 rows.

python benchmarks/bench_openpbs_hook.py [--rows 1000000] [--json]

It writes the look-up and runs the hook for one job after another in this process, as pbs_server does: compiled once, a
new namespace for every job. With PBS_CONF_FILE and PBS_HOME set to those of an OpenPBS that this process manages
(shared/pbs/up.sh makes one), it also submits held jobs without a hook, with one that does nothing (the cost of
OpenPBS's own hooks), and with ours: in turn, in blocks of few, so that all meet the same load. It gives the median time
of qsub, its ratio to that without a hook, and the CPU time of pbs_server per submission.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bench_lua import table_of
from pipeline.export.scheduler_files import (
    CONFIG_FILE,
    HOOK_FILE,
    LOOKUP_FILE,
    QMGR_FILE,
    Files,
    PublishedTables,
    openpbs_files,
)
from pipeline.settings import ExportSettings

N_JOBS, N_ROUNDS, PER_BLOCK = 3000, 40, 10


ARMS = ("none", "idle", "walltime")
IDLE = b"""create hook idle
set hook idle enabled = false
set hook idle event = "queuejob,modifyjob,runjob"
import hook idle application/x-python default idle.py
"""


class Resources(dict[str, Any]):
    """Resource_List: None where a resource is not asked for."""

    def __missing__(self, name: str) -> None:
        return None


def in_process(files: Files, home: Path, n_users: int) -> dict[str, float]:
    """Median time and mean CPU time of the hook per submitted job, microseconds."""
    (home / "hooks").mkdir()
    (home / "hooks" / "walltime.CF").write_bytes(files[CONFIG_FILE])
    (home / LOOKUP_FILE).write_bytes(files[LOOKUP_FILE])
    pbs: Any = types.ModuleType("pbs")
    pbs.QUEUEJOB, pbs.MODIFYJOB, pbs.RUNJOB, pbs.EVENT_ERROR, pbs.EVENT_DEBUG, pbs.duration = 1, 2, 4, 1, 2, int
    pbs.hook_config_filename, sys.modules["pbs"] = str(home / "hooks" / "walltime.CF"), pbs
    said: list[str] = []
    pbs.logmsg = lambda _level, text: said.append(text)
    code, taken_us = compile(files[HOOK_FILE], "hook", "exec"), []
    cpu_began_s = time.process_time()
    for n in range(N_JOBS):
        job = types.SimpleNamespace(
            Resource_List=Resources(walltime=3600, select="2:ncpus=4"), Job_Name=f"application_{n % 40}.sh",
            queue="batch", Account_Name=None, project=None, Variable_List={}, interactive=None,
        )  # fmt: skip
        event = types.SimpleNamespace(type=1, job=job, requestor=f"user{n % n_users}", accept=lambda: None)
        pbs.event = lambda event=event: event
        began = time.perf_counter()
        exec(code, {"__builtins__": __builtins__})
        taken_us.append(1e6 * (time.perf_counter() - began))
    # The estimates of the others are not below their requests.
    assert len(said) > 0.9 * N_JOBS and all(line.startswith("walltime: soft_walltime") for line in said), said[-1]
    cpu_us = 1e6 * (time.process_time() - cpu_began_s) / N_JOBS
    return {"hook_median_us": statistics.median(taken_us), "hook_cpu_us": cpu_us}


def qmgr(*words: str, **more: Any) -> None:
    """A command to the server."""
    subprocess.run(["qmgr", *words], check=True, capture_output=True, **more)


def on_openpbs(files: Files, home: Path, folder: Path) -> dict[str, float]:
    """Median milliseconds of qsub without a hook, with one that does nothing, and with ours, and CPU of the server."""
    (home / "server_priv" / LOOKUP_FILE).write_bytes(files[LOOKUP_FILE])
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "idle.py").write_text("import pbs\npbs.event().accept()\n")
    qmgr(input=files[QMGR_FILE] + IDLE, cwd=folder)
    taken_s: dict[str, list[float]] = {arm: [] for arm in ARMS}
    cpu_s = dict.fromkeys(ARMS, 0.0)
    ids: list[str] = []
    # The first submissions load what the server keeps.
    for n, arm in [*((0, arm) for arm in ARMS), *itertools.product(range(1, N_ROUNDS + 1), ARMS)]:
        for name in ARMS[1:]:
            qmgr("-c", f"set hook {name} enabled = {name == arm}")
        before_s = server_cpu_s(home)
        found = [submitted(n) for n in range(PER_BLOCK)]
        ids += [job_id for _, job_id in found]
        taken_s[arm] += [taken for taken, _ in found] if n else []
        cpu_s[arm] += server_cpu_s(home) - before_s if n else 0.0
    subprocess.run(["qdel", *ids], check=True, capture_output=True)
    for name in ARMS[1:]:
        qmgr("-c", f"delete hook {name}")
    (home / "server_priv" / LOOKUP_FILE).unlink()
    median_ms = {arm: 1e3 * statistics.median(taken) for arm, taken in taken_s.items()}
    return {
        name: value
        for arm, one in median_ms.items()
        for name, value in (
            (f"qsub_{arm}_ms", one),
            (f"qsub_{arm}_ratio", one / median_ms["none"]),
            (f"server_{arm}_cpu_ms", 1e3 * cpu_s[arm] / len(taken_s[arm])),
        )
    }


def submitted(n: int) -> tuple[float, str]:
    """What one qsub took, s, and the id of its job."""
    asked = ["-l", "select=2:ncpus=4", "-l", "walltime=3600", "-N", f"application_{n}"]
    began = time.perf_counter()
    done = subprocess.run(["qsub", "-h", *asked, "--", "/bin/true"], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, done.stdout.strip()


def server_cpu_s(home: Path) -> float:
    """CPU time of pbs_server so far."""
    pid = int((home / "server_priv" / "server.lock").read_text("ascii").split()[0])
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    estimates = table_of(options.rows)
    tables = PublishedTables(estimates)
    files = openpbs_files(tables, ExportSettings(mode="limit"))
    found: dict[str, float] = {"rows": options.rows, "look_up_mib": len(files[LOOKUP_FILE]) / 2**20}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        found |= in_process(files, Path(one), len(estimates.column("who").unique()) - 1)
        if "PBS_CONF_FILE" in os.environ:
            found |= on_openpbs(files, Path(os.environ["PBS_HOME"]), Path(other))
    print(json.dumps(found) if options.json else "\n".join(f"{name:22} {value:,.3f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
