"""Any table with a row for each job: what its columns hold, in which unit, and what is said where that is a guess."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import ingest, inspect
from pipeline.ingest.formats.table.guesses import public_sets
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

NOON = 1_767_268_800
"""2026-01-01T12:00:00Z."""

ROWS = {
    "id": ["0012", "0013", "0014"],
    "User ID": ["ann", "bob", "ann"],
    "Submit Time": ["2026-01-01 12:00:00", "2026-01-01 12:00:01.5", "2026-01-01T12:00:02Z"],
    "start_time": ["2026-01-01 12:10:00"] * 3,
    "end_time": ["2026-01-01 13:10:00"] * 3,
    "num_cpus": ["4", "8", "16"],
    "num_gpus": ["0", "1", "2"],
    "status": ["Pass", "Killed", "Failed"],
}


def csv_of(columns: Mapping[str, Sequence[object]], delimiter: str = ",") -> str:
    lines = [columns, *zip(*columns.values(), strict=True)]
    return "".join(delimiter.join("" if cell is None else str(cell) for cell in line) + "\n" for line in lines)


def read(
    path: Path, text: str | bytes = "", **settings: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Report]:
    """Jobs and unreadable rows of a table; `site` may hold values of the section [site]."""
    if text:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    site = SiteSettings.model_validate({"name": "here", **settings.pop("site", {})})
    jobs, unreadable, report = ingest([path], site, IngestSettings.model_validate(settings))
    return jobs.to_pylist(), unreadable.to_pylist(), report.check()


def values(jobs: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(job[name] for name in names) for job in jobs]


def test_a_digit_that_became_a_control_character_is_not_trimmed(tmp_path: Path) -> None:
    columns = {**ROWS, "num_cpus": ["\x1c2", " 8", "\u00a016"]}
    jobs, unreadable, _ = read(tmp_path / "jobs.csv", csv_of(columns))
    assert values(jobs, "procs") == [(8,), (16,)] and values(unreadable, "reason") == [("not_a_number",)]


def test_names_tell_what_columns_hold(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path / "jobs.csv", csv_of(ROWS))
    assert values(jobs, "job_id", "user", "submit_s", "start_s", "end_s", "runtime_s", "procs", "gpus", "state") == [
        ("0012", "ann", NOON, NOON + 600, NOON + 4200, 3600.0, 4, 0, "COMPLETED"),
        ("0013", "bob", NOON + 1, NOON + 600, NOON + 4200, 3600.0, 8, 1, "CANCELLED"),
        ("0014", "ann", NOON + 2, NOON + 600, NOON + 4200, 3600.0, 16, 2, "FAILED"),
    ]
    assert all(job["requested_s"] is None and job["nodes"] is None for job in jobs)
    assert report.facts["format"] == "table" and report.set_aside["header"].rows == 1


@pytest.mark.parametrize("delimiter", ["\t", ";", "|"])
def test_any_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    assert len(read(tmp_path / "jobs.csv", csv_of(ROWS, delimiter))[0]) == 3


def test_json_lines_and_arrays_are_the_same_jobs(tmp_path: Path) -> None:
    names = list(ROWS)
    objects = [dict(zip(names, cells, strict=True)) for cells in zip(*ROWS.values(), strict=True)]
    wanted = read(tmp_path / "jobs.csv", csv_of(ROWS))[0]
    where = ("source_file", "source_line")
    plain = [{k: v for k, v in job.items() if k not in where} for job in wanted]
    texts = {
        "lines.json": "".join(json.dumps(one) + "\n" for one in objects),
        "array.json": json.dumps(objects),
        "pretty.json": json.dumps(objects, indent=2) + "\n",
    }
    for name, text in texts.items():
        found = read(tmp_path / name, text)[0]
        assert [{k: v for k, v in job.items() if k not in where} for job in found] == plain


def test_a_json_array_that_ends_in_the_middle_is_refused(tmp_path: Path) -> None:
    text = json.dumps([{"submit": NOON, "runtime": 60}, {"submit": NOON, "runtime": 60}])
    with pytest.raises(InputError, match=r"element 2.*JSON array of objects"):
        read(tmp_path / "jobs.json", text[:-8])


def test_parquet_has_types_of_its_own(tmp_path: Path) -> None:
    at = [datetime(2026, 1, 1, 12, 0, second, 999_000) for second in range(3)]
    table = pa.table(
        {
            "submit": pa.array(at, pa.timestamp("us")),
            "start": pa.array([one.replace(tzinfo=UTC) for one in at], pa.timestamp("ns", "UTC")),
            "runtime": pa.array([60_000, None, 1], pa.duration("ms")),
            "nodes": pa.array([1, 2, None], pa.int8()),
            "user": pa.array(["a", "b", None]).dictionary_encode(),
        }
    )
    for name, write in (("jobs.parquet", pq.write_table), ("jobs.arrow", pa.feather.write_feather)):
        write(table, tmp_path / name)
        jobs, _, report = read(tmp_path / name, site={"timezone": "Europe/Paris"})
        assert values(jobs, "submit_s", "start_s", "end_s", "runtime_s", "procs", "user", "source_line") == [
            (NOON - 3600, NOON, NOON + 60, 60.0, 1, "a", 1),
            (NOON - 3599, NOON + 1, None, None, 2, "b", 2),
            (NOON - 3598, NOON + 2, NOON + 2, 0.001, None, None, 3),
        ]
        assert any("nodes are counted as processors" in note for note in report.notes)
        assert any("Europe/Paris" in note for note in report.notes)


def test_processors_of_a_node_multiply_nodes(tmp_path: Path) -> None:
    text = csv_of({"submit": [NOON], "runtime": [60], "nodes": [3]})
    assert read(tmp_path / "a.csv", text, site={"procs_per_node": 24})[0][0]["procs"] == 72


def test_a_map_in_the_config_declares_names_units_and_zones(tmp_path: Path) -> None:
    table = {"when": ["2026-01-01 13:00:00"], "took": [2.5], "gib": [8], "n": [2], "each": [16], "limit": [240]}
    columns = {
        "submit_s": {"column": "when", "timezone": "Europe/Paris"},
        "runtime_s": {"column": "took", "unit": "h"},
        "requested_mem_kib": {"column": "gib", "unit": "GiB", "per": "job"},
        "procs": {"column": "n", "times": "each"},
        "requested_s": {"column": "limit", "unit": "min"},
    }
    (job,), _, _ = read(tmp_path / "jobs.csv", csv_of(table), columns=columns)
    assert values([job], "submit_s", "runtime_s", "procs", "requested_mem_kib", "requested_memory", "requested_s") == [
        (NOON, 9000.0, 32, 8 * 1024**2 / 32, "8GiB/job", 14_400.0)
    ]


def test_a_csv_without_names_takes_them_from_the_settings(tmp_path: Path) -> None:
    fields = ["task_name", "instance_num", "job_name", "task_type", "status", "start_time", "end_time", "plan_cpu"]
    (job,), _, report = read(
        tmp_path / "batch_task.csv", "M1,3,j_1,1,Terminated,86400,86460,150\n", format="table", fields=fields
    )
    assert values([job], "procs", "runtime_s", "state", "job_name") == [(5, 60.0, "COMPLETED", "j_1")]
    assert any("Alibaba 2018" in note for note in report.notes)


@pytest.mark.parametrize(("factor", "unit"), [(1, "s"), (10**3, "ms"), (10**6, "us"), (10**9, "ns")])
def test_numbers_since_1970_tell_their_unit(tmp_path: Path, factor: int, unit: str) -> None:
    text = csv_of({"submit": [NOON * factor, (NOON + 7) * factor], "runtime": [60, 70]})
    jobs, _, report = read(tmp_path / "jobs.csv", text)
    assert [job["submit_s"] for job in jobs] == [NOON, NOON + 7]
    assert any(f"read as {unit} since 1970" in note for note in report.notes) == (unit != "s")


def test_small_numbers_are_instants_since_the_log_s_start(tmp_path: Path) -> None:
    jobs, _, report = read(tmp_path / "a.csv", csv_of({"submit": [0, 50], "start": [3, 60], "end": [100, 70]}))
    assert values(jobs, "submit_s", "start_s", "runtime_s") == [(0, 3, 97.0), (50, 60, 10.0)]
    assert any("log's start" in note for note in report.notes)


def test_a_duration_s_unit_is_the_one_that_fits_start_and_end(tmp_path: Path) -> None:
    table = {"start": [NOON, NOON], "end": [NOON + 3600, NOON + 7200], "elapsed": [60, 120], "time_limit": [90, 180]}
    jobs, _, report = read(tmp_path / "a.csv", csv_of(table))
    assert values(jobs, "runtime_s", "requested_s") == [(3600.0, 5400.0), (7200.0, 10_800.0)]
    assert any("elapsed (runtime_s) is read in min, in which it is end - start" in note for note in report.notes)
    assert any("ingest.columns.requested_s.unit" in note for note in report.notes)


def test_memory_without_a_unit_is_unknown_and_said(tmp_path: Path) -> None:
    table = {"submit": [NOON], "runtime": [5], "procs": [2], "mem_req": [4000], "used_mem": ["8G"]}
    (job,), _, report = read(tmp_path / "a.csv", csv_of(table))
    assert values([job], "requested_mem_kib", "used_mem_kib") == [(None, 4 * 1024.0**2)]
    assert any("mem_req (requested_mem_kib) holds numbers without a unit" in note for note in report.notes)


def test_pandas_durations_and_slurm_s_are_read(tmp_path: Path) -> None:
    text = csv_of({"submit": [NOON] * 3, "runtime": ["1 days 02:00:00", "0 days 00:00:30.500000", "2-00:00:01"]})
    assert [job["runtime_s"] for job in read(tmp_path / "a.csv", text)[0]] == [93_600.0, 30.5, 172_801.0]


def test_rows_that_cannot_be_read_are_set_aside_with_line_and_reason(tmp_path: Path) -> None:
    text = (
        "job_id,submit,runtime,name\n1,2026-01-01,5,a\n2,soon,5,b\n3,2026-01-01,5\n\n4,2026-01-01,long,d\n"
        ',2026-01-01,5,"two\nlines"\n6,2026-01-01,5,"two\nlines"\n7,2026-01-01,5,f'
    )
    jobs, unreadable, report = read(tmp_path / "a.csv", text)
    assert values(jobs, "job_id", "source_line", "job_name") == [("1", 2, "a"), ("6", 9, "two\nlines")]
    assert [(row["source_line"], row["reason"]) for row in unreadable] == [
        (3, "not_a_time"), (4, "number_of_values"), (6, "not_a_duration"), (7, "no_job_id"), (11, "no_line_end"),
    ]  # fmt: skip
    assert [text.encode()[int(row["byte_offset"]) :][:1] for row in unreadable] == [b"2", b"3", b"4", b",", b"7"]
    assert report.set_aside["blank"].rows == 1 and report.set_aside["continued"].rows == 2


def test_a_stray_quote_loses_no_other_row(tmp_path: Path) -> None:
    rows = [f"{NOON + i},5,disk" for i in range(400)]
    rows[3], rows[390] = f'{NOON},5,5" disk', "soon,5,x,y"
    jobs, unreadable, _ = read(tmp_path / "a.csv", "submit,runtime,name\n" + "\n".join(rows) + "\n")
    assert len(jobs) == 399 == len({job["job_id"] for job in jobs}) and [job["restart"] for job in jobs] == [0] * 399
    assert [row["reason"] for row in unreadable] == ["number_of_values"]


def test_a_carriage_return_alone_ends_no_row(tmp_path: Path) -> None:
    said = ["5,disk", "5,di\rsk", "5,x,y", "5\rx,disk", "5,disk"]
    rows = [f"{NOON + place},{one}" for place, one in enumerate(said)]
    jobs, unreadable, _ = read(tmp_path / "a.csv", "submit,runtime,name\n" + "\n".join(rows) + "\n")
    assert [job["job_name"] for job in jobs] == ["disk", "di\\rsk", "disk"]
    found = [(row["source_line"], row["reason"]) for row in unreadable]
    assert found == [(4, "number_of_values"), (5, "not_a_duration")]


def test_an_object_with_a_key_twice_is_set_aside(tmp_path: Path) -> None:
    one, two = f'"submit": {NOON}, "runtime": 60', f'"submit": {NOON + 1}, "runtime": 60'
    text = "".join(f"{{{said}}}\n" for said in (one, f'{one}, "runtime": 5', two))
    jobs, unreadable, _ = read(tmp_path / "jobs.json", text)
    assert len(jobs) == 2 and [(row["source_line"], row["reason"]) for row in unreadable] == [(2, "not_json")]


def test_bytes_that_are_no_utf_8_are_escapes(tmp_path: Path) -> None:
    text = csv_of({"submit": [NOON], "runtime": [5], "user": ["J\xf6rg"]}).encode("latin-1")
    assert read(tmp_path / "a.csv", text)[0][0]["user"] == "J\\xf6rg"
    names = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"J\xf6rg"))
    pq.write_table(pa.table({"submit": [NOON], "runtime": [5], "user": names}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[0][0]["user"] == "J\\xf6rg"


def test_exit_codes_are_numbers_or_slurm_s(tmp_path: Path) -> None:
    text = csv_of(
        {"submit": [NOON] * 4, "runtime": [5] * 4, "exit_code": ["0:0", "2:0", "0:9", "odd"], "id": [1, 2, 3, 4]}
    )
    assert [job["exit_code"] for job in read(tmp_path / "a.csv", text)[0]] == [0, 2, 137, None]
    text = csv_of({"submit": [NOON], "runtime": [5], "exit_code": [-11]})
    assert read(tmp_path / "a.csv", text)[0][0]["exit_code"] == -11


@pytest.mark.parametrize("value", ["inf", "-inf", "1e300", "9223372036854775807", "[1, 2]", "\x00", "1e-400"])
@pytest.mark.parametrize("column", ["submit", "runtime", "cores", "energy", "memory_mib", "id"])
def test_an_absurd_value_sets_at_most_its_row_aside(tmp_path: Path, column: str, value: str) -> None:
    table = {"id": [1, 2], "submit": [NOON] * 2, "runtime": [5] * 2, "cores": [1] * 2, "energy": [2.0] * 2}
    table |= {"memory_mib": [8] * 2}
    table[column] = [table[column][0], f'"{value}"']
    jobs, unreadable, _ = read(tmp_path / "a.csv", csv_of(table))
    assert len(jobs) + len(unreadable) == 2 and jobs[0]["runtime_s"] == 5.0
    assert all(abs(job["end_s"] or 0) < 2**41 for job in jobs)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.bool_(), pa.decimal128(20, 3)]
)
def test_a_column_of_another_type_is_no_crash(tmp_path: Path, kind: pa.DataType) -> None:
    for name in ("submit", "runtime", "id", "state", "cores"):
        table = pa.table({"submit": [NOON], "runtime": [5], "id": ["7"], "state": ["ok"], "cores": [2]})
        odd = (
            pa.nulls(1, kind)
            if pa.types.is_decimal(kind)
            else pa.array([{"a": 1}], kind)
            if pa.types.is_struct(kind)
            else pa.array([[1]], kind)
            if pa.types.is_list(kind)
            else pa.array([True])
        )
        pq.write_table(table.set_column(table.column_names.index(name), name, odd), tmp_path / "a.parquet")
        try:
            jobs, unreadable, _ = read(tmp_path / "a.parquet")
        except InputError:
            continue
        assert len(jobs) + len(unreadable) == 1


def test_a_last_row_without_a_line_end_is_taken_where_the_log_is_finished(tmp_path: Path) -> None:
    text = csv_of({"submit": [NOON, NOON], "runtime": [5, 6]}).rstrip("\n")
    assert len(read(tmp_path / "a.csv", text)[0]) == 1
    assert len(read(tmp_path / "a.csv", text, last_line="take")[0]) == 2


def test_a_table_of_many_parts_is_the_same_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {
        "job_id": range(5000),
        "submit": [NOON + i for i in range(5000)],
        "runtime": ["5"] * 5000,
        "n": ['"a\nb"'] * 5000,
    }
    path = tmp_path / "a.csv"
    whole = read(path, csv_of(table))[0]
    monkeypatch.setattr("pipeline.ingest.sources.line_blocks.__defaults__", (997, None))
    parts = read(path)[0]
    assert parts == whole and len(whole) == 5000
    assert [job["source_line"] for job in whole[:3]] == [2, 4, 6]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"submit_s": "sbmit"}, r"ingest.columns.submit_s: found 'sbmit', no column of a.csv.*submit"),
        ({"submt_s": "submit"}, r"ingest.columns.submt_s: found an unknown name.*submit_s"),
        ({"runtime_s": {"column": "runtime", "unit": "weeks"}}, r"runtime_s.unit: found 'weeks'.*one of ns, us"),
        ({"runtime_s": 9}, r"found column 9, expected a number from 1 to 2"),
    ],
)
def test_a_wrong_map_is_one_clear_sentence(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.csv", csv_of({"submit": [NOON], "runtime": [5]}), format="table", columns=columns)


def test_a_table_without_runtimes_says_which_columns_it_needs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"node": [1], "watts": [2.0]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"columns node, watts, expected columns for submit_s.*\[ingest.columns\]"):
        read(tmp_path / "a.parquet")


def test_a_text_that_repeats_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.ingest.formats.table.MAX_TEXT_BYTES", 10_000)
    table = pa.table({"submit": [NOON] * 99, "runtime": [5] * 99, "job_name": ["x" * 1000] * 99})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="99,000 bytes of text in 99 rows, expected at most 10,000"):
        read(tmp_path / "a.parquet")
    monkeypatch.setattr("pipeline.storage.MAX_UNPACKED_BYTES", 100)
    with pytest.raises(InputError, match="bytes in one part of the table, expected at most 100"):
        read(tmp_path / "a.parquet")


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"submit": [NOON], "runtime": [5]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    with pytest.raises(InputError, match="not a Parquet table"):
        read(tmp_path / "a.parquet", whole[: len(whole) // 2])


def test_a_dry_run_shows_the_map(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"submit": [NOON] * 12, "runtime": [5] * 12, "colour": ["red"] * 12}), tmp_path / "a.parquet"
    )
    (found,) = inspect([tmp_path / "a.parquet"], SiteSettings(name="here"), IngestSettings())
    assert found.error is None and found.format == "table" and found.jobs.num_rows == 12 and found.is_whole
    assert found.layout.found == ("submit", "runtime") and found.layout.ignored == ("colour",)
    assert "submit_s = submit in s (guessed from its name)" in found.layout.said


def made(name: str, row: int) -> object:
    """A value for a column of a public set, by its name."""
    words = name.lower()
    if words in ("adt", "sdt", "edt", "submit", "start", "end", "timestamp") or words.endswith("_time"):
        order = {"s": 600, "e": 4200}.get(words[0], 0) if "eligible" not in words and "submit" not in words else 0
        return NOON + row + (order if words not in ("timestamp", "creation_time", "submit", "adt") else 0)
    if words.startswith("time_") and words not in {"time_limit", "time_suspended"}:
        return NOON + row + {"time_start": 600, "time_end": 4200}.get(words, 0)
    if words in ("runtime", "run_time", "duration"):
        return 3600
    known = {
        "plan_cpu": 200,
        "plan_gpu": 50,
        "cpu_milli": 1500,
        "state": 3,
        "gres_used": "gpu:volta:2",
        "tres_alloc": '"1=8,2=4000,4=1,1001=2"',
        "time_suspended": 0,
    }
    return known.get(words, 2 + row)


def test_a_damaged_count_of_gpus_is_unknown_and_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    """Found by the mutators: beside it, all counts were read as lists of resources, in which no GPU means none."""
    counts = ["1", '2"', "0.5", "-1", "mic:1", "gpu:a100:2"]
    times = {"submit_time": [NOON] * 6, "start_time": [NOON] * 6, "end_time": [NOON + 60] * 6}
    table = {"job_id": list(range(1, 7)), **times, "num_gpus": counts}
    jobs, unreadable, _ = read(tmp_path / "a.csv", csv_of(table))
    assert unreadable == [] and [job["gpus"] for job in jobs] == [1, None, 1, None, 0, 2]


@pytest.mark.parametrize("public", public_sets())
def test_each_public_set_is_told_by_its_columns(tmp_path: Path, public: str) -> None:
    told_by, columns = public_sets()[public]
    names = [name for one in columns.values() for name in (one.column, one.times) if name]
    names = list(dict.fromkeys([*sorted(told_by), *names]))
    if public.startswith("Alibaba GPU 2023"):
        table = {name: [made(name, row) for row in range(3)] for name in names} | {"deletion_time": [NOON + 4200] * 3}
    else:
        table = {name: [made(name, row) for row in range(3)] for name in names}
    jobs, unreadable, report = read(tmp_path / "a.csv", csv_of(table))
    assert (len(jobs), unreadable) == (3, [])
    assert any(public in note for note in report.notes)
    assert all(job["submit_s"] or job["start_s"] for job in jobs) and all(job["runtime_s"] >= 3500 for job in jobs)
    if {"procs", "gpus", "nodes"} & set(columns):
        assert all(job["procs"] or job["requested_procs"] for job in jobs)
    if public in ("MIT Supercloud", "slurmdbd's job_table"):
        assert {(job["state"], job["gpus"]) for job in jobs} == {("COMPLETED", 2)}


def test_a_table_s_local_hours_that_clocks_repeat_are_the_first_and_skipped_ones_are_moved(tmp_path: Path) -> None:
    rows = "1,2026-11-01 01:30:00,60\n2,2026-03-08 02:30:00,60\n3,2026-07-01 00:00:00,60\n"
    jobs, *_ = read(tmp_path / "jobs.csv", "id,submit_time,runtime\n" + rows, site={"timezone": "America/New_York"})
    assert {job["job_id"]: job["submit_s"] for job in jobs} == {"1": 1793511000, "2": 1772955000, "3": 1782878400}
