"""Tables whose columns are guessed, through `walltime ingest`, `init`, `run` and `query`: a guess must fit its rows."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]
START = datetime(2026, 3, 2, 8)
T0 = 1_772_438_400
"""START in UTC."""

NO_VAL, INFINITE = 4294967294, 4294967295


def table_of(n: int = 30, **columns: Sequence[object]) -> dict[str, Sequence[object]]:
    """Jobs 10 minutes apart that start after 1 minute and run for 30 to 59 minutes, with other columns beside."""
    begun = [START + timedelta(minutes=10 * i) for i in range(n)]
    stamps = {
        "submit_time": begun,
        "start_time": [one + timedelta(minutes=1) for one in begun],
        "end_time": [one + timedelta(minutes=31 + i % 30, seconds=i) for i, one in enumerate(begun)],
    }
    return {
        "job_id": range(n), "user": [f"u{i % 3}" for i in range(n)], "ncpus": [8] * n, "state": ["COMPLETED"] * n,
        **{name: [f"{one:%Y-%m-%d %H:%M:%S}" for one in stamp] for name, stamp in stamps.items()}, **columns,
    }  # fmt: skip


def csv(path: Path, columns: Mapping[str, Sequence[object]], delimiter: str = ",") -> Path:
    rows = [columns, *zip(*columns.values(), strict=True)]
    path.write_text("".join(delimiter.join(map(str, row)) + "\n" for row in rows))
    return path


def ingested(walltime: Walltime, log: Path, *options: object) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of JOBS by name, in the order of the log, and the notes."""
    out = log.with_name("jobs.parquet")
    done = walltime("ingest", log, "--site", "here", "--out", out, "--json", *options)
    assert done.code == 0, done.err
    return pq.read_table(out).sort_by("source_line").to_pydict(), json.loads(done.out)["report"]["notes"]


def dry_run(walltime: Walltime, log: Path) -> dict[str, Any]:
    (found,) = json.loads(walltime("ingest", "--dry-run", log, "--site", "here", "--json").out)["logs"]
    return dict(found)


def runtimes(n: int) -> list[float]:
    return [60.0 * (30 + i % 30) + i for i in range(n)]


@pytest.mark.parametrize("name", ["walltime", "Wall Time", "wallTime", "wall_time", "elapsed"])
def test_a_runtime_that_is_not_end_less_start_is_the_limit(tmp_path: Path, walltime: Walltime, name: str) -> None:
    log = csv(tmp_path / "a.csv", table_of(**{name: [7200] * 30}))
    jobs, notes = ingested(walltime, log)
    assert jobs["runtime_s"] == runtimes(30) and jobs["requested_s"] == [7200.0] * 30
    assert any(f"column {name} is not taken for runtime_s: it is not end - start, and 100%" in note for note in notes)


def test_a_walltime_beside_a_duration_is_the_limit(tmp_path: Path, walltime: Walltime) -> None:
    log = csv(tmp_path / "a.csv", table_of(walltime=[120] * 30, duration=[int(s) for s in runtimes(30)]))
    jobs, _ = ingested(walltime, log)
    assert jobs["runtime_s"] == runtimes(30) and jobs["requested_s"] == [7200.0] * 30


def test_a_walltime_that_is_end_less_start_is_the_runtime_also_beside_one(tmp_path: Path, walltime: Walltime) -> None:
    used = [int(s) for s in runtimes(30)]
    jobs, _ = ingested(walltime, csv(tmp_path / "a.csv", table_of(walltime=used)))
    assert jobs["runtime_s"] == runtimes(30) and jobs["requested_s"] == [None] * 30
    jobs, notes = ingested(walltime, csv(tmp_path / "b.csv", table_of(walltime=used, duration=used)))
    assert jobs["runtime_s"] == runtimes(30) and jobs["requested_s"] == [None] * 30
    assert any("walltime is not taken for requested_s: it is the runtime in 30 of 30 rows" in note for note in notes)


def test_a_query_of_a_table_with_walltimes_answers_with_runtimes(tmp_path: Path, walltime: Walltime) -> None:
    """900 jobs of 30 minutes under limits of two hours; one of 16 reaches the limit."""
    draw = random.Random(8)
    begun, took = [START + timedelta(hours=2 * i) for i in range(900)], []
    for _ in begun:
        is_over = draw.random() < 0.06
        took.append(timedelta(seconds=7203 if is_over else draw.gauss(1800, 90)))
    columns = {
        "job_id": range(900), "user": [f"u{i % 3}" for i in range(900)], "application": ["relax"] * 900,
        "submit_time": [f"{one:%Y-%m-%d %H:%M:%S}" for one in begun],
        "start_time": [f"{one + timedelta(minutes=2):%Y-%m-%d %H:%M:%S}" for one in begun],
        "end_time": [f"{a + timedelta(minutes=2) + b:%Y-%m-%d %H:%M:%S}" for a, b in zip(begun, took, strict=True)],
        "walltime": [7200] * 900, "ncpus": [16] * 900,
        "state": ["TIMEOUT" if one.seconds > 7200 else "COMPLETED" for one in took],
    }  # fmt: skip
    log, config = csv(tmp_path / "wl.csv", columns), tmp_path / "wl.toml"
    assert walltime("init", "--log", log, "--site", "wl", "--out", config).code == 0
    assert walltime("run", config, "--plain", "--quiet").code == 0
    asked = ("--user", "u1", "--application", "relax", "--procs", 16, "--requested", "2h")
    answer = json.loads(walltime("query", "--from", tmp_path / "wl-tables", *asked, "--json").out)
    assert 1500 < answer["runtime_s"] < 2100


@pytest.mark.parametrize("mark", [NO_VAL, INFINITE, "UNLIMITED", "infinite", "INFINITE", "inf", "Infinity", 2**64 - 1])
def test_a_mark_for_no_limit_is_no_limit_and_the_others_keep_their_unit(
    tmp_path: Path, walltime: Walltime, mark: object
) -> None:
    log = csv(tmp_path / "a.csv", table_of(time_limit_min=[mark, *[90] * 29]))
    jobs, _ = ingested(walltime, log)
    assert jobs["requested_s"] == [None, *[5400.0] * 29] and len(jobs["job_id"]) == 30


@pytest.mark.parametrize("mark", [float("inf"), float(INFINITE), 2.0**64])
def test_a_mark_for_no_limit_in_parquet_sets_no_row_aside(tmp_path: Path, walltime: Walltime, mark: float) -> None:
    columns = {name: list(one) for name, one in table_of(time_limit_min=[mark, *[90.0] * 29]).items()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    jobs, _ = ingested(walltime, tmp_path / "a.parquet")
    assert jobs["requested_s"] == [None, *[5400.0] * 29]


def test_one_bad_value_leaves_the_unit_of_the_others(tmp_path: Path, walltime: Walltime) -> None:
    log = csv(tmp_path / "a.csv", table_of(time_limit_min=["often", "1-00:00:00", *[90] * 28]))
    jobs, _ = ingested(walltime, log)
    assert jobs["requested_s"] == [86_400.0, *[5400.0] * 28]
    bad = pq.read_table(tmp_path / "jobs.unreadable.parquet").to_pydict()
    assert (bad["reason"], bad["source_line"]) == (["not_a_duration"], [2])


def job_table(path: Path, **changes: Sequence[object]) -> Path:
    """Rows of slurmdbd's job_table, as `select *` gives them."""
    columns: dict[str, Sequence[object]] = {
        "job_db_inx": [1, 2, 3], "account": ["chem"] * 3, "cpus_req": [16] * 3, "derived_ec": [0, 512, 0],
        "exit_code": [0, 256, 9], "job_name": ["relax"] * 3, "id_array_job": [0, 0, 99], "id_job": [101, 102, 103],
        "id_user": [1001] * 3, "id_group": [1001] * 3, "mem_req": [2**63 + 4000, 64000, 0], "nodes_alloc": [1] * 3,
        "partition": ["cpu"] * 3, "state": [3, 5, 4], "timelimit": [120, INFINITE, NO_VAL],
        "time_submit": [T0] * 3, "time_eligible": [T0] * 3, "time_start": [T0 + 300, T0 + 300, 0],
        "time_end": [T0 + 3900] * 3, "time_suspended": [0] * 3, "work_dir": ["/home/a"] * 3,
        "tres_alloc": ['"1=16,2=64000,4=1"', '"1=16,2=64000,4=1,1001=2"', ""],
    }  # fmt: skip
    return csv(path, columns | changes)


def test_slurmdbd_s_job_table_is_read_with_its_codes_and_marks(tmp_path: Path, walltime: Walltime) -> None:
    jobs, notes = ingested(walltime, job_table(tmp_path / "job_table.csv"))
    expected = {
        "requested_s": [7200.0, None, None], "procs": [16, 16, None], "gpus": [0, 2, None], "exit_code": [0, 1, 137],
        "derived_exit_code": [0, 2, 0], "state": ["COMPLETED", "FAILED", "CANCELLED"],
        "requested_memory": ["4000MiB/processor", "64000MiB/node", None], "array_id": [None, None, "99"],
        "requested_mem_kib": [4000.0 * 1024, 4000.0 * 1024, None], "start_s": [T0 + 300, T0 + 300, None],
        "account": ["chem"] * 3, "job_name": ["relax"] * 3, "runtime_s": [3600.0, 3600.0, None],
    }  # fmt: skip
    assert {name: jobs[name] for name in expected} == expected
    assert any("job_table" in note for note in notes) and any("resource 1001" in note for note in notes)


def test_memory_per_processor_is_exact_in_integers_with_a_sign(tmp_path: Path, walltime: Walltime) -> None:
    table = {name: list(one) for name, one in table_of(3).items()}
    for kind, values in ((pa.int64(), [4001 - 2**63, 64, 0]), (pa.uint64(), [2**63 + 4001, 64, 0])):
        written = pa.table(table | {"mem_mib": pa.array(values, kind)}).rename_columns({"mem_mib": "mem_req_mib"})
        pq.write_table(written, tmp_path / "a.parquet")
        jobs, _ = ingested(walltime, tmp_path / "a.parquet")
        assert jobs["requested_mem_kib"] == [4001.0 * 1024, 64 * 1024 / 8, None]


def test_a_table_with_a_column_jobid_is_told_from_a_dump_of_sacct(tmp_path: Path, walltime: Walltime) -> None:
    plain = table_of(3, time_limit=[7200] * 3)
    names = {
        "job_id": "JobID", "user": "User", "submit_time": "SubmitTime", "start_time": "StartTime", "ncpus": "NumCPUs",
        "end_time": "EndTime", "time_limit": "TimeLimit", "state": "State",
    }  # fmt: skip
    titled = {name: plain[old] for old, name in names.items()}
    small = {name[0].lower() + name[1:]: values for name, values in titled.items()} | {"jobId": plain["job_id"]}
    small.pop("jobID")
    for name, columns in (("title.csv", titled), ("camel.csv", small)):
        assert dry_run(walltime, csv(tmp_path / name, columns))["format"] == "table"
        jobs, _ = ingested(walltime, tmp_path / name)
        assert jobs["submit_s"] == [T0, T0 + 600, T0 + 1200] and jobs["procs"] == [8] * 3
    rows = [dict(zip(small, row, strict=True)) for row in zip(*small.values(), strict=True)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    jobs, _ = ingested(walltime, tmp_path / "a.jsonl")
    assert jobs["submit_s"] == [T0, T0 + 600, T0 + 1200] and jobs["requested_s"] == [7200.0] * 3


@pytest.mark.parametrize("delimiter", ["|", ",", "^|^", "~"])
def test_a_dump_of_sacct_is_one_with_any_delimiter(tmp_path: Path, walltime: Walltime, delimiter: str) -> None:
    names = ["JobID", "JobName", "User", "State", "Submit", "Start", "End", "Elapsed", "Timelimit", "AllocCPUS"]
    at = [f"2026-03-02T{8 + hour:02}:00:00" for hour in range(3)]
    rows = [[str(i), "relax", "ann", "COMPLETED", *at, "01:00:00", "UNLIMITED", "4"] for i in range(20)]
    rows.append(["0.batch", "batch", "", "COMPLETED", at[1], at[1], at[2], "01:00:00", "", "4"])
    log = tmp_path / "dump.txt"
    log.write_text("".join(delimiter.join(row) + "\n" for row in [names, *rows]))
    found = dry_run(walltime, log)
    assert (found["format"], found["n_jobs"], found["error"]) == ("sacct", 20, None)


def test_clustercockpit_s_records_have_a_start_but_no_submit_and_that_is_said(
    tmp_path: Path, walltime: Walltime
) -> None:
    record = {"user": "ann", "partition": "gpu", "arrayJobId": 0, "numNodes": 2, "numHwthreads": 32, "numAcc": 4}
    record |= {"jobState": "timeout", "duration": 7203, "walltime": 7200, "resources": [{"hostname": "n1"}]}
    rows = [{"jobId": i, "startTime": T0 + i, **record} for i in range(3)]
    (tmp_path / "cc.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    jobs, notes = ingested(walltime, tmp_path / "cc.jsonl")
    expected = {
        "job_id": ["0", "1", "2"], "start_s": [T0, T0 + 1, T0 + 2], "submit_s": [T0, T0 + 1, T0 + 2],
        "runtime_s": [7203.0] * 3, "requested_s": [7200.0] * 3, "procs": [32] * 3, "gpus": [4] * 3, "nodes": [2] * 3,
        "state": ["TIMEOUT"] * 3, "array_id": [None] * 3,
    }  # fmt: skip
    assert {name: jobs[name] for name in expected} == expected
    assert any("each job's start stands in" in note for note in notes)


def test_rows_without_processors_count_their_nodes_or_gpus(tmp_path: Path, walltime: Walltime) -> None:
    columns = table_of(5, ncpus=[128, 0, 0, 0, ""], nodes=[4, 12, 0, 0, 3], gpus=[0, 12, 2, 0, 0])
    jobs, notes = ingested(walltime, csv(tmp_path / "a.csv", columns))
    assert jobs["procs"] == [128, 12, 2, 0, 3]
    assert any(note.startswith("2 rows have no processors: nodes are counted") for note in notes)
    assert any(note.startswith("1 rows have no processors and no nodes: GPUs") for note in notes)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_table_that_lacks_a_submit_is_refused_by_what_it_lacks(tmp_path: Path, walltime: Walltime, kind: str) -> None:
    columns = {"interval": [5, 7], "run_time": [60, 70], "wall_time": [90, 90], "cpu_num": [4, 8]}
    log = csv(tmp_path / "a.csv", columns)
    if kind == "jsonl":
        log = tmp_path / "a.jsonl"
        log.write_text('{"interval": 5, "run_time": 60, "cpu_num": 4}\n' * 2)
    done = walltime("ingest", log, "--out", tmp_path / "jobs.parquet")
    assert done.code == 2 and not (tmp_path / "jobs.parquet").exists()
    said = " ".join(done.err.split())
    assert "expected columns for submit_s, start_s or end_s; " in said and "runtime_s or both" not in said
    assert "--format table" in said and "interval, run_time" in said


def test_a_text_of_no_format_is_told_of_tables(tmp_path: Path, walltime: Walltime) -> None:
    (tmp_path / "a.txt").write_text("dear diary\n" * 9)
    done = walltime("ingest", tmp_path / "a.txt", "--out", tmp_path / "jobs.parquet")
    assert done.code == 2 and "--format table says what it lacks" in " ".join(done.err.split())


def dotted(n: int, form: str, first: datetime = START) -> dict[str, Sequence[object]]:
    stamps = {"submit_time": 0, "start_time": 60, "end_time": 3660}
    return table_of(n) | {
        name: [f"{first + timedelta(days=i, seconds=offset):{form} %H:%M:%S}" for i in range(n)]
        for name, offset in stamps.items()
    }


@pytest.mark.parametrize(
    ("form", "is_dated_otherwise"), [("%d.%m.%Y", False), ("%m.%d.%Y", True), ("%d/%m/%Y", True), ("%m/%d/%Y", False)]
)
def test_all_dates_of_a_table_tell_the_order_of_day_and_month(
    tmp_path: Path, walltime: Walltime, form: str, is_dated_otherwise: bool
) -> None:
    """The first 11 rows can be read both ways; the last ones can not."""
    log = csv(tmp_path / "a.csv", dotted(20, form), ";")
    jobs, notes = ingested(walltime, log)
    assert jobs["submit_s"] == [T0 + 86_400 * i for i in range(20)] and jobs["runtime_s"] == [3600.0] * 20
    assert any("27 dates can only be read so, and 0 only the other way" in note for note in notes)


@pytest.mark.parametrize(("form", "order"), [("%d.%m.%Y", "day"), ("%m/%d/%Y", "month")])
def test_dates_that_can_be_read_both_ways_are_said(tmp_path: Path, walltime: Walltime, form: str, order: str) -> None:
    jobs, notes = ingested(walltime, csv(tmp_path / "a.csv", dotted(5, form), ";"))
    assert jobs["submit_s"] == [T0 + 86_400 * i for i in range(5)]
    assert any(f"{order} first, but no date of the table tells the order" in note for note in notes)


def test_what_the_config_says_of_dates_comes_before_the_dates(tmp_path: Path, walltime: Walltime) -> None:
    config = tmp_path / "a.toml"
    config.write_text("[ingest]\nday_first = true\n[site]\nname = 'here'\n")
    jobs, _ = ingested(walltime, csv(tmp_path / "a.csv", dotted(5, "%d/%m/%Y"), ";"), "--config", config)
    assert jobs["submit_s"] == [T0 + 86_400 * i for i in range(5)]


@pytest.mark.parametrize("factor", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_integers_since_1970_tell_their_unit_by_size(
    tmp_path: Path, walltime: Walltime, factor: int, kind: pa.DataType
) -> None:
    times = {"submit_time": 0, "start_time": 5, "end_time": 605}
    columns: dict[str, object] = {"job_id": list(range(50)), "num_procs": [4] * 50}
    columns |= {
        name: pa.array([(T0 + offset + 1000 * i) * factor for i in range(50)], kind) for name, offset in times.items()
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    jobs, _ = ingested(walltime, tmp_path / "a.parquet")
    assert jobs["submit_s"] == [T0 + 1000 * i for i in range(50)] and jobs["runtime_s"] == [600.0] * 50
    unit = {1: "s", 10**3: "ms", 10**6: "us", 10**9: "ns"}[factor]
    said = dry_run(walltime, tmp_path / "a.parquet")["notes"]
    assert any(note.startswith(f"submit_s = submit_time in {unit} (guessed") for note in said)


@pytest.mark.parametrize("column", ["ncpus", "time_limit", "mem_req_mib", "num_gpus", "nodes", "start_time"])
@pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1, 2**64 - 1])
def test_an_impossible_integer_is_unknown_or_set_aside(
    tmp_path: Path, walltime: Walltime, column: str, value: int
) -> None:
    columns: dict[str, Any] = {name: list(one) for name, one in table_of().items()}
    columns |= {name: [T0 + 3600 * i + k for i in range(30)] for k, name in enumerate(("start_time", "end_time"))}
    others = columns.get(column, [8] * 30)[1:]
    columns[column] = pa.array([value, *others], pa.uint64())
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    jobs, _ = ingested(walltime, tmp_path / "a.parquet")
    beside = tmp_path / "jobs.unreadable.parquet"
    assert len(jobs["job_id"]) + (pq.read_metadata(beside).num_rows if beside.exists() else 0) == 30
    assert all(abs(n or 0) < 2**50 for name in ("procs", "nodes", "gpus", "requested_s", "start_s") for n in jobs[name])


def test_processors_that_are_booleans_are_not_counted_and_fractions_are_said(
    tmp_path: Path, walltime: Walltime
) -> None:
    columns: dict[str, Any] = {name: list(one) for name, one in table_of().items()}
    pq.write_table(pa.table(columns | {"ncpus": [True] * 30}), tmp_path / "a.parquet")
    jobs, notes = ingested(walltime, tmp_path / "a.parquet")
    assert jobs["procs"] == [None] * 30
    assert any("ncpus is not taken for procs: 30 of 30 values are of another kind" in note for note in notes)
    pq.write_table(pa.table(columns | {"ncpus": [4.5, *[4.0] * 29]}), tmp_path / "a.parquet")
    jobs, notes = ingested(walltime, tmp_path / "a.parquet")
    assert jobs["procs"] == [5, *[4] * 29]
    assert any("1 values of procs have a fraction and are rounded up" in note for note in notes)


def test_a_time_that_is_later_than_most_starts_is_no_submit(tmp_path: Path, walltime: Walltime) -> None:
    plain = table_of()
    columns = {name: values for name, values in plain.items() if name != "submit_time"}
    jobs, notes = ingested(walltime, csv(tmp_path / "a.csv", columns | {"timestamp": plain["end_time"]}))
    assert jobs["submit_s"] == jobs["start_s"] == [T0 + 60 + 600 * i for i in range(30)]
    assert any("timestamp is not taken for submit_s: it is not after start_s in 0 of 30 rows" in n for n in notes)


def test_a_dry_run_says_what_each_column_is_taken_for_and_what_speaks_for_its_unit(
    tmp_path: Path, walltime: Walltime
) -> None:
    log = csv(tmp_path / "a.csv", table_of(elapsed=[0.01, 99999] * 15, time_limit=[40] * 30, nodes=[16] * 30))
    said = dry_run(walltime, log)["notes"]
    for expected in (
        "end_s = end_time (guessed from its name)",
        "column elapsed (runtime_s) is end - start in 0 of 30 rows only",
        "column time_limit (requested_s) is read in h, in which 100% of the runtimes are within it; declare it in the "
        "config, as ingest.columns.requested_s.unit",
    ):
        assert expected in said, "\n".join(said)


@pytest.mark.parametrize(("text", "kib"), [("16E", None), ("18446744073709551614", None), ("64G", 64 * 1024**2)])
def test_a_mark_for_unknown_memory_is_no_memory(
    tmp_path: Path, walltime: Walltime, text: str, kib: float | None
) -> None:
    names = "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|NNodes|State|ReqMem|MaxRSS"
    at = "2026-03-02T08:00:00|2026-03-02T08:05:00|2026-03-02T09:05:00|3600"
    rows = f"2|ann|{at}|{INFINITE}|16|1|COMPLETED|0|\n2.0||{at}||16|1|COMPLETED||{text}\n"
    (tmp_path / "dump.txt").write_text(f"{names}\n{rows}")
    jobs, _ = ingested(walltime, tmp_path / "dump.txt")
    assert jobs["max_rss_kib"] == [kib] and jobs["requested_mem_kib"] == [None] == jobs["requested_s"]
    assert not (tmp_path / "jobs.unreadable.parquet").exists()
