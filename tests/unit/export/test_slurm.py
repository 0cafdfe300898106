"""Slurm's plug-in in Lua: it changes what it may of a job, and leaves the others alone."""

import re
from pathlib import Path

import pytest

from pipeline.export import scheduler_files
from pipeline.ingest.limit_comment import asked_s_of
from tests.unit.export.lua_runner import INTERPRETERS, submitted
from tests.unit.export.slurm_plugin import INFINITE, NO_VAL, PARTS, each_lua, limited, needs_lua, of_user, one


@needs_lua
@each_lua
def test_by_default_it_only_comments(interpreter: str, installed, tmp_path: Path) -> None:
    found = one(interpreter, installed(of_user("ada", 100.0), limits=[limited("ada", 700.0)]), tmp_path)
    assert found["time_limit"] == "60" and found["site_factor"] == "nil"
    comment = r"walltime mode=dry_run stamp=[0-9a-f]{16} row=6 jobs=12 median_s=100 limit_min=12 asked_min=60"
    assert re.fullmatch(comment, found["admin_comment"])
    assert asked_s_of(found["admin_comment"]) == 3600.0


@needs_lua
@each_lua
def test_a_limit_is_lowered_to_that_of_the_table_and_never_raised(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(of_user("ada", 100.0), limits=[limited("ada", 721.0)], mode="limit")
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
    open_ = f"{NO_VAL}"
    wanted = ["13", "13", "13", "12", "1", open_, f"{INFINITE}", "60", open_, open_, open_]
    assert [one(interpreter, text, tmp_path, **job)["time_limit"] for job in jobs] == wanted


@needs_lua
@each_lua
@pytest.mark.parametrize(
    "own",
    [
        {"comment": "urgent walltime:off"}, {"time_min": 20}, {"script": None}, {"reservation": "course"},
        {"time_limit": 2000}, {"time_limit": NO_VAL},
    ],
)  # fmt: skip
def test_a_limit_that_is_not_ours_to_lower_stays(interpreter: str, installed, tmp_path: Path, own: dict) -> None:
    """The user's own words, an interactive job, a reservation, a request above the partition's, or left to a QOS."""
    text = installed(limits=[limited("ada", 721.0)], mode="limit")
    assert one(interpreter, text, tmp_path, **own)["time_limit"] == str(own.get("time_limit", 60))
    assert (
        one(interpreter, text, tmp_path, **dict.fromkeys(own) | {"time_limit": 60, "script": "x"})["time_limit"] == "13"
    )
    assert one(interpreter, text, tmp_path, comment="walltime:offer")["time_limit"] == "13"


@needs_lua
@each_lua
def test_estimates_of_other_people_s_jobs_limit_nobody(interpreter: str, installed, tmp_path: Path) -> None:
    """A user without a row of limits keeps the request, however well the estimates know such jobs."""
    rows = [of_user("ada", 100.0), {"template": "all", "chain_rank": 8, "runtime_s": 100.0, "n_jobs": 48}]
    text = installed(*rows, limits=[limited("bob", 700.0), limited("ada", None, status="no_credit")], mode="limit")
    for user in ("ada", "new"):
        found = one(interpreter, text, tmp_path, user_name=user)
        assert found["time_limit"] == "60" and "limit_min=same asked_min=60" in found["admin_comment"]
    assert one(interpreter, text, tmp_path, user_name="bob")["time_limit"] == "12"


@needs_lua
@each_lua
def test_one_look_up_limits_no_more_jobs_of_a_user_than_it_says(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(limits=[limited("ada", 700.0, most_jobs=2), limited("bob", 700.0, most_jobs=1)], mode="limit")
    plain = {"name": "x", "partition": "batch", "time_limit": 60, "min_cpus": 1, "script": "#!/bin/sh"}
    jobs = [{"user_name": name} | plain for name in ("ada", "bob", "ada", "ada", "bob")]
    found, _ = submitted(interpreter, text, jobs, PARTS, tmp_path)
    assert [row["time_limit"] for row in found] == ["12", "12", "12", "60", "60"]
    assert found[3]["admin_comment"] == "nil"


@needs_lua
@each_lua
def test_each_task_of_an_array_counts(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(limits=[limited("ada", 700.0, most_jobs=20)], mode="limit")
    plain = {
        "user_name": "ada",
        "name": "x",
        "partition": "batch",
        "time_limit": 60,
        "min_cpus": 1,
        "script": "#!/bin/sh",
    }
    lists = ("0-999", "1-20,30%2", "1,3,5-9:2%2", "0-29:2", "no list", "1-1000000000000", None, "7", "7")
    found, _ = submitted(interpreter, text, [plain | {"array_inx": one} for one in lists], PARTS, tmp_path)
    # 1000 and 21 are too many; 5 and 15 are 20, so that no other job is limited.
    assert [row["time_limit"] for row in found] == ["60", "60", "12", "12", "60", "60", "60", "60", "60"]


@needs_lua
@each_lua
def test_gpus_memory_and_qos_are_part_of_the_kind(interpreter: str, installed, tmp_path: Path) -> None:
    key, open_key = "who+gpus+memory_class_kib+qos", "who+gpus"
    text = installed(
        limits=[
            limited("ada", 660.0, template=key, gpus=2, memory_class_kib=4 * 2.0**20, qos="high"),
            limited("ada", 1200.0, template=open_key, chain_rank=3, gpus=0),
            limited("ada", 1800.0, template=open_key, chain_rank=3, gpus=2),
        ],
        mode="limit",
    )
    told = {"min_mem_per_cpu": 3000, "qos": "high"}
    jobs = [
        ({"tres_per_node": "gres:gpu:a100:2"} | told, "11"),
        ({"tres_per_job": "gres/gpu:1,gres/gpu:b:1", "min_mem_per_node": 12_000, "qos": "high"}, "11"),
        (told, "60"),
        ({"tres_per_node": "gres:gpu:2", "qos": "high"}, "60"),
        ({"tres_per_node": "gres:gpu:1", "min_nodes": 2}, "30"),
        ({}, "20"),
        ({"tres_per_socket": "gres:gpu:1"}, "60"),
        ({"tres_per_node": "gres:gpu:4"}, "60"),
    ]
    assert [one(interpreter, text, tmp_path, **job)["time_limit"] for job, _ in jobs] == [limit for _, limit in jobs]


@needs_lua
@each_lua
def test_types_of_gpus_are_told_by_the_submit_or_by_its_queue(interpreter: str, installed, tmp_path: Path) -> None:
    template = "who+gpus+gpu_type"
    rows = [limited("ada", 60.0 * n, template=template, gpus=2, gpu_type=kind) for kind, n in (("a100", 5), ("v", 7))]
    rows.append(limited("ada", 540.0, template=template, gpus=0))
    text = installed(limits=rows, mode="limit", gpu_types={"long": "v"})
    jobs = [
        ({"tres_per_node": "gres:gpu:a100:2"}, "5"), ({"tres_per_job": "gres/gpu:v:2"}, "7"),
        ({"tres_per_node": "gres/gpu:2", "partition": "long"}, "7"), ({"tres_per_node": "gres/gpu:2"}, "60"),
        ({}, "9"), ({"tres_per_node": "gres:gpu:a100:1"}, "60"),
    ]  # fmt: skip
    assert [one(interpreter, text, tmp_path, **job)["time_limit"] for job, _ in jobs] == [limit for _, limit in jobs]


@needs_lua
@each_lua
def test_memory_is_said_in_the_comment_and_never_changed(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(memory=[{}, {"requested_mem_kib": 1.5 * 2**20}], mode="limit")
    fields = ("min_mem_per_cpu", "min_mem_per_node", "time_limit", "admin_comment")
    plain = {"user_name": "ada", "name": "relax_12.sh", "partition": "batch", "time_limit": 60, "min_cpus": 4}
    asks = [{"min_mem_per_cpu": 4096}, {"min_mem_per_node": 8192, "min_nodes": 2}, {"min_mem_per_cpu": 1536}]
    asks += [{}, {"min_mem_per_cpu": 4096, "min_cpus": 8}, {"min_mem_per_cpu": 4096, "comment": "walltime:off"}]
    found, logged = submitted(interpreter, text, [plain | one for one in asks], PARTS, tmp_path, fields)
    said = [re.findall(r"jobs=12 .* asked_min=60 mem_jobs=12 (.*)$", row["admin_comment"]) for row in found]
    assert said == [["mem_mib=4096 asked_mem_mib=16384"]] * 2 + [["mem_mib=4096 asked_mem_mib=6144"]] + [[]] * 3
    assert [row["min_mem_per_cpu"] for row in found] == ["4096", "nil", "1536", "nil", "4096", "4096"]
    assert {row["time_limit"] for row in found} == {"60"} and asked_s_of(found[0]["admin_comment"]) == 3600.0
    told = [line for line in logged if line.startswith("user: ")]
    assert len(told) == 2 and told[0].endswith("done with 4096 MiB of memory; this one asks for 16384")


@needs_lua
@each_lua
def test_an_old_look_up_limits_nothing_and_is_named_once(interpreter: str, installed, tmp_path: Path) -> None:
    old = {"newest_end_s": 1_000_000_000}
    text = installed(of_user("ada", 100.0, **old), limits=[limited("ada", 700.0, **old)], mode="limit")
    job = {
        "user_name": "ada",
        "name": "x",
        "partition": "batch",
        "time_limit": 60,
        "min_cpus": 1,
        "script": "#!/bin/sh",
    }
    found, logged = submitted(interpreter, text, [job] * 3, PARTS, tmp_path)
    assert {row["time_limit"] for row in found} == {"60"} and "limit_min=same" in found[0]["admin_comment"]
    assert len([line for line in logged if "days ago; no limit is set" in line]) == 1


@needs_lua
def test_a_small_change_is_not_made(installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_files, "LEAST_CHANGE_S", 1200.0)
    text = installed(limits=[limited("ada", 120.0)], mode="limit")
    assert [one(INTERPRETERS[0], text, tmp_path, time_limit=n)["time_limit"] for n in (21, 22)] == ["21", "2"]


@needs_lua
@each_lua
def test_who_has_opted_out_is_left_alone(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(
        of_user("ada", 100.0),
        of_user('e"vil', 100.0),
        limits=[limited("ada", 700.0), limited('e"vil', 700.0)],
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
        return limited("ada", 60.0 * procs, template="who+procs", procs=procs)

    text = installed(limits=[row(procs) for procs in (1, 2, 6, 8)], mode="limit")
    jobs = [
        {"min_cpus": 8},
        {"min_cpus": NO_VAL, "num_tasks": 3, "cpus_per_task": 2},
        {"min_cpus": 1, "min_nodes": 2},
        {"min_cpus": NO_VAL},
        {"min_cpus": NO_VAL, "num_tasks": 2, "cpus_per_task": 65534},
    ]
    assert [one(INTERPRETERS[0], text, tmp_path, **job)["time_limit"] for job in jobs] == ["8", "6", "1", "1", "2"]
