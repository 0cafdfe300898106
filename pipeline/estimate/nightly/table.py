"""Estimates for schedulers that can only look up: a table of runtime quantiles, remade every midnight (UTC).

A job is answered by the first of these rows that is present, for its user u, application a, queue q, requested runtime
r and processors p: uaqrp, uarp, urp, uar, ur, up, u, r, all; rows that are ratios are multiplied by the request, and
the median is at most the request. A row is made of the user's latest jobs, weighted by how alike and how recent they
are, with few of everybody's; its outer quantiles are calibrated by replaying past tables at the age they were served.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Floats, Ints
from pipeline.estimate.estimate_rules import EstimateRules, TableRules
from pipeline.estimate.history import History
from pipeline.estimate.nightly.as_of_kernel import Answers, LookUps
from pipeline.estimate.nightly.as_of_pass import (
    DAY_S,
    answered,
    ends_of,
    facts_of,
    learnt,
    look_ups_of,
    row_answers,
    run,
    weights_of,
)
from pipeline.estimate.nightly.memory import ALL, ROW_KEYS, UP, U
from pipeline.estimate.nightly.table_state import CODED, Jobs, TableState, empty_state, joined_jobs
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state_table import arrays_in, settings_of, texts
from pipeline.report import Report, Tally
from pipeline.tables import ESTIMATES

LETTERS = {"who": "u", "what": "a", "queue": "q", "requested_s": "r", "procs": "p"}
KEYS = tuple(tuple(name for name, letter in LETTERS.items() if letter in kind and kind != "all") for kind in ROW_KEYS)
"""Columns of the key of each kind of row."""

TEMPLATES = tuple("+".join(key) or "all" for key in KEYS)
NAMES = tuple(f"q{100 * share:.0f}" for share in QUANTILES)

Rows = dict[str, Array]
"""Columns of ESTIMATES by name, without site and run; None and NaN where a row is for any value."""


def table_rows(state: TableState, as_of_s: float, settings: TableRules, stale_s: float | None = None) -> Rows:
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


def table(history: History, settings: TableRules) -> Floats:
    """(jobs, 6) quantiles, s, of the last midnight's table at least `stale_s` old; NaN before any job had ended."""
    return answered(history, settings)[0]


def learn_table(history: History, settings: TableRules) -> TableState:
    """The table's state after these jobs, to be served `stale_s` after it is made."""
    return update_table(empty_state(settings), history, settings)


def update_table(state: TableState, later: History, settings: TableRules) -> TableState:
    """The state after later jobs: those submitted since, and those that had not ended by then.

    A job whose end the state has learnt is left out, so that exports may overlap. A job that had been submitted but was
    missing from the earlier log is replayed with the oldest available table.
    """
    return learnt(state, later, settings)


PREFIX = "table."


def nightly_table(history: History, settings: EstimateRules) -> Floats:
    """(jobs, 6) quantiles, s, that a job finds in the table of the last midnight (or of an earlier, stale one)."""
    return table(history, settings.table)


def table_arrays(
    history: History, settings: EstimateRules, as_of_s: float, earlier: TableState | None = None
) -> dict[str, Array]:
    """The table's part of a State at a time, as arrays by name, from a log or going on from an earlier State."""
    return arrays_of_table(table_after(history, settings, as_of_s, earlier))


def table_after(
    history: History, settings: EstimateRules, as_of_s: float, earlier: TableState | None = None
) -> TableState:
    """The table's state at a time, from a log or going on from an earlier one."""
    known = replace(history.known_by(as_of_s), stale_s=DAY_S * settings.table.served_days)
    return learn_table(known, settings.table) if earlier is None else update_table(earlier, known, settings.table)


def arrays_of_table(state: TableState) -> dict[str, Array]:
    """The table's part of a State, as arrays by name."""
    arrays = {f"{PREFIX}{name}": values for name, values in state.to_arrays().items()}
    return {name: texts(values) if values.dtype.kind in "UO" else values for name, values in arrays.items()}


def table_state(arrays: Mapping[str, Array]) -> TableState:
    """The table's part of a State's arrays."""
    own = {name.removeprefix(PREFIX): values for name, values in arrays.items() if name.startswith(PREFIX)}
    return TableState.from_arrays(own)


def make_estimates(state: pa.Table, run_id: str) -> tuple[pa.Table, Report]:
    """ESTIMATES of a published State, as of its time; the Report counts rows.

    Parameters
    ----------
    state : pa.Table
        STATE of a site.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    table : pa.Table
        ESTIMATES: a row per key that is present, runtimes in s, ratios to the request.
    report : Report
        Number of rows, by template.

    Raises
    ------
    InputError
        If this version cannot read the STATE's settings.

    Examples
    --------
    >>> table, report = make_estimates(tables["state"], "r1")
    >>> table.num_rows == tables["estimates"].num_rows, set(table.column("run_id").to_pylist())
    (True, {'r1'})
    """
    arrays = arrays_in(state)
    settings = settings_of(arrays)
    facts = dict(zip(arrays["site.facts"].tolist(), arrays["site.values"].tolist(), strict=True))
    served_s = DAY_S * settings.table.served_days
    rows = table_rows(table_state(arrays), float(arrays["as_of_s"][0]), settings.table, served_s)
    found = estimates(rows, facts["name"], run_id)
    whole = Tally(found.num_rows)
    counts = {f"rows of {name}": int((rows["template"] == name).sum()) for name in dict.fromkeys(rows["template"])}
    return found, Report("estimate", "row", whole, whole, {}, counts)
