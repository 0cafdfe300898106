"""`walltime scaling fit` at the edges: what no law has, what one size cannot say, what a number must still show."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.pages.blocks import number
from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]


def test_a_clip_never_passes_for_an_interval(tmp_path: Path, walltime: Walltime) -> None:
    """T = n^2/2 on 1 to 16 processors takes 524,288 s on 1,024, thousands of times the longest run."""
    (tmp_path / "grows.csv").write_text("procs,runtime_s\n" + "".join(f"{2**k},{4**k / 2}\n" for k in range(5)))
    page = tmp_path / "p.html"
    made = ("scaling", "fit", tmp_path / "grows.csv", "--predict", "8,1024")
    assert walltime(*made, "--report", page).code == 0 and page.exists()
    near, far = json.loads(walltime(*made, "--json").out)["series"][0]["predictions"]
    assert near["runtime_s_lo95"] < 32 < near["runtime_s_hi95"]
    assert far["runtime_s"] == pytest.approx(524_288, rel=0.05)
    assert 100_000 < far["runtime_s_lo95"] < far["runtime_s_lo80"] < far["runtime_s"]
    assert far["runtime_s"] < far["runtime_s_hi80"] < far["runtime_s_hi95"] and "wide" in far["reliability"]


def test_no_law_that_gains_is_said_where_none_was_chosen(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "flat.csv").write_text("procs,runtime_s\n8,100\n16,101\n32,99\n64,100\n")
    shown = walltime("scaling", "fit", tmp_path / "flat.csv", "--predict", "128").out
    assert "No single law that gains from more processors could be chosen." in shown


def test_counts_asked_of_a_series_of_one_size_are_refused_in_words(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "one.csv").write_text("procs,runtime_s\n2,500\n")
    shown = walltime("scaling", "fit", tmp_path / "one.csv", "--predict", "2,4,64").out
    assert "Not predicted at 4, 64: runs on one count do not tell runtimes on others." in shown
    assert "Not predicted" not in walltime("scaling", "fit", tmp_path / "one.csv", "--predict", "2").out


def test_reliability_says_that_what_is_predicted_is_doubtful(tmp_path: Path, walltime: Walltime) -> None:
    """Points on a curve whose scaling never ends: what ran is safe ground, every count beyond is doubtful."""
    rows = "".join(f"{2**k},{1000 * (0.001 + 0.999 / 2**k):.4f}\n" for k in range(6))
    (tmp_path / "open.csv").write_text("procs,runtime_s\n" + rows)
    shown = walltime("scaling", "fit", tmp_path / "open.csv", "--predict", "256,512").out
    predictions = json.loads(walltime("scaling", "fit", tmp_path / "open.csv", "--predict", "256,512", "--json").out)
    assert all(row["reliability"] != "ok" for row in predictions["series"][0]["predictions"])
    assert "Reliability at 32 processors: ok" in shown
    assert "No reliable prediction at 256, 512: each row gives its reasons." in shown
    assert "No reliable" not in walltime("scaling", "fit", tmp_path / "open.csv", "--predict", "16").out


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1e-9, "1e-09"), (-2.5e-7, "-2.5e-07"), (0.00123456, "0.001235"), (0.0, "0"), (12.3456, "12.35")],
)
def test_small_numbers_are_not_shown_as_nothing(value: float, shown: str) -> None:
    assert number(value).rstrip() == shown or float(number(value)) == pytest.approx(float(shown))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "procs,runtime_s,state\n1,3600,COMPLETED\n2,1850,COMPLETED\n4,12,FAILED\n8,560,COMPLETED\n",
            "left out: line 4",
        ),
        ("ranks,threads,procs,runtime_s\n1,2,2,100\n2,2,4,52\n4,2,8,27\n", "not read: ranks, threads"),
        ("cores;hours\n1;3.5\n2;1.8\n4;0.99\n", "hours for runtime_s in h"),
        ("procs,Wall time (s),cells\n1,100,5\n2,52,5\n4,27,5\n", "not read: cells"),
    ],
)
def test_timings_are_read_as_a_scientist_writes_them(text: str, said: str, tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "runs.csv").write_text(text)
    done = walltime("scaling", "fit", tmp_path / "runs.csv")
    assert done.code == 0 and said in done.out


def test_runtimes_that_may_have_marks_of_thousands_are_refused(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "runs.csv").write_text("Kerne;Zeit\n1;3.571\n2;1.874\n4;1.004\n8;578\n")
    done = walltime("scaling", "fit", tmp_path / "runs.csv")
    assert done.code != 0 and "found the runtimes 3.571 and 578" in done.err and not done.out


@pytest.mark.parametrize("runs", ["1,3571\n2,1874\n4,1004\n8,577\n", "3571,1\n1874,2\n1004,4\n577,8\n",
                                  "3571.7,1\n1874.5,2\n1004.1,4\n577.8,8\n"])  # fmt: skip
def test_without_names_the_counts_are_the_column_that_rises(runs: str, tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "runs.csv").write_text(runs)
    found = json.loads(walltime("scaling", "fit", tmp_path / "runs.csv", "--json").out)["series"][0]["observations"]
    assert [row["procs"] for row in found] == [1, 2, 4, 8]
    assert [int(row["runtime_s_median"]) for row in found] == [3571, 1874, 1004, 577]
