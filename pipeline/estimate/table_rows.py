"""The nightly table written out: a row for every key that is present, and the rule by which a row is found."""

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.core.estimate_settings import TableSettings
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.table_kernel import Asks
from pipeline.estimate.table_memory import ALL, KINDS, UP, R, U
from pipeline.estimate.table_pass import facts_of, run
from pipeline.estimate.table_state import CODED, Jobs, TableState, joined_jobs

KEY_LETTERS = {"who": "u", "what": "a", "queue": "q", "requested_s": "r", "procs": "p"}
NAMES = tuple(f"q{100 * share:.0f}" for share in QUANTILES)
RATIO_KINDS = (UP, U, ALL)

Rows = dict[str, np.ndarray]
"""Columns of ESTIMATES by name, without site and run: texts as objects, None where the row is for any value."""


def table_rows(state: TableState, as_of_s: float, settings: TableSettings, stale_s: float | None = None) -> Rows:
    """The rows of a table made at a time, in order of kind; numbers are NaN where the row is for any value."""
    ended = state.waiting.end_s <= as_of_s
    jobs = joined_jobs(state.remembered, state.waiting)
    n_known = len(state.remembered)
    is_known = np.concatenate([np.ones(n_known, np.bool_), ended])
    kind, place = _rows_present(jobs, is_known, as_of_s - 86_400.0 * settings.kept_days)
    unit, waiting = np.isin(kind, RATIO_KINDS).astype(np.float64), np.arange(n_known, len(jobs))
    seconds = _asks(waiting, place, kind, np.zeros(len(kind)), as_of_s)
    ratios = _asks(waiting, place[unit > 0], kind[unit > 0], unit[unit > 0], as_of_s)
    asks = Asks(*(np.concatenate([a, b[len(waiting) :]]) for a, b in zip(seconds, ratios, strict=True)))
    events = n_known + np.flatnonzero(ended)
    events = events[np.argsort(jobs.end_s[events], kind="stable")]
    answers = run(state, jobs, events, asks, as_of_s, settings, stale_s)[0]
    first, last = len(waiting), len(waiting) + len(kind)
    ratio = np.full((len(kind), len(QUANTILES)), np.nan)
    ratio[unit > 0] = answers.quantiles[last:]
    columns = _key_columns(state, jobs, kind, place) | {"template": np.array(KINDS, np.object_)[kind], "chain_rank": kind}
    columns |= {f"runtime_s_{name}": answers.quantiles[first:last, k] for k, name in enumerate(NAMES)}
    columns |= {f"ratio_{name}": ratio[:, k] for k, name in enumerate(NAMES)}
    counted = {"n_jobs": answers.n_jobs, "n_effective": answers.n_effective, "newest_end_s": answers.newest_s}
    return columns | {name: values[first:last] for name, values in counted.items()}


def _rows_present(jobs: Jobs, is_known: np.ndarray, oldest_s: float) -> tuple[Ints, Ints]:
    """Kind and a job of every key of a job that has ended."""
    kinds, kind, place = facts_of(jobs).kinds, [], []
    for k in range(len(KINDS)):
        able = np.flatnonzero(is_known & (kinds[:, k] >= 0) & (jobs.end_s >= oldest_s))
        first = able[np.unique(kinds[able, k], return_index=True)[1]]
        place.append(first)
        kind.append(np.full(len(first), k))
    return np.concatenate(kind), np.concatenate(place)


def _asks(waiting: Ints, place: Ints, kind: Ints, unit: Floats, at_s: float) -> Asks:
    n, n_waiting = len(place), len(waiting)
    return Asks(
        np.concatenate([waiting, place]),
        np.concatenate([np.full(n_waiting, -np.inf), np.full(n, at_s)]),
        np.concatenate([np.full(n_waiting, -1), kind]),
        np.concatenate([np.zeros(n_waiting), unit]),
        np.full(n + n_waiting, -1),
    )


def _key_columns(state: TableState, jobs: Jobs, kind: Ints, place: Ints) -> Rows:
    columns: Rows = {}
    for name, letter in KEY_LETTERS.items():
        has = np.array([letter in one and one != "all" for one in KINDS])[kind]
        values = getattr(jobs, name)[place]
        if name in CODED:
            texts = np.array([*state.names[name], None], np.object_)
            columns[name] = np.where(has, texts[values], None)
        else:
            columns[name] = np.where(has, values, np.nan)
    return columns


def look_up(rows: Rows, jobs: History) -> Floats:
    """(jobs, 6) quantiles, s: of each job the first row of the chain that has its values.

    In such a row the ratios times the request where both are there, else the seconds; q10 and q50 at most the request.
    """
    requested_s = np.where(jobs.requested_s > 0, jobs.requested_s, 0.0)
    place = _places(rows, jobs, requested_s)
    seconds = np.stack([rows[f"runtime_s_{name}"] for name in NAMES], axis=1)
    ratios = np.stack([rows[f"ratio_{name}"] for name in NAMES], axis=1)
    found = np.full((len(jobs), len(QUANTILES)), np.nan)
    has = place >= 0
    is_ratio = ~np.isnan(ratios[place[has], :1]) & (requested_s[has, None] > 0)
    found[has] = np.where(is_ratio, ratios[place[has]] * requested_s[has, None], seconds[place[has]])
    limit_s = np.where(requested_s > 0, requested_s, np.inf)
    found[:, :2] = np.minimum(found[:, :2], limit_s[:, None])
    return found


def _places(rows: Rows, jobs: History, requested_s: Floats) -> Ints:
    """Per job the place of the row that answers; -1: none."""
    row_keys = zip(rows["chain_rank"], rows["who"], rows["what"], rows["queue"], rows["requested_s"], rows["procs"], strict=True)
    known = {tuple(None if value != value else value for value in key): place for place, key in enumerate(row_keys)}
    texts = {name: np.array([*jobs.names[name], None], np.object_)[jobs.codes[name]] for name in CODED}
    values = {**texts, "requested_s": requested_s, "procs": jobs.procs}
    return np.array([_place(known, {name: column[job] for name, column in values.items()}) for job in range(len(jobs))], np.int64)


def _place(known: dict[tuple[object, ...], int], job: dict[str, object]) -> int:
    for rank, kind in enumerate(KINDS):
        wanted = [name for name, letter in KEY_LETTERS.items() if letter in kind and kind != "all"]
        if all(job[name] is not None for name in wanted):
            key = (rank, *(job[name] if name in wanted else None for name in KEY_LETTERS))
            if key in known:
                return known[key]
    return -1


__all__ = ["R", "look_up", "table_rows"]
