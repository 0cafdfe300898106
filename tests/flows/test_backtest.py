"""`walltime backtest`: figures per log and method, on the terminal, in files, as a page; with and without Prefect."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from pipeline.evaluate import methods
from pipeline.evaluate.methods import METHODS
from pipeline.storage import read_table
from pipeline.tables import BACKTEST
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]
LOG = SAMPLES / "riverbend.swf.gz"
REQUEST = ("--methods", "request")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(f"logs = ['{LOG}']\noutput_dir = '{tmp_path / 'out'}'\n[site]\nname = 'riverbend'\n")
    return path


def test_figures_on_the_terminal_as_parquet_and_as_a_page(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    out, page = tmp_path / "figures.parquet", tmp_path / "page.html"
    shown = walltime("backtest", config, *REQUEST, "--by", "size", "--out", out, "--report", page)
    assert shown.code == 0, shown.err
    for words in ("riverbend: ", "jobs scored", "request *", "by size", "5-8", str(out), str(page)):
        assert words in shown.out, words
    assert "riverbend: read" in shown.err
    assert {"all", "month", "size"} <= set(read_table(out, BACKTEST).column("part").to_pylist())
    assert page.read_text().startswith("<!doctype html>")
    assert not (tmp_path / "out").exists()


def test_json_has_the_report_and_the_best_method(config: Path, walltime: Walltime) -> None:
    (one,) = json.loads(walltime("backtest", config, *REQUEST, "--json").out)["logs"]
    report = one["report"]
    assert one["best"] == "request" and one["log"] == "riverbend"
    learnt, kept = report["set_aside"]["learnt_from"]["rows"], report["kept"]["rows"]
    assert learnt == (learnt + kept) // 3 and {row["n_jobs"] for row in one["rows"] if row["part"] == "all"} == {kept}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_errors_of_each_job_give_the_figures(config: Path, tmp_path: Path, walltime: Walltime, suffix: str) -> None:
    errors = tmp_path / f"errors{suffix}"
    shown = walltime("backtest", config, "--methods", "last_two,table,walltime", "--errors", errors, "--json")
    assert shown.code == 0, shown.err
    found = pyarrow.csv.read_csv(errors) if suffix == ".csv" else pyarrow.parquet.read_table(errors)
    figures = {row["estimator"]: row for row in json.loads(shown.out)["logs"][0]["rows"] if row["part"] == "all"}
    for name in figures:
        rows = [row for row in found.to_pylist() if row["estimator"] == name]
        off_s = [abs(row["runtime_s_q50"] - row["runtime_s"]) for row in rows]
        assert len(rows) == figures[name]["n_jobs"] and sum(off_s) / len(rows) == pytest.approx(figures[name]["mae_s"])
    inside = [row for row in rows if row["runtime_quantile"] is not None]
    assert 0.5 < len(inside) / len(rows) <= 1 and all(0.1 <= row["runtime_quantile"] <= 0.99 for row in inside)
    assert walltime("backtest", config, "--methods", "table,walltime").out.count("times that of walltime") == 1


@pytest.mark.parametrize(("value", "sentence"), [(np.inf, "without end"), (1.0, "")])
def test_a_method_without_a_figure_is_said_so(
    config: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch, value: float, sentence: str
) -> None:
    monkeypatch.setitem(methods.ESTIMATORS, "request", lambda past: np.full((len(past), 6), value))
    shown = walltime("backtest", config, *REQUEST)
    assert shown.code == 0, shown.err
    said = [line for line in shown.out.splitlines() if line.startswith("* request has no figure of its error")]
    assert (len(said) == 1 and sentence in said[0]) if sentence else not said


def test_each_log_given_is_tried_by_itself(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    other = tmp_path / "\x1b[31m.swf"
    other.write_bytes(b"; MaxProcs: 8\n" + b"".join(
        b"%d %d 5 100 4 -1 -1 4 200 -1 1 1 1 1 1 1 -1 -1\n" % (n, 1000 * n) for n in range(1, 30)
    ))  # fmt: skip
    out = tmp_path / "figures.csv"
    shown = walltime("backtest", config, *REQUEST, "--log", LOG, "--log", other, "--out", out)
    assert shown.code == 0, shown.err
    assert "riverbend.swf.gz: " in shown.out and "\\x1b[31m.swf: 20 jobs scored" in shown.out
    assert "\x1b[31m" not in shown.out + shown.err
    assert len(set(pyarrow.csv.read_csv(out).column("log").to_pylist())) == 2


def test_what_cleaning_changes_stands_beside_both_at_every_age(config: Path, walltime: Walltime) -> None:
    asked = ("--methods", "last_two", "--staleness", "live,1d", "--compare-cleaning")
    shown = walltime("backtest", config, *asked)
    assert shown.code == 0, shown.err
    found = json.loads(walltime("backtest", config, *asked, "--json").out)["logs"][0]["rows"]
    error_s = {(row["stale_days"], row["learnt_from"]): row["mae_s"] for row in found if row["part"] == "all"}
    changes = shown.out.split("trained without the jobs that cleaning sets aside")[1:]
    assert len(changes) == 2 and shown.out.count("fell back") == 4
    assert "known at the last midnight at least 1 day before\n" in shown.out
    for table, days in zip(changes, (None, 1.0), strict=True):
        change_s = error_s[days, "kept"] - error_s[days, "all"]
        assert abs(change_s) >= 0.1 and f"{change_s:+,.1f}" in table.split("riverbend")[0]
        assert "change of error s" in table


def test_no_method_of_the_registry_looks_ahead(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    """On a log small enough to try them all, several times over."""
    log = tmp_path / "small.swf"
    lines = b"".join(
        b"%d %d 5 %d 4 -1 -1 %d 2000 -1 1 %d 1 %d 1 1 -1 -1\n"
        % (n, 60 * n, 50 + 97 * n % 1900, 2 ** (n % 3), n % 5, n % 4)
        for n in range(1, 400)
    )  # fmt: skip
    log.write_bytes(b"; MaxProcs: 64\n" + lines)
    asked = ("--log", log, "--methods", ",".join(METHODS), "--check-leaks", "--json")
    found = json.loads(walltime("backtest", config, *asked).out)
    assert set(found["logs"][0]["cpu_s"]) == set(METHODS)


def test_a_method_that_looks_ahead_is_one_sentence(
    config: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(methods.ESTIMATORS, "request", _own)
    shown = walltime("backtest", config, *REQUEST, "--check-leaks")
    assert (shown.code, shown.out) == (2, "") and "request: it looks ahead" in shown.err
    assert shown.err.count("walltime:") == 1 and "Traceback" not in shown.err


def _own(past: object) -> object:
    import numpy as np

    return np.repeat(past.runtime_s[:, None], 5, axis=1)  # type: ignore[attr-defined]


def test_what_cannot_be_used_is_one_sentence(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "only.swf").write_text("; MaxProcs: 64\n1 0 5 -1 4 -1 -1 4 200 -1 0 1 1 1 1 1 -1 -1\n")
    refused = {
        ("--methods", "requets"): "did you mean request?",
        ("--methods", "\x1b[31m"): "no method \\x1b[31m",
        ("--log", tmp_path / "none.swf"): "none.swf",
        ("--log", tmp_path / "only.swf"): "none to score",
        ("--out", tmp_path / "figures.txt"): "no table's name",
        ("--errors", tmp_path / "errors.txt"): "--errors",
        ("--out", tmp_path / "a.csv", "--errors", tmp_path / "." / "b" / ".." / "a.csv"): "the path of another file",
        ("--report", tmp_path): "found a folder",
        ("--by", "week"): "Invalid value",
    }
    for arguments, sentence in refused.items():
        shown = walltime("backtest", config, *arguments)
        assert shown.code == 2 and sentence in shown.err and "Traceback" not in shown.err, shown
        assert "\x1b[31m" not in shown.err
