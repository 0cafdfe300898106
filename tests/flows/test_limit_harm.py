"""Harm by limits of ours in a run's log: counted, said everywhere, and switched off until a person acts."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.ingest.limit_comment import limit_comment
from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]
NAMES = (
    "JobID|JobName|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|NNodes|State|ExitCode|AdminComment"
)
OURS = limit_comment("limit", "stamp=0a1b row=2 jobs=7 median_s=5", 30, 240)


def line(n: int, user: str, state: str = "COMPLETED", comment: str = OURS) -> str:
    day, hour, minutes = 2 + n // 20, n % 20, 30 if state == "TIMEOUT" else 20
    at = f"2026-03-{day:02}T{hour:02}"
    end = f"{at}:{minutes:02}:{7 if state == 'TIMEOUT' else 0:02}"
    ran_s = 60 * minutes + (7 if state == "TIMEOUT" else 0)
    limit = 30 if comment else 240
    return f"{n}|md|{user}|{at}:00:00|{at}:00:00|{end}|{ran_s}|{limit}|4|4|1|{state}|0:0|{comment}"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    lines = [line(n, ("ada", "bob")[n % 2]) for n in range(100, 400)]
    lines += [line(n, "eve", "TIMEOUT") for n in range(400, 405)]
    lines += [line(405, "eve", "TIMEOUT", comment="")]
    (tmp_path / "dump.txt").write_text("\n".join([NAMES, *lines, ""]))
    path = tmp_path / "site.toml"
    path.write_text(f"logs = ['{tmp_path}/dump.txt']\noutput_dir = '{tmp_path}/out'\n[site]\nname = 'here'\n")
    return path


def test_five_provoked_timeouts_switch_limiting_off_for_their_user(config: Path, walltime: Walltime) -> None:
    out = config.parent / "out"
    shown = walltime("run", config, "--plain", "--quiet")
    assert shown.code == 0, shown.err
    found = json.loads(walltime("limits", config, "--status", "--json").out)
    assert [one["user"] for one in found["off"]] == ["eve"]
    rows = {row["user"]: row for row in found["weeks"]}
    assert rows["eve"]["n_limited"] == rows["eve"]["n_beyond"] == 5 and rows["eve"]["kept_share"] == 0.0
    assert sum(row["n_limited"] for row in found["weeks"] if row["user"] is None) == 305
    said = walltime("limits", out, "--status").out
    assert "Limits are off for user eve" in said and 'limits_again = { "eve" = ' in said
    assert (
        "limits switched off for 1 users: 5 of 305 limited jobs exceeded theirs"
        in walltime("doctor", "--from", out).out
    )
    assert walltime("doctor", "--from", out, "--metrics", config.parent / "walltime.prom").code == 0
    metrics = (config.parent / "walltime.prom").read_text()
    assert 'walltime_limits_users_off{site="here"} 1' in metrics
    assert 'walltime_limited_jobs_beyond{site="here"} 5' in metrics
    pages = config.parent / "pages"
    assert walltime("report", "--from", out, "--out", pages).code == 0
    assert "Limits are off for user eve" in (pages / "site.html").read_text()


def test_a_person_switches_them_on_again(config: Path, walltime: Walltime) -> None:
    config.write_text(config.read_text() + '[export]\nlimits_again = { eve = 2026-04-01, "*" = 2026-04-01 }\n')
    assert walltime("run", config, "--plain", "--quiet").code == 0
    found = json.loads(walltime("limits", config, "--status", "--json").out)
    assert found["off"] == [] and {row["user"] for row in found["weeks"]} == {None, "ada", "bob", "eve"}


def test_a_log_of_nothing_but_such_jobs_is_published(config: Path, walltime: Walltime) -> None:
    """No runtime is known, so that there is no group and no prediction."""
    lines = [line(n, "eve", "TIMEOUT") for n in range(400, 405)]
    (config.parent / "dump.txt").write_text("\n".join([NAMES, *lines, ""]))
    shown = walltime("run", config, "--plain", "--quiet")
    assert shown.code == 0, shown.err
    found = json.loads(walltime("limits", config, "--status", "--json").out)
    assert {one["user"] for one in found["off"]} == {"eve", None}


def test_doctor_names_whom_the_log_does_not_know(config: Path, walltime: Walltime) -> None:
    """A mistyped name would leave its jobs limited, and a day to come would leave harm uncounted, both silently."""
    assert walltime("run", config, "--plain", "--quiet").code == 0
    plain = config.read_text()
    known = "[export]\nlimits_again = { eve = 2026-04-01 }\n[export.opt_out]\nusers = ['ada']\n"
    config.write_text(plain + known)
    assert "export." not in walltime("doctor", "--from", config).out
    wrong = """users = ['ada', "aad\\u001b"]\naccounts = ['no']\npartitions = ['mb']\n"""
    again = "[export]\nlimits_again = { vee = 2026-04-01, eve = 2999-01-01 }\n[export.opt_out]\n"
    config.write_text(plain + again + wrong)
    shown = walltime("doctor", "--from", config, "--json")
    found = [one["found"] for one in json.loads(shown.out)["findings"] if one["check"] == "names"]
    names = [one.split(",")[0].removeprefix("export.") for one in found]
    assert names == [
        r"opt_out.users names aad\x1b", "opt_out.accounts names no", "opt_out.partitions names mb",
        "limits_again names vee", "limits_again names a day to come for eve",
    ] and shown.code == 3  # fmt: skip
