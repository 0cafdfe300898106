"""`walltime apply`: pending jobs of fake schedulers, read with hostile names, and changed by exact arguments."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.services.schedulers import OPENPBS, SLURM
from pipeline.errors import InputError
from pipeline.estimate.stage import learn_state
from pipeline.ingest.limit_comment import asked_s_of
from pipeline.publish import load_manifest
from pipeline.settings import RunSettings, SiteSettings
from pipeline.tables import LIMITS
from tests.flows.fake_programs import Program, Scontrol
from tests.flows.support import Outcome, put_out
from tests.rows import jobs_of
from tests.unit.export.slurm_plugin import limited, limits_of

Walltime = Callable[..., Outcome]
HOSTILE = '$(reboot) `id` "; rm -rf / #\n7|8\x1b[31m\u202e --yes JobId=1'
SAY = "sys.stdout.write(open({!r}).read())"
QALTER = r"""
said, soft = open({0!r}).read(), '"soft_walltime":"' + sys.argv[2][14:] + '",\n                "walltime"'
for name in sys.argv[3:]:
    head, mark, tail = said.partition('        "' + name + '":{{')
    said = head + mark + tail.replace('"walltime"', soft, 1)
open({0!r}, "w").write(said)
"""
HOUR_S = 3600
KIND = {"template": "who+what+gpus", "what": "solver", "gpus": 0, "most_jobs": 50}


def history(n: int = 60) -> Any:
    """Jobs of half an hour that asked for four hours, and of users that left the queue."""
    rows = [
        {
            "job_id": str(k), "user": ("ada", "bob")[k % 2], "account": "phys", "queue": "long", "job_name": "solver",
            "application": "solver", "submit_s": k * HOUR_S, "start_s": k * HOUR_S + 60,
            "end_s": k * HOUR_S + 60 + 1800 + k % 7, "runtime_s": 1800.0 + k % 7, "procs": 4,
            "requested_s": 4.0 * HOUR_S, "state": "COMPLETED",
        }
        for k in range(n)
    ]  # fmt: skip
    return jobs_of(rows)


def slurm_job(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "job_id": number, "array_job_id": 0, "array_task_string": "", "het_job_id": 0, "het_job_offset": 0,
        "name": "solver", "user_name": "ada", "group_name": HOSTILE, "comment": HOSTILE, "account": "phys",
        "partition": "long", "qos": "normal", "time_limit": 240, "cpus": 4, "memory_per_cpu": 100, "submit_time": 5,
        "job_state": "PENDING", "admin_comment": "",
    } | changes  # fmt: skip


class Site:
    """A published State, and the programs of a scheduler."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.publish(limited("ada", 2400.0, **KIND), limited("bob", 2400.0, **KIND))
        self.squeue, self.scontrol = self.program("squeue"), Scontrol(folder)
        self.qstat, self.qalter = (
            self.program("qstat"),
            Program(folder, "qalter", QALTER.format(str(folder / "qstat.said"))),
        )

    def publish(self, *limits: dict[str, object]) -> None:
        table, _ = learn_state(history(), SiteSettings(name="here"))
        self.out = put_out(table, self.folder, RunSettings(), limits=limits_of(*limits))

    def program(self, name: str) -> Program:
        """A program that says what is in a file."""
        (self.folder / f"{name}.said").write_text("")
        return Program(self.folder, name, SAY.format(str(self.folder / f"{name}.said")))

    def pending(self, *jobs: dict[str, Any]) -> None:
        said = json.dumps({"meta": {}, "errors": [], "jobs": jobs})
        (self.folder / "squeue.said").write_text(said)

    def config(self, export: str = "", apply: str = "") -> Path:
        path = self.folder / "site.toml"
        export = export if "mode" in export else f"mode = 'limit'\n{export}"
        path.write_text(f"output_dir = '{self.out}'\n[export]\n{export}\n[apply]\n{apply}")
        return path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Site(tmp_path)


def applied(walltime: Walltime, site: Site, how: str = "--yes", export: str = "", apply: str = "") -> dict[str, Any]:
    shown = walltime("apply", site.config(export, apply), how, "--json")
    assert shown.code == 0, shown.err
    return json.loads(shown.out)


def test_a_limit_is_lowered_by_one_call_without_a_shell(walltime: Walltime, site: Site) -> None:
    site.pending(slurm_job(7), slurm_job(8, job_state=["RUNNING"]))
    found = applied(walltime, site)
    (change,) = found["changes"]
    assert found["n_pending"] == found["n_changed"] == 1
    assert 2400 == change["to_s"] < 4 * HOUR_S == change["from_s"] == change["asked_s"]
    minutes = round(change["to_s"] / 60)
    (update,) = site.scontrol.updates
    assert update[:2] == ["JobId=7", f"TimeLimit={minutes}"] and site.scontrol.calls == [[]]
    assert update[2].startswith("AdminComment=walltime mode=limit ") and len(update) == 3
    assert asked_s_of(update[2].partition("=")[2]) == 4 * HOUR_S
    assert site.squeue.calls == [["--all", "--json"]] * 2
    assert all(HOSTILE not in word and "reboot" not in word for word in update)


def test_damaged_limits_change_no_job(walltime: Walltime, site: Site) -> None:
    site.pending(slurm_job(7))
    path = load_manifest(site.out).place(LIMITS.name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])
    refused = walltime("apply", site.config(), "--yes")
    assert refused.code == 2 and refused.err.count("\n") == 1 and "damaged bytes" in refused.err
    assert not site.scontrol.updates


def test_many_changes_are_one_call(walltime: Walltime, site: Site) -> None:
    site.pending(*(slurm_job(n, time_limit=200 + n) for n in range(1, 41)))
    assert applied(walltime, site)["n_changed"] == 40
    assert len(site.scontrol.calls) == 1 and len(site.scontrol.updates) == 40


@pytest.mark.parametrize("mode", ["dry_run", "priority"])
def test_nothing_changes_under_another_mode(walltime: Walltime, site: Site, mode: str) -> None:
    """`mode = "dry_run"` is also the default: `--yes` alone changes nothing."""
    site.pending(slurm_job(7))
    (site.folder / "qstat.said").write_text(as_qstat({"1.pbs": pbs_job()}))
    for scheduler in ("slurm", "pbs"):
        shown = walltime("apply", site.config(f"mode = '{mode}'"), "--yes", "--for", scheduler)
        assert shown.code == 2 and f"export.mode: found {mode}" in shown.err and shown.err.count("\n") == 1
    assert site.scontrol.calls == site.qalter.calls == []
    assert walltime("apply", site.config(f"mode = '{mode}'"), "--dry-run").code == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"comment": "urgent walltime:off"}, "its user wants no limit of ours"),
        ({"time_minimum": {"set": True, "number": 30}}, "it has a --time-min"),
        ({"batch_flag": False}, "it is interactive"),
        ({"resv_name": "course"}, "it waits for a reservation"),
        ({"restart_cnt": 1}, "it was requeued"),
        ({"admin_comment": 'by "hand"'}, "its AdminComment has quotes or other unusual characters"),
        ({"admin_comment": "a\nupdate JobId=8 TimeLimit=1"}, "its AdminComment has quotes or other unusual characters"),
        ({"admin_comment": "walltime mode=limit row=1 limit_min=40 asked_min=240"}, "its limit was raised"),
    ],
)
def test_a_job_that_is_not_for_us_is_left_alone(
    walltime: Walltime, site: Site, changes: dict[str, Any], reason: str
) -> None:
    site.pending(slurm_job(7, **changes))
    found = applied(walltime, site)
    assert found["changes"] == [] and found["left"] == {reason: 1} and site.scontrol.calls == []


def test_a_limit_that_somebody_raised_is_never_lowered_again(walltime: Walltime, site: Site) -> None:
    """Also where the comment is gone, and after the limit has been changed once more."""
    site.pending(slurm_job(7))
    assert applied(walltime, site)["n_changed"] == 1
    for raised_min in (200, 150):
        site.pending(slurm_job(7, time_limit=raised_min, admin_comment=""))
        assert applied(walltime, site)["left"] == {"its limit was raised": 1}
    # Another job of that number, and a damaged journal, which knows nothing.
    site.pending(slurm_job(7, submit_time=6))
    assert applied(walltime, site, "--dry-run")["changes"]
    site.pending(slurm_job(7, time_limit=150, admin_comment=""))
    assert not applied(walltime, site, "--dry-run")["changes"]
    journal = site.out / "live" / "applied.json"
    for damaged in ("[", journal.read_text().replace(": 0.0", ": 9.0")):
        journal.write_text(damaged)
        assert applied(walltime, site, "--dry-run")["changes"]


def test_a_new_application_of_a_known_user_keeps_its_limit(walltime: Walltime, site: Site) -> None:
    site.pending(slurm_job(7, name="never_ran_before", time_limit=600))
    assert applied(walltime, site)["left"] == {"few ended jobs of its user and kind": 1}


def test_one_version_limits_no_more_jobs_of_a_user_than_it_says(walltime: Walltime, site: Site) -> None:
    site.publish(limited("ada", 2400.0, **KIND | {"most_jobs": 2}))
    site.pending(*(slurm_job(n) for n in range(1, 5)))
    found = applied(walltime, site)
    assert [change["job_id"] for change in found["changes"]] == ["1", "2"]
    assert found["left"] == {"its user has no credit": 2}


def test_jobs_that_one_version_has_limited_count_in_later_rounds_although_they_wait_no_more(
    walltime: Walltime, site: Site
) -> None:
    site.publish(limited("ada", 2400.0, **KIND | {"most_jobs": 2}))
    site.pending(slurm_job(1), slurm_job(2))
    assert applied(walltime, site)["n_changed"] == 2
    # One has started. The other one keeps its limit, whoever comes before it in the queue.
    waits = slurm_job(2, time_limit=40, admin_comment=ours(40, 240))
    site.pending(slurm_job(3), waits)
    assert applied(walltime, site)["left"] == {"its user has no credit": 1, "no change": 1}
    site.pending(slurm_job(3), slurm_job(4))
    assert applied(walltime, site)["left"] == {"its user has no credit": 2}
    site.publish(limited("ada", 2460.0, **KIND | {"most_jobs": 2}))
    assert applied(walltime, site)["n_changed"] == 2


def test_each_waiting_task_of_an_array_counts(walltime: Walltime, site: Site) -> None:
    site.publish(limited("ada", 2400.0, **KIND | {"most_jobs": 9}))
    large = slurm_job(3, array_job_id=3, array_task_string="0-9")
    small = slurm_job(4, array_job_id=4, array_task_string="1,3-9:2%2")
    site.pending(large, small)
    found = applied(walltime, site)
    assert [change["job_id"] for change in found["changes"]] == ["4_[1,3-9:2]"]
    assert found["left"] == {"its user has no credit": 1}
    # Two of the five tasks have started: they count, too, and four more jobs are allowed.
    waits = small | {"array_task_string": "5,7,9", "time_limit": 40, "admin_comment": ours(40, 240)}
    site.pending(slurm_job(5, array_job_id=5, array_task_string="0-4"), waits)
    assert applied(walltime, site)["left"] == {"its user has no credit": 1, "no change": 1}
    site.pending(slurm_job(5, array_job_id=5, array_task_string="0-3"), waits)
    assert applied(walltime, site)["n_changed"] == 1


def test_without_credit_a_lowered_limit_becomes_what_was_asked_for(walltime: Walltime, site: Site) -> None:
    site.publish(limited("ada", None, **KIND | {"status": "no_credit"}))
    site.pending(slurm_job(7, time_limit=40, admin_comment=ours(40, 240)), slurm_job(8))
    found = applied(walltime, site)
    (change,) = found["changes"]
    assert (change["job_id"], change["to_s"]) == ("7", 4 * HOUR_S) and found["left"] == {"its user has no credit": 1}


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 0.95])
def test_a_damaged_table_changes_nothing(walltime: Walltime, site: Site, share: float) -> None:
    site.pending(slurm_job(7))
    (path,) = site.out.rglob("limits.parquet")
    path.chmod(0o600)
    whole = path.read_bytes()
    at = int(share * len(whole))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    shown = walltime("apply", site.config(), "--yes")
    assert shown.code == 2 and str(path) in shown.err and shown.err.count("\n") == 1
    assert site.scontrol.calls == []


def test_a_dry_run_says_the_same_and_calls_nothing(walltime: Walltime, site: Site) -> None:
    site.pending(slurm_job(7), slurm_job(9, user_name="eve\x1b[31m"))
    dry = applied(walltime, site, "--dry-run")
    shown = walltime("apply", site.config(), "--dry-run")
    assert site.scontrol.calls == []
    assert dry["n_changed"] == 0 and dry["changes"] == applied(walltime, site)["changes"] and len(dry["changes"]) == 1
    assert dry["left"] == {"few ended jobs of its user and kind": 1}
    assert "would change" in shown.out and "Nothing was changed" in shown.out and "\x1b[31m" not in shown.out


@pytest.mark.parametrize("words", [(), ("--dry-run", "--yes")])
def test_one_has_to_say_what_one_wants(walltime: Walltime, site: Site, words: tuple[str, ...]) -> None:
    site.pending(slurm_job(7))
    shown = walltime("apply", site.config(), *words)
    assert shown.code == 2 and "either --dry-run or --yes" in shown.err and site.scontrol.calls == []


def test_no_time_is_above_what_was_asked_for(walltime: Walltime, site: Site) -> None:
    site.pending(slurm_job(7, time_limit=30), slurm_job(8, time_limit=40))
    found = applied(walltime, site)
    assert found["changes"] == [] and found["left"] == {"no shorter limit": 2} and site.scontrol.calls == []


def ours(limit: object, asked: object, mode: str = "limit") -> str:
    return f"walltime mode={mode} row=7/3 limit_min={limit} asked_min={asked}"


def test_a_second_round_starts_from_what_was_asked_for(walltime: Walltime, site: Site) -> None:
    site.pending(slurm_job(7))
    minutes = round(applied(walltime, site)["changes"][0]["to_s"] / 60)
    comment = site.scontrol.updates[0][2].partition("=")[2]
    site.pending(slurm_job(7, time_limit=minutes, admin_comment=comment))
    assert applied(walltime, site)["left"] == {"no change": 1}
    # With a longer limit in the next version it rises again, up to what was asked for.
    site.publish(limited("ada", 6000.0, **KIND))
    wider = applied(walltime, site)["changes"][0]
    assert minutes * 60 < wider["to_s"] <= 4 * HOUR_S == wider["asked_s"]
    assert site.scontrol.updates[1][2].count("walltime mode=") == 1
    assert asked_s_of(site.scontrol.updates[1][2].partition("=")[2]) == 4 * HOUR_S


@pytest.mark.parametrize(
    ("limit_min", "comment", "asked_s"),
    [
        (60, ours(60, 240), 4 * HOUR_S),
        (240, ours(60, 240, "dry_run"), 4 * HOUR_S),
        (240, ours("same", 240), 4 * HOUR_S),
        (90, ours(60, 240), 90 * 60),  # somebody has changed it since
        (90, "walltime mode=limit limit_min=1 asked_min=none", 90 * 60),
        (60, "by hand; " + ours(60, 240) + "; more", 4 * HOUR_S),
        ({"set": True, "infinite": False, "number": 90}, "", 90 * 60),
        ({"set": False, "infinite": True, "number": 0}, "", None),
        (None, "", None),
    ],
)
def test_what_was_asked_for_is_read_from_the_comment(
    site: Site, limit_min: object, comment: str, asked_s: float | None
) -> None:
    site.pending(slurm_job(7, time_limit=limit_min, admin_comment=comment))
    (job,) = SLURM.pending(os.environ)
    assert job.asked_s == job.values["requested_s"] == asked_s


def test_a_comment_of_others_stays(walltime: Walltime, site: Site) -> None:
    site.pending(slurm_job(7, admin_comment="ticket 12"))
    applied(walltime, site)
    assert site.scontrol.updates[0][2].startswith("AdminComment=ticket 12; walltime mode=limit ")


@pytest.mark.parametrize(
    ("changes", "job_id", "fault"),
    [
        ({"array_job_id": 4, "array_task_string": "1-9%2"}, "4_[1-9]", ""),
        ({"array_job_id": {"set": True, "number": 4}, "array_task_string": "1,3-9:2"}, "4_[1,3-9:2]", ""),
        ({"array_job_id": 4, "array_task_string": "1,3,5,..."}, "4_[1,3,5,...]", "its list of tasks is cut"),
        ({"het_job_id": 5, "het_job_offset": 1, "job_id": 6}, "5+1", ""),
        ({"job_id": "1 2"}, "0", "it has no number"),
    ],
)
def test_an_id_names_pending_tasks_alone(site: Site, changes: dict[str, Any], job_id: str, fault: str) -> None:
    site.pending(slurm_job(7, **changes))
    (job,) = SLURM.pending({**os.environ, "SQUEUE_STATES": "RUNNING"})
    assert (job.job_id, job.fault) == (job_id, fault)


def test_who_has_opted_out_is_left_alone(walltime: Walltime, site: Site) -> None:
    site.pending(
        slurm_job(1), slurm_job(2, user_name="bob"), slurm_job(3, account="care"),
        slurm_job(4, partition="long,debug"), slurm_job(5, time_limit=None), slurm_job(6, user_name="new"),
    )  # fmt: skip
    opted = "opt_out = {users = ['bob'], accounts = ['care'], partitions = ['debug']}"
    found = applied(walltime, site, export=opted)
    assert [change["job_id"] for change in found["changes"]] == ["1"]
    assert found["left"] == {
        "account has opted out": 1, "few ended jobs of its user and kind": 1, "no time limit of its own": 1,
        "queue has opted out": 1, "user has opted out": 1,
    }  # fmt: skip
    assert found["n_pending"] == 1 + sum(found["left"].values())


def test_a_refused_change_does_not_stop_the_others(walltime: Walltime, site: Site) -> None:
    site.scontrol = Scontrol(site.folder, refuses=("7",))
    site.pending(slurm_job(7), slurm_job(8))
    shown = walltime("apply", site.config(), "--yes", "--json")
    found = json.loads(shown.out)
    assert shown.code == 1 and (found["n_changed"], found["n_failed"]) == (1, 1)
    assert "Access denied" in found["changes"][0]["failed"] and found["changes"][1]["failed"] is None
    plain = walltime("apply", site.config(), "--yes")
    assert plain.code == 1 and "Refused: job 7" in plain.out and "\x1b[31m" not in plain.out


def test_no_more_jobs_are_changed_than_the_site_allows(walltime: Walltime, site: Site) -> None:
    site.pending(*(slurm_job(n) for n in range(1, 6)))
    found = applied(walltime, site, apply="most_changes = 2")
    assert len(site.scontrol.updates) == 2 and found["left"] == {"after the largest number of changes": 3}


def test_old_limits_change_nothing(walltime: Walltime, site: Site) -> None:
    site.publish(limited("ada", 2400.0, **KIND, newest_end_s=1_000_000_000))
    site.pending(slurm_job(7))
    shown = walltime("apply", site.config(), "--yes")
    assert shown.code == 2 and "days ago" in shown.err and shown.err.count("\n") == 1
    assert walltime("apply", site.config(), "--dry-run").code == 0 and site.scontrol.calls == []
    assert walltime("apply", site.config("max_age_days = 99999.0"), "--yes").code == 0 and site.scontrol.calls


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("sys.exit('slurm_load_jobs error: Unable to contact slurm controller')", "Unable to contact"),
        ("print('no JSON')", "no list of jobs"),
        ("print('{\"jobs\": 3}')", "no list of jobs"),
        ("print('[]')", "no list of jobs"),
    ],
)
def test_a_failing_squeue_is_one_sentence(walltime: Walltime, site: Site, body: str, sentence: str) -> None:
    Program(site.folder, "squeue", body)
    shown = walltime("apply", site.config(), "--yes")
    assert shown.code == 2 and sentence in shown.err and shown.err.count("\n") == 1
    assert site.scontrol.calls == []


def pbs_job(**changes: Any) -> dict[str, Any]:
    asked = {"walltime": "04:00:00", "ncpus": 4, "mem": "4gb"} | changes.pop("asked", {})
    return {
        "Job_Name": "solver", "Job_Owner": "ada@login", "job_state": "Q", "queue": "long", "Account_Name": "phys",
        "Resource_List": asked,
    } | changes  # fmt: skip


def test_soft_walltime_is_set_for_jobs_that_wait(walltime: Walltime, site: Site) -> None:
    jobs = {
        "1.pbs": pbs_job(), "2.pbs": pbs_job(job_state="R"), "3[].pbs": pbs_job(job_state="H"),
        "4.pbs": pbs_job(asked={"soft_walltime": "00:40:00"}), "5.pbs": pbs_job(Job_Owner="new@x"),
        "6.pbs; reboot": pbs_job(), "7.pbs": pbs_job(asked={"walltime": None}), "8.pbs": pbs_job(run_count=1),
        "9.pbs": pbs_job(Variable_List={"HOME": "/", "WALLTIME": "off"}), "10.pbs": pbs_job(interactive="True"),
    }  # fmt: skip
    (site.folder / "qstat.said").write_text(as_qstat(jobs))
    shown = walltime("apply", site.config(), "--yes", "--for", "pbs", "--json")
    assert shown.code == 0, shown.err
    found = json.loads(shown.out)
    assert [change["job_id"] for change in found["changes"]] == ["1.pbs", "3[].pbs"]
    assert found["left"] == {
        "few ended jobs of its user and kind": 1, "it is interactive": 1, "it was requeued": 1, "its id is none": 1,
        "its user wants no limit of ours": 1, "no change": 1, "no time limit of its own": 1,
    }  # fmt: skip
    first = found["changes"][0]
    assert first["to_s"] == 2400 and first["from_s"] == first["asked_s"] == 4 * HOUR_S
    clock = f"00:{int(first['to_s'] // 60):02}:{int(first['to_s'] % 60):02}"
    assert site.qalter.calls == [["-l", f"soft_walltime={clock}", "1.pbs", "3[].pbs"]]
    assert site.qstat.calls == [["-f", "-F", "json"]] * 2 and site.scontrol.calls == []


def test_a_project_is_the_account_of_a_job_without_one_and_ranges_of_walltimes_are_left(site: Site) -> None:
    jobs = {
        "1.pbs": pbs_job(Account_Name=None, project="own"),
        "2.pbs": pbs_job(Account_Name=None, project="_pbs_project_default"),
        "3.pbs": pbs_job(project="own"),
        "4.pbs": pbs_job(asked={"min_walltime": "00:10:00"}),
    }
    (site.folder / "qstat.said").write_text(json.dumps({"pbs_version": "23.06", "Jobs": jobs}))
    found = OPENPBS.pending(os.environ)
    assert [job.values["account"] for job in found] == ["own", None, "phys", "phys"]
    assert [bool(job.fault) for job in found] == [False, False, False, True]


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
def test_a_name_that_breaks_the_json_hides_no_job(site: Site, written: str, name: str) -> None:
    text = as_qstat({"1.pbs": pbs_job(Job_Name="@"), "2.pbs": pbs_job()})
    (site.folder / "qstat.said").write_text(text.replace('"@"', written))
    one, two = OPENPBS.pending(os.environ)
    assert (one.job_id, two.job_id, one.asked_s, one.values["job_name"]) == ("1.pbs", "2.pbs", 4 * HOUR_S, name)
    assert (one.values["user"], one.values["requested_mem_kib"]) == ("ada", 1024.0**2)


@pytest.mark.parametrize(
    "line", ['"A":""}},"9.pbs":{"job_state":"Q","B":"1"', '"A":""},"Job_Owner":"root@x","B":{"C":"1"', '"A":"\\"']
)
def test_a_variable_adds_no_job_and_changes_no_owner(site: Site, line: str) -> None:
    text = as_qstat({"1.pbs": pbs_job(Variable_List={"HOME": "@"}), "2.pbs": pbs_job()})
    (site.folder / "qstat.said").write_text(text.replace('"HOME":"@"', line))
    jobs = OPENPBS.pending(os.environ)
    assert [(job.job_id, job.values["user"]) for job in jobs] == [("1.pbs", "ada"), ("2.pbs", "ada")]


def test_a_job_that_a_variable_s_lines_forge_is_left_alone(walltime: Walltime, site: Site) -> None:
    forged = as_qstat({"2.pbs": pbs_job()}).partition('"Jobs":{\n')[2]
    text = as_qstat({"1.pbs": pbs_job(Variable_List={"HERE": "1"}), "2.pbs": pbs_job(job_state="R")})
    (site.folder / "qstat.said").write_text(text.replace("HERE", "\n" + forged))
    shown = walltime("apply", site.config(), "--yes", "--for", "pbs", "--json")
    assert [call[2] for call in site.qalter.calls] == ["1.pbs"]
    assert json.loads(shown.out)["left"] == {"it is described twice": 1}


def test_another_layout_is_read_as_json_and_no_job_is_no_error(site: Site) -> None:
    with_tabs = json.dumps({"pbs_version": "9", "Jobs": {"1.pbs": pbs_job()}}, indent="\t")
    for said, n in ((with_tabs, 1), (as_qstat({}), 0)):
        (site.folder / "qstat.said").write_text(said)
        assert len(OPENPBS.pending(os.environ)) == n
    for said in ("", "[]", "{}", '{"pbs_version": 1, "Jobs": [1]}'):
        (site.folder / "qstat.said").write_text(said)
        with pytest.raises(InputError, match="no list of jobs"):
            OPENPBS.pending(os.environ)
