"""`walltime backtest --templates`: from a config or a table of jobs to a file that reads back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.templates.templates_toml import read_templates
from pipeline.evaluate import methods
from tests.flows.support import Outcome

SAMPLE = Path(__file__).resolve().parents[2] / "data_samples" / "traps.swf"

Walltime = Callable[..., Outcome]


def test_a_config_and_its_jobs_give_templates(tmp_path: Path, config: Path, walltime: Walltime) -> None:
    out = tmp_path / "found.toml"
    shown = walltime("backtest", config, "--templates", out, "--minutes", "0", "--share", "0.5")
    assert shown.code == 0 and "Mean absolute error" in shown.out and len(read_templates(out)) >= 1
    assert "error" in shown.err and "Traceback" not in shown.err
    said = walltime(
        "backtest", config, "--templates", out, "--search", "greedy", "--minutes", "0", "--workers", "2", "--json"
    )
    assert len(json.loads(said.out)["templates"]) == len(read_templates(out))


def test_a_table_of_jobs_gives_templates(tmp_path: Path, walltime: Walltime) -> None:
    jobs = tmp_path / "jobs.parquet"
    assert walltime("ingest", SAMPLE, "--out", jobs).code == 0
    shown = walltime("backtest", jobs, "--templates", tmp_path / "found.toml", "--minutes", "0")
    assert shown.code == 0 and read_templates(tmp_path / "found.toml")


def test_what_cannot_be_searched_is_said(tmp_path: Path, config: Path, walltime: Walltime) -> None:
    refused = walltime("backtest", config, "--templates", tmp_path / "found.json")
    assert refused.code == 2 and ".toml" in refused.err
    absent = walltime("backtest", tmp_path / "no\x1b[2J.parquet", "--templates", tmp_path / "found.toml")
    assert absent.code == 2 and "\x1b" not in absent.err and "Traceback" not in absent.err


def test_what_was_found_can_be_tried(
    tmp_path: Path, config: Path, walltime: Walltime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def errors() -> list[float]:
        shown = walltime("backtest", config, "--methods", "smith", "--json")
        assert shown.code == 0, shown.err
        return [row["mae_s"] for row in json.loads(shown.out)["logs"][0]["rows"] if row["part"] == "all"]

    found = tmp_path / "found.toml"
    found.write_text("[[template]]\nattributes = []\nstatistic = 'mean'\n")
    built_in = errors()
    monkeypatch.setattr(methods, "ESTIMATE_RULES", EstimateRules(templates_file=str(found)))
    assert errors() != built_in
    monkeypatch.setattr(methods, "ESTIMATE_RULES", EstimateRules(templates_file="none.toml"))
    refused = walltime("backtest", config, "--methods", "smith")
    assert refused.code == 2 and refused.err.count("\n") == 1 and "none.toml" in refused.err
