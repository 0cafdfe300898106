"""Simulated accounting logs with known truth, for tests and for data_samples/.

    python -m tools.simulate --out data_samples            write the samples again, byte for byte
    python -m tools.simulate --out data_samples --check    compare them, write nothing

Everything random takes a seeded numpy Generator; nothing here uses the library's own laws or readers.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.simulation.laws import Law, amdahl, constant, downey_high, downey_low, noisy, series
from tools.simulation.log import UNIX_START_S, SimulatedLog, simulate_log, write_swf
from tools.simulation.plant import (
    AFTER,
    BEFORE,
    cut_at_end,
    inject,
    inject_allocation_unknown,
    inject_cancelled_before_start,
    inject_cancelled_running,
    inject_cron,
    inject_failed_starts,
    inject_flurry,
    inject_hangs,
    inject_negative_runtimes,
    inject_never_started,
    inject_no_procs,
    inject_no_submit,
    inject_partial_executions,
    inject_past_request,
    inject_probe,
    inject_repeated_numbers,
    inject_starts_before_submit,
    inject_wait_unknown,
    inject_zero_runtimes,
)
from tools.simulation.planted_records import PLANTED_RECORDS, Kind
from tools.simulation.riverbend import simulated_riverbend
from tools.simulation.samples import differing, log_truth, sample_files, simulated_traps
from tools.simulation.scheduler import scheduled
from tools.simulation.swf_text import FIELDS, Line, header, record, with_textual_traps
from tools.simulation.workload import Application, Job, random_applications, submitted_jobs

__all__ = [
    "AFTER", "BEFORE", "FIELDS", "PLANTED_RECORDS", "UNIX_START_S", "Application", "Job", "Kind", "Law", "Line",
    "SimulatedLog", "amdahl", "constant", "cut_at_end", "differing", "downey_high", "downey_low", "header", "inject",
    "inject_allocation_unknown", "inject_cancelled_before_start", "inject_cancelled_running", "inject_cron",
    "inject_failed_starts", "inject_flurry", "inject_hangs", "inject_negative_runtimes", "inject_never_started",
    "inject_no_procs", "inject_no_submit", "inject_partial_executions", "inject_past_request", "inject_probe",
    "inject_repeated_numbers", "inject_starts_before_submit", "inject_wait_unknown", "inject_zero_runtimes",
    "log_truth", "noisy", "random_applications", "record", "sample_files", "scheduled", "series", "simulate_log",
    "simulated_riverbend", "simulated_traps", "submitted_jobs", "with_textual_traps", "write_swf",
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the samples, or with --check names those that differ; 0: written or all the same."""
    parser = argparse.ArgumentParser(prog="python -m tools.simulate", description="Make the sample logs.")
    parser.add_argument("--out", type=Path, required=True, help="the samples' folder")
    parser.add_argument("--check", action="store_true", help="compare, write nothing; exit code 1 if any differs")
    asked = parser.parse_args(arguments)
    files = sample_files()
    if asked.check:
        different = differing(asked.out, files)
        sys.stdout.writelines(f"differs: {name}\n" for name in different)
        return 1 if different else 0
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (asked.out / name).write_bytes(data)
        sys.stdout.write(f"{name}: {len(data):,} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
