"""The account of `walltime ingest` per log: lines, jobs, folded steps, jobs set aside, unreadable lines by reason.

.venv/bin/python benchmarks/read_logs.py LOG...               prints a table; --json for the figures
.venv/bin/python benchmarks/read_logs.py LOG... --config C    with the [site] and [ingest] of a config
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
COLUMNS = ("log", "format", "lines", "jobs", "steps", "set aside", "unreadable", "reasons")


def report_of(log: Path, config: Path | None) -> dict[str, Any]:
    """The ingest report of one log, or what it was refused for."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "flows.cli", "ingest", str(log.resolve()), "--json"]
        command += ["--out", str(Path(folder) / "jobs.parquet"), *(["--config", str(config)] if config else [])]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"refused": done.stderr.strip().splitlines()[-1]}
        told = json.loads(done.stdout)
        beside = told["tables"].get("unreadable")
        n_unreadable = pq.read_metadata(beside).num_rows if beside else 0
    return told["report"] | {"unreadable": n_unreadable}


def row(log: Path, report: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    name = f"{log.parent.name}/{log.name}"
    if "refused" in report:
        return (name, "", "", "", "", "", "", f"refused: {report['refused'].replace('|', chr(92) + '|')}")
    counts = {reason: tally["rows"] for reason, tally in report["set_aside"].items() if tally["rows"]}
    steps = sum(rows for reason, rows in counts.items() if "step" in reason)
    bad = report["unreadable"]
    rest = sum(counts.values()) - steps - bad
    figures = [f"{value:,}" for value in (report["seen"]["rows"], report["kept"]["rows"], steps, rest, bad)]
    reasons = ", ".join(f"{rows:,} {reason}" for reason, rows in counts.items())
    return (name, str(report["facts"].get("format", "")), *figures, reasons)


def main() -> None:
    """Read every log and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    reports = {log: report_of(log, asked.config) for log in asked.logs}
    if asked.json:
        print(json.dumps({str(log): report for log, report in reports.items()}, indent=1))
        return
    for cells in (COLUMNS, ("---",) * len(COLUMNS), *(row(log, report) for log, report in reports.items())):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
