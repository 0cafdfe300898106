"""Compiled passes over a block of a dump: where each value of each record stands, and what each id is."""

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Bools, Ints
from pipeline.ingest.spans.kernels import Bytes
from pipeline.kernels import cached

EMPTY = 256
"""Row of the table of first bytes that says whether a column may be empty."""

INVALID_ID, JOB, STEP, BATCH_STEP = 0, 1, 2, 3
Matrix = npt.NDArray[np.int64]


@cached
def scan(  # noqa: PLR0912
    data: Bytes,
    delimiter: Bytes,
    n_cells: int,
    is_trailing: bool,
    id_column: int,
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

    slots: the row of start and end a column's spans go to, or -1. odd: line, start, end, rows before it. Returns how
    many rows and odd lines.
    """
    size, at, line, rows, n_odd = data.size, 0, 0, 0, 0
    d0, d_size = delimiter[0], delimiter.size
    n_columns = n_cells - 1 if is_trailing else n_cells
    while at < size:
        begin, cell, cell_at, good = at, 0, at, True
        while True:
            byte = data[at] if at < size else np.uint8(10)
            if byte == 10:
                break
            if byte == d0 and (d_size == 1 or _is_delimiter(data, at, delimiter)):
                if cell < n_columns:
                    slot = slots[cell]
                    if slot >= 0:
                        start[slot, rows], end[slot, rows] = cell_at, at
                    good &= starts_well[data[cell_at] if at > cell_at else EMPTY, cell] != 0
                    if cell == id_column and good:
                        good = _id(data, cell_at, at)[0] != INVALID_ID
                cell += 1
                at += d_size
                cell_at = at
                continue
            if byte == quote:
                good = False
            at += 1
        stop = at - 1 if at > begin and data[at - 1] == 13 else at
        if cell == n_cells - 1:
            if is_trailing:
                good &= stop <= cell_at
            else:
                slot = slots[cell]
                if slot >= 0:
                    start[slot, rows], end[slot, rows] = cell_at, stop
                good &= starts_well[data[cell_at] if stop > cell_at else EMPTY, cell] != 0
                if cell == id_column and good:
                    good = _id(data, cell_at, stop)[0] != INVALID_ID
        if good and cell == n_cells - 1:
            row_line[rows], row_at[rows] = line, begin
            rows += 1
        else:
            odd[n_odd, 0], odd[n_odd, 1], odd[n_odd, 2], odd[n_odd, 3] = line, begin, stop, rows
            n_odd += 1
        line += 1
        at += 1
    return rows, n_odd


@cached
def _is_delimiter(data: Bytes, at: int, delimiter: Bytes) -> bool:
    if at + delimiter.size > data.size:
        return False
    for k in range(delimiter.size):  # noqa: SIM110
        if data[at + k] != delimiter[k]:
            return False
    return True


@cached
def classify(data: Bytes, start: Ints, end: Ints, kinds: Bytes, job_end: Ints, array_end: Ints, het_end: Ints) -> None:
    """What each id names, and where its job's part, its array's and its heterogeneous job's end (-1: none)."""
    for row in range(start.size):
        kinds[row], job_end[row], array_end[row], het_end[row] = _id(data, start[row], end[row])


@cached
def _id(data: Bytes, start: int, stop: int) -> tuple[int, int, int, int]:
    array_end, het_end = -1, -1
    at = _digits(data, start, stop)
    if at == start or at - start > 18:
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


@cached
def _digits(data: Bytes, at: int, stop: int) -> int:
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@cached
def _task(data: Bytes, at: int, stop: int) -> int:
    """The place after an array task's number, or after the bracketed rest of an array that pends."""
    if at < stop and data[at] == 91:
        while at < stop and data[at] != 93:
            at += 1
        return min(at + 1, stop)
    return _digits(data, at, stop)


@cached
def owners(data: Bytes, start: Ints, job_end: Ints, kinds: Bytes, owner: Ints) -> None:
    """For each step the row of the job right before it and its other steps, if it bears the step's id; else -1."""
    job = -1
    for row in range(start.size):
        owner[row] = -1
        if kinds[row] == JOB:
            job = row
        elif kinds[row] != INVALID_ID and job >= 0:
            size = job_end[row] - start[row]
            same = size == job_end[job] - start[job]
            k = 0
            while same and k < size:
                same = data[start[row] + k] == data[start[job] + k]
                k += 1
            if same:
                owner[row] = job


@cached
def exit_codes(data: Bytes, start: Ints, end: Ints, values: Ints, missing: Bools, invalid: Bools) -> None:
    """`code:signal` as one number: the code, or 128 + signal where a signal ended it; a bare number is a code."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        values[row], missing[row], invalid[row] = 0, at >= stop, False
        code, after = 0, at
        while after < stop and 48 <= data[after] <= 57 and after - at < 10:
            code = code * 10 + (data[after] - 48)
            after += 1
        signal, last = 0, after
        if after < stop and data[after] == 58:
            last = after + 1
            while last < stop and 48 <= data[last] <= 57 and last - after < 10:
                signal = signal * 10 + (data[last] - 48)
                last += 1
        if last != stop or (at < stop and after == at):
            missing[row] = invalid[row] = True
        values[row] = 128 + signal if signal > 0 else code


@cached
def gpus(data: Bytes, start: Ints, end: Ints, values: Ints) -> None:
    """GPUs of a TRES or GRES string: gres/gpu=4, or gpu:2, gpu:a100:2, gres/gpu:v100=2 summed where no total is.

    A bare number is the count. -1 where the string names none, or is empty.
    """
    for row in range(start.size):
        at, stop = start[row], end[row]
        whole, parts, n_plain = -1, -1, 0
        while at < stop:
            item = at
            while at < stop and data[at] != 44:
                at += 1
            place, is_gres = item, False
            if at - item > 5 and data[item] == 103 and data[item + 1] == 114 and data[item + 4] == 47:
                place += 5
                is_gres = True
            elif at - item > 5 and data[item] == 103 and data[item + 1] == 114 and data[item + 4] == 58:
                place += 5
            if at - place >= 3 and data[place] == 103 and data[place + 1] == 112 and data[place + 2] == 117:
                after = place + 3
                if after == at or data[after] == 61 or data[after] == 58:
                    count, has_count = _last_number(data, after, at)
                    if is_gres and after < at and data[after] == 61:
                        whole = count
                    elif has_count or not is_gres:
                        parts = max(parts, 0) + (count if has_count else 1)
            elif _digits(data, item, at) == at and at - item < 10 and item == start[row] and at == stop:
                n_plain, _ = _last_number(data, item - 1, at)
                whole = n_plain
            at += 1
        values[row] = whole if whole >= 0 else parts


@cached
def _last_number(data: Bytes, low: int, high: int) -> tuple[int, bool]:
    """The number after the last = or : of an item (a socket list in brackets left out); whether there is one."""
    stop = low + 1
    while stop < high and data[stop] != 40:
        stop += 1
    at = stop
    while at > low + 1 and 48 <= data[at - 1] <= 57:
        at -= 1
    if at == stop or (at - 1 >= low + 1 and data[at - 1] != 61 and data[at - 1] != 58) or stop - at > 9:
        return 0, False
    value = 0
    for k in range(at, stop):
        value = value * 10 + (data[k] - 48)
    return value, True


@cached
def resource(data: Bytes, start: Ints, end: Ints, name: Bytes, values: Ints) -> None:
    """The count behind a name and = in a TRES string; -1 where it is not named, or no whole number."""
    for row in range(start.size):
        at, stop = start[row], end[row]
        values[row] = -1
        while at < stop:
            k = 0
            while k < name.size and at + k < stop and data[at + k] == name[k]:
                k += 1
            after = _digits(data, at + k, stop)
            if k == name.size and 0 < after - at - k < 10 and (after == stop or data[after] == 44):
                value = 0
                for place in range(at + k, after):
                    value = value * 10 + (data[place] - 48)
                values[row] = value
                break
            while at < stop and data[at] != 44:
                at += 1
            at += 1
