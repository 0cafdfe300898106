"""An OTF2 archive gives the same table as the CSV it was written from, and a damaged one names rank and event."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.phases import input_of, otf2
from pipeline.phases.otf2 import RankRecords
from pipeline.phases.phase_input import PhaseRules
from pipeline.phases.phases import find_phases
from tools.simulation.mpi_steps import HERE, simulated_run

pytest.importorskip("otf2", reason="OTF2 NOT TESTED: the extra walltime[otf2] is not installed")

from tests.unit.phases.otf2_archive import TICKS_PER_S, write_archive

CALLS, _ = simulated_run(25, 4, HERE, 1)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_archive(CALLS, tmp_path_factory.mktemp("otf2") / "run")


def rounded(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Times as the archive's clock has them; it has no unknown bytes."""
    times = ("t_start_s", "t_end_s")
    return [
        row | {"bytes": row["bytes"] or 0} | {name: round(row[name] * TICKS_PER_S) for name in times} for row in rows
    ]  # type: ignore[operator]


def test_an_archive_is_read_back_as_it_was_written(archive: Path) -> None:
    assert input_of(archive).name == input_of(archive.parent).name == "mpi"
    assert otf2.read_otf2_trace(archive.parent)[0].num_rows == CALLS.num_rows
    table, report = otf2.read_otf2_trace(archive)
    assert rounded(table.to_pylist()) == rounded(CALLS.to_pylist())
    assert report.facts["ranks"] == 4


def test_an_archive_has_the_same_phases(archive: Path) -> None:
    columns = ["phase_id", "level", "ticks", "events", "n_occurrences", "is_relevant", "repetitive"]
    expected, _, _ = find_phases(CALLS, "x", PhaseRules())
    found, _, report = find_phases(otf2.read_otf2_trace(archive)[0], "x", PhaseRules())
    assert found.select(columns).equals(expected.select(columns))
    assert report.facts["unmatched"] == 0


def test_processes_read_the_same(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, _ = otf2.read_otf2_trace(archive)
    monkeypatch.setattr(otf2, "FEW_EVENTS", 0)
    assert otf2.read_otf2_trace(archive)[0].equals(alone)


def test_ranks_of_a_communicator_become_ranks_of_the_run(tmp_path: Path) -> None:
    import otf2 as package

    with package.writer.open(str(tmp_path / "run"), timer_resolution=TICKS_PER_S) as trace:
        known, mpi = trace.definitions, package.enums.Paradigm.MPI
        machine = known.system_tree_node("cluster", parent=None)
        places = [
            known.location(f"rank {rank}", group=known.location_group(f"process {rank}", system_tree_parent=machine))
            for rank in range(3)
        ]
        known.group("all", group_type=package.enums.GroupType.COMM_LOCATIONS, paradigm=mpi, members=tuple(places))
        part = known.group("part", group_type=package.enums.GroupType.COMM_GROUP, paradigm=mpi, members=(2, 0))
        comm, send = known.comm("part", group=part), known.region("MPI_Send")
        for place in places:
            writer = trace.event_writer_from_location(place)
            writer.enter(1, send)
            if place is places[2]:
                writer.mpi_send(2, 1, comm, 5, 8)
            writer.leave(3, send)
    table, _ = otf2.read_otf2_trace(tmp_path / "run" / "traces.otf2")
    assert table.column("destination").to_pylist() == [None, None, 0]
    assert table.column("communicator").to_pylist()[2] == "comm 0"


def test_tests_that_find_nothing_are_not_counted() -> None:
    records = RankRecords({0: "MPI_Irecv", 1: "MPI_Test"})
    call = {name: partial(take, 0) for name, take in records.callbacks().items()}
    call["Enter"](1, None, None, 0)
    call["MpiIrecvRequest"](1, None, None, 77)
    call["Leave"](1, None, None, 0)
    for time, is_done in ((2, False), (3, False), (4, True)):
        call["Enter"](time, None, None, 1)
        if is_done:
            call["MpiIrecv"](time, None, None, 3, 0, 5, 8, 77)
        call["Leave"](time, None, None, 1)
    found = records.columns()
    assert found["op"].tolist() == [0, 1] and found["event"].tolist() == [0, 1]
    assert found["completed_by"].tolist() == [1, -1] and found["first"][0] == 3
    assert found["t_start"].tolist() == [1, 4]


@pytest.mark.parametrize("damage", ["half", "empty", "gone", "definitions", "anchor"])
def test_a_damaged_archive_is_one_sentence(
    archive: Path, tmp_path: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(archive.parent, tmp_path / "run")
    anchor = tmp_path / "run" / "traces.otf2"
    events, definitions = (tmp_path / "run" / name for name in ("traces/2.evt", "traces.def"))
    expected = "rank 2, event "
    if damage == "half":
        events.write_bytes(events.read_bytes()[: events.stat().st_size // 2])
    elif damage == "empty":
        events.write_bytes(b"")
    elif damage == "gone":
        events.unlink()
    else:
        path, expected = (definitions if damage == "definitions" else anchor), "a damaged archive"
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=expected):
        otf2.read_otf2_trace(anchor)
    assert capfd.readouterr().err == ""
