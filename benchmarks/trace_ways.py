"""Counts the modules that one sacct job, one observation and one processor count pass through, and the returns.

    .venv/bin/python benchmarks/trace_ways.py

A way is the sequence of modules whose functions are called, from any other module. Returns: distinct pairs of modules
(from, to) by which the way enters a module that it had left before, so that a loop counts once. Modules of core are
counted apart. Compiled kernels are not seen; their callers are.
"""

import argparse
import json
import sys
import tempfile
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pipeline.core.settings import RunSettings  # noqa: E402
from pipeline.run import STEPS, start_run  # noqa: E402

WAYS = {
    "one sacct job": ("ingest",),
    "one observation": ("observe", "patterns", "screen", "level", "fit"),
    "one processor count": ("predict", "unlevel", "later", "scalability"),
}
FIELDS = "JobID|JobName|User|Submit|Start|End|ElapsedRaw|AllocCPUS|State"


def dump() -> str:
    """Jobs of one user and script on six sizes, four times each, with one step a job, as `sacct -P` writes them."""
    lines = [FIELDS]
    for number in range(24):
        procs, day = 2 ** (number % 6), 1 + number
        elapsed_s = 600 + 36_000 // procs + 10 * (number % 4)
        hours, rest = divmod(elapsed_s, 3600)
        end = f"2026-01-{day:02d}T{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
        times = f"2026-01-{day:02d}T00:00:00|2026-01-{day:02d}T00:00:00|{end}|{elapsed_s}|{procs}|COMPLETED"
        lines += [f"{number}|solver.sh|u1|{times}", f"{number}.batch|batch||{times}"]
    return "\n".join(lines) + "\n"


def ways(log: Path) -> dict[str, list[str]]:
    """Per way, the module of every call into pipeline/, repeats in a row once."""
    settings = RunSettings.model_validate({"group": {"template": ["user", "application"]}})
    found: dict[str, list[str]] = {}
    run, tables = start_run(settings, [log]), {}
    for step in STEPS:
        calls: list[str] = []

        def record(frame: FrameType, event: str, _argument: Any, calls: list[str] = calls) -> None:
            path = Path(frame.f_code.co_filename)
            # The lambda of the step itself is no stay in a room.
            if event == "call" and path.is_relative_to(ROOT / "pipeline") and path.name != "run.py":
                calls.append(path.relative_to(ROOT / "pipeline").with_suffix("").as_posix())

        if step.name in {"learn", "estimate", "classes", "across"}:
            continue
        sys.setprofile(record)
        try:
            *written, _ = step.call(run, *(tables[name] for name in step.reads))
        finally:
            sys.setprofile(None)
        tables |= dict(zip(step.writes, written, strict=True))
        found[step.name] = calls
    return {way: [m for m, _ in groupby(c for name in steps for c in found[name])] for way, steps in WAYS.items()}


def returns(modules: list[str]) -> int:
    """Distinct pairs (from, to) of neighbours in the way whose second module occurred before."""
    visited, pairs = set(modules[:1]), set()
    for before, after in pairwise(modules):
        if after in visited:
            pairs.add((before, after))
        visited.add(after)
    return len(pairs)


def main() -> None:
    """Print rooms and returns per way, with core and without."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON with the modules of every way")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "dump.txt"
        log.write_text(dump())
        # The first walk imports modules and compiles kernels.
        ways(log)
        walked = ways(log)
    figures = {}
    for way, modules in walked.items():
        own = [m for m, _ in groupby(m for m in modules if not m.startswith("core/"))]
        n_core = len(set(modules) - set(own))
        figures[way] = {"modules": list(dict.fromkeys(own)), "returns": returns(own), "core_modules": n_core}
        print(f"{way}: {len(set(own))} modules, {returns(own)} returns, {n_core} modules of core")
    if given.json:
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
