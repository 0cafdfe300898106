"""`walltime replay`: what other estimates would have gained, on the terminal, as JSON, as table and as page."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flows.services.logs import flagged_jobs, settings_and_logs
from flows.services.studies import subject_of
from pipeline.export.scheduler_files import plugin
from pipeline.limits.plan import limit_answer
from pipeline.limits.soft import planned_limits
from pipeline.storage import read_table
from pipeline.tables import REPLAY
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]
LOG = SAMPLES / "riverbend.swf.gz"
QUICK = ("--estimates", "request,perfect,control", "--shakes", "3")


def swf(path: Path, waits: bool = True, header: str = "; MaxProcs: 8\n") -> Path:
    """300 jobs that ask for five times what they run, on a machine that is rarely large enough."""
    random = np.random.default_rng(5)
    wait = 50 if waits else -1
    lines = [
        f"{n} {280 * n} {wait} {run} {procs} -1 -1 {procs} {5 * run} -1 1 {n % 3 + 1} 1 1 1 1 -1 -1\n"
        for n, (run, procs) in enumerate(zip(random.integers(60, 900, 300), random.integers(1, 8, 300), strict=True), 1)
    ]
    path.write_text(header + "".join(lines))
    return path


def test_sentences_table_and_page(tmp_path: Path, walltime: Walltime) -> None:
    shown = walltime("replay", LOG, *QUICK, "--out", tmp_path / "out")
    assert shown.code == 0, shown.err
    for words in ("512 processors", "the log's header", "Gain: with easy-sjbf", "users", "The control", "1 job in 100"):
        assert words in shown.out, words
    table = read_table(tmp_path / "out" / "replay.parquet", REPLAY)
    assert {"all", "size", "user"} == set(table.column("part").to_pylist())
    page = (tmp_path / "out" / "replay.html").read_text()
    assert page.startswith("<!doctype html>") and "Gain: with easy-sjbf" in page and "<svg" in page


def test_the_first_sentence_states_the_use_of_the_machine_in_the_log_and_in_the_replay(
    tmp_path: Path, walltime: Walltime
) -> None:
    """Four processors of eight are held all the time, but the requests are a fifth of what the jobs run."""
    job = "{n} {at} 0 1000 4 -1 -1 4 {asked} -1 1 1 1 1 1 1 -1 -1\n"
    lines = [job.format(n=n, at=1000 * n, asked=200 if n % 2 else 1000) for n in range(1, 201)]
    (tmp_path / "a.swf").write_text("; MaxProcs: 8\n" + "".join(lines))
    (found,) = json.loads(walltime("replay", tmp_path / "a.swf", *QUICK, "--shakes", "0", "--json").out)["logs"]
    assert found["log_utilisation"] == pytest.approx(0.5)
    assert "of which the log used 50% and its replay with EASY and requests 30%" in found["sentences"][0]
    first = "the first 1%, which meet an empty machine."
    assert found["sentences"][1] == f"Figures leave out 2 of the 200 replayed jobs: {first}"
    assert "Jobs of the whole log" in found["sentences"][2] and "100 cut at their requests" in found["sentences"][2]
    last = walltime("replay", tmp_path / "a.swf", *QUICK, "--shakes", "0", "--days", "1").out
    assert f"Figures leave out 113 of the 200 replayed jobs: those submitted before, and {first}" in last


def test_the_same_seed_gives_the_same_json(tmp_path: Path, walltime: Walltime) -> None:
    log = swf(tmp_path / "a.swf")
    one, two, other = (
        walltime("replay", log, *QUICK, "--json", "--seed", seed).out for seed in (1, 1, 2)
    )  # fmt: skip
    assert one == two != other
    (found,) = json.loads(one)["logs"]
    assert found["n_jobs"] == 300 and found["capacity"] == 8
    own = {row["statistic"]: row for row in found["rows"] if row["part"] == "all" and row["estimates"] == "perfect"}
    assert own["q25"]["slowdown_mean"] < own["median"]["slowdown_mean"] < own["q75"]["slowdown_mean"]


def test_estimates_of_the_registry_are_made_as_of_each_submit(tmp_path: Path, walltime: Walltime) -> None:
    asked = ("--estimates", "soft,order,last_two", "--shakes", "0", "--json", "--policy", "easy,easy-sjbf,fcfs")
    shown = walltime("replay", swf(tmp_path / "a.swf"), *asked)
    assert shown.code == 0, shown.err
    (found,) = json.loads(shown.out)["logs"]
    whole = [(row["policy"], row["estimates"]) for row in found["rows"] if row["part"] == "all"]
    soft = ("soft-10", "soft-50", "soft-80")
    assert whole == [
        ("easy", "request"), *(("easy", one) for one in (*soft, "last_two")),
        *(("easy-sjbf", one) for one in (*soft, "order", "last_two")), ("fcfs", "request"),
    ]  # fmt: skip
    assert all(row["statistic"] == "single" for row in found["rows"])
    said = " ".join(found["sentences"])
    for words in (
        "Slowdown compared with neither: soft limits ",
        ", order ",
        ", both ",
        "Best here: export.quantile = ",
    ):
        assert words in said
    assert "Values of export.quantile, the best first: " in said


def test_a_log_without_waits_is_flagged_and_kept_out_of_averages(tmp_path: Path, walltime: Walltime) -> None:
    with_waits, without = swf(tmp_path / "a.swf"), swf(tmp_path / "b.swf", waits=False)
    found = json.loads(walltime("replay", with_waits, without, *QUICK, "--json").out)
    assert [log["has_waits"] for log in found["logs"]] == [True, False]
    assert "states no waits" in " ".join(found["logs"][1]["sentences"])
    assert {one["n_logs"] for one in found["averages"]} == {1}
    assert "1 without waits left out" in walltime("replay", with_waits, without, *QUICK).out


def test_logs_of_one_name_are_told_apart(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "b").mkdir()
    one, two = swf(tmp_path / "a.swf"), swf(tmp_path / "b" / "a.swf")
    asked = ("--estimates", "request", "--shakes", "0", "--out", tmp_path / "out", "--json")
    found = json.loads(walltime("replay", one, two, one, *asked).out)
    assert [log["log"] for log in found["logs"]] == [str(one), str(two)]


def test_a_replay_that_gains_nothing_says_so(tmp_path: Path, walltime: Walltime) -> None:
    """On a machine with room for every job nobody waits under any policy."""
    shown = walltime("replay", swf(tmp_path / "a.swf"), *QUICK, "--max-procs", "4000")
    assert "Nothing is surely gained: " in shown.out and "--max-procs" in shown.out
    assert "0 would have waited less and 0 longer" in shown.out


def test_a_config_is_answered_for_its_last_month(tmp_path: Path, walltime: Walltime) -> None:
    config = tmp_path / "site.toml"
    config.write_text(f"logs = ['{LOG}']\n[site]\nname = 'riverbend'\nmax_procs = 512\n")
    (month,) = json.loads(walltime("replay", config, *QUICK, "--json").out)["logs"]
    (whole,) = json.loads(walltime("replay", config, *QUICK, "--json", "--days", "0").out)["logs"]
    assert month["log"] == "riverbend" and month["capacity_from"] == "site.max_procs"
    n_jobs = [log["rows"][0]["n_jobs"] for log in (month, whole)]
    assert 0 < n_jobs[0] < n_jobs[1] / 2
    assert "submitted from" in month["sentences"][0]


def test_jobs_take_whole_nodes_where_asked(tmp_path: Path, walltime: Walltime) -> None:
    config = tmp_path / "site.toml"
    config.write_text(f"logs = ['{swf(tmp_path / 'a.swf')}']\n[site]\nmax_procs = 8\nprocs_per_node = 4\n")
    (found,) = json.loads(walltime("replay", config, *QUICK, "--whole-nodes", "--days", "0", "--json").out)["logs"]
    assert (found["capacity"], found["capacity_unit"]) == (2, "nodes")
    assert "on 2 nodes" in found["sentences"][0]
    assert {row["part_value"] for row in found["rows"] if row["part"] == "size"} == {"1", "2"}


def test_hostile_names_are_escaped(tmp_path: Path, walltime: Walltime) -> None:
    log = swf(tmp_path / "\x1b[31m<script>.swf")
    shown = walltime("replay", log, *QUICK, "--out", tmp_path / "out")
    assert shown.code == 0, shown.err
    assert "\x1b[31m" not in shown.out + shown.err
    assert "<script>" not in (tmp_path / "out" / "replay.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--policy", "easy-sjfb"), ("--policy", "easy-sjfb", "did you mean easy-sjbf?")),
        (("--estimates", "controls"), ("--estimates", "controls", "did you mean control?")),
        (("--whole-nodes",), ("--whole-nodes", "procs_per_node")),
        (("--policy", ","), ("--policy", "no policy ,")),
    ],
)
def test_wrong_options_are_one_sentence(
    options: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, walltime: Walltime
) -> None:
    shown = walltime("replay", swf(tmp_path / "a.swf"), *options)
    assert shown.code == 2 and not shown.out
    for word in words:
        assert word in shown.err, shown.err


def test_a_log_without_a_size_of_the_machine_is_refused(tmp_path: Path, walltime: Walltime) -> None:
    shown = walltime("replay", swf(tmp_path / "a.swf", header=""), *QUICK)
    assert shown.code == 2 and "--max-procs" in shown.err


@pytest.mark.parametrize(("over_min", "first_s"), [(0, 1800.0), (15, 360.0)])
def test_limits_are_planned_with_the_margin_that_the_sites_over_time_limit_allows(
    over_min: float, first_s: float, tmp_path: Path
) -> None:
    """The plug-in, `walltime query` and the replay plan the same first limit."""
    config = tmp_path / "site.toml"
    config.write_text(
        f"logs = ['{swf(tmp_path / 'a.swf')}']\n[site]\nmax_procs = 8\n[export]\nmode = 'limit'\n"
        f"over_time_limit_min = {over_min}\n"
    )
    name, settings, paths = settings_and_logs(config)
    export = settings.export
    rules = subject_of(name, flagged_jobs(paths, settings)[0], settings, ())[0].rules
    assert planned_limits(np.array([60.0]), np.array([9000.0]), rules).tolist() == [first_s]
    found = limit_answer({"export": export.model_dump()}, {"job": {"requested_s": 9000.0}, "runtime_s_q10": 60.0})
    assert found["limit_s"] == first_s
    # OpenPBS's hook takes the quantile in whole seconds, whatever the margin is.
    on_pbs = {"export": export.model_dump(), "guard": {"scheduler": "pbs"}}
    for quantile_s, limit_s in ((5.2, 6.0), (8999.5, None)):
        found = limit_answer(on_pbs, {"job": {"requested_s": 9000.0}, "runtime_s_q10": quantile_s})
        assert found["limit_s"] == limit_s
    assert f"margin_s = {first_s / 2:g}" in plugin(export, has_own_name_rules=False).replace('["margin_s"]', "margin_s")
