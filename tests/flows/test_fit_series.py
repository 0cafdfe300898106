"""`walltime scaling fit`: what it prints and writes for a few measured runtimes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.pages.scaling import series_page
from flows.pages.site import page_name
from pipeline.kernels import interpreted
from pipeline.scaling.fitted_series import fit_and_predict, series_as_dicts, with_curves
from pipeline.storage import read_table
from pipeline.tables import FITS, OBSERVATIONS, PREDICTIONS, SCALABILITY
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
    shown = walltime("scaling", "fit", tmp_path / "lu.csv", "--predict", "64,128", "--out", tmp_path / "fits.parquet")
    assert shown.code == 0 and "Largest useful allocation" in shown.out and "working set" in shown.out
    found = json.loads(walltime("scaling", "fit", tmp_path / "lu.csv", "--predict", "128", "--json").out)["series"][0]
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
    shown = walltime("scaling", "fit", tmp_path / "lu.csv").out
    assert "Reliability at 64 processors: ok" in shown
    assert "allocation by the chosen law: 47 processors" in shown and "beyond 47 processors" in shown
    assert "1 run at 1 size\n" in walltime("scaling", "fit", tmp_path / "one.csv").out


def test_fit_series_counts_what_the_file_counts(tmp_path: Path, walltime: Walltime) -> None:
    """The same runs over processors, GPUs and nodes: the same figures, each in its unit."""
    (tmp_path / "gpus.csv").write_text(LAN_LU.replace("procs", "gpus"))
    (tmp_path / "nodes.csv").write_text(LAN_LU.replace("procs", "nodes"))
    (tmp_path / "procs.csv").write_text(LAN_LU)
    by_unit = {
        unit: walltime("scaling", "fit", tmp_path / f"{name}.csv", "--predict", "128").out
        for name, unit in (("procs", "processor"), ("gpus", "GPU"), ("nodes", "node"))
    }
    for unit, shown in by_unit.items():
        assert f"Reliability at 64 {unit}s: ok" in shown and re.search(rf"\nAsk for \d+ {unit}s?\. Best", shown)
        assert f"{unit}-hours" in shown
        assert not any(
            f" {other}s" in shown for other in by_unit if other != unit and (other, unit) != ("node", "processor")
        )
    rows = json.loads(walltime("scaling", "fit", tmp_path / "gpus.csv", "--json").out)["series"][0]
    assert rows["axis"] == "gpus" and {row["axis"] for row in rows["observations"]} == {"gpus"}
    walltime("scaling", "fit", tmp_path / "gpus.csv", "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert ">GPUs</th>" in page and "GPU-hours" in page and ">processors</th>" not in page


def test_fit_series_fits_relative_errors_unless_told_otherwise(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "lu.csv").write_text(LAN_LU)
    given, relative, log = (
        json.loads(walltime("scaling", "fit", tmp_path / "lu.csv", "--json", *loss).out)["series"][0]["laws"]
        for loss in ((), ("--loss", "relative"), ("--loss", "log"))
    )
    assert given == relative != log


ONE_SLOW = "procs,runtime_s\n" + "".join(
    f"{procs},{(2.0 if procs == 16 else 1.0) * 1000 * (0.02 + 0.98 / procs):.3f}\n"
    for procs in (1, 2, 4, 8, 16, 32, 64)
)


def test_an_odd_size_is_said_and_left_out_unless_told_otherwise(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "slow.csv").write_text(ONE_SLOW)
    shown = walltime("scaling", "fit", tmp_path / "slow.csv", "--out", tmp_path / "fits.parquet").out
    kept = walltime("scaling", "fit", tmp_path / "slow.csv", "--no-screen").out
    assert "Left out of the fits: 16 processors, 162.5 s. The other sizes predict 8" in shown
    assert "Left out" not in kept
    odd = read_table(tmp_path / "fits.observations.parquet", OBSERVATIONS).column("odd").to_pylist()
    assert odd == [None] * 4 + ["slow"] + [None] * 2
    found, kept_found = (
        json.loads(walltime("scaling", "fit", tmp_path / "slow.csv", "--json", "--predict", "32", *more).out)["series"][
            0
        ]
        for more in ((), ("--no-screen",))
    )
    amdahl, spoilt = (next(law for law in one["laws"] if law["law"] == "amdahl") for one in (found, kept_found))
    assert amdahl["serial_fraction"] == pytest.approx(0.02, abs=1e-4)
    assert abs(spoilt["serial_fraction"] - 0.02) > 10 * abs(amdahl["serial_fraction"] - 0.02)


def test_a_step_is_said_and_predicted_on_its_own_side(tmp_path: Path, walltime: Walltime) -> None:
    rows = [(2**k, (2.0 if k < 5 else 1.0) * 1000 * (0.001 + 0.999 / 2**k)) for k in range(10)]
    (tmp_path / "step.csv").write_text("procs,runtime_s\n" + "".join(f"{n},{t:.3f}\n" for n, t in rows))
    made = ("scaling", "fit", tmp_path / "step.csv", "--predict", "4,256")
    assert "From 32 processors on it runs 1.96 times faster" in walltime(*made, "--report", tmp_path / "p.html").out
    assert "runs 1.96 times faster" in (tmp_path / "p.html").read_text()
    predicted = json.loads(walltime(*made, "--json").out)["series"][0]["predictions"]
    assert [row["runtime_s"] for row in predicted] == pytest.approx([rows[2][1], rows[8][1]], rel=0.03)


@pytest.mark.parametrize("given", ["0", "a", "1.5", "", ",", "-4", "²"])
def test_fit_series_refuses_processor_counts(tmp_path: Path, walltime: Walltime, given: str) -> None:
    (tmp_path / "lu.csv").write_text(LAN_LU)
    refused = walltime("scaling", "fit", tmp_path / "lu.csv", f"--predict={given}")
    assert refused.code == 2 and "--predict" in refused.err


HOSTILE = "application,problem_size,procs,runtime_s\n" + "".join(
    f'"<script>alert(1)</script>","a&b\x1b[31m",{procs},{1000 / procs + 5}\n' for procs in (1, 2, 4, 8, 16)
)


def test_the_page_of_a_series_needs_no_network_and_escapes_what_it_is_told(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "odd.csv").write_text(HOSTILE)
    made = walltime("scaling", "fit", tmp_path / "odd.csv", "--predict", "64", "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert made.code == 0 and "Wrote page" in made.out
    assert "<script" not in page and "&lt;script&gt;" in page and "\x1b" not in page
    assert not re.search(r"(?:src|href)=.?https?:|url\((?!#)|@import", page)
    assert page.count("<svg") == 1 and "Measured and predicted" in page
    walltime("scaling", "fit", tmp_path / "odd.csv", "--predict", "64", "--report", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == page


def test_the_page_says_what_to_run_next_and_marks_what_was_left_out(tmp_path: Path) -> None:
    observations = observations_of({"a": {1: 100.0, 2: 52.0, 4: 300.0, 8: 17.0}})
    observed = [row | {"fit_weight": 0.0 if row["procs"] == 4 else None} for row in observations.to_pylist()]
    fitted = OBSERVATIONS.build(**{name: [row[name] for row in observed] for name in observations.column_names})
    tables = fit_and_predict(fitted, [64], None, is_screened=False)
    page = series_page("a", with_curves(series_as_dicts(tables), tables))
    assert "left out: odd" in page and "1 of them left out" in page
    assert "Run on 16 processors next" in page
    (found,) = (row for row in tables["predictions"].to_pylist())
    assert found["runtime_s"] < 17.0, "the size left out does not count"


def test_a_few_rows_are_fitted_without_numba(tmp_path: Path) -> None:
    """Compiling the kernels takes half a minute, which a newcomer's first eight rows need not."""
    (tmp_path / "lu.csv").write_text(LAN_LU)
    script = "import sys; from flows.cli import main; sys.argv[1:] = ['scaling', 'fit', sys.argv[1], '--quiet']; "
    check = "import atexit; atexit.register(lambda: print('numba' in sys.modules)); main()"
    command = [sys.executable, "-c", script + check, tmp_path / "lu.csv"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_interpreted_kernels_agree_with_compiled_ones() -> None:
    runtimes_s = {1: 100.0, 2: 52.0, 4: 29.0, 8: 17.0, 16: 12.5, 32: 11.0}
    compiled = fit_and_predict(observations_of({"a": runtimes_s}), [64], None)
    with interpreted():
        found = fit_and_predict(observations_of({"a": runtimes_s}), [64], None)
    assert {name: table for name, table in found.items() if name != "observations"} == {
        name: table for name, table in compiled.items() if name != "observations"
    }
    deviations = [tables["observations"].column("deviation").to_pylist() for tables in (found, compiled)]
    assert deviations[0] == pytest.approx(deviations[1], rel=1e-6), "sums of 32-bit numbers"


def test_a_page_per_application_of_a_published_run(tmp_path: Path, walltime: Walltime) -> None:
    sample = Path(__file__).parents[2] / "data_samples" / "traps.swf"
    (tmp_path / "site.toml").write_text("")
    made = walltime("run", tmp_path / "site.toml", "--log", sample, "--out", tmp_path / "tables", "--plain")
    assert made.code == 0, made.err
    made = walltime("report", "--from", tmp_path / "tables", "--out", tmp_path / "pages")
    pages = sorted(path.name for path in (tmp_path / "pages").iterdir())
    listed = re.findall(r'href="([^"#]+)"', (tmp_path / "pages" / "site.html").read_text())
    assert made.code == 0 and pages == sorted(["site.html", *listed]) and len(listed) == 2


@pytest.mark.parametrize(("one", "other"), [("a/b", "a-b"), ("../x", "x"), ("\ud800", "?"), ("", " ")])
def test_names_from_a_log_are_files_of_their_own_inside_the_folder(one: str, other: str) -> None:
    names = [page_name(one), page_name(other)]
    assert names[0] != names[1] and all(re.fullmatch(r"[a-z0-9-]+\.html", name) for name in names)


def test_the_answer_keeps_to_squares_and_says_nodes_hours_and_cost(tmp_path: Path, walltime: Walltime) -> None:
    rows = "".join(f"{n},{1000 * (0.01 + 0.99 / n)}\n" for n in (1, 4, 9, 16))
    (tmp_path / "bt.csv").write_text("procs,runtime_s\n" + rows)
    asked = ("scaling", "fit", tmp_path / "bt.csv", "--predict", "25", "--procs-per-node", "8", "--rate", "2")
    shown = walltime(*asked).out
    assert "All measured counts are squares; runtimes at other counts are interpolated." in shown
    assert "Run on 32" not in shown and "\nAsk for 16 processors." in shown
    found = json.loads(walltime(*asked, "--json").out)["series"][0]
    counts = [int(re.search(r": ([\d,]+) processor", line)[1]) for line in found["answer"] if "processor-hours" in line]
    assert counts and set(counts) <= {1, 4, 9, 16, 25}
    assert "Processor counts 1 to 16 were compared" in shown, "25 would fill no whole nodes"
    shown = walltime(*asked[:5], "--procs-per-node", "24").out
    assert "Processor counts 1 to 25 were compared" in shown, "no square between 24 and 32 fills whole nodes"
    row = found["predictions"][0]
    assert row["nodes"] == 4
    assert row["proc_hours"] == pytest.approx(32 * row["runtime_s"] / 3600)
    assert row["price"] == pytest.approx(2 * row["proc_hours"])


def test_an_upper_end_far_above_the_runs_is_shown_and_doubted(tmp_path: Path, walltime: Walltime) -> None:
    rows = ((1, 102.7), (2, 105.3), (4, 111), (8, 120))
    (tmp_path / "bt.csv").write_text("procs,runtime_s\n" + "".join(f"{n},{t}\n" for n, t in rows))
    asked = ("scaling", "fit", tmp_path / "bt.csv", "--predict", "256")
    (row,) = json.loads(walltime(*asked, "--json").out)["series"][0]["predictions"]
    assert row["runtime_s_hi95"] > 1200 and "far" in row["reliability"] and "wide" in row["reliability"]


def test_runs_advised_keep_to_the_counts_found_faster(tmp_path: Path, walltime: Walltime) -> None:
    """Squares run faster among other counts: neither the next run nor the answer names one that takes longer."""
    sizes = (4, 6, 9, 12, 16, 20, 25, 30, 36, 49, 64)
    rows = "".join(f"{n},{1000 * (0.01 + 0.99 / n) * (1 if n**0.5 % 1 == 0 else 1.3)}\n" for n in sizes)
    (tmp_path / "bt.csv").write_text("procs,runtime_s\n" + rows)
    shown = walltime("scaling", "fit", tmp_path / "bt.csv", "--predict", "100").out
    assert "Run on 4, 9, 16, 25, 36, ...: other counts take 1.30 times as long." in shown
    advised = {int(n) for n in re.findall(r"Run on (\d+) processors next", shown)}
    advised |= {int(n) for n in re.findall(r": (\d+) processors, ", shown)}
    assert advised and all(n**0.5 % 1 == 0 for n in advised)


def test_a_problem_size_with_one_run_is_predicted_where_it_did_not_run(tmp_path: Path, walltime: Walltime) -> None:
    """A group of one size has no row at a count that it did not run on, until another problem size answers it."""
    base = "".join(f"cg,small,{procs},{1000 / procs + 10:g}\n" for procs in (1, 2, 4, 8, 16))
    (tmp_path / "cg.csv").write_text(f"application,problem_size,procs,runtime_s\n{base}cg,large,4,2100\n")
    walltime("scaling", "fit", tmp_path / "cg.csv", "--predict", 64, "--out", tmp_path / "fits.csv")
    rows = (tmp_path / "fits.across.csv").read_text().splitlines()
    assert any("large" in row and ",64," in row for row in rows[1:])


def test_problem_sizes_lend_one_another_their_curves(tmp_path: Path, walltime: Walltime) -> None:
    base = "".join(f"W,{n},{100 / n + 4}\n" for n in (1, 2, 4, 8, 16, 32))
    (tmp_path / "lu.csv").write_text("problem_size,procs,runtime_s\n" + base + "A,1,832\nA,2,432\n")
    asked = ("scaling", "fit", tmp_path / "lu.csv", "--predict", "64", "--out", tmp_path / "fits.csv")
    shown = walltime(*asked).out
    assert "With the series of problem_size=W" in shown and "constant ratio s" in shown
    found = json.loads(walltime(*asked[:5], "--json").out)["series"]
    across = next(one["across"] for one in found if one["series"] == "problem_size=A")
    assert [row["procs"] for row in across] == [1, 2, 4, 8, 16, 32, 64]
    by_procs = {row["procs"]: row["runtime_s"] for row in across}
    assert by_procs[8] == pytest.approx(800 / 8 + 32, rel=0.2)
    assert (tmp_path / "fits.across.csv").read_text().count("\n") == 8


def test_weak_scaling_is_recognised_and_answered(tmp_path: Path, walltime: Walltime) -> None:
    rows = "".join(f"{1000 * n},{n},{100 * n / (n - 0.1 * (n - 1))}\n" for n in (1, 2, 4, 8))
    (tmp_path / "cfd.csv").write_text("problem_size,procs,runtime_s\n" + rows)
    asked = ("scaling", "fit", tmp_path / "cfd.csv", "--predict", "16", "--report", tmp_path / "page.html")
    shown = walltime(*asked)
    assert shown.code == 0 and "weak scaling" in shown.out and "serial fraction 0.100" in shown.out
    (weak,) = json.loads(walltime(*asked, "--json").out)["weak_scaling"]
    assert weak["predictions"][0]["runtime_s"] == pytest.approx(100 * 16 / (16 - 1.5))
    assert "weak efficiency" in (tmp_path / "page.html").read_text()


def test_the_page_draws_as_far_as_was_asked_and_points_have_tooltips(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "lu.csv").write_text(LAN_LU)
    walltime("scaling", "fit", tmp_path / "lu.csv", "--predict", "4096", "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<title>4,096 processors: " in page and "median of 1 runs</title>" in page


def test_energy_and_energy_delay_by_count(tmp_path: Path, walltime: Walltime) -> None:
    """Energy falls to 4 processors and rises again; energy times runtime is least at 8. A 0 is no measurement."""
    rows = ((1, 100, 1000), (2, 52, 900), (4, 28, 800), (8, 16, 1200), (16, 15, 2400), (16, 15, 0))
    (tmp_path / "e.csv").write_text("procs,runtime_s,energy_j\n" + "".join(f"{n},{t},{e}\n" for n, t, e in rows))
    asked = ("scaling", "fit", tmp_path / "e.csv", "--report", tmp_path / "page.html")
    assert "energy-delay J s" in walltime(*asked).out and "Energy of the runs" in (tmp_path / "page.html").read_text()
    found = json.loads(walltime(*asked, "--json").out)["series"][0]["energy"]
    assert [(row["procs"], row["energy_delay_js"]) for row in found][-2:] == [(8, 19200), (16, 36000)]
    assert {row["procs"]: row["least"] for row in found if row["least"]} == {4: ["energy"], 8: ["energy-delay"]}
    (tmp_path / "e.csv").write_text("procs,runtime_s,energy_j\n1,2,-5\n")
    assert "energy_j = '-5'" in walltime("scaling", "fit", tmp_path / "e.csv").err


def test_a_terminal_draws_measured_beside_predicted_runtimes(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "lu.csv").write_text("procs,runtime_s\n1,3600\n2,1875\n4,1005\n8,577\n16,361\n32,1367\n64,195\n")
    shown = walltime("scaling", "fit", tmp_path / "lu.csv", "--predict", "256").out.splitlines()
    begin = shown.index("runtime, s: ● measured, ○ predicted, × left out of the fit")
    rows = [line.partition("│")[2] for line in shown[begin + 1 :] if "│" in line]
    # A count that ran is drawn once, where its runs and its prediction stand in one cell.
    assert len(rows) == 12 and "".join(rows).count("×") == 1 and "".join(rows).count("●") == 6
    falling = [row.index("●") for row in rows if "●" in row]
    assert falling == sorted(falling) and rows[-1].rstrip().endswith("○")
    assert shown[begin + 14].split() == ["1", "4", "16", "64", "256", "processors"]
    (tmp_path / "one.csv").write_text("procs,runtime_s\n4,100\n")
    assert "measured, ○" not in walltime("scaling", "fit", tmp_path / "one.csv").out
