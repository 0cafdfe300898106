"""Slurm's plug-in in Lua: it changes what it may of a job, and leaves the others alone."""

import re
from pathlib import Path

import pytest

from pipeline.export import scheduler_files
from pipeline.ingest.live import asked_s_of
from tests.unit.export.lua_runner import INTERPRETERS
from tests.unit.export.slurm_plugin import INFINITE, NO_VAL, each_lua, needs_lua, of_user, one


@needs_lua
@each_lua
def test_by_default_it_only_comments(interpreter: str, installed, tmp_path: Path) -> None:
    found = one(interpreter, installed(of_user("ada", 100.0)), tmp_path)
    assert found["time_limit"] == "60" and found["site_factor"] == "nil"
    comment = r"walltime mode=dry_run stamp=[0-9a-f]{16} row=6 jobs=7 median_s=100 limit_min=12 asked_min=60"
    assert re.fullmatch(comment, found["admin_comment"])
    assert asked_s_of(found["admin_comment"]) == 3600.0


@needs_lua
@each_lua
def test_a_limit_is_lowered_to_quantile_and_margin_and_never_raised(
    interpreter: str, installed, tmp_path: Path
) -> None:
    row = of_user("ada", 100.0, runtime_s_q95=661.0, runtime_s_q99=3000.0)
    text = installed(row, mode="limit", quantile=0.95, margin_s=60.0)
    jobs = [
        {"time_limit": 60},
        {"time_limit": 13},
        {"time_limit": 14},
        {"time_limit": 12},
        {"time_limit": 1},
        {"time_limit": NO_VAL},
        {"time_limit": INFINITE},
        {"time_limit": 60, "time_min": 20},
        {"time_limit": NO_VAL, "partition": "long"},
        {"time_limit": NO_VAL, "partition": "other"},
        {"time_limit": NO_VAL, "partition": None},
    ]
    wanted = ["13", "13", "13", "12", "1", "13", f"{INFINITE}", "20", "13", f"{NO_VAL}", "13"]
    assert [one(interpreter, text, tmp_path, **job)["time_limit"] for job in jobs] == wanted


@needs_lua
def test_a_small_change_is_not_made(installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_files, "LEAST_CHANGE_S", 1200.0)
    text = installed(of_user("ada", 100.0), mode="limit", margin_s=0.0)
    assert [one(INTERPRETERS[0], text, tmp_path, time_limit=n)["time_limit"] for n in (21, 22)] == ["21", "2"]


@needs_lua
@each_lua
def test_who_has_opted_out_is_left_alone(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(
        of_user("ada", 100.0),
        of_user('e"vil', 100.0),
        mode="limit",
        opt_out={"users": ["bob", 'e"vil'], "accounts": ["chem"], "partitions": ["debug"]},
    )
    left = [
        {"user_name": 'e"vil'},
        {"account": "chem"},
        {"default_account": "chem"},
        {"partition": "debug"},
        {"partition": "batch,debug"},
        {"partition": None, "parts": {"debug": {"flag_default": 1}}},
    ]
    for job in left:
        found = one(interpreter, text, tmp_path, **job)
        assert (found["time_limit"], found["admin_comment"]) == ("60", "nil"), job
    for job in ({}, {"account": "physics", "default_account": "chem"}):
        assert one(interpreter, text, tmp_path, **job)["time_limit"] == "12"


@needs_lua
@each_lua
def test_short_jobs_get_a_higher_site_factor(
    interpreter: str, installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_files, "PRIORITY_PER_HALVING", 10.0)
    factors = []
    for runtime_s in (1.0, 60.0, 3600.0, 86_400.0, 10 * 86_400.0):
        text = installed(of_user("ada", runtime_s), mode="priority")
        found = one(interpreter, text, tmp_path, time_limit=100_000)
        assert found["time_limit"] == "100000"
        factors.append(int(found["site_factor"]))
    assert factors == [105, 105, 46, 0, -33]


@needs_lua
def test_another_comment_of_the_administrator_stays(installed, tmp_path: Path) -> None:
    found = one(INTERPRETERS[0], installed(of_user("ada", 100.0)), tmp_path, admin_comment="ticket 7")
    assert found["admin_comment"].startswith("ticket 7; walltime mode=dry_run ")


@needs_lua
def test_processors_are_those_that_the_accounting_tells(installed, tmp_path: Path) -> None:
    def row(procs: int) -> dict[str, object]:
        return {"template": "who+procs", "chain_rank": 5, "who": "ada", "procs": procs, "runtime_s": 60.0 * procs}

    text = installed(*(row(procs) for procs in (1, 2, 6, 8)), mode="limit", margin_s=0.0)
    jobs = [
        {"min_cpus": 8},
        {"min_cpus": NO_VAL, "num_tasks": 3, "cpus_per_task": 2},
        {"min_cpus": 1, "min_nodes": 2},
        {"min_cpus": NO_VAL},
        {"min_cpus": NO_VAL, "num_tasks": 2, "cpus_per_task": 65534},
    ]
    assert [one(INTERPRETERS[0], text, tmp_path, **job)["time_limit"] for job in jobs] == ["8", "6", "1", "1", "2"]
