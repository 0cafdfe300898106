"""Whether pages and tables of whole logs agree: `python -m benchmarks.published_rows LOG ...`.

Runs each log with its defaults, then the properties of tests/flows/test_pages_agree.py on all rows that it published:
speed-up times runtime is one number in a group, no efficiency is impossible, recommended counts and runtimes are rows
of PREDICTIONS, and the page of an application asks for the count of the site's page. Prints a row for each log.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = "tests/flows/test_pages_agree.py"


def verdict(log: Path, folder: Path) -> str:
    """A row of the table: the log, the seconds of its run, and what pytest says of the properties."""
    config, began = folder / "site.toml", time.monotonic()
    for words in (("init", "--log", log, "--site", "site", "--out", config), ("run", config, "--plain")):
        command = [sys.executable, "-m", "flows.cli", *map(str, words), "--quiet"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            return f"| {log.name} | | no run: exit code {done.returncode} |"
    seconds = time.monotonic() - began
    environment = os.environ | {"WALLTIME_PUBLISHED": str(folder / "site-tables")}
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", TESTS]
    said = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True).stdout
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"| {log.name} | {seconds:.0f} | {'; '.join(failed) or 'all hold'} |"


if __name__ == "__main__":
    print("| log | seconds of the run | properties |\n| --- | ---: | --- |")
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as made:
            print(verdict(Path(name).absolute(), Path(made)), flush=True)
