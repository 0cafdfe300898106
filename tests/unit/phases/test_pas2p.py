"""PAS2P finds the phases of simulated programs, the same ones on every machine, and their times add up."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.phases.calls import read_csv_trace
from pipeline.phases.clock import find_events, grown_phases, logical_trace
from pipeline.phases.phase_input import Pas2pRules, PhaseRules
from pipeline.phases.phases import find_phases
from tools.simulation.mpi_steps import CHECKPOINT, COARSE, HERE, STEP, THERE, simulated_run
from tools.simulation.trace_csv import HEADER, write_csv

SETTINGS = PhaseRules()
N_STEPS, N_RANKS = 300, 6
CALLS, TRUE_S = simulated_run(N_STEPS, N_RANKS, HERE, 1)
PHASES, POINTS, REPORT = find_phases(CALLS, "steps", SETTINGS)
STRUCTURE = ("phase_id", "level", "ticks", "events", "n_occurrences", "repetitive")


def trace(tmp_path: Path, *lines: str, communicator: bool = False) -> pa.Table:
    header = HEADER + (",communicator" if communicator else "")
    return read_csv_trace(write_csv(tmp_path / "trace.csv", [header, *lines]))[0]


def test_the_known_phases_are_found_with_their_weights() -> None:
    # A step; a step with a coarse correction; a step with both and a checkpoint. The last one ends with MPI_Finalize.
    found = {(row["ticks"], row["n_occurrences"]) for row in PHASES.to_pylist()}
    assert found == {
        (2, 1),
        (5, N_STEPS * 9 // 10),
        (8, N_STEPS // 10 - N_STEPS // 50),
        (10, N_STEPS // 50 - 1),
        (11, 1),
    }
    assert REPORT.facts["unmatched"] == 0


def test_a_phase_has_the_time_of_its_blocks() -> None:
    times = {row["ticks"]: row["time_s"] for row in PHASES.to_pylist()}
    blocks_s = sum(TRUE_S[kind] for kind in (STEP, COARSE, CHECKPOINT))
    assert times[5] + times[8] + times[10] + times[11] == pytest.approx(blocks_s, rel=1e-3)


@settings(max_examples=15)
@given(
    n_steps=st.integers(1, 120), n_ranks=st.integers(3, 7), seed=st.integers(0, 99),
    max_level=st.integers(0, 3), similar_share=st.sampled_from([0.5, 0.8, 1.0]),
)  # fmt: skip
def test_occurrences_add_up_to_the_run(
    n_steps: int, n_ranks: int, seed: int, max_level: int, similar_share: float
) -> None:
    calls, _ = simulated_run(n_steps, n_ranks, THERE, seed)
    pas2p = Pas2pRules(max_level=max_level, similar_share=similar_share)
    phases, points, report = find_phases(calls, "x", PhaseRules(pas2p=pas2p))
    spans_s = points.column("t_end_s").to_numpy() - points.column("t_start_s").to_numpy()
    assert spans_s.min() >= 0
    assert spans_s.sum() / n_ranks == pytest.approx(report.facts["runtime_s"], rel=1e-9)
    assert phases.column("time_s").to_numpy().sum() == pytest.approx(report.facts["runtime_s"], rel=1e-9)
    assert points.num_rows == phases.column("n_occurrences").to_numpy().sum() * n_ranks


def test_all_machines_give_the_same_phases() -> None:
    there = find_phases(simulated_run(N_STEPS, N_RANKS, THERE, 9)[0], "steps", SETTINGS)
    assert there[0].select(STRUCTURE).equals(PHASES.select(STRUCTURE))
    places = ["phase_id", "occurrence", "rank", "position", "from_event", "to_event"]
    assert there[1].select(places).equals(POINTS.select(places))


def test_points_follow_one_another_in_the_program() -> None:
    rows = sorted(POINTS.to_pylist(), key=lambda row: (row["rank"], row["position"]))
    for row, after in pairwise(rows):
        if row["rank"] == after["rank"]:
            assert row["to_event"] == after["from_event"]
    assert rows[0]["from_event"] is None
    assert rows[-1]["to_event"] == CALLS.num_rows // N_RANKS - 1


def test_a_phase_grows_to_the_repeated_event_and_is_split_where_that_is_not_the_first() -> None:
    # Codes by tick: 0 1 2 1 2 1 2 0. The phase of 0 ends before 1 repeats, and is parted there (Fig. 6d).
    codes = np.array([0, 1, 2, 1, 2, 1, 2, 0])
    assert grown_phases(np.arange(9), codes, 3).tolist() == [0, 1, 3, 5, 8]


def test_a_receive_is_later_than_its_send_and_its_rank(tmp_path: Path) -> None:
    calls = trace(
        tmp_path,
        "0,0,MPI_Send,1,1,1,8,0,1", "0,1,MPI_Send,1,2,1,8,1,2", "0,2,MPI_Send,1,3,1,8,2,3",
        "1,0,MPI_Recv,0,1,1,8,0,1", "1,1,MPI_Recv,0,3,1,8,1,4", "1,2,MPI_Recv,0,2,1,8,4,5",
    )  # fmt: skip
    events = find_events(calls)
    found = logical_trace(calls, events)
    tick = np.empty(len(events.rank), np.int64)
    tick[found.event] = np.repeat(np.arange(found.n_ticks), np.diff(found.starts))
    assert tick[:3].tolist() == [0, 1, 2]
    assert tick[3:].tolist() == [1, 3, 4]
    # By the paper's words the last receive is at its send's time + 1, before the one it follows.
    literal = logical_trace(calls, events, program_order=False)
    tick[literal.event] = np.repeat(np.arange(literal.n_ticks), np.diff(literal.starts))
    assert tick[3:].tolist() == [1, 3, 2]


def test_sub_communicators_collect_among_their_members(tmp_path: Path) -> None:
    rows = [
        f"{rank},{event},MPI_Allreduce,,,1,8,{event},{event + 1},row {rank // 2}"
        for rank, n in ((0, 1), (1, 1), (2, 3), (3, 3))
        for event in range(n)
    ]
    _, _, report = find_phases(trace(tmp_path, *rows, communicator=True), "x", SETTINGS)
    assert report.facts["ticks"] == 3


def test_ranks_that_disagree_on_a_collective_are_refused(tmp_path: Path) -> None:
    calls = trace(tmp_path, "0,0,MPI_Barrier,,,,,0,1", "1,0,MPI_Allreduce,,,1,8,0,1")
    with pytest.raises(InputError, match="rank 1, event 0: found MPI_Allreduce, expected MPI_Barrier"):
        find_phases(calls, "x", SETTINGS)


def test_ranks_that_wait_for_one_another_for_ever_are_refused(tmp_path: Path) -> None:
    calls = trace(
        tmp_path,
        "0,0,MPI_Recv,1,1,1,8,0,1", "0,1,MPI_Send,1,1,1,8,1,2",
        "1,0,MPI_Recv,0,1,1,8,0,1", "1,1,MPI_Send,0,1,1,8,1,2",
    )  # fmt: skip
    with pytest.raises(InputError, match="rank 0, event 0: found MPI_Recv, which never completes"):
        find_phases(calls, "x", SETTINGS)


def test_the_order_in_which_messages_complete_does_not_matter(tmp_path: Path) -> None:
    sends = ["1,0,MPI_Send,0,1,1,8,0,1", "2,0,MPI_Send,0,1,1,8,0,1", "2,1,MPI_Send,0,1,1,8,1,2"]
    orders = [(1, 2, 2), (2, 1, 2), (2, 2, 1)]
    found = []
    for order in orders:
        posted = [f"0,{event},MPI_Irecv,{source},1,1,8,0,0" for event, source in enumerate(order)]
        calls = trace(tmp_path, *posted, "0,3,MPI_Waitall,,,,,0,3", *sends)
        events = find_events(calls)
        logical = logical_trace(calls, events)
        found.append((events.peer[logical.event].tolist(), logical.starts.tolist()))
    assert found[0] == found[1] == found[2]


def test_similar_phases_are_one_from_the_share_on() -> None:
    # In every third of the steps one event of ten has other bytes: nine of ten are alike.
    calls, _ = simulated_run(90, 3, HERE, 4)
    sizes = calls.column("bytes").to_numpy(zero_copy_only=False)
    event, rank = calls.column("event").to_numpy(), calls.column("rank").to_numpy()
    is_send = np.array(calls.column("op").to_pylist()) == "MPI_Isend"
    chosen = np.flatnonzero(is_send & (rank == 0))[::6]
    sizes[chosen] = 8001.0
    other = calls.set_column(7, calls.schema.field("bytes"), pa.array(sizes, mask=np.isnan(sizes)).cast(pa.int64()))
    assert event[chosen].size
    n = {share: find_phases(other, "x", PhaseRules(pas2p=Pas2pRules(similar_share=share)))[0].num_rows
         for share in (0.8, 1.0)}  # fmt: skip
    assert n[0.8] == find_phases(calls, "x", SETTINGS)[0].num_rows < n[1.0]
