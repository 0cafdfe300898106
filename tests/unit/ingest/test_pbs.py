"""PBS accounting files: each way a value or a record is written, and what a job's records become."""

import gzip
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest.formats.pbs import PBS, layout, looks_right
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.logs import in_memory
from tests.unit.ingest.pbs_logs import DATE, T0, ended, queued, read, read_paths, record, started


def test_a_job_is_its_three_records_in_one_row() -> None:
    outcome = read(queued() + started() + ended("Resource_List.walltime=00:10:00"))
    job = outcome.only()
    assert (job["job_id"], job["state"], job["restart"]) == ("1.srv", "COMPLETED", 0)
    assert (job["submit_s"], job["eligible_s"], job["start_s"], job["end_s"]) == (T0, T0 + 1, T0 + 10, T0 + 70)
    assert (job["procs"], job["nodes"], job["runtime_s"], job["requested_s"]) == (4, 1, 60.0, 600.0)
    assert (job["user"], job["user_group"], job["queue"], job["job_name"]) == ("ann", "users", "workq", "run")
    assert (job["exit_code"], job["source_line"], job["account"]) == (0, 3, None)
    assert outcome.lines == {"event_Q": 1, "event_S": 1}


@pytest.mark.parametrize(
    ("records", "state", "end_s", "runtime_s"),
    [
        (queued(), "PENDING", None, None),
        (queued() + started(), "RUNNING", None, None),
        (queued() + record("D", message="requestor=ann@srv"), "CANCELLED", T0, None),
        (queued() + record("A", message="Job deleted as result of dependency on job 2.srv"), "CANCELLED", T0, None),
        (started() + record("D", message="requestor=x", date="11/21/2026 08:00:40"), "CANCELLED", T0 + 40, 30.0),
        (started() + record("D", date="11/21/2026 08:00:40") + ended(status=143), "CANCELLED", T0 + 70, 60.0),
        (started() + ended() + record("D", date="11/22/2026 09:00:00"), "COMPLETED", T0 + 70, 60.0),
        (record("D"), "CANCELLED", T0, None),
    ],
)
def test_the_records_a_job_has_tell_its_state(records: str, state: str, end_s: int, runtime_s: float) -> None:
    job = read(records).only()
    assert (job["state"], job["end_s"], job["runtime_s"]) == (state, end_s, runtime_s)


@pytest.mark.parametrize(
    ("status", "pbs", "torque"),
    [
        (0, "COMPLETED", "COMPLETED"), (3, "FAILED", "FAILED"), (143, "FAILED", "FAILED"), (271, "FAILED", "FAILED"),
        (-29, "TIMEOUT", "FAILED"), (-11, "FAILED", "TIMEOUT"), (-10, "FAILED", "OUT_OF_MEMORY"),
        (-27, "OUT_OF_MEMORY", "FAILED"), (-26, "OUT_OF_MEMORY", "FAILED"), (-4, "NODE_FAIL", "NODE_FAIL"),
        (-20, "NODE_FAIL", "FAILED"), (-1, "FAILED", "FAILED"), (-3, "FAILED", "FAILED"),
    ],
)  # fmt: skip
def test_exit_statuses_mean_what_each_system_documents(status: int, pbs: str, torque: str) -> None:
    job = read(ended(status=status)).only()
    assert (job["state"], job["exit_code"]) == (pbs, status)
    message = f"user=a queue=b ctime={T0} start={T0} owner=a@b exec_host=n/0 end={T0 + 9} Exit_status={status}"
    assert read(record("E", message=message)).only()["state"] == torque


def test_torque_s_minus_10_of_a_job_past_its_walltime_is_a_timeout() -> None:
    """TORQUE 2.5 to 4 wrote -10 for any limit; three jobs of the real log are such."""
    message = (
        f"user=a ctime={T0} start={T0} exec_host=n/0 Resource_List.walltime=00:15:00 end={T0 + 940} Exit_status=-10 "
        "resources_used.walltime=00:15:40"
    )
    assert read(record("E", message=message)).only()["state"] == "TIMEOUT"


def test_a_rerun_is_an_attempt_of_its_own() -> None:
    rerun = ended(status=-11, end=T0 + 40).replace(";E;", ";R;")
    jobs = read(queued() + started() + rerun + started(start=T0 + 80) + ended(start=T0 + 80, end=T0 + 140)).rows()
    assert {key: (job["state"], job["start_s"]) for key, job in jobs.items()} == {
        "1.srv": ("REQUEUED", T0 + 10),
        "1.srv/1": ("COMPLETED", T0 + 80),
    }


def test_a_rerun_record_without_keys_closes_the_start_before_it() -> None:
    log = started() + record("R", date="11/21/2026 08:00:30") + started(start=T0 + 80)
    jobs = read(log).rows()
    assert [(j["state"], j["end_s"], j["runtime_s"]) for j in jobs.values()] == [
        ("REQUEUED", T0 + 30, 20.0),
        ("RUNNING", None, None),
    ]


def test_a_start_that_another_start_follows_has_no_end() -> None:
    jobs = read(started() + started(start=T0 + 80) + ended(start=T0 + 80)).rows()
    assert [(job["state"], job["end_s"]) for job in jobs.values()] == [("REQUEUED", None), ("COMPLETED", T0 + 70)]


def test_an_id_used_again_is_another_job() -> None:
    again = ended().replace(f"ctime={T0} ", f"ctime={T0 + 1000} ").replace(f"start={T0 + 10}", f"start={T0 + 1010}")
    jobs = read(ended() + again.replace(f"end={T0 + 70}", f"end={T0 + 1070}") + queued()).rows()
    assert [job["submit_s"] for job in jobs.values()] == [T0, T0 + 1000]


def test_suspension_is_told_where_the_log_tells_of_one() -> None:
    log = started() + record("z", date="11/21/2026 08:00:20") + record("r", date="11/21/2026 08:00:30")
    outcome = read(log + ended(end=T0 + 78))
    assert (outcome.only()["suspended_s"], outcome.only()["runtime_s"]) == (8.0, 60.0)
    assert outcome.lines["other_r"] == 1
    assert read(ended(end=T0 + 78)).only()["suspended_s"] is None


def test_array_tasks_are_jobs_and_their_array_is_none() -> None:
    outcome = read(queued("170[].srv") + started("170[].srv") + ended(job_id="170[0].srv") + ended(job_id="170[1].srv"))
    assert [(key, job["array_id"]) for key, job in outcome.rows().items()] == [
        ("170[0].srv", "170[].srv"),
        ("170[1].srv", "170[].srv"),
    ]
    assert outcome.lines["array_parent"] == 2


def test_ids_of_two_servers_stay_apart() -> None:
    assert sorted(read(ended(job_id="1.a") + ended(job_id="1.b.org")).rows()) == ["1.a", "1.b.org"]


@pytest.mark.parametrize(
    ("hosts", "procs", "nodes"),
    [
        ("n1/7", 1, 1), ("n1/0*4", 4, 1), ("n1/0*4+n2/0-3", 8, 2), ("n/11+n/10+n/9", 3, 1), ("n1/0,2-3+n2/1", 4, 2),
        ("n1", 1, 1), ("n1/0+n2/0+n1/1", 3, 2), ("a.b.org/0*16+c-ib/3*16", 32, 2), ("n1/0*0", 0, 1),
        ("n1/x", None, None), ("n1/3-1", None, None), ("n1/99999999999", None, None),
    ],
)  # fmt: skip
def test_exec_host_in_all_forms(hosts: str, procs: int | None, nodes: int | None) -> None:
    job = read(ended().replace("exec_host=n1/0*4", f"exec_host={hosts}").replace("exec_vnode=(n1:ncpus=4) ", "")).only()
    assert (job["procs"], job["nodes"]) == (procs, nodes)


@pytest.mark.parametrize(
    ("vnodes", "procs", "gpus"),
    [
        ("(v[0]:ncpus=16:mem=2097152kb)+(v[1]:ncpus=16:mem=1kb)", 32, None), ("(v[0]:ncpus=8+v[1]:ncpus=4)", 12, None),
        ("(n1:ncpus=4:ngpus=2)+(n2:ncpus=4:ngpus=2)", 8, 4), ("(n1)", 4, None), ("(n1:mem=1gb)", 4, None),
        ("(n1:ncpus=x)", 4, None),
    ],
)  # fmt: skip
def test_exec_vnode_tells_processors_and_gpus_where_it_can(vnodes: str, procs: int, gpus: int | None) -> None:
    job = read(ended().replace("(n1:ncpus=4)", vnodes)).only()
    assert (job["procs"], job["gpus"], job["nodes"]) == (procs, gpus, 1)


@pytest.mark.parametrize(
    ("asked", "procs", "nodes"),
    [
        ("Resource_List.select=2:ncpus=16:mpiprocs=16+1:ncpus=4 Resource_List.ncpus=36 Resource_List.nodect=3", 36, 3),
        ("Resource_List.select=1:ncpus=8:mem=4gb+2:ncpus=4:mpiprocs=4", 16, 3), ("Resource_List.select=ncpus=3", 3, 1),
        ("Resource_List.select=4", 4, 4), ("Resource_List.nodes=1:ppn=12 Resource_List.ncpus=1", 12, 1),
        ("Resource_List.nodes=2:ppn=4+host:ppn=2", 10, 3), ("Resource_List.nodes=host1+host2", 2, 2),
        ("Resource_List.nodes=2:ppn=4#shared", 8, 2), ("Resource_List.ncpus=4", 4, None),
        ("Resource_List.procs=40", 40, None),
        ("Resource_List.select=host=n1:ncpus=2", 2, 1), ("Resource_List.place=pack", None, None),
    ],
)  # fmt: skip
def test_what_was_asked_for_in_all_forms(asked: str, procs: int | None, nodes: int | None) -> None:
    job = read(queued(message=asked)).only()
    assert (job["requested_procs"], job["requested_nodes"]) == (procs, nodes)


def test_gpus_asked_for_count_as_had_once_the_job_runs() -> None:
    asked = "Resource_List.nodes=2:ppn=4:gpus=1"
    assert read(queued(message=asked)).only()["gpus"] is None
    assert read(started(message=asked)).only()["gpus"] == 2
    assert read(started(message="exec_gpus=n1-gpu/1+n1-gpu/0")).only()["gpus"] == 2


@pytest.mark.parametrize(
    ("asked", "kib"),
    [
        ("Resource_List.mem=4gb", 1048576.0), ("Resource_List.mem=4096b", 1.0), ("Resource_List.mem=4096", 1.0),
        ("Resource_List.mem=512kw", 1024.0), ("Resource_List.mem=8MB", 2048.0), ("Resource_List.mem=1tb", 268435456.0),
        ("Resource_List.pmem=2gb", 2097152.0), ("Resource_List.pvmem=1gb", 1048576.0), ("Resource_List.vmem=4kb", 1.0),
        ("Resource_List.mem=much", None), ("Resource_List.walltime=1", None),
    ],
)  # fmt: skip
def test_memory_asked_for_is_shared_out_over_processors(asked: str, kib: float | None) -> None:
    assert read(queued(message=f"Resource_List.ncpus=4 {asked}")).only()["requested_mem_kib"] == kib


@pytest.mark.parametrize(
    ("asked", "typed"),
    [
        ("Resource_List.ncpus=4 Resource_List.mem=4gb", "4GiB/job"), ("Resource_List.pmem=2gb", "2GiB/processor"),
        ("Resource_List.select=4:ncpus=8:mem=16gb Resource_List.mem=64gb", "16GiB/node"),
        ("Resource_List.vmem=4kb", "4KiB/job"), ("Resource_List.mem=much", None),
    ],
)  # fmt: skip
def test_memory_asked_for_as_typed(asked: str, typed: str | None) -> None:
    assert read(queued(message=asked)).only()["requested_memory"] == typed


def test_memory_and_cpu_time_used_are_shared_out_too() -> None:
    job = read(ended().replace("run_count", "resources_used.mem=4000kb resources_used.cput=00:03:20 run_count")).only()
    assert (job["used_mem_kib"], job["cpu_s"]) == (1000.0, 50.0)


@pytest.mark.parametrize(
    ("walltime", "seconds"), [("00:25:00", 1500.0), ("300", 300.0), ("100:00:00", 360000.0), ("", None), ("-5", None)]
)
def test_walltime_in_all_forms(walltime: str, seconds: float | None) -> None:
    assert read(queued(message=f"Resource_List.walltime={walltime} x=1")).only()["requested_s"] == seconds


def test_without_walltime_used_the_runtime_is_end_minus_start() -> None:
    assert read(ended(end=T0 + 75).replace("resources_used.walltime=00:01:00 ", "")).only()["runtime_s"] == 65.0


@pytest.mark.parametrize(
    ("written", "account", "name"),
    [
        ('account="proj-a" jobname=run', "proj-a", "run"),
        ('account="with "quotes" = x" jobname=run', 'with "quotes" = x', "run"),
        ('account="a queue=z" jobname=run', "a queue=z", "run"),
        ("account=bare jobname=two words", "bare", "two words"),
        ("account=bare jobname=a;b=c|d", "bare", "a;b=c|d"),
        ("jobname=a x=1 b", None, "a x=1 b"),
        ('account="never closed jobname=run', '"never closed', "run"),
        ("project=climate jobname=run", "climate", "run"),
        ("project=climate account= jobname=", "climate", None),
        ('account="" jobname=naïve-σ', None, "naïve-σ"),
    ],
)
def test_texts_as_people_write_them(written: str, account: str | None, name: str | None) -> None:
    job = read(
        record("Q", message=f"user=ann group=users {written} queue=workq ctime={T0} Resource_List.ncpus=2")
    ).only()
    assert (job["account"], job["job_name"], job["queue"], job["requested_procs"]) == (account, name, "workq", 2)


def test_a_job_name_cannot_pose_as_another_user() -> None:
    log = record("Q", message=f"user=ann group=users jobname=x user=root group=root queue=workq ctime={T0}")
    job = read(log).only()
    assert (job["user"], job["user_group"], job["queue"]) == ("ann", "users", "workq")
    posed = record("Q", message=f"user=ann group=users jobname=x queue=fake queue=workq ctime={T0}")
    assert [row["reason"] for row in read(posed.replace("1.srv", "2.srv") + log).unreadable.to_pylist()] == [
        "repeated_key"
    ]


def test_bytes_that_are_no_utf8_become_escapes() -> None:
    log = ended().encode().replace(b"jobname=run", b"jobname=r\xffn")
    assert read(log).only()["job_name"] == "r\\xffn"


def test_a_wrapped_record_is_one_record() -> None:
    plain = ended("Resource_List.walltime=00:10:00")
    outcome = read(plain.replace(" ", "\n").replace("2026\n", "2026 ") + queued("2.srv"))
    assert outcome.rows()["1.srv"] | {"source_file": ""} == read(plain).only() | {"source_file": ""}
    assert outcome.lines["continued"] == plain.count(" ") - 1


def test_a_damaged_date_does_not_run_into_the_record_before() -> None:
    outcome = read(queued() + "x" + ended(job_id="2.srv", status=9))
    assert outcome.only()["state"] == "PENDING"
    assert [(row["reason"], row["source_line"]) for row in outcome.unreadable.to_pylist()] == [("not_a_record", 2)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("rubbish", "not_a_record"), (f"{DATE};E", "no_record_type"), (f"{DATE};;1.srv;x", "no_record_type"),
        (f"{DATE};0100;PBS_Server;x", "no_record_type"), (f"{DATE};E;1.srv", "cut_short"),
        (f"{DATE};E;;x=1", "no_job_id"),
        (f"{DATE};E;R12.srv;x=1", "no_job_id"), (f"{DATE};E;1 2.srv;x=1", "no_job_id"),
        ("13/45/2026 08:00:00;E;2.srv;x=1", "bad_date"), ("11/21/2026 25:00:00;E;2.srv;x=1", "bad_date"),
        (f"{DATE};E;2.srv;start=soon", "bad_number"), (f"{DATE};E;2.srv;Exit_status=x", "bad_number"),
        (f"{DATE};E;2.srv;end=99999999999999", "bad_number"), ("y" * (1 << 20) + "y", "line_too_long"),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_read_are_set_aside(line: str, reason: str) -> None:
    first = ended()
    outcome = read(first + "\n" + line + "\r\n" + queued("3.srv"))
    assert sorted(outcome.rows()) == ["1.srv", "3.srv"]
    (row,) = outcome.unreadable.to_pylist()
    assert (row["reason"], row["source_line"], row["byte_offset"]) == (reason, 3, len(first) + 1)
    assert row["raw"] == line[:500]
    assert outcome.lines["blank"] == 1


def test_other_record_types_are_counted_by_type() -> None:
    outcome = read(
        ended() + record("L", "license", "floating license") + record("B", "R1.srv") + record("L", "license")
    )
    assert (outcome.lines["other_L"], outcome.lines["other_B"], outcome.jobs.num_rows) == (2, 1, 1)


def test_overlapping_files_give_a_job_once() -> None:
    log = queued() + started() + ended()
    outcome = read(log, log)
    assert outcome.jobs.num_rows == 1
    assert outcome.lines == {"event_Q": 2, "event_S": 2, "event_E": 1}


def test_a_log_read_twice_keeps_what_a_start_told_of_its_rerun() -> None:
    log = started() + record("R", date="11/21/2026 08:00:30")
    once, twice = read(log), read(log, log)
    assert once.only()["queue"] == twice.only()["queue"] == "workq"
    assert twice.lines == {"event_S": 2, "event_R": 1}


def test_a_log_without_one_readable_record_of_a_job_has_no_jobs() -> None:
    bad = ended(status=0).replace("Exit_status=0", "Exit_status=x")
    outcome = read(record("L") + bad + bad)
    assert (outcome.jobs.num_rows, outcome.unreadable.num_rows) == (0, 2)


def test_a_day_file_may_hold_a_part_of_a_job() -> None:
    assert read(ended(), queued(), started()).only()["state"] == "COMPLETED"


def test_the_line_s_own_date_is_of_the_site_s_zone() -> None:
    torque = record("Q", "7.srv", "queue=all", date="08/19/2013 00:01:24")
    assert read(torque, timezone="Europe/Stockholm").only()["submit_s"] == 1376863284
    assert read(torque).only()["submit_s"] == 1376870484


def test_dates_in_another_zone_than_the_site_s_are_told() -> None:
    log = ended().replace(DATE, "11/21/2026 10:01:10")
    assert "site.timezone" in " ".join(PBS.notes(read(log).remarks, IngestSettings()))
    assert not PBS.notes(read(log, timezone="Europe/Helsinki").remarks, IngestSettings())


def test_values_in_no_documented_form_are_unknown_and_told() -> None:
    remarks = read(queued(message="Resource_List.walltime=soon Resource_List.mem=much")).remarks
    assert "2 values" in " ".join(PBS.notes(remarks, IngestSettings()))


def test_what_is_no_accounting_file_is_refused() -> None:
    for log in ("1 2 3 4 5\n" * 3, "rubbish\n" * 200, ""):
        with pytest.raises(InputError):
            read(log)
    with pytest.raises(InputError, match=r"line 2: found not a record"):
        read(ended() + "rubbish\n", strict=True)


def test_a_source_is_known_by_its_first_records() -> None:
    assert looks_right(b"\n\n" + ended().encode())
    assert not looks_right(b"08/19/2013 00:01:24;0100;PBS_Server;Job;1.srv;enqueuing\n")
    assert not looks_right(b"JobID|State\n1|COMPLETED\n")


def test_inspect_is_told_of_the_keys() -> None:
    told = layout(in_memory(ended("Resource_List.software=x").encode()), SiteSettings(), IngestSettings())
    assert {"user", "ctime", "exec_host"} < set(told.found)
    assert "account" in told.missing
    assert told.ignored == ("Resource_List.software",)


def test_small_blocks_change_nothing(tmp_path: Path) -> None:
    wrapped = ended().replace(" ", "\n", 5).replace("2026\n", "2026 ")
    jobs = [(queued() + started() + wrapped).replace("1.srv", f"{k}.srv") for k in range(30)]
    log = "".join(jobs)
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(log.encode()))
    whole = read_paths(path)
    for block_bytes in (100, 333, 1000):
        assert read_paths(path, block_bytes=block_bytes).jobs.equals(whole.jobs)
