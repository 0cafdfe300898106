"""The columns of a trace as numpy arrays, in order of rank and call, before they become a table."""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.text import printable

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
UNKNOWN = -1
NO_TAG = -(2**62)
MOST_RANKS = 2**31


@dataclass(frozen=True)
class CallColumns:
    """One value per call; UNKNOWN (NO_TAG for tags) where a trace names none. `ops` and `communicators` are the words
    of the codes `op` and `communicator`; `first` and `second` are the ranks before and after the sign > of a peer."""

    where: str
    rank: Ints
    event: Ints
    op: Codes
    ops: tuple[str, ...]
    first: Ints
    second: Ints
    tag: Ints
    size: Ints
    communicator: Codes
    communicators: tuple[str, ...]
    t_start_s: Floats
    t_end_s: Floats

    @classmethod
    def from_texts(
        cls,
        *,
        where: str,
        rank: pa.ChunkedArray,
        seq: pa.ChunkedArray,
        op: pa.ChunkedArray,
        peer: pa.ChunkedArray,
        tag: pa.ChunkedArray,
        bytes: pa.ChunkedArray,
        t_start: pa.ChunkedArray,
        t_end: pa.ChunkedArray,
        communicator: pa.ChunkedArray | None,
    ) -> Self:
        """The columns of a CSV; InputError where a peer is no rank."""
        op_codes, ops = _coded(op)
        peer_codes, peers = _coded(peer)
        comm_codes, comms = _coded(communicator) if communicator is not None else (np.full(len(rank), UNKNOWN), ())
        ends = np.array([_ranks(where, text) for text in peers] or [(UNKNOWN, UNKNOWN)], np.int64)
        ends = np.vstack([ends, [(UNKNOWN, UNKNOWN)]])  # the code -1 of no peer is the last row
        return cls(
            where, _numbers(rank), _numbers(seq), op_codes, ops, ends[peer_codes, 0], ends[peer_codes, 1],
            _numbers(tag, NO_TAG), _numbers(bytes), comm_codes.astype(np.int32), comms,
            t_start.to_numpy(), t_end.to_numpy(),
        )._in_order()  # fmt: skip

    def _in_order(self) -> Self:
        steps = np.diff(self.rank)
        if ((steps > 0) | ((steps == 0) & (np.diff(self.event) > 0))).all():
            return self
        order = np.lexsort((self.event, self.rank))
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        sorted_ones = {name: one[order] for name, one in values.items() if isinstance(one, np.ndarray)}
        return type(self)(**values | sorted_ones)

    def is_op(self, names: frozenset[str] | tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Which calls are of these functions."""
        chosen = np.array([name in names for name in self.ops], np.bool_)
        return chosen[self.op]


def _coded(column: pa.ChunkedArray) -> tuple[Codes, tuple[str, ...]]:
    """Codes (UNKNOWN: null) into the words of a category."""
    array = column.unify_dictionaries().combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    words = tuple(array.dictionary.to_pylist())
    return array.indices.fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int32), words


def _numbers(column: pa.ChunkedArray, missing: int = UNKNOWN) -> Ints:
    values: Ints = column.fill_null(missing).to_numpy().astype(np.int64, copy=False)
    return values


def _ranks(where: str, text: str) -> tuple[int, int]:
    """The ranks of `3`, or of `3>5`; a negative one stands for any rank."""
    before, _, after = text.partition(">")
    try:
        found = max(int(before), UNKNOWN), max(int(after), UNKNOWN) if after else UNKNOWN
    except ValueError:
        found = (MOST_RANKS, UNKNOWN)
    if max(found) >= MOST_RANKS:
        raise InputError(where, f"peer {printable(text, 60)}", "a rank, or source>destination")
    return found
