"""What `walltime run --plain` costs by step on logs of different length: seconds, CPU-seconds and peak memory.

python benchmarks/measure_growth.py LOG... [--config configs/slurm.toml] [--out DIR] [--json]

Each log is run in a process of its own, one after another. With `--out` all are published to one folder, so that a
longer log after a shorter one is measured as an increment. Memory is the largest sum of the resident sets of the
process and its children during a step, sampled every tenth of a second. A step that other steps run beside has their
memory too. CPU-seconds of other processes count when these end, which is at the end of the run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.services.progress import StageEvent, listening
from flows.services.run.running import run_and_publish
from pipeline.errors import WalltimeError

ROOT = Path(__file__).parents[1]
_PAUSE_S = 0.1


class MemoryPeak:
    """The largest resident memory of a process and its children since the last reading, MiB."""

    def __init__(self) -> None:
        self._peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._peak = max(self._peak, sum(_resident(pid) for pid in _tree(os.getpid())))
            time.sleep(_PAUSE_S)

    def taken(self) -> int:
        """The peak, MiB, which begins again."""
        peak, self._peak = self._peak, 0
        return peak >> 20


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            own = children.read_text().split()
        except OSError:
            continue
        for child in own:
            yield from _tree(int(child))


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0


def measure(config: str, log: str, out: str) -> list[dict[str, Any]]:
    """The steps of one run in this process."""
    peak, found, before = MemoryPeak(), [], [time.monotonic(), time.process_time()]

    def note(event: StageEvent) -> None:
        now = [time.monotonic(), _cpu_s()]
        if event.state != "started":
            found.append({"step": event.stage, "state": event.state, "seconds": round(now[0] - before[0], 2),
                          "cpu_s": round(now[1] - before[1], 2), "peak_mib": peak.taken()})  # fmt: skip
            before[:] = now

    with listening(note):
        try:
            run_and_publish(config, [log], "made", out)
        except WalltimeError as error:
            print(error, file=sys.stderr)
    return found


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    """Measure the logs, and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--config", default=str(ROOT / "configs" / "slurm.toml"))
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        print(json.dumps(measure(asked.config, asked.logs[0], asked.out)))
        return
    found = {}
    for log in asked.logs:
        with tempfile.TemporaryDirectory() as own:
            command = [sys.executable, __file__, log, "--config", asked.config, "--out", asked.out or own, "--here"]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        found[log] = json.loads(done.stdout.splitlines()[-1])
    if asked.json:
        print(json.dumps(found, indent=1))
        return
    for log, steps in found.items():
        whole = {"step": "all", "state": "", "seconds": sum(s["seconds"] for s in steps),
                 "cpu_s": sum(s["cpu_s"] for s in steps), "peak_mib": max(s["peak_mib"] for s in steps)}  # fmt: skip
        print(f"\n| {Path(log).name} | seconds | CPU-s | peak MiB |\n| --- | ---: | ---: | ---: |")
        for step in (*steps, whole):
            name = f"{step['step']} (reused)" if step["state"] == "reused" else step["step"]
            print(f"| {name} | {step['seconds']:.1f} | {step['cpu_s']:.1f} | {step['peak_mib']:,} |")


if __name__ == "__main__":
    main()
