"""What a command loads: reading logs must not wait for libraries that fit, predict or orchestrate."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = ("pandas", "scipy", "prefect", "duckdb", "pipeline.run")


def test_ingest_loads_nothing_that_fits_predicts_or_orchestrates(tmp_path: Path) -> None:
    log = ROOT / "data_samples" / "riverbend.swf.gz"
    script = f"""
import sys
from flows.cli import app
try:
    app(["ingest", {str(log)!r}, "--out", {str(tmp_path / "jobs.parquet")!r}], standalone_mode=False)
finally:
    print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
    assert (tmp_path / "jobs.parquet").exists()
