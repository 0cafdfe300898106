"""The table STARTS, which `walltime guard` writes: what was expected of starts, and what came."""

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.published.published_folder import live_pointer
from flows.services.schedulers import Scheduler
from flows.services.when import Now, answer_rows, queue_of, site_of
from pipeline.arrays import floats
from pipeline.errors import InputError
from pipeline.publish.store import kept_table, new_table
from pipeline.schedule.starts import expected
from pipeline.storage import read_table, write_table
from pipeline.tables import STARTS

KEPT_S = 7 * 86_400
"""Answers are kept for so long."""

QUANTILES = ("start_s_q10", "start_s_q50", "start_s_q80", "start_s_q95")


def starts_pointer(output_dir: Path) -> Path:
    """The file that names the table of a published folder."""
    return live_pointer(output_dir, "starts")


def read_starts(output_dir: Path) -> pa.Table:
    """The table of a published folder, empty where there is none; InputError where it is damaged."""
    path = kept_table(starts_pointer(output_dir))
    return STARTS.empty() if path is None else read_table(path, STARTS)


def note_starts(output_dir: Path, scheduler: Scheduler, environment: Mapping[str, str], now_s: float) -> None:
    """Write when the pending jobs are expected to start, beside earlier answers and what became of them.

    A damaged table begins anew. InputError where nothing is published, or the scheduler tells no queue.
    """
    now = queue_of(scheduler, environment, now_s)
    site = site_of(output_dir, now)
    fresh = [
        {name: row[name] for name in (*QUANTILES, "answered_by")}
        | {"site": site.loaded.manifest.site, "job_id": row["id"], "queue": row["queue_name"], "made_s": int(now_s)}
        for row in answer_rows(site, expected(site.queue, site.found))
        if row["answered_by"]
    ]
    earlier = STARTS.empty()
    with suppress(InputError):
        earlier = read_starts(output_dir)
    rows = _with_earlier(fresh, earlier.to_pylist(), now)
    columns = {column.name: [_whole(row.get(column.name)) for row in rows] for column in STARTS.columns}
    with new_table(starts_pointer(output_dir)) as draft:
        write_table(draft, STARTS.build(**columns), STARTS)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


def _with_earlier(fresh: list[dict[str, Any]], earlier: list[dict[str, Any]], now: Now) -> list[dict[str, Any]]:
    """The first answer of each job, and its newest one."""
    started_s = {job.job_id: job.start_s for job in now.jobs if job.start_s is not None and not math.isnan(job.start_s)}
    answered = {row["job_id"] for row in fresh}
    kept = [row for row in earlier if row["made_s"] > now.at_s - KEPT_S and row["made_s"] < int(now.at_s)]
    first: dict[str, int] = {}
    for row in kept:
        first[row["job_id"]] = min(row["made_s"], first.get(row["job_id"], row["made_s"]))
    held = []
    for row in kept:
        is_newest = row["is_newest"] and row["job_id"] not in answered
        # A start before the answer is that of an earlier job of the same number.
        start_s = started_s.get(row["job_id"], row["started_s"])
        if is_newest or row["made_s"] == first[row["job_id"]]:
            is_later = start_s is not None and start_s >= row["made_s"]
            held.append(row | {"is_newest": is_newest, "started_s": start_s if is_later else row["started_s"]})
    return [*held, *(row | {"is_newest": True} for row in fresh)]


def start_errors(output_dir: Path) -> dict[str, float]:
    """How well the first answers of the last days held: shares of starts by the quantiles, median error, s, and number.

    Empty where no answered job has started, or there is no table.
    """
    table = read_starts(output_dir)
    if not table.num_rows:
        return {}
    made_s, started_s = floats(table, "made_s"), floats(table, "started_s")
    _, first = np.unique(table.column("job_id").to_pylist(), return_index=True)
    rows = first[np.isfinite(started_s[first])]
    if not len(rows):
        return {}
    said_s = {name: floats(table, name)[rows] for name in QUANTILES}
    held = {name[-3:]: float((started_s[rows] <= one).mean()) for name, one in said_s.items()}
    error_s = float(np.median(np.abs(said_s["start_s_q50"] - started_s[rows])))
    return held | {"median_error_s": error_s, "n_started": float(len(rows)), "newest_s": float(made_s.max())}
