"""Phases of MPI traces: error and cost of predictions across machines, long runs, speed and memory.

python benchmarks/bench_phases.py [--traces FOLDER] [--seeds 5] [--long] [--speed] [--json]

--traces: traces as CSV, APP.CLASS.PROCS.PLATFORM.csv.gz; pairs of platforms of one program are predicted from each
other, with 3, 10 and 30 occurrences of each phase, from ten first places. --long: simulated runs of 1,000 to 100,000
steps (8 ranks; noise, drift, rare phases), on a machine with other speeds by phase. --speed: events a CPU-second of
this process after compilation, OTF2 beside the iterator of the package, and peak memory of ten million events in a
process of its own.
Without options: --long and --speed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
import pyarrow as pa

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pipeline.phases import otf2  # noqa: E402
from pipeline.phases import phases as mpi  # noqa: E402
from pipeline.phases.calls import read_csv_trace  # noqa: E402
from pipeline.phases.occurrences import (  # noqa: E402
    Occurrences,
    make_plan,
    status_of,
)
from pipeline.phases.phase_input import Extracted, PhaseRules, PlanRules  # noqa: E402
from pipeline.phases.phases import find_phases  # noqa: E402
from pipeline.phases.platforms import expand, planned_times, predict_runtime  # noqa: E402
from pipeline.storage import read_table, write_table  # noqa: E402
from pipeline.tables import MPI_CALLS  # noqa: E402
from tests.unit.phases.otf2_archive import write_archive  # noqa: E402
from tools.simulation.mpi_steps import HERE, THERE, Machine, simulated_run  # noqa: E402
from tools.simulation.trace_csv import csv_lines, write_csv  # noqa: E402

SETTINGS = PhaseRules()
N_RANKS = 8
BUDGETS = (0.01, 0.02, 0.05)
STARTS = tuple((np.arange(10) + 0.5) / 10)


def main() -> None:
    """Print the figures, as tables of Markdown or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="a folder of traces")
    parser.add_argument("--seeds", type=int, default=5, help="simulated runs per length")
    parser.add_argument("--long", action="store_true", help="simulated long runs")
    parser.add_argument("--speed", action="store_true", help="events a second, and memory")
    parser.add_argument("--ten-million", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    given = parser.parse_args()
    if given.ten_million:
        print(json.dumps(ten_million(given.ten_million)))
        return
    tables: dict[str, list[dict[str, Any]]] = {}
    if given.traces:
        pairs = pair_rows(given.traces)
        tables |= {
            "traces": trace_rows(given.traces),
            "pairs": mean_rows(pairs, "from", "to"),
            "means": mean_rows(pairs),
        }
    if given.long or not (given.traces or given.speed):
        tables["long runs"] = long_rows(given.seeds)
    if given.speed or not (given.traces or given.long):
        tables["speed"] = speed_rows()
    if given.json:
        print(json.dumps(tables, indent=1))
        return
    for name, rows in tables.items():
        print(f"\n## {name}\n\n| {' | '.join(rows[0])} |\n|{' --- |' * len(rows[0])}")
        for row in rows:
            print(f"| {' | '.join(shown(value) for value in row.values())} |")


def shown(value: Any) -> str:
    """A figure with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def names_of(folder: Path) -> list[str]:
    """The traces of a folder."""
    return sorted(path.name.removesuffix(".csv.gz") for path in folder.glob("*.csv.gz"))


def trace_rows(folder: Path) -> list[dict[str, Any]]:
    """What is found in each trace."""
    rows = []
    for name in names_of(folder):
        found = mpi.extract(folder / f"{name}.csv.gz", name, SETTINGS)
        facts = found.reports[-1].facts
        spans_s = found.points.column("t_end_s").to_numpy() - found.points.column("t_start_s").to_numpy()
        is_relevant = found.phases.column("is_relevant").to_numpy(zero_copy_only=False)
        rows.append({
            "trace": name, "events": facts["events"], "unmatched": facts["unmatched"], "level": facts["level"],
            "phases": found.phases.num_rows, "relevant": int(is_relevant.sum()),
            "coverage": float(found.phases.column("share").to_numpy()[is_relevant].sum()),
            "sum - 1": float(spans_s.sum() / found.procs / float(facts["runtime_s"] or 1) - 1),
            "status": status_of(found.phases, SETTINGS.plan),
        })  # fmt: skip
    return rows


def pair_rows(folder: Path) -> list[dict[str, Any]]:
    """Predictions of each trace from that of another platform."""
    rows = []
    for here in names_of(folder):
        for there in names_of(folder):
            if here != there and here.rpartition(".")[0] == there.rpartition(".")[0]:
                found = mpi.extract(folder / f"{here}.csv.gz", here, SETTINGS)
                target = mpi.times_of(found.points, found.calls, folder / f"{there}.csv.gz")
                for samples in (3, 10, 30):
                    for start in STARTS:
                        plan = PlanRules(budget=1e-12, least_samples=samples, start=start)
                        rows.append({"from": here, "to": there, "samples": samples} | figures(found, target, plan))
    return rows


def figures(found: Extracted, target: tuple[Any, float | None], settings: PlanRules) -> dict[str, Any]:
    """A prediction's errors and costs in percent: with and without warm-up, and those of both controls."""
    plan, _ = make_plan(found.phases, found.points, settings)
    times = planned_times(found.points, plan, target[0], "there", settings.start)
    table, _ = predict_runtime(found.phases, times, SETTINGS, procs=found.procs, measured_s=target[1])
    (row,) = table.to_pylist()
    alone = expand(found.phases, times, replace(SETTINGS.expansion, even_width=0.0))
    true_s = float(row["measured_s"])
    used = times.filter(pa.compute.invert(pa.compute.or_(times["is_warmup"], times["is_control"])))
    return {
        "status": row["status"], "error %": 100 * row["error"],
        "phases alone %": 100 * (alone["runtime_s"] / true_s - 1), "even answers %": 100.0 * (row["method"] == "even"),
        "SET %": 100 * used.column("time_s").to_numpy().sum() / true_s,
        "SET with warm-up %": 100 * row["set_s"] / true_s,
        "control without phases %": 100 * (row["control_s"] / true_s - 1),
        "control one factor %": 100 * (row["control_factor_s"] / true_s - 1),
        "80% interval, width %": 100 * (row["runtime_s_hi80"] - row["runtime_s_lo80"]) / true_s,
        **{f"in {level}% interval": _holds(row, level, true_s) for level in (80, 95)},
    }  # fmt: skip


def _holds(row: dict[str, Any], level: int, true_s: float) -> bool:
    return bool(row[f"runtime_s_lo{level}"] <= true_s <= row[f"runtime_s_hi{level}"])


def mean_rows(pairs: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Means of absolute errors and of widths, and how many intervals hold, by samples and the names."""
    frame = pd.DataFrame(pairs)
    figures_of = {name: (name, "mean") for name in frame if name.endswith(("%", "interval"))}
    absolute = frame.assign(**{name: frame[name].abs() for name in frame if name.endswith("%")})
    found = absolute.groupby([*names, "status", "samples"], sort=False).agg(runs=("samples", "size"), **figures_of)
    return found.reset_index().to_dict("records")


def long_rows(n_seeds: int) -> list[dict[str, Any]]:
    """Error against length: mean and largest over seeds, for budgets of 1, 2 and 5% (warm-up included)."""
    rows = []
    for n_steps in (1_000, 10_000, 100_000):
        runs = [long_run(n_steps, seed) for seed in range(n_seeds if n_steps < 100_000 else min(n_seeds, 2))]
        for budget in BUDGETS:
            seen = [run[budget] for run in runs]
            means = {name: float(np.mean([abs(row[name]) for row in seen])) for name in seen[0] if name.endswith("%")}
            worst = max(abs(row["error %"]) for row in seen)
            held = f"{sum(bool(row['in 95% interval']) for row in seen)} of {len(seen)}"
            means |= {"largest error %": worst, "in 95% interval": held}
            rows.append({"steps": n_steps, "budget %": 100 * budget} | means)
    return rows


def long_run(n_steps: int, seed: int) -> dict[float, dict[str, Any]]:
    """One simulated run predicted from another machine's, per budget."""
    found = simulated(n_steps, HERE, 2 * seed)
    there = simulated(n_steps, THERE, 2 * seed + 1)
    runtime_s = float(there.reports[0].facts["runtime_s"] or 0)
    target = (Occurrences.of(there.points).time_s, runtime_s)
    return {budget: figures(found, target, PlanRules(budget=budget)) for budget in BUDGETS}


def simulated(n_steps: int, machine: Machine, seed: int) -> Extracted:
    """The phases of a simulated run."""
    phases, points, report = find_phases(simulated_run(n_steps, N_RANKS, machine, seed)[0], "steps", SETTINGS)
    return Extracted(phases, points, N_RANKS, (report,))


def speed_rows() -> list[dict[str, Any]]:
    """Events a second of each stage, and the memory of ten million events."""
    calls, _ = simulated_run(20_000, N_RANKS, HERE, 1)
    find_phases(simulated_run(60, N_RANKS, HERE, 1)[0], "warm", SETTINGS)
    began = time.process_time()
    find_phases(calls, "steps", SETTINGS)
    rows = [{"stage": "phases from calls", "calls": calls.num_rows, "CPU s": time.process_time() - began}]
    with tempfile.TemporaryDirectory() as folder:
        small, _ = simulated_run(2_000, N_RANKS, HERE, 1)
        path = write_csv(Path(folder) / "steps.csv.gz", csv_lines(small))
        began = time.process_time()
        read_csv_trace(path)
        rows.append({"stage": "CSV.gz to calls", "calls": small.num_rows, "CPU s": time.process_time() - began})
        rows += otf2_rows(small, Path(folder))
        alone = [sys.executable, __file__, "--ten-million", str(Path(folder) / "calls.parquet")]
        for _ in range(2):
            done = subprocess.run(alone, cwd=ROOT, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
    return [row | {"calls a CPU-second": row["calls"] / row["CPU s"]} for row in rows]


def otf2_rows(calls: pa.Table, folder: Path) -> list[dict[str, Any]]:
    """The reader of OTF2 in one process, beside the iterator of the package, which only visits the records."""
    if find_spec("otf2") is None:
        return []
    package = import_module("otf2")
    anchor = write_archive(calls, folder / "run")
    otf2.FEW_EVENTS = 10**12
    began = time.process_time()
    otf2.read_otf2_trace(anchor)
    ours = time.process_time() - began
    began = time.process_time()
    with package.reader.open(str(anchor)) as trace:
        for _ in trace.events:
            pass
    theirs = time.process_time() - began
    return [
        {"stage": "OTF2 to calls, one process", "calls": calls.num_rows, "CPU s": ours},
        {"stage": "OTF2: the package's iterator alone", "calls": calls.num_rows, "CPU s": theirs},
    ]


def ten_million(path: Path) -> dict[str, Any]:
    """Phases of ten million calls, and the peak memory of this process; the first call writes the calls."""
    if not path.exists():
        write_table(path, simulated_run(197_500, N_RANKS, HERE, 1)[0], MPI_CALLS)
        return {}
    calls = read_table(path, MPI_CALLS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    began = time.process_time()
    find_phases(calls, "steps", SETTINGS)
    taken, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    stage = f"phases of 10 million calls: peak {peak:.2f} GiB, of which {before:.2f} to read them"
    return {"stage": stage, "calls": calls.num_rows, "CPU s": taken}


if __name__ == "__main__":
    main()
