"""What a command loads: reading logs must not wait for libraries that fit, predict or orchestrate."""

import subprocess
import sys
from pathlib import Path

from pipeline.core.settings import RunSettings, SiteSettings
from pipeline.estimate.stage import learn_state
from tests.flows.support import put_out
from tests.unit.estimate.states import SETTINGS, busy_log

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


def test_a_query_loads_nothing_that_one_question_can_do_without(tmp_path: Path) -> None:
    """It is asked at every submit: numba and LightGBM's package alone would take three times as long as the answer."""
    published = put_out(learn_state(busy_log(), SiteSettings(), SETTINGS)[0], tmp_path, RunSettings())
    spared = (
        *HEAVY,
        "numba",
        "lightgbm",
        "rich",
        "pipeline.ingest",
        "pipeline.core.settings",
        "pipeline.estimate.stage",
    )
    given = ["query", "--from", str(published), "--user", "u1", "--application", "a_16.sh", "--procs", "4", "--json"]
    script = f"""
import sys
from flows.cli import app
try:
    app({given!r}, standalone_mode=False)
finally:
    print("loaded:", *(name for name in {spared!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert '"method": "walltime"' in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded:"
