"""Traces of a program of time steps, with known phases, noise, drift and rare phases, of any length and quickly.

Every step computes, exchanges halos with both neighbours of a ring, and ends with an MPI_Allreduce. Every tenth step is
followed by a coarse correction (send and receive), every fiftieth by a checkpoint (gather and barrier). All blocks end
synchronised. It is also the generator of benchmarks/bench_phases.py.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import CATEGORY, arrow
from pipeline.tables import MPI_CALLS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
STEP, COARSE, CHECKPOINT, START, END = range(5)
OPS = (
    "MPI_Irecv", "MPI_Isend", "MPI_Waitall", "MPI_Allreduce", "MPI_Send", "MPI_Recv", "MPI_Gather", "MPI_Barrier",
    "MPI_Init", "MPI_Bcast", "MPI_Finalize",
)  # fmt: skip
NONE = -(2**40)


@dataclass(frozen=True, slots=True)
class Machine:
    """A platform: seconds of computation per kind of block, of communication, their noise (log sd) and drift.

    `noise` varies by rank and block, `common` by block; `drift` is the relative growth over the run.
    """

    compute_s: tuple[float, float, float] = (1e-3, 3e-3, 20e-3)
    message_s: float = 5e-5
    noise: float = 0.05
    common: float = 0.05
    drift: float = 0.2


HERE = Machine()
THERE = Machine(compute_s=(1.8e-3, 3.9e-3, 50e-3), message_s=4e-4, noise=0.08, common=0.08, drift=-0.1)


def blocks_of(n_steps: int) -> Ints:
    """The kinds of blocks of a run, in order."""
    kinds = np.full((n_steps, 3), -1)
    step = np.arange(1, n_steps + 1)
    kinds[:, 0], kinds[step % 10 == 0, 1], kinds[step % 50 == 0, 2] = STEP, COARSE, CHECKPOINT
    flat = kinds.ravel()
    return np.r_[START, flat[flat >= 0], END]


def simulated_run(n_steps: int, n_ranks: int, machine: Machine, seed: int) -> tuple[pa.Table, dict[int, float]]:
    """MPI_CALLS of a run, and the true time (s) per kind of block. The calls depend on the steps and ranks alone."""
    kinds = blocks_of(n_steps)
    computed = _compute_s(kinds, n_ranks, machine, np.random.default_rng(seed))
    calls = [_calls(kind, computed[kinds == kind], machine.message_s) for kind in range(5)]
    lengths = np.array([len(one["op"]) for one in calls])
    durations = np.empty(len(kinds))
    for kind, one in enumerate(calls):
        durations[kinds == kind] = one["end"][:, :, -1].max(axis=1)
    begins = np.r_[0.0, np.cumsum(durations)[:-1]]
    offsets = np.r_[0, np.cumsum(lengths[kinds])]
    true_s = {kind: float(durations[kinds == kind].sum()) for kind in range(5)}
    return _table(kinds, calls, begins, offsets, n_ranks), true_s


def _compute_s(kinds: Ints, n_ranks: int, machine: Machine, random: np.random.Generator) -> Floats:
    base = np.array([*machine.compute_s, machine.compute_s[0], 1e-5])[kinds]
    trend = 1 + machine.drift * np.linspace(-0.5, 0.5, len(kinds))
    own = np.exp(machine.noise * random.standard_normal((len(kinds), n_ranks)))
    common = np.exp(machine.common * random.standard_normal(len(kinds)))
    return (base * trend * common)[:, None] * own


def _calls(kind: int, computed: Floats, message_s: float) -> dict[str, Any]:
    """The calls of a block by rank: function, peers as offsets on the ring, tag, bytes, and times from its begin."""
    n_blocks, n_ranks = computed.shape
    around = np.maximum(np.maximum(np.roll(computed, 1, 1), np.roll(computed, -1, 1)), computed) + message_s
    left = np.maximum(np.roll(computed, 1, 1), computed) + message_s
    everyone = np.broadcast_to(computed.max(axis=1, keepdims=True) + 3 * message_s, computed.shape)
    now, zero = computed, np.zeros((n_blocks, n_ranks))
    if kind == STEP:
        spans = [(now, now)] * 4 + [(now, around), (around, everyone)]
        peers, tags = [-1, 1, -1, 1, NONE, NONE], [1, 2, 2, 1, NONE, NONE]
        sizes, completed_by = [8000, 8000, 8000, 8000, NONE, 8], [4, 4, NONE, NONE, NONE, NONE]
        return _template([0, 0, 1, 1, 2, 3], peers, tags, sizes, spans, completed_by)
    if kind == COARSE:
        spans = [(now, now), (now, left), (left, everyone)]
        return _template([4, 5, 3], [1, -1, NONE], [7, 7, NONE], [512, 512, 64], spans)
    if kind == CHECKPOINT:
        middle = np.broadcast_to(computed.max(axis=1, keepdims=True) + 20 * message_s, computed.shape)
        return _template([6, 7], [NONE, NONE], [NONE, NONE], [1 << 20, NONE], [(now, middle), (middle, middle)])
    if kind == START:
        return _template([8, 9], [NONE, NONE], [NONE, NONE], [NONE, 4], [(zero, zero), (now, everyone)])
    return _template([10], [NONE], [NONE], [NONE], [(now, everyone)])


def _template(
    op: list[int], peer: list[int], tag: list[int], size: list[int], spans: Any, completed_by: Any = None
) -> Any:
    start, end = (np.stack([span[side] for span in spans], axis=2) for side in (0, 1))
    completed_by = completed_by or [NONE] * len(op)
    return {"op": op, "peer": peer, "tag": tag, "bytes": size, "completed_by": completed_by, "start": start, "end": end}


def _table(kinds: Ints, calls: list[dict[str, Any]], begins: Floats, offsets: Ints, n_ranks: int) -> pa.Table:
    n_calls = int(offsets[-1])
    shape = (n_ranks, n_calls)
    numbers = {name: np.full(shape, NONE) for name in ("op", "peer", "tag", "bytes", "completed_by")}
    times = {name: np.empty(shape) for name in ("start", "end")}
    for kind, one in enumerate(calls):
        mine = np.flatnonzero(kinds == kind)
        for place in range(len(one["op"])):
            at = offsets[mine] + place
            for name, column in numbers.items():
                column[:, at] = one[name][place]
            if one["completed_by"][place] != NONE:
                numbers["completed_by"][:, at] = offsets[mine] + one["completed_by"][place]
            for name, column in times.items():
                column[:, at] = (begins[mine, None] + one[name][:, :, place]).T
    rank = np.repeat(np.arange(n_ranks), n_calls)
    flat = {name: column.ravel() for name, column in (numbers | times).items()}
    peer = np.where(flat["peer"] == NONE, NONE, (rank + flat["peer"]) % n_ranks)
    is_receive = np.isin(flat["op"], [0, 5])
    root = np.where(np.isin(flat["op"], [6, 9]), 0, NONE)
    source, destination = np.where(is_receive, peer, NONE), np.where(is_receive, NONE, peer)
    ops = pa.DictionaryArray.from_arrays(pa.array(flat["op"], pa.int32()), pa.array(OPS)).cast(CATEGORY)
    return MPI_CALLS.build(
        rank=arrow(rank), event=arrow(np.tile(np.arange(n_calls), n_ranks)), op=ops, source=_known(source),
        destination=_known(destination), root=_known(root), tag=_known(flat["tag"]), bytes=_known(flat["bytes"]),
        completed_by=_known(flat["completed_by"]), t_start_s=arrow(flat["start"]), t_end_s=arrow(flat["end"]),
    )  # fmt: skip


def _known(values: Ints) -> pa.Array:
    return arrow(values.astype(np.int64), values == NONE)
