"""Compiled passes over a block of a dump: where each value of each record stands, and what each id names."""

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Ints
from pipeline.ingest.values import Bytes
from pipeline.kernels import uncounted

EMPTY = 256
"""Row of the table of first bytes that says whether a column may be empty."""

INVALID_ID, JOB, STEP, BATCH_STEP = 0, 1, 2, 3
MOST_DIGITS = 10
"""Of a job's number, which has 32 bits in Slurm, a federation's too: longer ones are two that ran together."""

Matrix = npt.NDArray[np.int64]


@uncounted
def scan(
    data: Bytes,
    delimiter: Bytes,
    n_cells: int,
    is_trailing: bool,
    id_column: int,
    raw_id_column: int,
    quote: int,
    slots: Ints,
    starts_well: Bytes,
    start: Matrix,
    end: Matrix,
    row_line: Ints,
    row_at: Ints,
    odd: Matrix,
) -> tuple[int, int]:
    """Spans of the lines that have just the right number of cells, each beginning as its column may; the other lines.

    raw_id_column: where the id stands again, or -1. slots: the row of start and end a column's spans go to, or -1.
    odd: line, start, end, rows before it. Returns how many rows and odd lines.
    """
    size, at, line, rows, n_odd = data.size, 0, 0, 0, 0
    d0, d_size = delimiter[0], delimiter.size
    n_columns = n_cells - 1 if is_trailing else n_cells
    while at < size:
        begin, stop, cell, cell_at, good, is_end = at, at, 0, at, True, False
        own_at, own_end, raw_at, raw_end = 0, 0, 0, 0
        while not is_end:
            byte = data[at] if at < size else np.uint8(10)
            if byte != 10 and (byte != d0 or (d_size > 1 and not _is_delimiter(data, at, delimiter))):
                if byte == quote:
                    good = False
                at += 1
                continue
            is_end = byte == 10
            stop = at - 1 if is_end and at > begin and data[at - 1] == 13 else at
            if cell < n_columns:
                slot = slots[cell]
                if slot >= 0:
                    start[slot, rows], end[slot, rows] = cell_at, stop
                good &= starts_well[data[cell_at] if stop > cell_at else EMPTY, cell] != 0
                if cell == id_column and good:
                    good = _id(data, cell_at, stop)[0] != INVALID_ID
                    own_at, own_end = cell_at, stop
                if cell == raw_id_column:
                    raw_at, raw_end = cell_at, stop
            else:
                good &= stop <= cell_at
            cell += 1
            at += 1 if is_end else d_size
            cell_at = at
        if good and raw_end > raw_at:
            good = not _contradicts(data, own_at, own_end, raw_at, raw_end)
        if good and cell == n_cells:
            row_line[rows], row_at[rows] = line, begin
            rows += 1
        else:
            odd[n_odd, 0], odd[n_odd, 1], odd[n_odd, 2], odd[n_odd, 3] = line, begin, stop, rows
            n_odd += 1
        line += 1
    return rows, n_odd


@uncounted
def _contradicts(data: Bytes, start: int, end: int, raw: int, raw_end: int) -> bool:
    """Whether an id of digits alone differs from the id beside it, which Slurm writes the same."""
    k, size = 0, end - start
    while k < size and raw + k < raw_end and data[start + k] == data[raw + k]:
        k += 1
    is_same = k == size and raw + k == raw_end
    return not is_same and _digits(data, start, end) == end


@uncounted
def _is_delimiter(data: Bytes, at: int, delimiter: Bytes) -> bool:
    if at + delimiter.size > data.size:
        return False
    for k in range(delimiter.size):  # noqa: SIM110
        if data[at + k] != delimiter[k]:
            return False
    return True


@uncounted
def identify(data: Bytes, start: Ints, end: Ints, kinds: Bytes, ends: Matrix, owner: Ints) -> None:
    """What each id names, and where its job's part, its array's and its heterogeneous job's end (-1: none).

    owner: for each step the row of the job right before it and its other steps, if it bears the step's id; else -1.
    """
    job = -1
    for row in range(start.size):
        low = start[row]
        kinds[row], ends[0, row], ends[1, row], ends[2, row] = _id(data, low, end[row])
        owner[row] = -1
        if kinds[row] == JOB:
            job = row
        elif kinds[row] != INVALID_ID and job >= 0:
            size, k = ends[0, row] - low, 0
            if size == ends[0, job] - start[job]:
                while k < size and data[low + k] == data[start[job] + k]:
                    k += 1
                if k == size:
                    owner[row] = job


@uncounted
def _id(data: Bytes, start: int, stop: int) -> tuple[int, int, int, int]:
    array_end, het_end = -1, -1
    at = _digits(data, start, stop)
    if at == start or at - start > MOST_DIGITS:
        return INVALID_ID, stop, -1, -1
    if at < stop and data[at] == 95:
        array_end = at
        at = _task(data, at + 1, stop)
        if at == array_end + 1:
            return INVALID_ID, stop, -1, -1
    if at < stop and data[at] == 43:
        het_end = at
        at = _digits(data, at + 1, stop)
        if at == het_end + 1:
            return INVALID_ID, stop, -1, -1
    if at == stop:
        return JOB, stop, array_end, het_end
    if data[at] != 46 or at + 1 >= stop:
        return INVALID_ID, stop, -1, -1
    return (STEP if 48 <= data[at + 1] <= 57 or data[at + 1] == 105 else BATCH_STEP), at, array_end, het_end


@uncounted
def _digits(data: Bytes, at: int, stop: int) -> int:
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@uncounted
def _task(data: Bytes, at: int, stop: int) -> int:
    """The place after an array task's number, or after the bracketed rest of an array that pends."""
    if at < stop and data[at] == 91:
        while at < stop and data[at] != 93:
            at += 1
        return min(at + 1, stop)
    return _digits(data, at, stop)
