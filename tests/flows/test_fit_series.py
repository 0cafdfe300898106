"""`walltime fit-series`: what it prints and writes for a few measured runtimes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.reporting import page_name
from flows.series import fit_and_predict, series_as_dicts, with_curves
from flows.series_page import series_page
from pipeline.core.store import read_table
from pipeline.core.tables import FITS, OBSERVATIONS, PREDICTIONS, SCALABILITY
from tests.flows.support import Outcome
from tests.rows import observations_of

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


HOSTILE = "application,problem_size,procs,runtime_s\n" + "".join(
    f'"<script>alert(1)</script>","a&b\x1b[31m",{procs},{1000 / procs + 5}\n' for procs in (1, 2, 4, 8, 16)
)


def test_the_page_of_a_series_needs_no_network_and_escapes_what_it_is_told(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "odd.csv").write_text(HOSTILE)
    made = walltime("fit-series", tmp_path / "odd.csv", "--predict", "64", "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert made.code == 0 and "Wrote page" in made.out
    assert "<script" not in page and "&lt;script&gt;" in page and "\x1b" not in page
    assert not re.search(r"(?:src|href)=.?https?:|url\((?!#)|@import", page)
    assert page.count("<svg") == 1 and "What is predicted" in page
    walltime("fit-series", tmp_path / "odd.csv", "--predict", "64", "--report", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == page


def test_the_page_says_what_to_run_next_and_marks_what_was_left_out(tmp_path: Path) -> None:
    observations = observations_of({"a": {1: 100.0, 2: 52.0, 4: 300.0, 8: 17.0}})
    observed = [row | {"fit_weight": 0.0 if row["procs"] == 4 else None} for row in observations.to_pylist()]
    fitted = OBSERVATIONS.build(**{name: [row[name] for row in observed] for name in observations.column_names})
    tables = fit_and_predict(fitted, [64], None)
    page = series_page("a", with_curves(series_as_dicts(tables), tables))
    assert "left out: odd" in page and "1 of them left out" in page
    assert "Run on 16 processors next" in page
    (found,) = (row for row in tables["predictions"].to_pylist())
    assert found["runtime_s"] < 17.0, "the size left out does not count"


def test_a_page_per_application_of_a_published_run(tmp_path: Path, walltime: Walltime) -> None:
    sample = Path(__file__).parents[2] / "data_samples" / "traps.swf"
    (tmp_path / "site.toml").write_text("")
    made = walltime("run", tmp_path / "site.toml", "--log", sample, "--out", tmp_path / "tables", "--plain")
    assert made.code == 0, made.err
    made = walltime("report", tmp_path / "tables", "--out", tmp_path / "pages")
    pages = sorted(path.name for path in (tmp_path / "pages").iterdir())
    listed = re.findall(r'href="([^"]+)"', (tmp_path / "pages" / "index.html").read_text())
    assert made.code == 0 and pages == sorted(["index.html", *listed]) and len(listed) == 2


@pytest.mark.parametrize(("one", "other"), [("a/b", "a-b"), ("../x", "x"), ("\ud800", "?"), ("", " ")])
def test_names_from_a_log_are_files_of_their_own_inside_the_folder(one: str, other: str) -> None:
    names = [page_name(one), page_name(other)]
    assert names[0] != names[1] and all(re.fullmatch(r"[a-z0-9-]+\.html", name) for name in names)
