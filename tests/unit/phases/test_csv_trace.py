"""A trace as CSV is read whole, in any order of its rows, and a damaged one is named by rank and event."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.phases import input_of
from pipeline.phases.calls import is_csv_trace, read_csv_trace
from pipeline.phases.clock import find_events
from tools.simulation.mpi_steps import HERE, simulated_run
from tools.simulation.trace_csv import HEADER, csv_lines, write_csv

CALLS, _ = simulated_run(20, 4, HERE, 1)
LINES = csv_lines(CALLS)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_written_trace_is_read_back(tmp_path: Path, name: str) -> None:
    path = write_csv(tmp_path / name, LINES)
    assert is_csv_trace(path)
    marked = tmp_path / "marked.csv"
    marked.write_text("\n".join([*LINES, ""]), encoding="utf-8-sig")
    assert is_csv_trace(marked) and read_csv_trace(marked)[0].num_rows == CALLS.num_rows
    table, report = read_csv_trace(path)
    assert table.to_pylist() == CALLS.to_pylist()
    assert report.facts["ranks"] == 4


def test_the_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    shuffled = LINES[1:]
    random.Random(3).shuffle(shuffled)
    table, _ = read_csv_trace(write_csv(tmp_path / "a.csv", [LINES[0], *shuffled]))
    assert table.to_pylist() == CALLS.to_pylist()


def test_communicators_are_read(tmp_path: Path) -> None:
    lines = [HEADER + ",communicator", "0,0,MPI_Barrier,,,,,0,1,row 1", "1,0,MPI_Barrier,,,,,0,1,"]
    table, _ = read_csv_trace(write_csv(tmp_path / "a.csv", lines))
    assert table.column("communicator").to_pylist() == ["row 1", None]


WAITS = (
    "0,0,MPI_Irecv,1,5,1,8,0,0", "0,1,MPI_Irecv,1,5,1,8,0,0", "0,2,MPI_Irecv,2,5,1,8,0,0", "0,3,MPI_Wait,1>0,5,,,0,1",
    "0,4,MPI_Irecv,1,5,1,8,1,1", "0,5,MPI_Waitall,,,,,1,2", "0,6,MPI_Irecv,1,5,1,8,2,2",
    "1,0,MPI_Isend,0,5,1,8,0,0", "1,1,MPI_Isend,0,5,1,8,0,0", "1,2,MPI_Wait,1>0,5,,,0,1", "1,3,MPI_Send,0,5,1,8,1,1",
    "2,0,MPI_Send,0,5,1,8,0,0", "2,1,MPI_Send,0,6,1,8,0,0",
)  # fmt: skip


def test_waits_complete_the_oldest_request_and_waitall_the_others(tmp_path: Path) -> None:
    table, _ = read_csv_trace(write_csv(tmp_path / "a.csv", [HEADER, *WAITS]))
    assert table.column("completed_by").to_pylist()[:7] == [3, 5, 5, None, 5, None, None]


def test_what_has_no_other_side_is_counted_and_not_guessed(tmp_path: Path) -> None:
    table, _ = read_csv_trace(write_csv(tmp_path / "a.csv", [HEADER, *WAITS]))
    events = find_events(table)
    # The send of tag 6, and the receive that nothing completes.
    assert (events.n_unmatched, events.n_open) == (1, 1)


def test_a_receive_from_any_source_is_unmatched(tmp_path: Path) -> None:
    lines = [HEADER, "0,0,MPI_Recv,-1,5,1,8,0,1", "1,0,MPI_Send,0,5,1,8,0,1"]
    assert find_events(read_csv_trace(write_csv(tmp_path / "a.csv", lines))[0]).n_unmatched == 2


def test_an_exchange_is_a_send_and_a_receive(tmp_path: Path) -> None:
    lines = [HEADER, "0,0,MPI_Sendrecv,1>1,5,1,8,0,1", "1,0,MPI_Sendrecv,0>0,5,1,8,0,1"]
    events = find_events(read_csv_trace(write_csv(tmp_path / "a.csv", lines))[0])
    assert (len(events.rank), events.n_unmatched) == (4, 0)


def cut_in_line(data: bytes) -> bytes:
    return data[: data.rindex(b",MPI_Finalize") + 4]


def cut_in_number(data: bytes) -> bytes:
    return data[:-3]


def cut_between_lines(data: bytes) -> bytes:
    return data[: data.rindex(b"\n", 0, -1) + 1]


def with_text(data: bytes) -> bytes:
    place = data.index(b"0,7,")
    return data[:place] + b"0,seven," + data[place + 4 :]


def without_time(data: bytes) -> bytes:
    line = data.index(b"\n1,3,") + 1
    end = data.index(b"\n", line)
    return data[:line] + data[line:end].rpartition(b",")[0] + b"," + data[end:]


def without_a_line(data: bytes) -> bytes:
    line = data.index(b"\n2,9,")
    return data[:line] + data[data.index(b"\n", line + 1) :]


def with_a_line_twice(data: bytes) -> bytes:
    line = data.index(b"\n2,9,")
    end = data.index(b"\n", line + 1)
    return data[:end] + data[line:end] + data[end:]


def backwards(data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(b"3,30,"))
    *kept, _, _ = lines[at].split(b",")
    lines[at] = b",".join([*kept, b"0", b"0"])
    return b"\n".join(lines)


def no_rank(data: bytes) -> bytes:
    return b"\n".join(line for line in data.split(b"\n") if not line.startswith(b"1,"))


DAMAGE: list[tuple[Callable[[bytes], bytes], str]] = [
    (cut_in_line, "rank 3, event "),
    (cut_in_number, "rank 3, event "),
    (cut_between_lines, "rank 3, event "),
    (with_text, "after rank 0, event 6: found seq seven"),
    (without_time, "after rank 1, event 2: found t_end empty"),
    (without_a_line, "rank 2, event 10: found"),
    (with_a_line_twice, "rank 2, event 9: found"),
    (backwards, "rank 3, event 30: found"),
    (no_rank, "no call of rank 1"),
]


@pytest.mark.parametrize(("damage", "named"), DAMAGE, ids=lambda one: getattr(one, "__name__", ""))
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_damaged_trace_is_one_sentence_with_rank_and_event(
    tmp_path: Path, damage: Callable[[bytes], bytes], named: str, is_packed: bool
) -> None:
    data = damage(("\n".join(LINES) + "\n").encode())
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(data) if is_packed else data)
    with pytest.raises(InputError) as error:
        read_csv_trace(path)
    assert named in str(error.value)
    assert str(error.value).count("\n") == 0


def test_a_cut_archive_is_one_sentence(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv.gz", LINES)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(InputError, match=r"rank \d, event \d+: found an unreadable file"):
        read_csv_trace(path)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["rank,seq,op", "0,0,MPI_Init"], "no column peer"),
        ([HEADER], "Empty CSV file"),
        ([HEADER, "0,0,MPI_Send,\x1b[31m,1,1,8,0,1"], "peer"),
        ([HEADER, "0,0,MPI_Send,99999999999999999999,1,1,8,0,1"], "peer 99999999999999999999"),
        ([HEADER, "0,0,MPI_Send,1,1,1,8,nan,1"], "rank 0, event 0"),
        ([HEADER, "0,0,MPI_Send,1,99999999999999999999,1,8,0,1"], "tag 99999999999999999999"),
        ([HEADER, "-1,0,MPI_Init,,,,,0,1"], "no call of rank 0"),
        ([HEADER, "0,0,,,,,,0,1"], "a call without a function"),
    ],
)
def test_hostile_text_is_one_printable_sentence(tmp_path: Path, lines: list[str], named: str) -> None:
    with pytest.raises(InputError) as error:
        read_csv_trace(write_csv(tmp_path / "a.csv", lines))
    assert named in str(error.value)
    assert str(error.value).isprintable()


def test_other_files_are_no_traces(tmp_path: Path) -> None:
    for name, data in {"a.csv": b"procs,runtime_s\n1,2\n", "b.csv": b"", "c.gz": b"\x1f\x8b\x08broken"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match="a file of another kind"):
            input_of(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        input_of(tmp_path / "absent.csv")
