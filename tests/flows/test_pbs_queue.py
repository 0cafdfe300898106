"""OpenPBS's queue as a fake qstat writes it, with names and variables that make its JSON invalid or misleading."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from flows.services.schedulers import OPENPBS
from pipeline.errors import InputError
from tests.flows.fake_programs import Program

HOUR_S = 3600


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that qstat says."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    Program(tmp_path, "qstat", f"sys.stdout.write(open({str(tmp_path / 'said')!r}).read())")
    return tmp_path / "said"


def pbs_job(**changes: Any) -> dict[str, Any]:
    asked = {"walltime": "04:00:00", "ncpus": 4, "mem": "4gb"} | changes.pop("asked", {})
    return {
        "Job_Name": "solver", "Job_Owner": "ada@login", "job_state": "Q", "queue": "long", "Account_Name": "phys",
        "Resource_List": asked,
    } | changes  # fmt: skip


def test_a_project_is_the_account_of_a_job_without_one(said: Path) -> None:
    jobs = {
        "1.pbs": pbs_job(Account_Name=None, project="own"),
        "2.pbs": pbs_job(Account_Name=None, project="_pbs_project_default"),
        "3.pbs": pbs_job(project="own"),
    }
    said.write_text(json.dumps({"pbs_version": "23.06", "Jobs": jobs}))
    found = OPENPBS.queued(os.environ)
    assert [job.values["account"] for job in found] == ["own", None, "phys"]


def test_a_job_that_others_wait_for_is_not_held_itself(said: Path) -> None:
    jobs = {
        "1.pbs": pbs_job(depend="before:2.pbs@pbs,beforeok:3.pbs@pbs"),
        "2.pbs": pbs_job(depend="after:1.pbs@pbs", job_state="H"),
        "3.pbs": pbs_job(depend="afterok:1.pbs@pbs", job_state="H"),
        "4.pbs": pbs_job(depend="before:3.pbs@pbs", job_state="H"),
    }
    said.write_text(json.dumps({"pbs_version": "23.06", "Jobs": jobs}))
    other = "it waits for another job"
    assert [job.held for job in OPENPBS.queued(os.environ)] == ["", other, other, "it is on hold"]


def as_qstat(jobs: dict[str, Any]) -> str:
    """The JSON of OpenPBS: four spaces a level, one key a line, no space after a colon."""
    whole = {"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "pbs"} | ({"Jobs": jobs} if jobs else {})
    return json.dumps(whole, indent=4, separators=(",", ":")) + "\n"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("007", "007"), ("nan", "nan"), ("0x1F", "0x1F"), ("1e999", "1e999"), ("-", "-"), ('"a\\"', "a\\"),
        ('"C:\\data"', "C:\\data"), ('"a\\"b"', 'a"b'), ('"a","job_state":"R"', 'a","job_state":"R'), ('"a\\n"', "a\n"),
    ],
)  # fmt: skip
def test_a_name_that_breaks_the_json_hides_no_job(said: Path, written: str, name: str) -> None:
    text = as_qstat({"1.pbs": pbs_job(Job_Name="@"), "2.pbs": pbs_job()})
    said.write_text(text.replace('"@"', written))
    one, two = OPENPBS.queued(os.environ)
    assert (one.job_id, two.job_id, one.asked_s, one.values["job_name"]) == ("1.pbs", "2.pbs", 4 * HOUR_S, name)
    assert (one.values["user"], one.values["requested_mem_kib"]) == ("ada", 1024.0**2)


@pytest.mark.parametrize(
    "line", ['"A":""}},"9.pbs":{"job_state":"Q","B":"1"', '"A":""},"Job_Owner":"root@x","B":{"C":"1"', '"A":"\\"']
)
def test_a_variable_adds_no_job_and_changes_no_owner(said: Path, line: str) -> None:
    text = as_qstat({"1.pbs": pbs_job(Variable_List={"HOME": "@"}), "2.pbs": pbs_job()})
    said.write_text(text.replace('"HOME":"@"', line))
    jobs = OPENPBS.queued(os.environ)
    assert [(job.job_id, job.values["user"]) for job in jobs] == [("1.pbs", "ada"), ("2.pbs", "ada")]


def test_lines_of_a_variable_add_no_job_under_another_name(said: Path) -> None:
    forged = as_qstat({"2.pbs": pbs_job()}).partition('"Jobs":{\n')[2]
    text = as_qstat({"1.pbs": pbs_job(Variable_List={"HERE": "1"}), "2.pbs": pbs_job(job_state="R")})
    said.write_text(text.replace("HERE", "\n" + forged))
    assert {job.job_id for job in OPENPBS.queued(os.environ)} == {"1.pbs", "2.pbs"}


def test_another_layout_is_read_as_json_and_no_job_is_no_error(said: Path) -> None:
    with_tabs = json.dumps({"pbs_version": "9", "Jobs": {"1.pbs": pbs_job()}}, indent="\t")
    for text, n in ((with_tabs, 1), (as_qstat({}), 0)):
        said.write_text(text)
        assert len(OPENPBS.queued(os.environ)) == n
    for text in ("", "[]", "{}", '{"pbs_version": 1, "Jobs": [1]}'):
        said.write_text(text)
        with pytest.raises(InputError, match="no list of jobs"):
            OPENPBS.queued(os.environ)
