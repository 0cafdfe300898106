"""What `walltime when` does: the queue as it is now and the published tables in, expected starts and times left out.

What the site's past says of waits is learnt at the first question to a version, and kept beside the live State where
that folder can be written; else each question learns it anew. The table STARTS, which `walltime guard` writes there
too, has what was expected of starts, and what came.
"""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from flows.services.job_answers import Curve, LoadedState, as_ingested, curves_of, state_of
from flows.services.published.published_folder import CONTINUES, continued, live_pointer, live_state
from flows.services.quantities import by_level
from flows.services.schedulers import Node, Scheduler
from pipeline.arrays import WEEK_S, Value, floats
from pipeline.errors import InputError, printable
from pipeline.estimate.history import READ, history
from pipeline.estimate.questions import completed
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import estimate
from pipeline.large_tables import StoredTable, newest_jobs
from pipeline.limits.plan import PendingJob
from pipeline.publish import load_manifest
from pipeline.publish.store import kept_table, new_table
from pipeline.schedule import starts as waits
from pipeline.schedule.queues import Log, Queue, queue_now, with_another
from pipeline.schedule.time_left import LEFT_SHARES, SHARES
from pipeline.schema import as_array
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS, STARTS, STATE

RECORD = "waits"
"""Beside the live State: what was learnt of waits."""

MOST_TASKS = 1_000
"""Waiting tasks of an array that are simulated."""

TIER = 2.0**32
"""More than any priority of Slurm, so that a job of a higher tier comes first."""


@dataclass(frozen=True, slots=True)
class Now:
    """The jobs of a site, and its nodes, at a time."""

    jobs: Sequence[PendingJob]
    nodes: Sequence[Node]
    at_s: float


_TOLD_AT = re.compile(r'"(?:timestamp|last_update)"\s*:\s*(?:\{[^}]*"number"\s*:\s*)?(\d+)')
"""When qstat and squeue wrote their output, s since 1970."""


def queue_in(path: Path, scheduler: Scheduler, at_s: float | None) -> Now:
    """The queue in a file with a program's output, at a time or when it was written; InputError where it tells none."""
    where, said = printable(str(path)), path.read_text("utf-8", "replace")
    jobs, told_at = scheduler.jobs_in(said, where), _TOLD_AT.search(said)
    if at_s is None and told_at is None:
        raise InputError(where, "no time at which it was written", "one", "give it with --at")
    return Now(jobs, [], float(told_at[1]) if at_s is None and told_at else at_s or 0.0)


@dataclass(frozen=True, slots=True)
class Site:
    """A site's past and its queue, ready for questions."""

    now: Now
    loaded: LoadedState
    log: Log
    queue: Queue
    place: dict[str, int]
    """By job id its place in the log; of an array that of its first task that waits."""
    found: waits.QueueRecord | None
    choices: Sequence[Mapping[str, Value]]
    """The hypothetical job, and what it is compared with."""
    curve: Curve | None
    """That of the largest group of the job's user and application."""


def site_of(published: Path, now: Now, asked: Mapping[str, Value] | None = None) -> Site:
    """The site of a published folder; a hypothetical job, with its choices, stands last in the log and never waits."""
    manifest = load_manifest(published)
    loaded = state_of(manifest, is_live=True)
    pools = _pools(now, asked)
    found = _record(published, loaded, pools)
    past = newest_jobs(StoredTable(manifest.path(JOBS.name), JOBS), READ, waits.NEWEST_JOBS)[0]
    curve = None
    if asked and asked.get("user") and asked.get("application"):
        curve = curves_of(manifest)(as_ingested(loaded)(asked), None)
    extra = _choices(asked, curve) if asked else []
    rows = _rows(now, loaded, extra)
    columns = {name: as_array([row.get(name) for row in rows.values()], past.schema.field(name).type) for name in READ}
    jobs = pa.concat_tables([past, pa.table(columns, schema=past.schema)]).unify_dictionaries()
    known = history(jobs, loaded.state.site["timezone"])
    # Jobs that had not ended when the tables were made are in the queue, or have ended since, nobody knows when.
    known = known.take(np.flatnonzero(np.isfinite(known.end_s) | (known.row >= past.num_rows)))
    in_queue, names = np.flatnonzero(known.row >= past.num_rows), list(rows)
    place = {names[known.row[at] - past.num_rows]: at for at in in_queue.tolist()}
    # Runtimes are expected of the jobs in the queue alone. As in a query, a job whose memory is not told has its kind's
    # usual one.
    quantiles_s = np.full((len(known), len(QUANTILES)), np.nan)
    questions = completed(loaded.state, known.take(in_queue).as_submitted())
    questions = replace(questions, submit_s=np.maximum(questions.submit_s, loaded.state.as_of_s))
    quantiles_s[in_queue] = estimate(loaded.state, questions)[:, : len(QUANTILES)]
    # Of a job on nodes that are down or drained only the other nodes' processors become free.
    down, procs = {node.name for node in now.nodes if not node.is_up}, known.procs.copy()
    priority, tier_of = np.full(len(known), np.nan), {node.partition: node.tier for node in now.nodes}
    for job in now.jobs:
        tier = max(tier_of.get(name, 0) for name in str(job.values.get("queue")).split(","))
        priority[place[job.job_id]] = job.priority + tier * TIER
        if down & set(job.nodes):
            share = 1.0 - len(down & set(job.nodes)) / len(set(job.nodes))
            # A job without a processor would not be in the queue.
            procs[place[job.job_id]] = max(share * procs[place[job.job_id]], 1.0)
    log = waits.log_of(replace(known, procs=procs), quantiles_s, pools, found.queues.tolist() if found else [])
    held = {job.job_id for job in now.jobs if job.held}
    # What is larger than all nodes that are up can start at no time that is known.
    is_too_large = log.is_told & log.exceeds_pool & ~(known.start_s <= now.at_s)
    told = sorted(
        at for name in rows if name not in held and not name.startswith("#") and not is_too_large[at := place[name]]
    )
    queue = queue_now(log, now.at_s, np.array(told, np.int64), priority)
    return Site(now, loaded, log, queue, place, found, extra, curve)


def _rows(now: Now, loaded: LoadedState, extra: Sequence[Mapping[str, Value]]) -> dict[str, dict[str, Any]]:
    """By its id a row of JOBS for each job, each further task of an array, and each hypothetical job, as #0."""
    ingested, rows = as_ingested(loaded), dict[str, dict[str, Any]]()
    for job in now.jobs:
        start_s = job.submit_s if job.start_s is not None and math.isnan(job.start_s) else job.start_s
        submit_s = min(one for one in (job.submit_s, start_s, now.at_s) if one is not None)
        n_tasks = min(job.n_tasks, MOST_TASKS) if start_s is None and not job.held else 1
        row: dict[str, Any] = ingested(dict(job.values)) | {"submit_s": submit_s, "start_s": start_s}
        rows |= {f"{job.job_id}#{nth}" if nth else job.job_id: row for nth in range(n_tasks)}
    rows |= {f"#{nth}": ingested(asked) | {"submit_s": now.at_s, "start_s": None} for nth, asked in enumerate(extra)}
    site = loaded.state.site["name"]
    return {
        name: row | {
            "site": site, "job_id": name, "restart": 0, "state": "PENDING" if row["start_s"] is None else "RUNNING",
            "requested_procs": row.get("procs") or 1, "procs": row.get("procs") or 1, "submit_s": int(row["submit_s"]),
            "start_s": None if row["start_s"] is None else int(row["start_s"]),
        }
        for name, row in rows.items()
    }  # fmt: skip


def _pools(now: Now, asked: Mapping[str, Value] | None) -> waits.Pools | None:
    """Partitions of the queue's jobs, and of one that is asked about, that share a node share a pool.

    Nodes of other partitions do not count, but where no job names one. None where no node is known.
    """
    told = [job.values for job in now.jobs] + ([asked] if asked and asked.get("queue") else [])
    used = {one for values in told for one in str(values.get("queue")).split(",")}
    nodes = [node for node in now.nodes if not told or node.partition in used or not node.partition]
    if not nodes:
        return None
    partitions, of_partition = np.unique([node.partition for node in nodes], return_inverse=True)
    _, first, of_node = np.unique([node.name for node in nodes], return_index=True, return_inverse=True)
    n = len(partitions)
    edges = coo_array((np.ones(len(nodes)), (of_partition, n + of_node)), shape=(n + len(first), n + len(first)))
    _, pool = connected_components(edges, directed=False)
    capacity = np.bincount(pool[n:], [nodes[place].procs * nodes[place].is_up for place in first])
    return waits.Pools(dict(zip(partitions.tolist(), pool[:n].tolist(), strict=True)), np.maximum(capacity, 1.0))


def _record(published: Path, loaded: LoadedState, pools: waits.Pools | None) -> waits.QueueRecord | None:
    """What was learnt of waits: kept for this version, or learnt now."""
    manifest, state = loaded.manifest, loaded.state
    with suppress(OSError, InputError, KeyError):
        if path := live_state(manifest, RECORD):
            return waits.record_in(read_table(path, STATE))
    found = waits.learnt(StoredTable(manifest.path(JOBS.name), JOBS), state, state.site["timezone"], pools)
    with suppress(OSError), new_table(live_pointer(published, RECORD)) as draft:
        write_table(draft, waits.table_of(found), STATE, {CONTINUES: continued(manifest)})
    return found


def when(published: Path, ids: Sequence[str], now: Now) -> dict[str, Any]:
    """The answers to jobs of the queue (none named: all), in plain values.

    InputError where nothing is published, or a job is not in the queue.
    """
    unknown = set(ids) - {job.job_id for job in now.jobs}
    if unknown:
        found = f"no job {', '.join(printable(name, 40) for name in sorted(unknown))}"
        raise InputError("the queue", found, "jobs that wait or run", "see which ones walltime when lists")
    site = site_of(published, now)
    rows = answer_rows(site)
    return facts_of(site) | {"jobs": [row for row in rows if not ids or row["id"] in ids]}


def facts_of(site: Site) -> dict[str, Any]:
    """What is common to all answers."""
    state = site.loaded.state
    return {
        "at_s": site.now.at_s, "as_of_s": int(state.as_of_s), "run_id": site.loaded.manifest.run_id,
        "site": site.loaded.manifest.site, "n_running": len(site.queue.runs), "n_waiting": len(site.queue.waits),
        "processors": float(site.log.capacity.sum()),
        "record": waits.figures(site.found.cases, site.now.at_s) if site.found else {},
    }  # fmt: skip


TOO_LARGE = "it asks for more processors than the nodes that are up have"


def answer_rows(site: Site) -> list[dict[str, Any]]:
    """A row a job: names and states as Open OnDemand has them, instants in s since 1970, and what answered."""
    at_s, queue, rows = site.now.at_s, site.queue, []
    start_s, ways, times_s = waits.expected(queue, site.found)
    starts_s = dict(zip(queue.waits.tolist(), zip(start_s.tolist(), ways, strict=True), strict=True))
    left_s = dict(zip(queue.runs.tolist(), times_s.tolist(), strict=True))
    for job in site.now.jobs:
        place, is_running = site.place[job.job_id], job.start_s is not None
        wait_s, way = starts_s.get(place, ([math.nan] * len(waits.LEVELS), None))
        ran_s = max(at_s - float(site.log.past.start_s[place]), 0.0)
        row = {
            "id": job.job_id, "status": "running" if is_running else "queued_held" if job.held else "queued",
            "job_owner": job.values.get("user"), "queue_name": job.values.get("queue"),
            "procs": job.values.get("procs"), "submission_time": job.submit_s,
            "wallclock_limit": job.asked_s or job.planned_s, "wallclock_time": ran_s if is_running else None,
            "dispatch_time": job.start_s if is_running else at_s + wait_s[waits.LEVELS.index(0.5)],
            **by_level("start_s", waits.LEVELS, [at_s + one for one in wait_s]),
            **by_level("left_s", LEFT_SHARES, left_s.get(place, [math.nan] * len(LEFT_SHARES))),
            "answered_by": way, "note": job.held or (None if is_running or place in starts_s else TOO_LARGE),
        }  # fmt: skip
        rows.append({name: None if isinstance(one, float) and math.isnan(one) else one for name, one in row.items()})
    return rows


def hypothetical(published: Path, job: Mapping[str, Value], now: Now) -> dict[str, Any]:
    """The expected start and end of a job that would be submitted now, and of the same with other requests and sizes.

    The runtime on another size is that of the job, scaled by the published curve. InputError: nothing is published.
    """
    site = site_of(published, now, job)
    own, procs_asked = site.place["#0"], int(job.get("procs") or 1)
    if site.log.is_told and site.log.exceeds_pool[own]:
        capacity = float(site.log.capacity[site.log.pool[own]])
        found = f"{site.log.past.procs[own]:,.0f} processors"
        raise InputError("--procs", found, f"at most {capacity:,.0f}, as many as the nodes that are up have")
    runtime_s = np.interp(waits.LEVELS, QUANTILES, site.log.quantiles_s[own])
    rows = []
    for nth, choice in enumerate(site.choices):
        place, procs = site.place[f"#{nth}"], int(choice.get("procs") or 1)
        if nth and site.log.exceeds_pool[place]:
            continue
        asked = with_another(site.queue, place)
        (start_s,), (way,) = waits.starts(asked, np.array([len(asked.waits) - 1]), site.found)
        run_s = runtime_s * (site.curve.ratio(procs, procs_asked) if site.curve else 1.0)
        longer = np.interp(np.log(site.log.limit_s[place]), site.log.knots[own], SHARES)
        rows.append({
            "procs": procs, "requested_s": choice.get("requested_s"), "answered_by": way, "is_asked": nth == 0,
            "share_longer": 1.0 - float(longer),
            **by_level("wait_s", waits.LEVELS, start_s), **by_level("runtime_s", waits.LEVELS, run_s),
            "end_s_q50": now.at_s + float(start_s[1] + run_s[1]),
        })  # fmt: skip
    return facts_of(site) | {"choices": rows, "has_curve": site.curve is not None}


def _choices(job: Mapping[str, Value], curve: Curve | None) -> list[dict[str, Value]]:
    """The job itself, then with shorter requests, then on other numbers of processors between those that ran."""
    found = [dict(job)]
    if asked_s := job.get("requested_s"):
        found += [dict(job) | {"requested_s": float(asked_s) * share} for share in (0.5, 0.25, 1 / 6)]
    procs = int(job.get("procs") or 1)
    sizes = {max(round(procs * factor), 1) for factor in (0.25, 0.5, 2, 4)} - {procs}
    ran = curve.counts[curve.has_run].tolist() if curve else []
    least, most = min(ran, default=math.inf), max(ran, default=0)
    return [*found, *(dict(job) | {"procs": size} for size in sorted(sizes) if least <= size <= most)]


KEPT_S = WEEK_S
"""Answers are kept for so long."""

START_QUANTILES = ("start_s_q10", "start_s_q50", "start_s_q80", "start_s_q95")


def read_starts(output_dir: Path) -> pa.Table:
    """The table of a published folder, empty where there is none; InputError where it is damaged."""
    path = kept_table(live_pointer(output_dir, STARTS.name))
    return STARTS.empty() if path is None else read_table(path, STARTS)


def note_starts(output_dir: Path, scheduler: Scheduler, environment: Mapping[str, str], now_s: float) -> None:
    """Write when the pending jobs are expected to start, beside earlier answers and what became of them.

    Of each job the first answer stays, and the newest. A damaged table begins anew. InputError where nothing is
    published, or the scheduler tells no queue.
    """
    now = Now(scheduler.queued(environment), scheduler.nodes(environment), now_s)
    site = site_of(output_dir, now)
    rows = list[dict[str, Any]]()
    with suppress(InputError):
        is_kept = (pc.field("made_s") > now_s - KEPT_S) & (pc.field("made_s") < int(now_s))
        rows = read_starts(output_dir).filter(is_kept).sort_by("made_s").to_pylist()
    rows += [
        {name: row[name] if row[name] is None else int(row[name]) for name in START_QUANTILES}
        | {"site": site.loaded.manifest.site, "job_id": row["id"], "queue": row["queue_name"], "made_s": int(now_s)}
        | {"answered_by": row["answered_by"]}
        for row in answer_rows(site)
        if row["answered_by"]
    ]
    first, newest = ({row["job_id"]: row for row in each} for each in (rows[::-1], rows))
    start_s = {job.job_id: job.start_s for job in now.jobs if job.start_s is not None and not math.isnan(job.start_s)}
    for row in rows:
        row["is_newest"] = row is newest[row["job_id"]]
        # A start before the answer is that of an earlier job of the same number.
        if start_s.get(row["job_id"], -math.inf) >= row["made_s"]:
            row["started_s"] = int(start_s[row["job_id"]])
    rows = [row for row in rows if row["is_newest"] or row is first[row["job_id"]]]
    with new_table(live_pointer(output_dir, STARTS.name)) as draft:
        write_table(draft, pa.Table.from_pylist(rows, STARTS.schema()), STARTS)


def start_errors(output_dir: Path) -> dict[str, float]:
    """How well the first answers of the last days held: shares of starts by the quantiles, median error, s, and number.

    Empty where no answered job has started, or there is no table.
    """
    table = read_starts(output_dir)
    _, first = np.unique(table.column("job_id").to_pylist(), return_index=True)
    rows = table.take(pa.array(first)).filter(pc.field("started_s").is_valid())
    if not rows.num_rows:
        return {}
    started_s, said_s = floats(rows, "started_s"), {name: floats(rows, name) for name in START_QUANTILES}
    held = {name[-3:]: float((started_s <= one).mean()) for name, one in said_s.items()}
    error_s = float(np.median(np.abs(said_s["start_s_q50"] - started_s)))
    return held | {"median_error_s": error_s, "n_started": float(rows.num_rows)}
