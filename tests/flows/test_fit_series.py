"""`walltime fit-series`: what it prints and writes for a few measured runtimes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.core.store import read_table
from pipeline.core.tables import FITS, PREDICTIONS, SCALABILITY
from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]

LAN_LU = "procs,runtime_s\n" + "".join(
    f"{procs},{1000 / speedup}\n"
    for procs, speedup in ((2, 2.00), (4, 3.92), (8, 7.25), (16, 13.29), (32, 20.23), (64, 24.95))
)


def test_fit_series_on_lan_lu(tmp_path: Path, walltime: Walltime) -> None:
    """Lan 2007, Table 5.1; A and sigma with a free T(1) as in the design's table of known answers."""
    (tmp_path / "lu.csv").write_text(LAN_LU)
    shown = walltime("fit-series", tmp_path / "lu.csv", "--predict", "64,128", "--out", tmp_path / "fits.parquet")
    assert shown.code == 0 and "Largest useful allocation" in shown.out and "working set" in shown.out
    found = json.loads(walltime("fit-series", tmp_path / "lu.csv", "--predict", "128", "--json").out)["series"][0]
    low = next(law for law in found["laws"] if law["law"] == "downey_low")
    assert low["avg_parallelism"] == pytest.approx(24.25, abs=0.005)
    assert low["sigma"] == pytest.approx(0.823, abs=0.0005)
    assert [row["procs"] for row in found["predictions"]] == [128]
    assert read_table(tmp_path / "fits.parquet", FITS).num_rows == len(found["laws"])
    assert read_table(tmp_path / "fits.predictions.parquet", PREDICTIONS).num_rows == 2
    assert read_table(tmp_path / "fits.scalability.parquet", SCALABILITY).num_rows == 1


def test_fit_series_tells_reliability_unasked_and_one_end_of_scaling(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "lu.csv").write_text(LAN_LU)
    (tmp_path / "one.csv").write_text("procs,runtime_s\n2,500\n")
    shown = walltime("fit-series", tmp_path / "lu.csv").out
    assert "Reliability at 64 processors: ok" in shown
    assert "allocation: 47 processors" in shown and "Beyond 47 processors" in shown
    assert "1 run at 1 size\n" in walltime("fit-series", tmp_path / "one.csv").out


def test_fit_series_fits_relative_errors_unless_told_otherwise(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "lu.csv").write_text(LAN_LU)
    given, relative, log = (
        json.loads(walltime("fit-series", tmp_path / "lu.csv", "--json", *loss).out)["series"][0]["laws"]
        for loss in ((), ("--loss", "relative"), ("--loss", "log"))
    )
    assert given == relative != log


@pytest.mark.parametrize("given", ["0", "a", "1.5", "", ",", "-4", "²"])
def test_fit_series_refuses_processor_counts(tmp_path: Path, walltime: Walltime, given: str) -> None:
    (tmp_path / "lu.csv").write_text(LAN_LU)
    refused = walltime("fit-series", tmp_path / "lu.csv", f"--predict={given}")
    assert refused.code == 2 and "--predict" in refused.err
