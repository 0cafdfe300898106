"""The table of docs/explanations/measured.md: `walltime run` on whole logs, each in a process of its own.

.venv/bin/python benchmarks/real_logs.py LOG.swf.gz ...    prints the table; --json for the figures
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COLUMNS = (
    "log", "jobs", "set aside", "groups", "series", "fits ok", "scaling", "in 80% later", "in 95% later",
    "seconds", "MiB",
)  # fmt: skip


def summary_of(log: Path, flow: bool) -> dict[str, Any]:
    """What `walltime run --json` says of one log."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "flows.cli", "run", str(ROOT / "configs" / "swf.toml")]
        command += ["--log", str(log.resolve()), "--site", log.name.split(".")[0], "--out", folder, "--json"]
        command += [] if flow else ["--plain"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary


def row(log: Path, summary: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table. Fits ok: groups whose chosen law has status ok; scaling: whose law is no constant."""
    ok = sum(by_status.get("ok", 0) for by_status in summary["fits"].values())
    scaling = sum(sum(by_status.values()) for law, by_status in summary["fits"].items() if law != "constant")
    counts = (summary["jobs"], summary["set_aside_total"]["jobs"], summary["groups"], summary["series_3_sizes"])
    shown = [f"{value:,}" for value in (*counts, ok, scaling)]
    held = [summary[f"predictions_in_{share}_later"] for share in ("80", "95")]
    shown += ["" if share is None else f"{share:.1%}" for share in held]
    return (log.name.removesuffix(".swf.gz"), *shown, f"{summary['seconds']:.1f}", f"{summary['peak_mib']:.0f}")


def main() -> None:
    """Run every log and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--flow", action="store_true", help="through Prefect, not --plain")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    summaries = {log: summary_of(log, asked.flow) for log in asked.logs}
    if asked.json:
        print(json.dumps({log.name: summary for log, summary in summaries.items()}, indent=1))
        return
    for cells in (COLUMNS, ("---",) * len(COLUMNS), *(row(log, summary) for log, summary in summaries.items())):
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
