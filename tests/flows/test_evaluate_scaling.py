"""`walltime scaling evaluate` as a person calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = "application,problem_size,series,procs,runtime_s\n"


def walltime(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", "scaling", "evaluate", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Two series of one application that Amdahl's law describes, one of them run twice a size."""
    path, rows = tmp_path / "runs.csv", []
    for series, scale in (("ib", 100.0), ("gige", 300.0)):
        for n in (1, 2, 4, 8, 16, 32, 64):
            rows += [f"solver,A,{series},{n},{scale * (0.05 + 0.95 / n)}"] * (2 if series == "ib" else 1)
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_every_predictor_has_a_row_per_split_and_amdahl_is_exact_on_its_own_curves(measured: Path) -> None:
    done = walltime(str(measured), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    rows = {(row["predictor"], row["split"]): row for row in told["errors"]}
    assert told["report"]["kept"]["rows"] == 2
    assert {split for _, split in rows} == {"3 smallest", "4 smallest", "5 smallest", "3 spread", "4 spread"}
    names = {name for name, _ in rows}
    assert {"amdahl", "usl", "downey", "power"} <= names and "adept" not in names
    assert rows["amdahl", "3 smallest"]["n_targets"] == 8 and rows["amdahl", "3 smallest"]["n_near"] == 4
    assert rows["amdahl", "3 smallest"]["median_abs_error_pct"] == pytest.approx(0, abs=1e-6)
    assert rows["constant", "3 smallest"]["median_abs_error_pct"] > 100
    assert rows["downey_linear", "3 smallest"]["median_abs_error_pct"] is None


def test_the_table_is_printed_and_written(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "errors.parquet"
    done = walltime(str(measured), "--predictor", "adept", "--predictor", "amdahl", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "2 of 2 series" in done.stdout and "0.0 (0.0)" in done.stdout
    assert pq.read_table(out).num_rows == 10


def test_faults_are_one_sentence(measured: Path, tmp_path: Path) -> None:
    done = walltime(str(measured), "--predictor", "oracle")
    assert done.returncode == 2 and "--predictor" in done.stderr and "amdahl" in done.stderr
    assert done.stderr.count("\n") == 1
    missing = walltime(str(tmp_path / "none.csv"))
    assert missing.returncode == 2 and "Traceback" not in missing.stderr
    short = tmp_path / "short.csv"
    short.write_text("procs,runtime_s\n1,4\n2,3\n")
    nothing = walltime(str(short))
    assert nothing.returncode == 2 and "at least four sizes" in nothing.stderr and nothing.stderr.count("\n") == 1
