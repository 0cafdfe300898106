"""OpenMetrics text: two strict parsers read it, labels survive, and what is not known is left out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as textfile

from flows.services.metrics import folder_metrics, gauge, metrics_text
from flows.services.run_record import LAST_RUN, RUNNING, LastRun, StepFacts, ending_of, read_last_run, write_run
from pipeline.errors import ConfigError, InputError, printable
from pipeline.publish import Retention
from pipeline.publish.store import WORK, work_folder
from pipeline.report import Report, Tally
from pipeline.storage import write_table
from pipeline.tables import FITS
from tests.publishing import facts_of, publish

HOSTILE = 'a"b\\c\nd} 1\n# EOF\x1b[31m\u202e'
RUN = LastRun("here", "r1", "running", "none", None, 100.0, None, 2**30, {})
REPORTS = [
    Report("clean", "job", Tally(10, 3600.0), Tally(7, 3000.0), {"flurry": Tally(3, 600.0)}),
    Report("predict", "prediction", Tally(2), Tally(2), {}, {"in_80_later": 0.78, "in_95_later": None}),
]


def values(folder: Path, now_s: float = 1000.0) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples by name, as a strict parser of OpenMetrics reads them."""
    text = folder_metrics(folder, now_s)
    found = {one.name: [(s.labels, s.value) for s in one.samples] for one in openmetrics(text)}
    assert {one.name: [(s.labels, s.value) for s in one.samples] for one in textfile(text)} == found
    return found


def put(out: Path, site: str = "here") -> None:
    staged = {"fits": write_table(out.parent / "staged" / "fits.parquet", FITS.empty(), FITS)}
    facts = facts_of("r1", site, {}, [], "code")
    publish(staged, REPORTS, facts, output_dir=out, created_s=400, retention=Retention(2))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.text(), st.floats() | st.integers(-(2**60), 2**60) | st.none()), max_size=5),
    st.sampled_from(["", "seconds", "bytes", "ratio"]),
)
def test_any_label_and_value_is_read_as_it_was_written(rows: list[tuple[str, float | None]], unit: str) -> None:
    labels = {printable(name, 200): value for name, value in rows}
    samples = [({"a": name, "b": "x"}, value) for name, value in labels.items()]
    text = metrics_text([gauge({}, "m", "Help \\ of it.", samples, unit)])
    known = {name: value for name, value in labels.items() if value is not None}
    assert text.endswith("# EOF\n") and text.count("\n# TYPE") + text.startswith("# TYPE") == bool(known)
    for parser in (openmetrics, textfile):
        (family, *_) = [*parser(text), None]
        read = {sample.labels["a"]: sample.value for sample in family.samples} if family else {}
        expected, found = ({name: repr(float(value)) for name, value in one.items()} for one in (known, read))
        assert found == expected
    assert not known or next(iter(openmetrics(text))).unit == unit


def test_tables_cleaning_and_coverage(tmp_path: Path) -> None:
    put(tmp_path / "out", HOSTILE)
    found = values(tmp_path / "out")
    site = {"site": printable(HOSTILE)}
    assert found["walltime_tables_age_seconds"] == [(site, 600.0)]
    assert found["walltime_table_rows"] == [(site | {"table": "fits"}, 0.0)]
    jobs = [(row["kept"], row["reason"], n) for row, n in found["walltime_jobs"]]
    assert jobs == [("true", "", 7), ("false", "flurry", 3)]
    assert sum(n for _, n in found["walltime_jobs_processor_seconds"]) == 3600.0
    # A share that is unknown is absent, and so is what it promises.
    assert [(row["figure"], n) for row, n in found["walltime_coverage_ratio"]] == [("in_80_later", 0.78)]
    assert [n for _, n in found["walltime_coverage_nominal_ratio"]] == [0.8]
    assert found["walltime_versions"] == [(site, 1.0)] and found["walltime_blocked_versions"] == [(site, 0.0)]
    assert "walltime_last_run_state" not in found and "walltime_newest_job_timestamp_seconds" not in found


def test_a_failed_run_is_recorded_where_the_disk_renames_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / LAST_RUN, replace(RUN, state="succeeded"))

    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", failing)
    write_run(tmp_path / LAST_RUN, replace(RUN, state="failed"))
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    write_run(tmp_path / "link", RUN)
    last = read_last_run(tmp_path)
    assert last is not None and last.state == "failed" and not (tmp_path / "elsewhere").exists()
    write_run(tmp_path / "none" / LAST_RUN, RUN)
    assert not (tmp_path / "none").exists()


def test_the_last_run_and_its_steps(tmp_path: Path) -> None:
    put(tmp_path / "out")
    steps = {"ingest": StepFacts(2.5, 10, False), "publish": StepFacts(0.5, None, False)}
    ended = dict(zip(("state", "reason", "exit_code"), ending_of(ConfigError("a", "b", "c")), strict=True))
    write_run(tmp_path / "out" / LAST_RUN, replace(RUN, steps=steps, ended_s=130.0, **ended))
    found = values(tmp_path / "out")
    assert {row["state"] for row, n in found["walltime_last_run_state"] if n} == {"failed"}
    assert {row["reason"] for row, n in found["walltime_last_run_exit_reason"] if n} == {"config"}
    assert [n for _, n in found["walltime_last_run_exit_code"]] == [2.0]
    assert [n for _, n in found["walltime_last_run_duration_seconds"]] == [30.0]
    assert {row["step"]: n for row, n in found["walltime_step_duration_seconds"]} == {"ingest": 2.5, "publish": 0.5}
    assert {row["step"]: n for row, n in found["walltime_step_rows"]} == {"ingest": 10.0}


def test_a_run_in_progress_and_a_killed_one_are_told_apart(tmp_path: Path) -> None:
    with work_folder(tmp_path / "out") as work:
        write_run(work / RUNNING, replace(RUN, pid=__import__("os").getpid()))
        assert read_last_run(tmp_path / "out").state == "running"
        # A rerun may hold the lock where a run was killed before.
        write_run(work / RUNNING, RUN)
        assert read_last_run(tmp_path / "out").state == "killed"
        # One that failed before it could take the lock began later than the killed one.
        write_run(tmp_path / "out" / LAST_RUN, replace(RUN, state="failed", began_s=RUN.began_s + 1))
        assert read_last_run(tmp_path / "out").state == "failed"
        (tmp_path / "out" / LAST_RUN).unlink()
    found = values(tmp_path / "out")
    assert {row["state"] for row, n in found["walltime_last_run_state"] if n} == {"killed"}
    assert "walltime_last_run_exit_code" not in found and "walltime_tables_age_seconds" not in found


def test_the_draft_of_a_killed_writer_goes_and_a_folder_that_cannot_be_written_is_left(tmp_path: Path) -> None:
    (tmp_path / ".last_run.json.7.draft").touch()
    write_run(tmp_path / LAST_RUN, RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["last_run.json"] and read_last_run(tmp_path) == RUN
    (tmp_path / "taken" / "last_run.json" / "x").mkdir(parents=True)
    write_run(tmp_path / "taken" / LAST_RUN, RUN)
    write_run(tmp_path / "none" / LAST_RUN, RUN)
    assert read_last_run(tmp_path / "taken") is None and not (tmp_path / "none").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"site": 1}), "nonsense"])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "last_run.json").write_text(text)
    assert read_last_run(tmp_path) is None
    with pytest.raises(InputError, match="manifest"):
        folder_metrics(tmp_path, 0.0)
    assert not (tmp_path / WORK).exists()
