"""What jobs find in the published table of estimates: in a version's own, and in that of each midnight of a log."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Array, Floats, Ints
from pipeline.estimate.estimates import (
    CODED,
    KEPT_DAYS,
    KEYS,
    LETTERS,
    NAMES,
    Rows,
    answers_of,
    digests_of,
    values_of,
)
from pipeline.estimate.history import History
from pipeline.estimate.score import N_QUANTILES
from pipeline.estimate.state import nights


def published_rows(table: pa.Table) -> Rows:
    """The rows of ESTIMATES as `look_up` takes them."""
    plain = {name: table.column(name) for name in table.column_names}
    # The dictionary of a column without any text has no place that numpy could take.
    plain |= {name: plain[name].cast(pa.string()) for name in CODED}
    return {name: column.to_numpy(zero_copy_only=False) for name, column in plain.items()}


def look_up(rows: Rows, jobs: History) -> Floats:
    """(jobs, 6) quantiles, s, from each job's first row that is present; NaN where none is.

    Of its row the ratios times the request where both are known, else the seconds; q10 and q50 at most the request.

    Parameters
    ----------
    rows : Rows
        Columns of ESTIMATES by name, as `table_rows` and `published_rows` make them.
    jobs : History
        n jobs.

    Returns
    -------
    Floats
        float64[n, 6], s: quantiles at 10, 50, 80, 90, 95 and 99%.

    Examples
    --------
    >>> from pipeline.estimate.history import history
    >>> log = history(tables["jobs"])
    >>> look_up(published_rows(tables["estimates"]), log).shape == (len(log), 6)
    True
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
    return _told(rows, place, jobs.requested_s)


def _told(rows: Rows, place: Ints, requested_s: Floats) -> Floats:
    """(jobs, 6) quantiles, s, that the rows at these places give jobs with these requests; NaN where there is none."""
    requested_s = np.where(requested_s > 0, requested_s, np.nan)
    found, known = np.full((len(place), N_QUANTILES), np.nan), place >= 0
    seconds, ratios = (np.stack([rows[f"{unit}_{name}"] for name in NAMES], axis=1) for unit in ("runtime_s", "ratio"))
    scaled_s = ratios[place[known]] * requested_s[known][:, None]
    found[known] = np.where(np.isnan(scaled_s), seconds[place[known]], scaled_s)
    found[known, :2] = np.fmin(found[known, :2], requested_s[known][:, None])
    return found


def table(history: History) -> Floats:
    """(jobs, 6) quantiles, s, that each job finds in the table of the last midnight that is `stale_s` old.

    Of a midnight's table only the rows that its jobs find are answered: each is answered by itself.
    """
    log = replace(history, stale_s=history.stale_s or 0.0)
    rank, newest = _newest_alike(log)
    found = np.full((len(log), N_QUANTILES), np.nan)
    for state, reading in nights(log, (0.0, DAY_S)):
        own = reading[rank[reading] >= 0]
        row, place = np.unique(np.stack([rank[own], newest[own]]), axis=1, return_inverse=True)
        found[own] = _told(answers_of(state, log, row[1], row[0]), place.ravel(), log.requested_s[own])
    return found


def _newest_alike(log: History) -> tuple[Ints, Ints]:
    """Per job the first kind of row that the table it reads has for it, and the newest job of that row; -1: none."""
    ended = np.flatnonzero(log.has_run & log.is_learnt)
    ended = ended[np.argsort(log.end_s[ended], kind="stable")]
    n_known = np.searchsorted(log.end_s[ended], log.known_s, side="right")
    rank, newest = np.full((2, len(log)), -1)
    for kind in range(len(KEYS) if len(ended) else 0):
        digest = digests_of(log, kind)
        _, code = np.unique(digest, return_inverse=True)
        first = code * (len(ended) + 1)
        nth = first[ended] + np.arange(len(ended))
        by_key = np.argsort(nth)
        before = np.searchsorted(nth[by_key], first + n_known) - 1
        job = ended[by_key[np.maximum(before, 0)]]
        is_found = (rank < 0) & (digest >= 0) & (before >= 0) & (code[job] == code)
        is_found &= log.end_s[job] >= log.known_s - DAY_S * KEPT_DAYS
        rank[is_found], newest[is_found] = kind, job[is_found]
    return rank, newest
