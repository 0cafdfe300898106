"""What a command loads: reading logs must not wait for libraries that fit, predict or orchestrate."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import code_version
from pipeline.estimate.stage import learn_state
from pipeline.settings import RunSettings, SiteSettings
from pipeline.tables import FITS
from tests.flows.support import put_out
from tests.unit.estimate.states import busy_log
from tests.unit.ingest.logs import row

ROOT = Path(__file__).parents[2]
SPARED = ("pandas", "scipy", "prefect", "duckdb", "numba", "rich", "matplotlib", "numpy.ma", "pipeline.run")
SPARED_QUERIES = ("pandas", "prefect", "duckdb", "rich", "matplotlib", "pipeline.run")
HEAVY = ("pandas", "scipy", "prefect", "duckdb", "pipeline.run", "pipeline.clean")


def test_ingest_loads_nothing_that_fits_predicts_or_orchestrates(tmp_path: Path) -> None:
    # No id repeats: which record of several is kept DuckDB says.
    log = tmp_path / "log.swf"
    log.write_text("".join(f"{row(job_id=number, submit_s=number)}\n" for number in range(1, 100)))
    script = f"""
import sys
from flows.cli.typer_app import application
try:
    application()(["ingest", {str(log)!r}, "--out", {str(tmp_path / "jobs.parquet")!r}], standalone_mode=False)
finally:
    print("loaded:", *(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
    assert (tmp_path / "jobs.parquet").exists()


def test_a_query_loads_nothing_that_one_question_can_do_without(tmp_path: Path) -> None:
    """It is asked at every submit, and what it loads takes longer than the answer."""
    published = put_out(learn_state(busy_log(), SiteSettings())[0], tmp_path, RunSettings())
    # The test's own publication names no code.
    manifest = json.loads((published / "manifest.json").read_text())
    (published / "manifest.json").write_text(json.dumps(manifest | {"code": code_version()}))
    given = ["query", "--from", str(published), "--user", "u1", "--application", "a_16.sh", "--procs", "4", "--json"]
    script = f"""
import sys
sys.argv[1:] = {given!r}
from flows.cli import main
try:
    main()
finally:
    print("loaded:", *(name for name in {SPARED_QUERIES!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert '"method": "walltime"' in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_rows_are_found_without_pandas(tmp_path: Path) -> None:
    """A query looks up the rows of its group; Arrow's own `take` and comparison with a value load pandas."""
    rows = {"group_id": ["a", "b"], "law": ["amdahl", "power"], "n_jobs": [2, 3]}
    columns = {column.name: rows.get(column.name, [None, None]) for column in FITS.columns}
    types = {field.name: field.type for field in FITS.empty().schema}
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    pq.write_table(table, tmp_path / "fits.parquet")
    script = f"""
import sys
from pathlib import Path
from flows.services.published.published_folder import rows_where
from pipeline.tables import FITS
print(rows_where(Path({str(tmp_path / "fits.parquet")!r}), FITS, "group_id", "b", ["group_id", "law"]).to_pylist())
print("loaded:", *(name for name in {SPARED!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[{'group_id': 'b', 'law': 'power'}]", "loaded:"]


def test_the_steps_of_a_run_load_no_library_before_it_is_used() -> None:
    """Commands that run one step or none import them all."""
    spared = ("pandas", "duckdb", "numba", "prefect", "matplotlib")
    script = f"import sys, pipeline.run; print('loaded:', *(name for name in {spared!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "loaded:\n"
