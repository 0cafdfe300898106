"""The configs that ship for Slurm and PBS, used as they stand on a small log of their format."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.core.check_settings import CheckSettings
from pipeline.core.settings import RunSettings, parse_settings
from pipeline.publish import load_manifest
from tests.flows.support import Outcome

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
DAY_S = 86_400


def sacct_dump() -> str:
    lines = ["JobID|JobName|User|Account|Partition|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|State"]
    for n in range(90):
        day, hour = f"2026-01-{1 + n // 24:02}", f"{n % 24:02}"
        lines.append(
            f"{n}|solver_n{n}.sh|u{n % 3}|phys|long|{day}T{hour}:00:00|{day}T{hour}:01:00|{day}T{hour}:31:00|1800|60|"
            f"{2 ** (n % 4)}|COMPLETED"
        )
    return "\n".join(lines) + "\n"


def pbs_accounting() -> str:
    lines = []
    for n in range(90):
        start_s = 1_767_225_600 + 3_600 * n
        told = (
            f"user=u{n % 3} group=phys jobname=solver_n{n}.sh queue=long ctime={start_s - 60} qtime={start_s - 60} "
            f"etime={start_s - 60} start={start_s} exec_host=n1/0*{2 ** (n % 4)} Resource_List.ncpus={2 ** (n % 4)} "
            f"Resource_List.walltime=01:00:00 session=1 end={start_s + 1800} Exit_status=0 "
            "resources_used.walltime=00:30:00"
        )
        lines.append(f"01/0{1 + n // 24}/2026 {n % 24:02}:31:00;E;{n}.server;{told}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("name", "log"), [("slurm", sacct_dump()), ("pbs", pbs_accounting())])
def test_a_config_publishes_what_a_log_of_its_format_tells(
    name: str, log: str, tmp_path: Path, walltime: Callable[..., Outcome]
) -> None:
    path, out = tmp_path / "log.txt", tmp_path / "out"
    path.write_text(log)
    done = walltime("run", CONFIGS / f"{name}.toml", "--log", path, "--out", out, "--plain", "--quiet")
    assert done.code == 0, done.err
    jobs = pq.read_table(load_manifest(out).path("jobs")).to_pylist()
    assert len(jobs) == 90 and {job["application"] for job in jobs} == {"solver"}
    assert {job["runtime_s"] for job in jobs} == {1800.0} and {job["procs"] for job in jobs} == {1, 2, 4, 8}
    asked = walltime("query", "--from", out, "--user", "u1", "--application", "solver_n7.sh", "--requested", "1h")
    assert asked.code == 0 and "30.0 min" in asked.out, asked


@pytest.mark.parametrize("name", ["slurm", "pbs"])
def test_a_config_holds_defaults_and_its_comments_hold_settings(name: str) -> None:
    text = (CONFIGS / f"{name}.toml").read_text()
    settings = parse_settings(tomllib.loads(text), name)
    # Logs that a scheduler writes all day have a newest job, of which an old archive says nothing.
    assert settings.checks.newest_job.mode == "warn"
    assert settings.model_copy(update={"logs": (), "checks": CheckSettings()}) == RunSettings()
    commented = re.findall(r"(?m)^# (\w+ = .*)$", text)
    assert len(commented) >= 5
    for line in commented:
        sections = text[: text.index(f"# {line}")]
        section = re.findall(r"(?m)^\[(\w+)\]$", sections)[-1]
        parse_settings({section: tomllib.loads(line)}, name)
