"""Writes the calls of a trace as an OTF2 archive, as Score-P would."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.phases import calls as functions

TICKS_PER_S = 1_000_000_000
NO_ROOT = 2**32 - 1


def write_archive(calls: pa.Table, folder: Path) -> Path:
    """An archive of MPI_CALLS, one location a rank; unknown bytes become 0. Returns its anchor file."""
    import otf2

    with otf2.writer.open(str(folder), timer_resolution=TICKS_PER_S) as trace:
        known = trace.definitions
        machine = known.system_tree_node("cluster", parent=None)
        rows = calls.to_pylist()
        n_ranks = rows[-1]["rank"] + 1
        locations = [
            known.location(f"rank {rank}", group=known.location_group(f"process {rank}", system_tree_parent=machine))
            for rank in range(n_ranks)
        ]
        mpi = otf2.enums.Paradigm.MPI
        known.group("all", group_type=otf2.enums.GroupType.COMM_LOCATIONS, paradigm=mpi, members=tuple(locations))
        group = known.group(
            "world", group_type=otf2.enums.GroupType.COMM_GROUP, paradigm=mpi, members=tuple(range(n_ranks))
        )
        world = known.comm("world", group=group)
        regions = {op: known.region(op) for op in dict.fromkeys(row["op"] for row in rows)}
        for rank, location in enumerate(locations):
            _write_rank(
                trace.event_writer_from_location(location), [row for row in rows if row["rank"] == rank], regions, world
            )
    return folder / "traces.otf2"


def _write_rank(writer: Any, rows: list[dict[str, Any]], regions: dict[str, Any], world: Any) -> None:
    completed: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["completed_by"] is not None:
            completed.setdefault(row["completed_by"], []).append(row)
    for row in rows:
        start, end = (round(row[name] * TICKS_PER_S) for name in ("t_start_s", "t_end_s"))
        writer.enter(start, regions[row["op"]])
        _write_records(writer, end, row, world)
        for one in completed.get(row["event"], []):
            writer.mpi_irecv(end, one["source"], world, one["tag"], one["bytes"] or 0, one["event"])
        writer.leave(end, regions[row["op"]])


def _write_records(writer: Any, time: int, row: dict[str, Any], world: Any) -> None:
    from otf2.enums import CollectiveOp

    op, size = row["op"], row["bytes"] or 0
    if op in functions.SENDS:
        if op == "MPI_Send":
            writer.mpi_send(time, row["destination"], world, row["tag"], size)
        else:
            writer.mpi_isend(time, row["destination"], world, row["tag"], size, row["event"])
    elif op in functions.RECEIVES:
        writer.mpi_recv(time, row["source"], world, row["tag"], size)
    elif op in functions.POSTED_RECEIVES:
        writer.mpi_irecv_request(time, row["event"])
    elif op in functions.COLLECTIVES and op not in ("MPI_Init", "MPI_Finalize"):
        writer.mpi_collective_begin(time)
        root = NO_ROOT if row["root"] is None else row["root"]
        writer.mpi_collective_end(time, CollectiveOp.BARRIER, world, root, size, 0)
