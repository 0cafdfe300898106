"""Slurm's plug-in in Lua: it changes what it may of a job, and leaves the others alone."""

import re
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.export import scheduler_files
from pipeline.ingest.slurm_texts import asked_s_of, has_opted_out, may_be_set, set_s_of
from pipeline.limits.soft import SoftRules, planned_limits
from tests.unit.export.lua_runner import INTERPRETERS, submitted
from tests.unit.export.slurm_plugin import INFINITE, NO_VAL, PARTS, each_lua, needs_lua, of_user, one

HOUR = 3600.0
"""An estimate of an hour of a job that asks for ten."""


def limit(interpreter: str, text: str, folder: Path, **job) -> str:
    return one(interpreter, text, folder, **{"time_limit": 600} | job)["time_limit"]


@needs_lua
@each_lua
def test_by_default_it_only_comments(interpreter: str, installed, tmp_path: Path) -> None:
    found = one(interpreter, installed(of_user("ada", HOUR)), tmp_path, time_limit=600)
    assert found["time_limit"] == "600" and found["site_factor"] == "nil"
    comment = r"walltime mode=dry_run stamp=[0-9a-f]{16} row=6 jobs=7 median_s=3600 limit_min=60 asked_min=600"
    assert re.fullmatch(comment, found["admin_comment"])
    assert asked_s_of(found["admin_comment"]) == 36_000.0 and set_s_of(found["admin_comment"]) is None
    assert limit(interpreter, installed(of_user("ada", HOUR), mode="off"), tmp_path) == "600"


@needs_lua
@each_lua
def test_limits_are_those_of_the_formula_that_the_guard_uses(interpreter: str, installed, tmp_path: Path) -> None:
    runtimes_s, requests_min = (1.0, 1801.0, 3601.0, 26_999.0, 27_001.0, 9e9), (29, 30, 39, 40, 60, 600)
    for runtime_s in runtimes_s:
        text = installed(of_user("ada", runtime_s), mode="limit")
        for request in requests_min:
            quantile_s = np.minimum([runtime_s], 60.0 * request)
            wanted_s = planned_limits(quantile_s, np.array([60.0 * request]), SoftRules())[0]
            wanted = request if np.isnan(wanted_s) else round(wanted_s / 60)
            assert limit(interpreter, text, tmp_path, time_limit=request) == str(wanted), (runtime_s, request)


@needs_lua
@each_lua
def test_the_comment_keeps_the_request_and_the_user_is_told(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(of_user("ada", HOUR), mode="limit")
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 600, "script": "#!/bin/sh"}
    (found,), logged = submitted(interpreter, text, [job], PARTS, tmp_path)
    assert (asked_s_of(found["admin_comment"]), set_s_of(found["admin_comment"])) == (36_000.0, 3600.0)
    (told,) = [line for line in logged if line.startswith("user: ")]
    assert "planned with 60 min; your job may run for the 600 min" in told and "--comment=walltime:off" in told


@needs_lua
@each_lua
@pytest.mark.parametrize("beat", [None, "", "now", "-1", "{old}", "{late}", "9" * 30])
def test_without_a_guard_at_work_nothing_is_set(interpreter: str, installed, tmp_path: Path, beat: str | None) -> None:
    """No heartbeat, none that is a time, one of four minutes ago, and one of an hour ahead: a clock was moved."""
    text = installed(of_user("ada", HOUR), mode="limit", beats=False)
    heartbeat = tmp_path / scheduler_files.HEARTBEAT_FILE
    if beat is not None:
        heartbeat.write_text(beat.format(old=int(time.time()) - 240, late=int(time.time()) + 3600))
    assert limit(interpreter, text, tmp_path) == "600"
    heartbeat.write_text(f"{time.time() - 60:.0f}\n")
    assert limit(interpreter, text, tmp_path) == "60"


SCRIPT = "#!/bin/bash\n#SBATCH -n 4\n# a note\n\n"


@needs_lua
@each_lua
@pytest.mark.parametrize(
    "own",
    [
        {"comment": "urgent walltime:off"}, {"comment": "Walltime = OFF;x"}, {"comment": "a,walltime off"},
        {"time_min": 20}, {"script": None}, {"reservation": "course"}, {"time_limit": 2000},
        {"time_limit": NO_VAL}, {"time_limit": INFINITE}, {"het_job_offset": 0}, {"het_job_offset": 1},
        {"script": SCRIPT + "#SBATCH --signal=B:USR1@300\nsrun x"}, {"script": SCRIPT + "#SBATCH -t 1 --sig USR1\n"},
        {"script": SCRIPT + "#SBATCH\t--deadline=now+1hour"}, {"script": SCRIPT + "#SBATCH --time-min=3"},
        {"environment": {"SBATCH_SIGNAL": "B:USR1@300"}},
    ],
)  # fmt: skip
def test_a_limit_that_is_not_ours_to_lower_stays(interpreter: str, installed, tmp_path: Path, own: dict) -> None:
    found = one(interpreter, installed(of_user("ada", HOUR), mode="limit"), tmp_path, **{"time_limit": 600} | own)
    assert found["time_limit"] == str(own.get("time_limit", 600))
    assert not may_be_set(found["admin_comment"]), "and the guard leaves it, too"


@needs_lua
@each_lua
@pytest.mark.parametrize(
    "own",
    [
        {"comment": "walltime:offer"}, {"comment": "my walltime"}, {"het_job_offset": NO_VAL},
        {"script": SCRIPT + "srun x\n#SBATCH --signal=B:USR1@300"}, {"script": SCRIPT + "## --signal=USR1"},
        {"script": SCRIPT + "#SBATCH --time=10:00:00 --job-name=my--signal"},
    ],
)  # fmt: skip
def test_what_only_looks_like_a_reason_is_none(interpreter: str, installed, tmp_path: Path, own: dict) -> None:
    assert limit(interpreter, installed(of_user("ada", HOUR), mode="limit"), tmp_path, **own) == "60"


@needs_lua
@each_lua
@pytest.mark.parametrize(("start_s", "wanted"), [(-100, "60"), (7200, "600"), (35_000, "600"), (37_000, "60")])
def test_a_request_that_reaches_a_reservation_stands(
    interpreter: str, installed, tmp_path: Path, start_s: int, wanted: str
) -> None:
    text = installed(of_user("ada", HOUR), mode="limit")
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 600, "script": "#!/bin/sh"}
    before = f"slurm.reservations = {{ service = {{ start_time = os.time() + {start_s} }} }}"
    (found,), _ = submitted(interpreter, text, [job], PARTS, tmp_path, before=before)
    assert found["time_limit"] == wanted


@needs_lua
@each_lua
def test_who_has_opted_out_is_left_alone_and_else_who_has_not_opted_in(
    interpreter: str, installed, tmp_path: Path
) -> None:
    rows = [of_user(name, HOUR) for name in ("ada", "bob", 'e"vil')]
    text = installed(
        *rows, mode="limit", opt_out={"users": ["bob", 'e"vil'], "accounts": ["chem"], "partitions": ["debug"]}
    )
    left = [
        {"user_name": 'e"vil'}, {"account": "chem"}, {"default_account": "chem"}, {"partition": "debug"},
        {"partition": "batch,debug"}, {"partition": None, "parts": {"debug": {"flag_default": 1}}},
    ]  # fmt: skip
    for job in left:
        found = one(interpreter, text, tmp_path, **job)
        assert (found["time_limit"], found["admin_comment"]) == ("60", "nil"), job
    for job in ({}, {"account": "physics", "default_account": "chem"}):
        assert limit(interpreter, text, tmp_path, **job) == "60"
    text = installed(*rows, mode="limit", opt_in=["ada", "long"], opt_out={"users": ["bob"]})
    evil, bob, long = {"user_name": 'e"vil'}, {"user_name": "bob"}, {"partition": "long"}
    for job, wanted in (({}, "60"), (evil, "600"), (evil | long, "60"), (bob | long, "600")):
        assert limit(interpreter, text, tmp_path, **job) == wanted, job


def test_the_guard_reads_opting_out_as_the_plug_in_does() -> None:
    for text in ("walltime:off", "x Walltime = OFF;", "a,walltime off", "WALLTIME_OFF"):
        assert has_opted_out(text)
    for text in ("walltime:offer", "my walltime", "off", ""):
        assert not has_opted_out(text)


@needs_lua
@each_lua
def test_gpus_and_their_types_are_part_of_the_kind(interpreter: str, installed, tmp_path: Path) -> None:
    template = "who+gpus+gpu_type"
    rows = [of_user("ada", HOUR * n, template=template, gpus=2, gpu_type=kind) for kind, n in (("a100", 1), ("v", 2))]
    rows.append(of_user("ada", 3 * HOUR, template=template, gpus=0))
    text = installed(*rows, mode="limit", listed={"gpu_types": {"long": "v"}})
    jobs = [
        ({"tres_per_node": "gres:gpu:a100:2"}, "60"), ({"tres_per_job": "gres/gpu:v:2"}, "120"),
        ({"tres_per_node": "gres/gpu:2", "partition": "long"}, "120"), ({"tres_per_node": "gres/gpu:2"}, "600"),
        ({}, "180"), ({"tres_per_node": "gres:gpu:a100:1"}, "600"), ({"tres_per_socket": "gres:gpu:2"}, "600"),
    ]  # fmt: skip
    assert [limit(interpreter, text, tmp_path, **job) for job, _ in jobs] == [wanted for _, wanted in jobs]


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
    text = installed(of_user("ada", HOUR, newest_end_s=1_000_000_000), mode="limit")
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 600, "script": "#!/bin/sh"}
    found, logged = submitted(interpreter, text, [job] * 3, PARTS, tmp_path)
    assert {row["time_limit"] for row in found} == {"600"} and "limit_min=same" in found[0]["admin_comment"]
    assert len([line for line in logged if "days ago; no limit is set" in line]) == 1


@needs_lua
@each_lua
def test_short_jobs_get_a_higher_site_factor(
    interpreter: str, installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_files, "PRIORITY_PER_HALVING", 10.0)
    factors = []
    for runtime_s in (1.0, 60.0, 3600.0, 86_400.0, 10 * 86_400.0):
        text = installed(of_user("ada", runtime_s), mode="limit", order=True)
        factors.append(int(one(interpreter, text, tmp_path, time_limit=100_000)["site_factor"]))
    assert factors == [105, 105, 46, 0, -33]
    assert one(interpreter, installed(of_user("ada", 60.0), order=True), tmp_path)["site_factor"] == "nil"


@needs_lua
@each_lua
def test_the_quantile_is_that_of_the_settings(interpreter: str, installed, tmp_path: Path) -> None:
    names = ("q10", "q50", "q80", "q90", "q95", "q99")
    row = of_user("ada", 0.0) | {f"runtime_s_{name}": HOUR * n for n, name in enumerate(names, 1)}
    for n, quantile in enumerate((0.1, 0.5, 0.8, 0.9, 0.95, 0.99), 1):
        assert limit(interpreter, installed(row, mode="limit", quantile=quantile), tmp_path) == str(60 * n)


@needs_lua
def test_processors_are_those_that_the_accounting_tells(installed, tmp_path: Path) -> None:
    rows = [of_user("ada", HOUR * procs, template="who+procs", procs=procs) for procs in (1, 2, 6, 7)]
    text = installed(*rows, mode="limit")
    jobs = [
        {"min_cpus": 7},
        {"min_cpus": NO_VAL, "num_tasks": 3, "cpus_per_task": 2},
        {"min_cpus": 1, "min_nodes": 2},
        {"min_cpus": NO_VAL},
        {"min_cpus": NO_VAL, "num_tasks": 2, "cpus_per_task": 65534},
    ]
    wanted = ["420", "360", "60", "60", "120"]
    assert [limit(INTERPRETERS[0], text, tmp_path, **job) for job in jobs] == wanted


@needs_lua
def test_another_comment_of_the_administrator_stays(installed, tmp_path: Path) -> None:
    found = one(INTERPRETERS[0], installed(of_user("ada", 100.0)), tmp_path, admin_comment="ticket 7")
    assert found["admin_comment"].startswith("ticket 7; walltime mode=dry_run ")


@needs_lua
@each_lua
def test_a_kind_whose_runs_stop_themselves_early_keeps_its_request(interpreter: str, installed, tmp_path: Path) -> None:
    text = installed(of_user("ada", HOUR), mode="limit", listed={"early": [("ada", "relax"), ("bob", "other")]})
    found = one(interpreter, text, tmp_path, time_limit=600)
    assert found["time_limit"] == "600" and not may_be_set(found["admin_comment"])
    assert limit(interpreter, text, tmp_path, name="other") == "60"


@needs_lua
@each_lua
def test_jobs_without_an_estimate_of_ours_are_ordered_as_the_median_of_their_partition(
    interpreter: str, installed, tmp_path: Path
) -> None:
    text = installed(of_user("ada", HOUR), mode="limit", order=True, listed={"medians_s": {"batch": 12 * HOUR}})
    off = {"comment": "walltime:off"}
    assert one(interpreter, text, tmp_path, **off)["site_factor"] == "1000"
    assert one(interpreter, text, tmp_path, user_name="eve")["site_factor"] == "1000"
    assert one(interpreter, text, tmp_path)["site_factor"] == "4585"
    assert one(interpreter, text, tmp_path, partition="long", **off)["site_factor"] == "nil"
    text = installed(of_user("ada", HOUR), mode="limit", listed={"medians_s": {"batch": 12 * HOUR}})
    assert one(interpreter, text, tmp_path, **off)["site_factor"] == "nil"


@needs_lua
@each_lua
@pytest.mark.parametrize(
    ("order", "own", "n_opened"),
    [
        (True, {"user_name": "eve"}, 1), (True, {"comment": "walltime:off"}, 1), (True, {}, 1),
        (False, {"user_name": "eve"}, 1), (False, {"comment": "walltime:off"}, 0),
    ],
)  # fmt: skip
def test_the_look_up_is_opened_once_for_a_job(
    interpreter: str, installed, tmp_path: Path, order: bool, own: dict, n_opened: int
) -> None:
    text = installed(of_user("ada", HOUR), mode="limit", order=order, listed={"medians_s": {"batch": 12 * HOUR}})
    watch = "local open = io.open; io.open = function(path, ...) logged[#logged + 1] = path; return open(path, ...) end"
    job = {"user_name": "ada", "name": "x", "partition": "batch", "time_limit": 600, "script": "#!/bin/sh"}
    _, logged = submitted(interpreter, text, [job | own], PARTS, tmp_path, before=watch)
    assert len([line for line in logged if line.endswith("walltime.lookup")]) == n_opened
