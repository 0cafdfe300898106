"""LSF's lsb.acct and Slurm's jobcomp/filetxt: the simulated day's jobs that ended, and records made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings

SAMPLES = Path(__file__).resolve().parents[3] / "data_samples"
TRUTH = json.loads((SAMPLES / "millrace.truth.json").read_text())
LSF = (SAMPLES / "millrace.lsb.acct").read_text()
JOBCOMP = (SAMPLES / "millrace.jobcomp").read_text()


def read(path: Path, text: str, **settings: Any) -> tuple[list[dict[str, Any]], list[tuple[int, str]], Any]:
    """The jobs of a text, where and why its lines are unreadable, and the report."""
    path.write_text(text)
    site = SiteSettings(name="here", timezone=settings.pop("timezone", "UTC"))
    jobs, bad, report = ingest([path], site, IngestSettings(**({"max_damaged": 1.0} | settings)))
    return jobs.to_pylist(), [(row["source_line"], row["reason"]) for row in bad.to_pylist()], report


@pytest.mark.parametrize("name", ["millrace.lsb.acct", "millrace.jobcomp"])
def test_the_simulated_day_comes_out(name: str) -> None:
    jobs, unreadable, _ = ingest([SAMPLES / name], SiteSettings(name="here"), IngestSettings())
    assert unreadable.num_rows == 0
    by_number = {}
    for job in jobs.to_pylist():
        first, _, place = job["job_id"].replace("[", "_").rstrip("]").partition("_")
        is_lsf_element = bool(place) and name.endswith(".acct")
        by_number[int(first) + int(place or 0) - is_lsf_element] = job
    over = {one["number"]: one for one in TRUTH["attempts"] if one["end_s"] and one["state"] != "REQUEUED"}
    assert by_number.keys() == over.keys()
    for number, one in over.items():
        job = by_number[number]
        for same in ("submit_s", "start_s", "end_s", "requested_s", "user", "state", "job_name"):
            assert job[same] == one[same], (number, same)
        if one["start_s"] is not None:
            assert job["procs"] == one["procs"] and job["runtime_s"] == one["end_s"] - one["start_s"]
        assert (job["array_id"] is None) == (one["array_index"] is None)


def test_they_say_the_same_of_a_job(tmp_path: Path) -> None:
    lsf, jobcomp = read(tmp_path / "a", LSF)[0], read(tmp_path / "b", JOBCOMP)[0]
    by_id = {job["job_id"]: job for job in jobcomp}
    alike = [job for job in lsf if job["array_id"] is None and job["start_s"]]
    for job in alike:
        for same in ("user", "account", "queue", "application", "nodes"):
            assert job[same] == by_id[job["job_id"]][same], same
    assert len(alike) > 100
    one = next(job for job in lsf if job["state"] == "FAILED")
    assert (one["exit_code"], one["requested_procs"]) == (1, by_id[one["job_id"]]["procs"])
    assert one["cpu_s"] > 0 and one["used_mem_kib"] > 0
    assert by_id[one["job_id"]]["requested_memory"].endswith("/job")


def lsf_record(**changed: str) -> str:
    """The first record of the sample with some of its parts changed, by what stands there."""
    line = LSF.splitlines()[0]
    for old, new in changed.items():
        assert old in line
        line = line.replace(old, new)
    return line


def test_an_older_version_has_no_limit(tmp_path: Path) -> None:
    first = LSF.splitlines()[0]
    head = first.partition(' "select[')[0].replace('"10.1"', '"7.06"')
    jobs, bad, _ = read(tmp_path / "a", head + "\n")
    assert (len(jobs), bad) == (1, [])
    assert jobs[0]["requested_s"] is None and jobs[0]["runtime_s"] == jobs[0]["end_s"] - jobs[0]["start_s"]


def test_hosts_may_have_five_fields_as_the_page_says_or_six(tmp_path: Path) -> None:
    line = LSF.splitlines()[0]
    assert ' 1 "n1" 10 0 5 1 0 ' in line
    six, five = (
        read(tmp_path / "a", text + "\n")[0] for text in (line, line.replace('"n1" 10 0 5 1 0 ', '"n1" 10 0 5 1 '))
    )
    assert six == five


def test_a_reason_of_the_end_is_a_state(tmp_path: Path) -> None:
    lines = [line for line in LSF.splitlines() if '"JOB_FINISH"' in line and " 64 60.000000 " in line][:2]
    ended = [line.replace(" 64 60.000000 ", " 32 60.000000 ") for line in lines]
    limit = ended[0].replace(' 0 "" 0 "" -1 "" "" ""', ' 0 "" 5 "" -1 "" "" ""')
    jobs, _, _ = read(tmp_path / "a", "\n".join([limit, ended[1]]) + "\n")
    assert sorted(job["state"] for job in jobs) == ["FAILED", "TIMEOUT"]


def test_what_is_no_whole_record_is_set_aside(tmp_path: Path) -> None:
    one, two, three = LSF.splitlines()[:3]
    text = "\n".join([one, two[: len(two) // 2], three[: len(three) // 2] + two, "", LSF.splitlines()[-1], three])
    jobs, bad, report = read(tmp_path / "a", text)
    assert len(jobs) == 1
    assert bad == [(2, "not_a_record"), (3, "not_a_record"), (6, "no_line_end")]
    assert report.seen.rows == 6
    assert len(read(tmp_path / "a", text, last_line="take")[0]) == 2


@pytest.mark.parametrize("count", ["999999999999", "-1", "x"])
def test_a_count_that_the_record_cannot_hold_costs_nothing(tmp_path: Path, count: str) -> None:
    one, two = LSF.splitlines()[:2]
    for n_pairs_or_hosts in ((" 1 1032 ", f" {count} 1032 "), (' 1 "n1" 10 0 ', f' {count} "n1" 10 0 ')):
        _, bad, _ = read(tmp_path / "a", f"{one.replace(*n_pairs_or_hosts)}\n{two}\n")
        assert bad == [(1, "not_a_record")]


def test_other_events_are_counted_by_type_and_no_other_text_is_a_type(tmp_path: Path) -> None:
    others = ('"JOB_RESIZE" "10.1" 1', '"EV\x1b[2J" "10.1" 1', '"ADA BELL" "10.1" 1', f'"{"A" * 41}" "10.1" 1')
    _, bad, report = read(tmp_path / "a", "\n".join([LSF.splitlines()[0], *others]) + "\n")
    assert bad == [(line, "not_a_record") for line in (3, 4, 5)]
    assert [name for name in report.set_aside if name.startswith("other_")] == ["other_JOB_RESIZE"]


def test_a_job_that_never_ran_has_no_start(tmp_path: Path) -> None:
    jobs, _, _ = read(tmp_path / "a", LSF)
    never = [job for job in jobs if job["start_s"] is None]
    assert never and all(job["state"] == "CANCELLED" and job["runtime_s"] is None for job in never)
    assert all(job["procs"] is None and job["requested_procs"] for job in never)


def test_times_of_jobcomp_are_local_and_limits_may_be_none(tmp_path: Path) -> None:
    line = JOBCOMP.splitlines()[0]
    before = line.partition(" TimeLimit=")[0]
    after = line.partition(" StartTime=")[2]
    text = f"{before} TimeLimit=UNLIMITED StartTime={after}\n"
    (utc,), _, _ = read(tmp_path / "a", text)
    (oslo,), _, _ = read(tmp_path / "a", text, timezone="Europe/Oslo")
    assert oslo["submit_s"] == utc["submit_s"] - 3600 and utc["requested_s"] is None


def test_a_key_that_comes_twice_sets_the_line_aside(tmp_path: Path) -> None:
    one, two = JOBCOMP.splitlines()[:2]
    planted = two.replace(" Name=", " Name=x JobState=COMPLETED ProcCnt=9999 ")
    jobs, bad, _ = read(tmp_path / "a", "\n".join([one, planted, one[:200] + two, two]) + "\n")
    assert len(jobs) == 2 and bad == [(2, "not_a_record"), (3, "not_a_record")]


def test_gpus_memory_and_a_user_without_a_name(tmp_path: Path) -> None:
    line = JOBCOMP.splitlines()[0]
    user = line.partition("UserId=")[2].partition("(")[0]
    text = line.replace(f"UserId={user}(1001)", "UserId=(null)(1001)")
    text = text[: text.index(" Tres=")] + " Tres=cpu=4,mem=8G,node=1,gres/gpu=2" + text[text.index(" Account=") :]
    (job,), _, _ = read(tmp_path / "a", text + "\n")
    assert (job["user"], job["gpus"], job["requested_memory"], job["cluster"]) == ("1001", 2, "8GiB/job", "millrace")


REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "sacct" / "real-slurm-22.05.8"


@pytest.mark.skipif(not REAL.is_dir(), reason="the logs of the test cluster are not beside the checkout")
def test_a_real_jobcomp_file_says_what_sacct_says() -> None:
    settings = IngestSettings(max_damaged=1.0)
    jobs, unreadable, _ = ingest([REAL / "jobcomp-filetxt.txt.gz"], SiteSettings(name="here"), settings)
    sacct, _, _ = ingest([REAL / "sacct-X-parsable2.txt.gz"], SiteSettings(name="here"), settings)
    by_key = {(job["job_id"], job["start_s"]): job for job in sacct.to_pylist()}
    both = [(job, by_key.get((job["job_id"], job["start_s"]))) for job in jobs.to_pylist()]
    pairs = [(one, other) for one, other in both if other is not None]
    assert len(pairs) > 500 and unreadable.num_rows == 2
    for one, other in pairs:
        for name in ("user", "account", "queue", "qos", "submit_s", "eligible_s", "end_s", "procs", "nodes", "state"):
            assert one[name] == other[name], (one["job_id"], name)
        assert (one["requested_s"], one["exit_code"]) == (other["requested_s"], other["exit_code"])
