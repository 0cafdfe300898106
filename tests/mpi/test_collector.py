"""What the collector writes of a real run, against what the program of the test does."""

import csv
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.phases.calls import read_csv_trace
from tests.mpi.conftest import Run

Row = dict[str, str]


@pytest.fixture
def rows(mpirun: Run) -> dict[int, list[Row]]:
    """The rows of every rank of `every_call.c`."""
    _, trace = mpirun("every_call.c", ranks=4)
    return by_rank(trace)


def by_rank(trace: Path) -> dict[int, list[Row]]:
    with trace.open() as file:
        found: dict[int, list[Row]] = {}
        for row in csv.DictReader(file):
            found.setdefault(int(row["rank"]), []).append(row)
    return found


def brief(rows: list[Row], *, tags: range) -> list[tuple[str, str, str, str]]:
    """Function, peer, tag and bytes of the calls with these tags, in order."""
    return [(r["op"][4:], r["peer"], r["tag"], r["bytes"]) for r in rows if r["tag"] and int(r["tag"]) in tags]


def test_every_rank_is_whole_and_in_order(rows: dict[int, list[Row]]) -> None:
    assert sorted(rows) == [0, 1, 2, 3]
    for mine in rows.values():
        assert [int(row["seq"]) for row in mine] == list(range(len(mine)))
        assert mine[0]["op"] == "MPI_Init" and mine[-1]["op"] == "MPI_Finalize"
        assert all(float(row["t_start"]) <= float(row["t_end"]) for row in mine)
        assert all(float(one["t_end"]) <= float(next_one["t_start"]) for one, next_one in pairwise(mine))
    assert min(float(mine[0]["t_start"]) for mine in rows.values()) == 0


def test_blocking_messages(rows: dict[int, list[Row]]) -> None:
    assert brief(rows[0], tags=range(10, 20)) == [
        ("Send", "1", "10", "12"), ("Recv", "1", "11", "24"), ("Sendrecv", "3>1", "12", "16"),
        ("Sendrecv", "3>1", "13", "16"), ("Send", "1", "14", "20"),
    ]  # fmt: skip
    assert brief(rows[3], tags=range(10, 20)) == [
        ("Recv", "2", "10", "32"), ("Ssend", "2", "11", "24"), ("Sendrecv", "2>0", "12", "16"),
        ("Sendrecv", "2>0", "13", "16"), ("Recv", "2", "14", "20"),
    ]  # fmt: skip


def test_wildcards_are_resolved_and_waits_name_their_request(rows: dict[int, list[Row]]) -> None:
    assert brief(rows[1], tags=range(20, 30)) == [
        ("Irecv", "0", "20", "32"), ("Isend", "2", "21", "24"), ("Wait", "0>1", "20", ""), ("Wait", "1>2", "21", ""),
    ]  # fmt: skip


def test_a_waitall_that_leaves_receives_open_names_its_requests(rows: dict[int, list[Row]]) -> None:
    found = brief(rows[1], tags=range(30, 40))
    assert found[:4] == [
        ("Irecv", "0", "30", "4"), ("Irecv", "0", "31", "4"), ("Isend", "2", "30", "4"), ("Isend", "2", "31", "4"),
    ]  # fmt: skip
    assert found[4:] == [("Waitall", "0>1", "30", ""), ("Waitall", "1>2", "30", ""), ("Test", "0>1", "31", "")]
    assert sum(row["op"] == "MPI_Waitall" and row["peer"] == "" for row in rows[1]) == 1


def test_each_request_of_some_has_a_row_and_messages_to_nobody_have_none(rows: dict[int, list[Row]]) -> None:
    found = brief(rows[2], tags=range(40, 60))
    assert sorted(found[4:6]) == [("Waitsome", "1>2", "40", ""), ("Waitsome", "3>2", "41", "")]
    assert found[6:] == [("Irecv", "1", "50", "4"), ("Send", "3", "50", "4"), ("Waitany", "1>2", "50", "")]


def test_persistent_requests_are_receives_and_sends_at_their_start(rows: dict[int, list[Row]]) -> None:
    assert brief(rows[0], tags=range(60, 70)) == [("Irecv", "3", "60", "8"), ("Isend", "1", "60", "8")] * 2
    assert sum(row["op"] == "MPI_Testall" for row in rows[0]) == 2


def test_collectives(rows: dict[int, list[Row]]) -> None:
    names = ("Barrier", "Bcast", "Reduce", "Gather", "Allgatherv", "Alltoall", "Iallreduce")
    found = [(r["op"][4:], r["peer"], r["bytes"]) for r in rows[0] if r["op"][4:] in names and not r["communicator"]]
    assert found == [
        ("Barrier", "", ""), ("Bcast", "2", "20"), ("Reduce", "1", "20"), ("Gather", "3", "4"), ("Allgatherv", "", ""),
        ("Alltoall", "", "4"), ("Iallreduce", "", "12"),
    ]  # fmt: skip


def test_communicators_have_one_name_for_all_members_and_ranks_of_the_world(rows: dict[int, list[Row]]) -> None:
    named = {rank: [row["communicator"] for row in mine if row["communicator"]] for rank, mine in rows.items()}
    assert named[0] == named[1] != named[2] == named[3]
    assert len(set(named[0])) == 2
    assert brief(rows[1], tags=range(70, 80)) == [("Send", "0", "70", "4")]
    assert brief(rows[2], tags=range(70, 80)) == [("Recv", "3", "70", "4")]
    assert [row["peer"] for row in rows[0] if row["op"] == "MPI_Bcast" and row["communicator"]] == ["1"]


def test_a_wildcard_is_resolved_after_its_record_left_the_buffer(rows: dict[int, list[Row]]) -> None:
    for rank, mine in rows.items():
        left = str((rank - 1) % 4)
        assert brief(mine, tags=range(80, 90))[0] == ("Irecv", left, "80", "4")
        assert sum(row["op"] == "MPI_Allreduce" for row in mine) == 5001


def test_the_reader_of_traces_takes_it_without_a_remark(mpirun: Run) -> None:
    _, trace = mpirun("every_call.c", ranks=4)
    calls, report = read_csv_trace(trace)
    assert report.facts["ranks"] == 4
    posted = [op in ("MPI_Irecv",) for op in calls.column("op").to_pylist()]
    completed = calls.column("completed_by").to_pylist()
    assert all((one is not None) == is_posted for one, is_posted in zip(completed, posted, strict=True))


def test_a_program_can_be_linked_with_the_library(mpirun: Run) -> None:
    _, trace = mpirun("halo.c", "20", "100", "0", ranks=2, linked=True)
    rows = by_rank(trace)
    assert [sum(row["op"] == "MPI_Allreduce" for row in mine) for mine in rows.values()] == [4, 4]


def test_a_program_that_is_aborted_leaves_no_trace(mpirun: Run) -> None:
    _, trace = mpirun("every_call.c", ranks=2, fails=True)
    assert not trace.exists() and not list(trace.parent.glob("walltime-trace*"))
