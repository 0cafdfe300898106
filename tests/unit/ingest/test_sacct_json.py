"""`sacct --json`: the splitter, the fields in every form, what is set aside."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.ingest.formats.sacct.json_reader import (
    SACCT_JSON,
    Element,
    elements,
    exit_code,
    job_id,
    looks_right,
    number,
    state_word,
)
from pipeline.ingest.sources import Source
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.logs import in_memory

SHARED = Path(__file__).resolve().parents[4] / "shared/data/sacct"


def wrapped(value: int | None) -> dict[str, object]:
    """A number as data_parser v0.0.39 and later write one that may be unset."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def old_job(**changes: object) -> dict[str, object]:
    """A job as Slurm 22.05 writes it."""
    return {
        "account": "physics",
        "comment": {"administrator": None, "job": None, "system": None},
        "allocation_nodes": 2,
        "array": {"job_id": 0, "limits": {}, "task": None, "task_id": None},
        "association": {"account": "physics", "cluster": "c", "partition": None, "user": "ann"},
        "derived_exit_code": {"status": "SUCCESS", "return_code": 0},
        "time": {"elapsed": 60, "eligible": 1000, "end": 1078, "start": 1010, "submission": 1000, "suspended": 8,
                 "limit": 5, "total": {"seconds": 0, "microseconds": 0}},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "group": "users",
        "het": {"job_id": 0, "job_offset": None},
        "job_id": 7,
        "name": "hydro",
        "partition": "batch",
        "qos": "normal",
        "required": {"CPUs": 4, "memory": 1000},
        "state": {"current": "COMPLETED", "reason": "None"},
        "steps": [old_step("batch", 2_048_000), old_step(0, 4_096_000)],
        "tres": {"allocated": tres(cpu=8, mem=8000, node=2, gpu=3), "requested": tres(cpu=4, mem=4000, node=2)},
        "user": "ann",
        "working_directory": "/home/ann",
    } | changes  # fmt: skip


def old_step(name: object, rss_bytes: int, state: str = "COMPLETED") -> dict[str, object]:
    return {
        "nodes": {"count": 1},
        "tres": {"requested": {"max": tres(cpu=1, mem=rss_bytes)}},
        "time": {"total": {"seconds": 4, "microseconds": 500_000}},
        "state": state,
        "step": {"job_id": 7, "id": name},
    }


def new_job() -> dict[str, object]:
    """The same job as data_parser v0.0.40 and later write it."""
    steps = [
        old_step(0, size) | {"state": ["COMPLETED"], "step": {"id": f"7.{name}", "name": name}}
        for name, size in (("batch", 2_048_000), ("0", 4_096_000))
    ]
    code = {"status": ["SUCCESS"], "return_code": wrapped(0), "signal": {"id": wrapped(None), "name": ""}}
    return old_job(
        array={"job_id": 0, "limits": {}, "task": "", "task_id": wrapped(None)},
        het={"job_id": 0, "job_offset": wrapped(None)},
        exit_code=code,
        derived_exit_code=code,
        time={"elapsed": 60, "eligible": 1000, "end": 1078, "planned": wrapped(10), "start": 1010, "submission": 1000,
              "suspended": 8, "limit": wrapped(5), "total": {"seconds": 9, "microseconds": 0}},
        required={"CPUs": 4, "memory_per_cpu": wrapped(1000), "memory_per_node": wrapped(None)},
        state={"current": ["COMPLETED"], "reason": "None"},
        steps=steps,
    )  # fmt: skip


def tres(**counts: int) -> list[dict[str, object]]:
    plain = [{"type": kind, "name": "", "id": 1, "count": n} for kind, n in counts.items() if kind != "gpu"]
    gpu = [{"type": "gres", "name": "gpu", "id": 1001, "count": counts["gpu"]}] if "gpu" in counts else []
    return plain + gpu


def document(*jobs: object, indent: int | None = 1) -> bytes:
    return json.dumps({"meta": {}, "errors": [], "jobs": list(jobs)}, indent=indent).encode()


def read(folder: Path, data: bytes, **settings: object):
    path = folder / "sacct.json"
    path.write_bytes(data)
    return ingest([path], SiteSettings(name="c"), IngestSettings(**settings))


def split(data: bytes, size: int) -> list[Element]:
    return [element for _, found in elements(cut(data, size)) for element in found]


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


EXPECTED = {
    "job_id": "7", "user": "ann", "user_group": "users", "account": "physics", "queue": "batch", "qos": "normal",
    "job_name": "hydro", "submit_s": 1000, "eligible_s": 1000, "start_s": 1010, "end_s": 1078, "runtime_s": 60.0,
    "suspended_s": 8.0, "requested_s": 300.0, "procs": 8, "nodes": 2, "gpus": 3, "requested_procs": 4,
    "requested_nodes": 2, "requested_mem_kib": 1_024_000.0, "max_rss_kib": 4000.0, "state": "COMPLETED",
    "exit_code": 0, "derived_exit_code": 0, "array_id": None, "het_id": None,
}  # fmt: skip


@pytest.mark.parametrize("job", [old_job(), new_job()], ids=["Slurm 22.05", "Slurm 23.11 and later"])
def test_every_form_gives_the_same_values(tmp_path: Path, job: dict[str, object]) -> None:
    jobs, _, report = read(tmp_path, document(job))
    assert {name: value for name, value in jobs.to_pylist()[0].items() if name in EXPECTED} == EXPECTED
    assert (report.seen.rows, report.kept.rows, report.set_aside["step"].rows) == (3, 1, 2)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "7"),
        ({"array": {"job_id": 5, "task_id": 0, "task": None}}, "5_0"),
        ({"array": {"job_id": 5, "task_id": wrapped(3), "task": ""}}, "5_3"),
        ({"array": {"job_id": 5, "task_id": wrapped(None), "task": "4-9%2"}}, "5_[4-9%2]"),
        ({"array": {"job_id": 5, "task_id": 0xFFFFFFFE, "task": "4-9"}}, "5_[4-9]"),
        ({"het": {"job_id": 6, "job_offset": 1}}, "6+1"),
        ({"het": {"job_id": 6, "job_offset": wrapped(0)}}, "6+0"),
    ],
)
def test_ids_are_those_of_sacct_text(changes: dict[str, object], expected: str) -> None:
    assert job_id(old_job(**changes)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5), (None, None), (wrapped(5), 5), (wrapped(None), None),
        ({"set": True, "infinite": True, "number": 0}, None),
        (0xFFFFFFFE, None), (0xFFFFFFFF, None), (2**64 - 2, None), (-2, None), (0, 0),
    ],
)  # fmt: skip
def test_numbers_are_plain_or_wrapped(value: object, expected: int | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("value", [True, "5", [5], {"number": "5"}, float("nan")])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="value_of_wrong_kind"):
        number(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("TIMEOUT", "TIMEOUT"), (["TIMEOUT"], "TIMEOUT"), (["PENDING", "REQUEUED"], "REQUEUED"),
        (["COMPLETED", "COMPLETING"], "COMPLETED"), ([], ""), (None, ""),
    ],
)  # fmt: skip
def test_states_are_words_or_lists(value: object, expected: str) -> None:
    assert state_word(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"status": "SUCCESS", "return_code": 0}, "0:0"),
        ({"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}}, "0:9"),
        ({"status": ["ERROR"], "return_code": wrapped(3), "signal": {"id": wrapped(None)}}, "3:0"),
        ({"status": ["SIGNALED"], "return_code": wrapped(None), "signal": {"id": wrapped(15)}}, "0:15"),
        ({"status": "PENDING", "return_code": None}, ""),
        (None, ""),
    ],
)
def test_exit_codes_in_every_form(value: object, expected: str) -> None:
    assert exit_code(value) == expected


def test_an_exit_code_the_old_json_loses_is_null_and_said(tmp_path: Path) -> None:
    failed = old_job(state={"current": "FAILED", "reason": "None"}, steps=[old_step(0, 1024, "FAILED")])
    jobs, _, report = read(tmp_path, document(failed, old_job(job_id=8)))
    assert jobs.select(["exit_code", "derived_exit_code"]).to_pylist() == [
        {"exit_code": None, "derived_exit_code": None},
        {"exit_code": 0, "derived_exit_code": 0},
    ]
    assert any("1 jobs have no exit code" in note for note in report.notes)


def test_texts_keep_what_is_no_utf8_as_escapes(tmp_path: Path) -> None:
    data = document(old_job(name="a?b"), old_job(job_id=8, name="\ud800x")).replace(b"a?b", b"a\xffb")
    assert read(tmp_path, data)[0]["job_name"].to_pylist() == ["a\\xffb", "\\ud800x"]


def test_a_value_that_the_text_reader_cannot_take_sets_its_job_aside(tmp_path: Path) -> None:
    late = old_job(job_id=8, time=old_job()["time"] | {"end": 10**14})
    jobs, unreadable, report = read(tmp_path, document(old_job(), late))
    assert jobs["job_id"].to_pylist() == ["7"]
    assert unreadable["reason"].to_pylist() == ["not_a_time"]
    assert (report.seen.rows, report.set_aside["step"].rows, report.set_aside["orphan_step"].rows) == (6, 2, 2)


@settings(deadline=None)
@given(st.integers(7, 5000), st.sampled_from([None, 0, 2]))
def test_any_cut_gives_the_same_elements(size: int, indent: int | None) -> None:
    names = ['a"},{"account":"x', "new\nline", "}, {", "\\", 'x\\"', "ü|\x1f", "]}"]
    jobs = [old_job(job_id=n + 1, name=name) for n, name in enumerate(names)]
    data = document(*jobs, indent=indent)
    found = split(data, size)
    assert [element.value for element in found] == jobs
    assert not any(element.is_open for element in found)
    assert all(data[e.offset : e.offset + 1] == b"{" and data.count(b"\n", 0, e.offset) + 1 == e.line for e in found)


@settings(deadline=None)
@given(st.data())
def test_damage_is_no_exception_and_costs_few_jobs(data: st.DataObject) -> None:
    whole = document(*[old_job(job_id=n + 1) for n in range(6)])
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 3)) :]
    found = split(damaged, data.draw(st.integers(100, 5000)))
    good = [e for e in found if isinstance(e.value, dict) and "job_id" in e.value]
    assert len(good) >= 4 or at < whole.index(b'"state"')


def test_a_broken_job_is_set_aside_with_its_place_and_the_rest_is_read(tmp_path: Path) -> None:
    data = document(*[old_job(job_id=n + 1) for n in range(3)]).replace(b'"job_id": 2,', b'"job_id": 2x,')
    jobs, unreadable, report = read(tmp_path, data)
    assert jobs["job_id"].to_pylist() == ["1", "3"]
    row = unreadable.to_pylist()[0]
    assert (row["reason"], data[int(row["byte_offset"]) :][:1]) == ("not_json", b"{")
    assert data.count(b"\n", 0, int(row["byte_offset"])) + 1 == row["source_line"]
    assert len(row["raw"]) == 500
    assert report.seen.rows == 2 + 4 + 1


def test_a_job_with_a_key_twice_is_set_aside(tmp_path: Path) -> None:
    data = document(*[old_job(job_id=n + 1) for n in range(3)], indent=None)
    data = data.replace(b'"job_id": 2,', b'"job_id": 2, "account": "other",')
    jobs, unreadable, _ = read(tmp_path, data)
    assert jobs["job_id"].to_pylist() == ["1", "3"]
    assert unreadable["reason"].to_pylist() == ["repeated_key"]


def test_several_broken_jobs_on_one_line_are_several_rows(tmp_path: Path) -> None:
    data = document(*[old_job(job_id=n + 1) for n in range(4)], indent=None)
    data = data.replace(b'"job_id": 2,', b'"job_id": 2x,').replace(b'"job_id": 3,', b'"job_id": "3",')
    jobs, unreadable, _ = read(tmp_path, data)
    assert jobs["job_id"].to_pylist() == ["1", "4"]
    assert unreadable["reason"].to_pylist() == ["not_json", "value_of_wrong_kind"]


def test_a_document_cut_in_the_middle_is_read_as_far_as_it_goes_and_said(tmp_path: Path) -> None:
    data = document(*[old_job(job_id=n + 1) for n in range(3)])
    jobs, unreadable, report = read(tmp_path, data[: data.rindex(b'"state"')])
    assert jobs["job_id"].to_pylist() == ["1", "2"]
    assert unreadable["reason"].to_pylist() == ["cut_off"]
    assert any("end in the middle" in note for note in report.notes)


def test_a_job_behind_a_missing_comma_is_set_aside(tmp_path: Path) -> None:
    data = document(*[old_job(job_id=n + 1) for n in range(3)], indent=None)
    data = data.replace(b', {"account": "physics", "comment"', b' {"account": "physics", "comment"', 1)
    jobs, unreadable, report = read(tmp_path, data)
    assert jobs["job_id"].to_pylist() == ["1", "3"]
    row = unreadable.to_pylist()[0]
    assert (row["reason"], row["raw"][:10]) == ("not_json", '{"account"')
    report.check()


def test_two_documents_in_one_file_are_both_read(tmp_path: Path) -> None:
    jobs, _, _ = read(tmp_path, document(old_job()) + b"\n" + document(old_job(job_id=8)))
    assert jobs["job_id"].to_pylist() == ["7", "8"]


def test_jobs_of_another_command_are_refused_in_one_sentence(tmp_path: Path) -> None:
    data = document({"job_id": 5, "job_state": "RUNNING", "time_limit": 5})
    with pytest.raises(InputError, match=r"sacct.json, line \d+: found no job of sacct in '.*expected sacct --json"):
        read(tmp_path, data)


def test_strict_stops_at_the_first_unreadable_job(tmp_path: Path) -> None:
    data = document(old_job(), old_job(job_id=8)).replace(b'"job_id": 8,', b'"job_id": 8x,')
    with pytest.raises(InputError, match="found not json"):
        read(tmp_path, data, max_damaged=0)


def test_other_texts_do_not_look_right() -> None:
    assert looks_right(document(old_job()))
    assert not looks_right(b"JobID|State\n1|COMPLETED\n")
    assert not looks_right(b"; Version: 2\n1 2 3 4 5\n")


@pytest.mark.shared
@pytest.mark.parametrize(("folder", "n_jobs"), [("real-slurm-22.05.8", 507), ("real-slurm-22.05.8-cgroup", 28)])
def test_the_real_document_is_read_whole(folder: str, n_jobs: int) -> None:
    path = SHARED / folder / "sacct.json.gz"
    if not path.exists():
        pytest.skip(f"{path.name} of {folder} is not here")
    plain = json.loads(gzip.decompress(path.read_bytes()))["jobs"]
    jobs, unreadable, report = ingest([path], SiteSettings(name="minisim"), IngestSettings())
    assert (jobs.num_rows, unreadable.num_rows) == (n_jobs, 0)
    assert report.seen.rows == n_jobs + sum(len(job["steps"]) for job in plain)
    assert sorted(jobs["runtime_s"].to_pylist()) == sorted(float(job["time"]["elapsed"]) for job in plain)


@pytest.mark.shared
@pytest.mark.parametrize("folder", ["real-slurm-22.05.8", "real-slurm-22.05.8-cgroup"])
def test_the_real_document_gives_the_jobs_of_the_text(folder: str) -> None:
    text_path = SHARED / folder / "sacct-P-ALL-duplicates.txt.gz"
    if not text_path.exists():
        pytest.skip(f"{text_path.name} of {folder} is not here")
    site = SiteSettings(name="minisim")
    texts, _, said = ingest([text_path], site, IngestSettings())
    found, _, report = ingest([SHARED / folder / "sacct-duplicates.json.gz"], site, IngestSettings())
    assert report.set_aside["step"] == said.set_aside["step"]
    # The text's working directory of jobs 1 and 2 was changed by hand (README there); codes are what 22.05 leaves out.
    # The document of 22.05 has no submit line; the next test looks at what tells --mem-per-cpu from --mem there.
    free = {"source_file", "source_line", "work_dir_hash", "requested_memory"}
    for left, right in zip(found.to_pylist(), texts.to_pylist(), strict=True):
        for name in left.keys() - free:
            is_lost = name in ("exit_code", "derived_exit_code") and left[name] is None
            assert left[name] == right[name] or is_lost, (name, left[name], right[name], left["job_id"])


@pytest.mark.shared
@pytest.mark.parametrize("folder", ["real-slurm-22.05.8", "real-slurm-22.05.8-cgroup"])
def test_memory_as_typed_in_the_real_document_is_what_submit_lines_say(folder: str) -> None:
    text_path = SHARED / folder / "sacct-P-ALL-duplicates.txt.gz"
    if not text_path.exists():
        pytest.skip(f"{text_path.name} of {folder} is not here")
    site, settings = SiteSettings(name="minisim"), IngestSettings(keep_submit_line=True)
    texts, _, _ = ingest([text_path], site, settings)
    found, _, _ = ingest([SHARED / folder / "sacct-duplicates.json.gz"], site, settings)
    typed = {"--mem-per-cpu": "/processor", "--mem": "/node"}
    n_told = 0
    for left, right in zip(found.to_pylist(), texts.to_pylist(), strict=True):
        asked = next((per for option, per in typed.items() if f"{option}=" in (right["submit_tokens"] or "")), "")
        told = left["requested_memory"] or ""
        assert not asked or not told or told == right["requested_memory"], (told, right["submit_tokens"])
        n_told += bool(asked and told)
    assert n_told >= 10


def test_the_layout_names_what_is_found_and_who_wrote_it() -> None:
    data = json.dumps({"meta": {"Slurm": {"release": "22.05.8"}}, "jobs": [old_job(qos=None), old_job()]}).encode()
    layout = SACCT_JSON.layout(in_memory(data), SiteSettings(), IngestSettings())
    assert layout.said == ("Slurm 22.05.8",)
    assert "time.elapsed" in layout.found
    assert set(layout.missing) == {
        "cluster", "comment.job", "comment.administrator", "qos", "submit_line", "array.task_id", "het.job_offset",
    }  # fmt: skip


def test_chunks_hold_whole_jobs_and_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.ingest.formats.sacct.json_reader.BLOCK_BYTES", 5000)
    path = tmp_path / "a.json"
    path.write_bytes(document(*[old_job(job_id=n + 1) for n in range(5)]))
    chunks = list(SACCT_JSON.read(Source(path, "a.json"), SiteSettings(), IngestSettings()))
    assert len(chunks) > 2 and sum(chunk.jobs.num_rows for chunk in chunks) == 5
    assert all(chunk.n_lines == 3 * chunk.jobs.num_rows for chunk in chunks)
    assert sum(chunk.n_bytes for chunk in chunks) == path.stat().st_size
