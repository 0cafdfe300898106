"""Looks jobs up in ESTIMATES, row by row: what a scheduler's files and the method `table` are compared with."""

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Floats
from pipeline.estimate.estimates import CODED, KEYS, LETTERS, Rows, values_of
from pipeline.estimate.history import History
from pipeline.evaluate.methods import quantiles_of_rows


def published_rows(table: pa.Table) -> Rows:
    """The rows of ESTIMATES as `look_up` takes them."""
    plain = {name: table.column(name) for name in table.column_names}
    # The dictionary of a column without any text has no place that numpy could take.
    plain |= {name: plain[name].cast(pa.string()) for name in CODED}
    return {name: column.to_numpy(zero_copy_only=False) for name, column in plain.items()}


def look_up(rows: Rows, jobs: History) -> Floats:
    """(jobs, 6) quantiles, s, from each job's first row that is present; NaN where none is.

    Of its row the ratios times the request where both are known, else the seconds; q10 and q50 at most the request.
    """
    places: dict[tuple[object, ...], int] = {}
    columns = {name: rows[name].tolist() for name in LETTERS}
    for row, rank in enumerate(rows["chain_rank"].tolist()):
        places[rank, *(columns[name][row] for name in KEYS[rank])] = row
    values = values_of(jobs)
    own = {name: values[name].tolist() for name in LETTERS if name not in CODED}
    for name in CODED:
        texts: Array = np.array([*jobs.names[name], None], np.object_)
        own[name] = texts[jobs.codes[name]].tolist()
    place = np.full(len(jobs), -1)
    for job in range(len(jobs)):
        chain = ((rank, *(own[name][job] for name in key)) for rank, key in enumerate(KEYS))
        place[job] = next((places[key] for key in chain if key in places), -1)
    return quantiles_of_rows(rows, place, jobs.requested_s)
