"""`walltime limits`: figures, tables and mail texts from a log; hostile names reach no terminal and no spreadsheet."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flows.services.quantities import clock, share
from pipeline.errors import InputError
from pipeline.estimate.score import at_share
from pipeline.storage import write_table
from pipeline.tables import JOBS, UNREADABLE
from tests.flows.support import SAMPLES, Outcome
from tests.rows import jobs_of

Walltime = Callable[..., Outcome]
LOG = SAMPLES / "riverbend.swf.gz"
GAP_S = 21_600
HOSTILE = '=HYPERLINK("x")\x1b[2J\n../../a'


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A table of 400 jobs of two users, one of whom has a hostile name; both use a tenth of their requests."""
    rows = [
        {
            "user": HOSTILE if place % 2 else "ada", "account": "lab", "submit_s": GAP_S * place,
            "start_s": GAP_S * place, "end_s": GAP_S * place + 350 + place % 7,
            "runtime_s": 350.0 + place % 7, "requested_s": 3600.0, "procs": 8,
        }
        for place in range(400)
    ]  # fmt: skip
    return write_table(tmp_path / "jobs.parquet", jobs_of(rows), JOBS)


def test_json_has_figures_and_a_row_per_user(jobs: Path, walltime: Walltime) -> None:
    shown = walltime("limits", jobs, "--json")
    assert shown.code == 0, shown.err
    found = json.loads(shown.out)
    assert found["chance"] == 0.03 and found["n_told"] > 50 and found["share_longer"] <= 0.06
    row = next(row for row in found["rows"] if row["name"] == "ada")
    assert row["n_jobs"] == 100 and row["unused_hours"] == pytest.approx(row["requested_hours"] - row["used_hours"])
    (kind,) = row["kinds"]
    assert 356 <= kind["recommended_s"] < kind["requested_s"] == 3600 and kind["recommended_s"] % 60 == 0


def test_tables_and_letters_are_written_and_escaped(jobs: Path, tmp_path: Path, walltime: Walltime) -> None:
    out = tmp_path / "advice"
    shown = walltime("limits", jobs, "--out", out)
    assert shown.code == 0 and "\x1b[2J" not in shown.out
    users = list(csv.DictReader((out / "users.csv").open()))
    assert [row["n_jobs"] for row in users] == ["100", "100"] and any(row["name"].startswith("'=") for row in users)
    assert {path.parent for path in out.rglob("*.txt")} == {out / "mail"} and len(list(out.rglob("*.txt"))) == 2
    text = "".join(path.read_text() for path in sorted(out.rglob("*.txt")))
    assert "Hello ada," in text and "\x1b" not in text and "What to request for your usual jobs:" in text
    wanted = "name,application,requested_s,procs,gpus,n_jobs,recommended_s\n"
    assert (out / "requests.csv").read_text().startswith(wanted)


def test_by_account_and_from_a_config(jobs: Path, tmp_path: Path, walltime: Walltime) -> None:
    assert json.loads(walltime("limits", jobs, "--by", "account", "--json").out)["rows"][0]["name"] == "lab"
    config = tmp_path / "site.toml"
    config.write_text(f"logs = ['{LOG}']\n[site]\nname = 'riverbend'\n")
    shown = walltime("limits", config)
    assert shown.code == 0 and "riverbend" in shown.out and "processor-hours" in shown.out


def test_a_request_that_is_short_already_has_no_advice_and_its_user_no_letter(
    tmp_path: Path, walltime: Walltime
) -> None:
    rows = [
        {
            "user": "ada", "submit_s": GAP_S * place, "start_s": GAP_S * place, "end_s": GAP_S * place + 250,
            "runtime_s": 250.0, "requested_s": 300.0, "procs": 8,
        }
        for place in range(100)
    ]  # fmt: skip
    jobs = write_table(tmp_path / "short.parquet", jobs_of(rows), JOBS)
    assert json.loads(walltime("limits", jobs, "--json").out)["rows"][0]["kinds"] == []
    walltime("limits", jobs, "--out", tmp_path / "advice")
    assert not list((tmp_path / "advice").rglob("*.txt"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--by", "queue"), "'user', 'account'"),
        (("--by", "account", "--out", "JOBS"), "is a file; walltime limits --help"),
    ],
)  # fmt: skip
def test_wrong_options_are_one_sentence(jobs: Path, walltime: Walltime, options: tuple[str, ...], words: str) -> None:
    shown = walltime("limits", jobs, *(jobs if option == "JOBS" else option for option in options))
    assert shown.code == 2 and words in shown.err and shown.err.count("\n") == 1


def test_a_log_without_users_or_requests_is_refused(tmp_path: Path, walltime: Walltime) -> None:
    job = {"user": None, "submit_s": 0, "start_s": 0, "end_s": 10, "runtime_s": 10.0, "requested_s": 60.0, "procs": 1}
    nobody = write_table(tmp_path / "nobody.parquet", jobs_of([job]), JOBS)
    assert "no job with a known user" in walltime("limits", nobody).err
    asked = write_table(tmp_path / "asked.parquet", jobs_of([job | {"requested_s": None}]), JOBS)
    assert "none with a runtime and a requested time" in walltime("limits", asked).err


def test_a_table_of_something_else_is_one_sentence(tmp_path: Path, walltime: Walltime) -> None:
    other = write_table(tmp_path / "other.parquet", UNREADABLE.empty(), UNREADABLE)
    for command in (("limits", other), ("limits", other, "--memory")):
        shown = walltime(*command)
        assert shown.code == 2 and shown.err.count("\n") == 1
        assert "other.parquet: found unreadable table, expected a table of jobs" in shown.err


def test_promises_quantiles_and_clocks() -> None:
    assert share("97%", "--promise") == share(" .97 ", "--promise") == 0.97
    with pytest.raises(InputError):
        share("nan", "--promise")
    quantiles_s = np.array([[10.0, 20.0, 30.0, 40.0, 100.0, 400.0]])
    assert at_share(quantiles_s, 0.97)[0] == pytest.approx((100.0 * 400.0) ** 0.5)
    assert at_share(quantiles_s, 0.999)[0] == pytest.approx(400.0)
    assert clock(3661.2) == "1:01:02"
