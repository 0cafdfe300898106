"""The configs that ship for Slurm and PBS, used as they stand on the sample of their format."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.publish import load_manifest
from pipeline.settings import CheckSettings, RunSettings, parse_settings
from tests.flows.support import SAMPLES, Outcome

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


TRUTH = json.loads((SAMPLES / "millrace.truth.json").read_text())


@pytest.mark.parametrize("name", ["slurm", "pbs"])
def test_a_config_runs_as_it_stands_on_the_sample_of_its_format(
    name: str, tmp_path: Path, walltime: Callable[..., Outcome]
) -> None:
    out = tmp_path / "out"
    done = walltime("run", CONFIGS / f"{name}.toml", "--out", out, "--plain", "--quiet")
    assert done.code == 0, done.err
    checked = json.loads(walltime("doctor", "--checks", "--from", out, "--json").out)["checks"]
    assert [one["check"] for one in checked if one["state"] == "failed"] == []
    jobs = pq.read_table(load_manifest(out).path("jobs")).to_pylist()
    assert len(jobs) == len(TRUTH["attempts"])
    assert {"heat", "cfd", "mcarlo", "dock"} <= {job["application"] for job in jobs}
    job = ("--user", "ines", "--application", "plot.post", "--procs", "1", "--requested", "2h")
    asked = walltime("query", "--from", out, *job, "--json")
    law = next(one for one in TRUTH["applications"] if one["job_name"] == "plot.post")
    assert json.loads(asked.out)["runtime_s"] == pytest.approx(law["t1_s"], rel=0.15)


@pytest.mark.parametrize("name", ["slurm", "pbs"])
def test_a_config_holds_defaults_and_its_comments_hold_settings(name: str) -> None:
    text = (CONFIGS / f"{name}.toml").read_text()
    settings = parse_settings(tomllib.loads(text), name)
    # The samples are old: the check that suits a living cluster would fail on them.
    assert settings.checks.newest_job.mode == "off" and '# mode = "warn"' in text
    # The samples of two formats publish to two folders.
    assert settings.output_dir == f"out/{name}"
    plain = settings.model_copy(update={"logs": (), "output_dir": "out", "checks": CheckSettings()})
    assert plain == RunSettings()
    commented = re.findall(r"(?m)^# (\w+ = .*)$", text)
    assert len(commented) >= 5
    for line in commented:
        sections = text[: text.index(f"# {line}")]
        section = re.findall(r"(?m)^\[([\w.]+)\]$", sections)[-1]
        parse_settings(tomllib.loads(f"[{section}]\n{line}"), name)
