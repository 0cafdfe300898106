"""Estimates for schedulers that can only look up: the estimator's answers to the keys of past jobs, as a table.

A job is answered by the first of these rows that is present, for its user u, application a, queue q, requested runtime
r, and processors, GPUs and their type p: uaqrp, uarp, urp, uar, ur, up, u, r, all; rows that are ratios are multiplied
by the request, and the median is at most the request. A row answers as if the newest job of its key were submitted
again.
"""

from collections.abc import Container
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Floats, Ints
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History
from pipeline.estimate.job_memory import price_now, recommended_kib
from pipeline.estimate.learnt_parts import learnt_parts, recoded, views_now, with_numbers, with_views
from pipeline.estimate.nightly import rows as held_rows
from pipeline.estimate.nightly.rows import (
    DAY_S,
    N_READ,
    QUEUE,
    ROW_KEYS,
    distinct,
    midnights_s,
    own_jobs,
    ratio_base_s,
    taken,
)
from pipeline.estimate.nightly.serving import reading_of, serve
from pipeline.estimate.score import N_QUANTILES, QUANTILES
from pipeline.estimate.state import State
from pipeline.estimate.state_table import loaded_state
from pipeline.estimate.submits import GPU_TYPE, jobs_of, part
from pipeline.estimate.walltime import PART_JOBS, understood
from pipeline.report import Report, Tally
from pipeline.tables import ESTIMATES, MEMORY

LETTERS = {"who": "u", "what": "a", "queue": "q", "requested_s": "r", "procs": "p", "gpus": "p", "gpu_type": "p"}
CODED = ("who", "what", "queue", "gpu_type")
TYPES = {"gpus": 1, "gpu_type": 2}
"""How many types of GPUs a log has at least whose templates have these columns."""

KEYS = tuple(tuple(name for name, letter in LETTERS.items() if letter in kind and kind != "all") for kind in ROW_KEYS)
"""Columns of the key of each kind of row, of a log with GPUs of several types."""

NAMES = tuple(f"q{100 * share:.0f}" for share in QUANTILES)
Rows = dict[str, Array]
"""Columns of ESTIMATES by name, without site and run, and the longest runtime of the key's jobs; None and NaN where a
row is for any value."""


def table_rows(state: State, settings: EstimateRules) -> Rows:
    """The rows of the table of a State, in order of kind; rows of a key without request have ratios beside seconds."""
    held = _held_now(state, settings)
    held = taken(held, np.lexsort((held.key, held.kind)))
    ratios = held.quantiles_s / ratio_base_s(held)[:, None]
    told = [name for name in LETTERS if len(state.names["gpu_type"]) >= TYPES.get(name, 0)]
    templates: Array = np.array(["+".join(name for name in key if name in told) or "all" for key in KEYS], np.object_)
    found: Rows = {"template": templates[held.kind], "chain_rank": held.kind} | _keys(state, held, told)
    found |= {f"runtime_s_{name}": held.quantiles_s[:, k] for k, name in enumerate(NAMES)}
    found |= {f"ratio_{name}": ratios[:, k] for k, name in enumerate(NAMES)}
    found |= {"n_jobs": np.maximum(held.n_jobs, 1), "n_own_jobs": own_jobs(held), "n_effective": held.n_effective}
    return found | {"newest_end_s": held.newest_end_s.astype(np.int64), "longest_s": held.longest_s}


def _keys(state: State, held: held_rows.Rows, told: Container[str]) -> Rows:
    values = {
        "who": held.who, "what": held.traits[:, 0], "queue": held.traits[:, QUEUE], "requested_s": held.limit_s,
        "procs": held.procs, "gpus": held.gpus, "gpu_type": np.where(held.gpus > 0, held.traits[:, GPU_TYPE], -1),
    }  # fmt: skip
    found = {}
    for name in LETTERS:
        is_named = np.array([name in key and name in told for key in KEYS])[held.kind]
        if name in CODED:
            texts: Array = np.array([*state.names[name], None], np.object_)
            found[name] = texts[np.where(is_named, values[name], -1)]
        else:
            found[name] = np.where(is_named, values[name], np.nan)
    return found


def _held_now(state: State, settings: EstimateRules) -> held_rows.Rows:
    """The newest row of each key; those that the next midnight would ask are asked at the State's time."""
    held = held_rows.newest(state.rows, state.as_of_s)
    waiting = np.flatnonzero(held.at_s > state.as_of_s)
    held.at_s[waiting] = state.as_of_s
    first, number = distinct(taken(held, waiting))
    asked, n = taken(held, waiting[first]), len(first)
    questions = held_rows.questions_of_rows(asked, np.full(n, max(state.as_of_s, 0.0)))
    jobs, events = understood(state, with_numbers(questions, state), settings)
    views, no_place = views_now(state, jobs, events, settings), np.empty((0, N_READ), np.int64)
    held = with_views(held, waiting, views.take(number))
    unset = np.empty(0, np.int64)
    reading = reading_of(held, no_place, part(jobs, slice(0)), 0, n, unset, waiting, number)
    serve(views, np.full(n, np.nan), state.served, jobs, state.jobs, events, reading, settings)
    return held


def estimates(rows: Rows, site: str, run_id: str) -> pa.Table:
    """ESTIMATES of one site."""
    n = len(rows["chain_rank"])
    counts = {name: pa.array(rows[name], pa.float64(), from_pandas=True) for name in ("procs", "gpus")}
    plain = {name: values for name, values in rows.items() if name != "longest_s"}
    return ESTIMATES.build(**(plain | counts | {"site": [site] * n, "run_id": [run_id] * n}))


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
    >>> rows = published_rows(table)
    >>> log = history(tables["jobs"])
    >>> look_up(rows, log).shape == (len(log), 6)
    True
    """
    requested_s = np.where(jobs.requested_s > 0, jobs.requested_s, 0.0)
    seconds, ratios = (np.stack([rows[f"{unit}_{name}"] for name in NAMES], axis=1) for unit in ("runtime_s", "ratio"))
    return _found(seconds, ratios, _places(rows, jobs, requested_s), requested_s)


def _found(seconds: Floats, ratios: Floats, place: Ints, requested_s: Floats) -> Floats:
    """What the rows at these places say for requests, 0 for none; NaN where the place is -1."""
    found = np.full((len(place), len(NAMES)), np.nan)
    is_found = place >= 0
    own, request_s = place[is_found], requested_s[is_found][:, None]
    scaled_s = ratios[own] * request_s
    found[is_found] = np.where(~np.isnan(scaled_s) & (request_s > 0), scaled_s, seconds[own])
    found[:, :2] = np.minimum(found[:, :2], np.where(requested_s > 0, requested_s, np.inf)[:, None])
    return found


def _places(rows: Rows, jobs: History, requested_s: Floats) -> Ints:
    keys: dict[tuple[object, ...], int] = {}
    # A log without GPUs has none in its keys, and one with GPUs of one type has no type.
    columns = [np.nan_to_num(rows[name]) if name == "gpus" else rows[name] for name in LETTERS]
    columns[-1] = np.where(columns[-1] == None, "", columns[-1])  # noqa: E711 # of each element
    for place, (rank, *values) in enumerate(zip(rows["chain_rank"], *columns, strict=True)):
        named = (value for name, value in zip(LETTERS, values, strict=True) if name in KEYS[rank])
        keys[(int(rank), *named)] = place
    *texts, gpu_type = (np.array([*jobs.names[name], None], np.object_)[jobs.codes[name]] for name in CODED)
    is_told = (jobs.gpus > 0) & bool((columns[-1] != "").any())
    typed = np.where(is_told, gpu_type, "")
    values_of_jobs = zip(*texts, requested_s, jobs.procs, np.nan_to_num(jobs.gpus), typed, strict=True)
    return np.array([_place(keys, dict(zip(LETTERS, job, strict=True))) for job in values_of_jobs], np.int64)


def _place(keys: dict[tuple[object, ...], int], job: dict[str, object]) -> int:
    """The first row of the chain that has the job's values; an unknown value matches no row."""
    chain = ((rank, *(job[name] for name in key)) for rank, key in enumerate(KEYS))
    return next((keys[key] for key in chain if None not in key and key in keys), -1)


def nightly_table(history: History, settings: EstimateRules) -> Floats:
    """(jobs, 6) quantiles, s, that a job finds in the table of the last midnight that is `stale_s` old."""
    return answered_nightly(history, settings)[0]


def answered_nightly(history: History, settings: EstimateRules) -> tuple[Floats, Ints]:
    """What `nightly_table` gives, and per job the number of ended jobs of its row, 0 where there is none."""
    age_s, log = history.stale_s or 0.0, replace(history, stale_s=None)
    found: list[tuple[Floats, Ints]] = []
    for one in learnt_parts(log, settings, np.inf, PART_JOBS, rows_days=age_s / DAY_S):
        start = sum(len(n_jobs) for _, n_jobs in found)
        own = log.take(np.arange(start, start + len(one.quantiles_s)))
        jobs = jobs_of(recoded(own, one.state.names))
        place = held_rows.read(one.rows, held_rows.keys_of(jobs)[: held_rows.GROUP], midnights_s(jobs.submit_s, age_s))
        held, place = taken(one.rows, place[place >= 0]), np.where(place >= 0, np.cumsum(place >= 0) - 1, -1)
        seconds = held.quantiles_s[:, :N_QUANTILES]
        ratios = seconds / ratio_base_s(held)[:, None]
        found.append((_found(seconds, ratios, place, jobs.limit_s), np.append(held.n_jobs, 0)[place]))
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


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
    held, settings = loaded_state(state, "the state", goes_on=False)
    rows = table_rows(held, settings)
    found = estimates(rows, held.site["name"], run_id)
    whole = Tally(found.num_rows)
    counts = {f"rows of {name}": int((rows["template"] == name).sum()) for name in dict.fromkeys(rows["template"])}
    return found, Report("estimate", "row", whole, whole, {}, counts)


def make_memory(state: pa.Table, run_id: str) -> tuple[pa.Table, Report]:
    """MEMORY of a published MEMORY_STATE, as `make_estimates` makes ESTIMATES of a STATE; none of one without rows.

    Parameters
    ----------
    state : pa.Table
        MEMORY_STATE of a site.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    table : pa.Table
        MEMORY: a row per key that is present, memory in KiB per processor.
    report : Report
        Number of rows.

    Examples
    --------
    >>> table, report = make_memory(tables["memory_state"], "r1")
    >>> table.num_rows == report.kept.rows, table.num_rows > 0
    (True, True)
    """
    if not state.num_rows:
        return MEMORY.empty(), Report("memory", "row", Tally(), Tally())
    held, settings = loaded_state(state, "the state of memory", goes_on=False)
    rows = table_rows(held, settings)
    quantiles_kib = np.stack([rows[f"runtime_s_{name}"] for name in NAMES], axis=1)
    # A row of any size is one of the median job.
    procs = np.where(np.isnan(rows["procs"]), np.median(held.record.procs), rows["procs"])
    asked_kib, share = recommended_kib(quantiles_kib, procs, price_now(held.record))
    n, same = len(quantiles_kib), ("chain_rank", *CODED, "n_jobs", "n_own_jobs", "newest_end_s")
    numbers = {"requested_mem_kib": rows["requested_s"], "procs": rows["procs"], "gpus": rows["gpus"]}
    found = MEMORY.build(
        site=[held.site["name"]] * n,
        run_id=[run_id] * n,
        template=[one.replace("requested_s", "requested_mem_kib") for one in rows["template"].tolist()],
        used_mem_kib_q50=quantiles_kib[:, QUANTILES.index(0.5)],
        largest_mem_kib=rows["longest_s"],
        recommended_mem_kib=asked_kib,
        recommended_share=share,
        **{name: pa.array(values, pa.float64(), from_pandas=True) for name, values in numbers.items()},
        **{name: rows[name] for name in same},
    )
    return found, Report("memory", "row", Tally(n), Tally(n))
