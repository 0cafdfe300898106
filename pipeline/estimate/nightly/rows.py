"""The nightly table written out: a row for every key that is present, and the rule by which a row is found."""

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Array, Floats, Ints
from pipeline.core.estimate_settings import TableSettings
from pipeline.core.tables import ESTIMATES
from pipeline.estimate.history import History
from pipeline.estimate.nightly.as_of_kernel import Answers, LookUps
from pipeline.estimate.nightly.as_of_pass import DAY_S, ends_of, facts_of, look_ups_of, row_answers, run, weights_of
from pipeline.estimate.nightly.memory import ALL, ROW_KEYS, UP, U
from pipeline.estimate.nightly.table_state import CODED, Jobs, TableState, joined_jobs
from pipeline.estimate.score import QUANTILES

LETTERS = {"who": "u", "what": "a", "queue": "q", "requested_s": "r", "procs": "p"}
KEYS = tuple(tuple(name for name, letter in LETTERS.items() if letter in kind and kind != "all") for kind in ROW_KEYS)
"""Columns of the key of each kind of row."""

TEMPLATES = tuple("+".join(key) or "all" for key in KEYS)
NAMES = tuple(f"q{100 * share:.0f}" for share in QUANTILES)

Rows = dict[str, Array]
"""Columns of ESTIMATES by name, without site and run; None and NaN where a row is for any value."""


def table_rows(state: TableState, as_of_s: float, settings: TableSettings, stale_s: float | None = None) -> Rows:
    """The rows of a table made at a time from jobs that had ended by it, in order of kind.

    Rows of a key without request have ratios beside seconds; these are NaN where no job of theirs had a request.
    """
    jobs, waiting = joined_jobs(state.remembered, state.waiting), np.arange(len(state.waiting)) + len(state.remembered)
    events = ends_of(jobs, waiting[state.waiting.end_s <= as_of_s])
    known = np.concatenate([np.arange(len(state.remembered)), events])
    kind, place = _present(jobs, known, as_of_s - DAY_S * settings.kept_days)
    has_ratio = np.isin(kind, (UP, U, ALL))
    look_ups = look_ups_of(jobs, waiting, np.full(len(waiting), -np.inf))
    _, memory, calibration, facts = run(state, jobs, events, look_ups, as_of_s, settings, stale_s)
    rows = _joined(
        _row_look_ups(place, kind, 0.0, as_of_s), _row_look_ups(place[has_ratio], kind[has_ratio], 1.0, as_of_s)
    )
    answers = row_answers(facts, rows, weights_of(settings, stale_s), memory, calibration)
    ratios = np.full((len(kind), len(NAMES)), np.nan)
    ratios[has_ratio] = answers.quantiles[len(kind) :]
    return _key_columns(state, jobs, kind, place) | _value_columns(answers, slice(0, len(kind)), ratios)


def _present(jobs: Jobs, known: Ints, oldest_s: float) -> tuple[Ints, Ints]:
    """The kind of each row and a job that has its values, in order of kind and of first use."""
    codes, young = facts_of(jobs).row_codes, known[jobs.end_s[known] >= oldest_s]
    kind, place = [], []
    for k in range(len(ROW_KEYS)):
        able = young[codes[young, k] >= 0]
        first = able[np.sort(np.unique(codes[able, k], return_index=True)[1])]
        place.append(first)
        kind.append(np.full(len(first), k))
    return np.concatenate(kind), np.concatenate(place)


def _row_look_ups(place: Ints, kind: Ints, unit: float, at_s: float) -> LookUps:
    n = len(place)
    return LookUps(place, np.full(n, at_s), kind, np.full(n, unit), np.full(n, -1))


def _joined(*parts: LookUps) -> LookUps:
    return LookUps(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _key_columns(state: TableState, jobs: Jobs, kind: Ints, place: Ints) -> Rows:
    templates: Array = np.array(TEMPLATES, np.object_)
    columns: Rows = {"template": templates[kind], "chain_rank": kind}
    for name in LETTERS:
        is_named = np.array([name in key for key in KEYS])[kind]
        own: Array = getattr(jobs, name)[place]
        if name in CODED:
            texts: Array = np.array([*state.names[name], None], np.object_)
            columns[name] = texts[np.where(is_named, own, -1)]
        else:
            columns[name] = np.where(is_named, own, np.nan)
    return columns


def _value_columns(answers: Answers, rows: slice, ratios: Floats) -> Rows:
    found: Rows = {f"runtime_s_{name}": answers.quantiles[rows, k] for k, name in enumerate(NAMES)}
    found |= {f"ratio_{name}": ratios[:, k] for k, name in enumerate(NAMES)}
    found |= {"n_jobs": answers.n_jobs[rows], "n_effective": answers.n_effective[rows]}
    return found | {"newest_end_s": answers.newest_s[rows].astype(np.int64)}


def estimates(rows: Rows, site: str, run_id: str) -> pa.Table:
    """ESTIMATES of one site."""
    n = len(rows["chain_rank"])
    procs = pa.array(rows["procs"], pa.float64(), from_pandas=True)
    return ESTIMATES.build(**(rows | {"procs": procs, "site": [site] * n, "run_id": [run_id] * n}))


def look_up(rows: Rows, jobs: History) -> Floats:
    """(jobs, 6) quantiles, s, from each job's first row that is present; NaN where none is.

    Of its row the ratios times the request where both are known, else the seconds; q10 and q50 at most the request.

    Parameters
    ----------
    rows : Rows
        Columns of ESTIMATES by name, as `table_rows` makes them.
    jobs : History
        n jobs.

    Returns
    -------
    Floats
        float64[n, 6], s: quantiles at 10, 50, 80, 90, 95 and 99%.

    Examples
    --------
    >>> from pipeline.estimate.history import history
    >>> table = tables["estimates"]
    >>> rows = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    >>> log = history(tables["jobs"])
    >>> look_up(rows, log).shape == (len(log), 6)
    True
    """
    requested_s = np.where(jobs.requested_s > 0, jobs.requested_s, 0.0)
    place = _places(rows, jobs, requested_s)
    is_found, found = place >= 0, np.full((len(jobs), len(NAMES)), np.nan)
    seconds, ratios = (np.stack([rows[f"{unit}_{name}"] for name in NAMES], axis=1) for unit in ("runtime_s", "ratio"))
    scaled_s = ratios[place] * requested_s[:, None] if len(seconds) else found
    is_scaled = ~np.isnan(scaled_s) & (requested_s[:, None] > 0)
    found[is_found] = np.where(is_scaled, scaled_s, seconds[place] if len(seconds) else found)[is_found]
    limit_s = np.where(requested_s > 0, requested_s, np.inf)
    found[:, :2] = np.minimum(found[:, :2], limit_s[:, None])
    return found


def _places(rows: Rows, jobs: History, requested_s: Floats) -> Ints:
    keys: dict[tuple[object, ...], int] = {}
    columns = [rows[name] for name in LETTERS]
    for place, (rank, *values) in enumerate(zip(rows["chain_rank"], *columns, strict=True)):
        named = (value for name, value in zip(LETTERS, values, strict=True) if name in KEYS[rank])
        keys[(int(rank), *named)] = place
    texts = [np.array([*jobs.names[name], None], np.object_)[jobs.codes[name]] for name in CODED]
    values_of_jobs = zip(*texts, requested_s, jobs.procs, strict=True)
    return np.array([_place(keys, dict(zip(LETTERS, job, strict=True))) for job in values_of_jobs], np.int64)


def _place(keys: dict[tuple[object, ...], int], job: dict[str, object]) -> int:
    """The first row of the chain that has the job's values; an unknown value matches no row."""
    chain = ((rank, *(job[name] for name in key)) for rank, key in enumerate(KEYS))
    return next((keys[key] for key in chain if None not in key and key in keys), -1)
