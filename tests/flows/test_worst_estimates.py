"""The estimates that were worst: whose they are, when, and why, from the published state and jobs alone."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from flows.services.published.worst_estimates import promise_by_week
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("errors")


@pytest.fixture
def published(folder: Path, walltime: Walltime) -> Path:
    if not (folder / "out").exists():
        (folder / "site.toml").write_text(
            f"logs = ['{SAMPLES}/traps.swf']\noutput_dir = '{folder}/out'\n[site]\nname = 'oxbow'\n"
        )
        done = walltime("run", folder / "site.toml", "--plain", "--quiet")
        assert done.code == 0, done.err
    return folder / "out"


def test_each_row_has_its_jobs_runtime_and_the_worst_is_first(published: Path, walltime: Walltime) -> None:
    found = json.loads(walltime("show", "errors", "--from", published, "--json", "--limit", "100000").out)["shown"]
    jobs = json.loads(walltime("show", "jobs", "--from", published, "--json", "--limit", "100000").out)["shown"]
    known = {(job["job_id"], job["end_s"]): job for job in jobs}
    assert found
    for row in found:
        assert known[row["job_id"], row["end_s"]]["runtime_s"] == row["runtime_s"]
        is_inside = row["runtime_s_q10"] <= row["runtime_s"] <= row["runtime_s_q99"]
        assert (row["runtime_quantile"] is not None) == is_inside
    off_s = [abs(row["runtime_s"] - row["runtime_s_q50"]) for row in found]
    assert off_s == sorted(off_s, reverse=True)
    first = min((row for row in found if row["user"]), key=lambda row: row["submit_s"])
    assert "first run of its user" in first["why"]
    assert all(f"ended {row['state']}" in row["why"] for row in found if row["state"] not in ("COMPLETED", None))


def test_a_day_is_chosen_and_a_wrong_column_gets_one_sentence(published: Path, walltime: Walltime) -> None:
    every = json.loads(walltime("show", "errors", "--from", published, "--json", "--limit", "1").out)
    day = every["shown"][0]["day"]
    one = json.loads(walltime("show", "errors", "--from", published, "--where", f"day = '{day}'", "--json").out)
    assert 0 < one["matching"] < every["rows"] and {row["day"] for row in one["shown"]} == {day}
    refused = walltime("show", "errors", "--from", published, "--where", "dya = '2024'")
    assert refused.code == 2 and "did you mean day?" in refused.err
    told = json.loads(walltime("show", "errors", "--columns", "--json").out)["errors"]["columns"]
    assert [column["name"] for column in told] == list(every["shown"][0])


def test_a_user_is_told_the_usual_jobs_and_the_time_to_ask_for(published: Path, walltime: Walltime) -> None:
    jobs = json.loads(walltime("show", "jobs", "--from", published, "--json", "--limit", "100000").out)["shown"]
    user = next(job["user"] for job in jobs if job["user"] and job["flag"] is None)
    found = json.loads(walltime("report", "--from", published, "--user", user, "--json").out)
    own = [job for job in jobs if job["user"] == user and job["flag"] is None and (job["runtime_s"] or 0) > 0]
    assert sum(kind["n_jobs"] for kind in found["kinds"]) == len(own)
    assert all(kind["expected_s"] <= kind["ask_s"] for kind in found["kinds"])
    kind = found["kinds"][0]
    words = [f"--{name}={kind[name]}" for name in ("user", "application", "queue", "procs") if kind[name] is not None]
    asked = json.loads(
        walltime("query", "--from", published, *words, f"--requested={kind['requested_s']:.0f}s", "--json").out
    )
    assert kind["ask_s"] == asked["runtime_s_q95"]
    assert "no kept job of nobody" in walltime("report", "--from", published, "--user", "nobody").err


def test_no_submitter_is_named_where_none_is_given(published: Path, walltime: Walltime) -> None:
    shown = walltime("query", "--from", published, "--procs", "3", "--requested", "1h")
    assert shown.code == 0 and "No user is given" in shown.out
    shown = walltime("query", "--from", published, "--user", "nobody", "--procs", "3")
    assert "The log has no jobs of user nobody" in shown.out


@pytest.mark.parametrize("name", ["traps.swf", "riverbend.swf.gz"])
def test_a_run_with_a_log_instead_of_a_config_says_how_to_make_one(name: str, walltime: Walltime) -> None:
    refused = walltime("run", SAMPLES / name, "--plain")
    assert refused.code == 2 and f"walltime init --log {SAMPLES / name}" in refused.err
    assert refused.err.count("\n") == 1


def test_a_week_of_few_days_of_users_says_nothing_of_the_promise() -> None:
    """A user's 300 failed jobs of one day are one draw, not 300; twelve users' days are twelve."""
    user, account = ["ada"] * 300 + [None] * 60, [None] * 300 + [f"a{k}" for k in range(12)] * 5
    submit_s = [0.0] * 300 + [8 * 86_400.0] * 60
    ends = {"runtime_s_q10": [10.0] * 360, "runtime_s_q90": [20.0] * 360}
    told = {"user": user, "account": account, "submit_s": submit_s, "runtime_s": [1.0] * 300 + [15.0] * 60}
    weeks = promise_by_week(pa.table(told | ends))
    assert [(row["week"], row["n_jobs"], row["coverage_80"]) for row in weeks] == [("1970-01-05", 60, 1.0)]


def test_a_job_is_told_by_its_id(published: Path, walltime: Walltime) -> None:
    """The job's values are those of `jobs`, its estimate that of `errors`; an unknown id is refused."""
    worst = json.loads(walltime("show", "errors", "--from", published, "--json", "--limit", "1").out)["shown"][0]
    (told,) = json.loads(walltime("show", "job", worst["job_id"], "--from", published, "--json").out)
    for name in ("runtime_s", "submit_s", "end_s", "runtime_s_q50", "why"):
        assert told[name] == worst[name]
    shown = walltime("show", "job", worst["job_id"], "--from", published).out
    assert f"Job {worst['job_id']}" in shown and "Estimate at its submit:" in shown
    assert "no job 999999" in walltime("show", "job", "999999", "--from", published).err
    assert "expected job and an id" in walltime("show", "job", "--from", published).err
