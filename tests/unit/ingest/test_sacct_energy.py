"""Energy as Slurm's accounting has it: in text and JSON, of a job and of its steps, and where none was measured."""

import json
from pathlib import Path

import pytest

from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.test_sacct import NAMES, Read, changed
from tests.unit.ingest.test_sacct_json import document, old_job, old_step, tres, wrapped

UNSET = str(2**64 - 2)
STEP = "||||2026-03-01T10:00:05|2026-03-01T10:01:05|60||4|4|2||COMPLETED|0:0"


def energy_of(folder: Path, *rows: tuple[str, str], field: str = "ConsumedEnergyRaw") -> float | None:
    lines = [f"{NAMES}|{field}", *(f"{row}|{energy}" for row, energy in rows)]
    (folder / "dump.txt").write_text("\n".join([*lines, ""]))
    jobs, _, _ = ingest([folder / "dump.txt"], SiteSettings(name="c"), IngestSettings())
    (found,) = jobs["energy_j"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("text", "joules"),
    [("101630", 101630.0), ("0", None), ("", None), (UNSET, None), (str(2**64 - 1), None), ("4294967294", None)],
)
def test_raw_energy_is_joules_and_unmeasured_is_null(tmp_path: Path, text: str, joules: float | None) -> None:
    assert energy_of(tmp_path, (changed(), text)) == joules


@pytest.mark.parametrize(("text", "joules"), [("4.58M", 4.58e6), ("101.63K", 101630.0), ("794", 794.0), ("0", None)])
def test_shortened_energy_has_prefixes_of_a_thousand(tmp_path: Path, text: str, joules: float | None) -> None:
    """As ARCHER2's documentation and an issue of reportseff show sacct's output."""
    found = energy_of(tmp_path, (changed(), text), field="ConsumedEnergy")
    assert found == (None if joules is None else pytest.approx(joules))


def test_the_raw_field_is_preferred(tmp_path: Path) -> None:
    read = Read(tmp_path, f"{NAMES}|ConsumedEnergy|ConsumedEnergyRaw\n{changed()}|4.58M|4583211\n")
    assert read.job["energy_j"] == 4583211.0


def test_steps_tell_where_the_job_does_not_and_are_not_added_up(tmp_path: Path) -> None:
    """Slurm measures nodes: batch, extern and srun's step of one node each saw the same joules."""
    steps = [("7.batch" + STEP, "4580000"), ("7.extern" + STEP, "4580100"), ("7.0" + STEP, "4570000")]
    assert energy_of(tmp_path, (changed(), "4580100"), *steps) == 4580100.0
    assert energy_of(tmp_path, (changed(), ""), *steps) == 4580100.0
    assert energy_of(tmp_path, *steps, (changed(), "0")) == 4580100.0
    assert energy_of(tmp_path, (changed(), UNSET), ("7.0" + STEP, UNSET)) is None


def test_a_text_that_is_no_energy_costs_no_record(tmp_path: Path) -> None:
    read = Read(tmp_path, f"{NAMES}|ConsumedEnergy\n{changed()}|794J\n")
    assert read.job["energy_j"] is None and not read.unreadable
    assert any("1 energies are no number of joules" in note for note in read.notes)


def test_dumps_of_other_columns_do_not_empty_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{NAMES}|ConsumedEnergyRaw\n{changed()}|500\n")
    (tmp_path / "b.txt").write_text(f"{NAMES}\n{changed()}\n")
    jobs, _, _ = ingest([tmp_path / "a.txt", tmp_path / "b.txt"], SiteSettings(name="c"), IngestSettings())
    assert jobs["energy_j"].to_pylist() == [500.0]


@pytest.mark.parametrize(
    ("own", "of_step", "joules"),
    [(700, 600, 700.0), (None, 600, 600.0), (None, {"set": True, "infinite": False, "number": 600}, 600.0),
     (0, 0, None), (2**64 - 2, wrapped(None), None)],
)  # fmt: skip
def test_the_json_document_tells_the_same(
    tmp_path: Path, own: int | None, of_step: object, joules: float | None
) -> None:
    counts = {"cpu": 4, "node": 2} | ({} if own is None else {"energy": own})
    step = old_step(0, 4096) | {"statistics": {"energy": {"consumed": of_step}}}
    job = old_job(tres={"allocated": tres(**counts), "requested": tres(cpu=4, node=2)}, steps=[step])
    (tmp_path / "sacct.json").write_bytes(document(job))
    jobs, _, _ = ingest([tmp_path / "sacct.json"], SiteSettings(name="c"), IngestSettings())
    assert jobs["energy_j"].to_pylist() == [joules]


@pytest.mark.parametrize(
    ("typed_mib", "total_mib", "procs", "nodes", "expected"),
    [(1000, 16000, 16, 2, "1000MiB/processor"), (4096, 8192, 32, 2, "4GiB/node"), (1000, 1000, 1, 1, None),
     (0, 256000, 4, 1, None), (None, 8192, 32, 2, None)],
)  # fmt: skip
def test_memory_as_typed_is_told_from_an_old_documents_total_or_unknown(
    tmp_path: Path, typed_mib: int | None, total_mib: int, procs: int, nodes: int, expected: str | None
) -> None:
    """Slurm up to 22.05: no submit line, the amount typed in required.memory, the total in the TRES asked for."""
    required = {"CPUs": procs} | ({} if typed_mib is None else {"memory": typed_mib})
    job = old_job(required=required, tres={"allocated": [], "requested": tres(cpu=procs, mem=total_mib, node=nodes)})
    (tmp_path / "sacct.json").write_text(json.dumps({"jobs": [job]}))
    jobs, _, _ = ingest([tmp_path / "sacct.json"], SiteSettings(name="c"), IngestSettings())
    assert jobs["requested_memory"].to_pylist() == [expected]
    assert jobs["requested_mem_kib"].to_pylist() == [total_mib * 1024 / procs]
