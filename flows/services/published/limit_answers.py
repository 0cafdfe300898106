"""The limit that a scheduler's plug-in would set for a submit, and why none, from the published LIMITS."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from flows.services.published.published_folder import newest_of, read_columns, rows_where
from pipeline.arrays import Value
from pipeline.export.lookup_file import LIMIT_COLUMNS, kinds_of, limit_lines
from pipeline.export.lookup_reader import UNTOLD_GPU, Decided, decided, limit_among
from pipeline.limits.own_jobs import memory_class_kib
from pipeline.publish import Manifest
from pipeline.tables import ESTIMATES, LIMITS, LimitStatus

DAY_S = 86_400
READ = (
    "template", "chain_rank", "who", "what", "queue", "requested_s", "procs", "gpus", "gpu_type", "memory_class_kib",
    "qos", *LIMIT_COLUMNS,
)  # fmt: skip
LEFT = {
    LimitStatus.FEW_JOBS: "few ended jobs of its user and kind", LimitStatus.LIMITED: "no shorter limit",
    LimitStatus.NO_GAIN: "no shorter limit", LimitStatus.NO_CREDIT: "its user has no credit",
    LimitStatus.USER_OFF: "limits are off for its user", LimitStatus.SITE_OFF: "limits are off",
    LimitStatus.TOO_OLD: "the limits are too old",
}  # fmt: skip
"""Why a job has no limit, as it is counted."""


def submit_of(
    values: Mapping[str, Value], who: Value, what: str | None, gpu_type: str = UNTOLD_GPU
) -> dict[str, Value]:
    """What the look-up asks of a job with these values of JOBS columns; `gpu_type`: of GPUs whose type is not told."""
    memory_kib = np.array([values.get("requested_mem_kib") or np.nan], np.float64)
    return {
        "who": who, "what": what, "queue": values.get("queue"), "requested_s": values.get("requested_s"),
        "procs": values.get("procs"), "gpus": values.get("gpus") or 0,
        "gpu_type": (values.get("gpu_type") or gpu_type) if values.get("gpus") else "",
        "memory_class_kib": float(memory_class_kib(memory_kib)[0]) if memory_kib[0] > 0 else None,
        "qos": values.get("qos"),
    }  # fmt: skip


def limit_answer(
    manifest: Manifest, submit: Mapping[str, Value], opted: Mapping[str, Value], at_s: float
) -> dict[str, Any] | None:
    """The limit of a submit at a time, as the first of its user that reads the version's look-up; None without LIMITS.

    `opted`: the user, account and queue that may have opted out. In the answer `limit_s` is what the mode of the run
    sets, None where the request stands, and `table_s` what LIMITS say whatever the mode. `why_none` is a word of
    LimitStatus, or what else is in the way; None where the limit is set.
    """
    if LIMITS.name not in manifest.tables:
        return None
    export = manifest.settings.get("export", {})
    mode, most_days = export.get("mode", "dry_run"), float(export.get("max_age_days", 7.0))
    found = _decided(manifest, submit)
    both = [kind.name for kind in (LIMITS, ESTIMATES) if kind.name in manifest.tables]
    newest_s = max(newest_of(manifest.path(name), "newest_end_s") for name in both)
    reasons = {
        "no_request": not submit["requested_s"],
        LimitStatus.TOO_OLD.value: at_s - newest_s > most_days * DAY_S,
        "opted_out": _has_opted_out(export.get("opt_out", {}), opted),
        found.status: found.limit_s is None,
        mode: mode != "limit",
    }
    why = next((word for word, holds in reasons.items() if holds), None)
    row = found.row
    return {
        "limit_s": None if why else found.limit_s, "why_none": why, "mode": mode, "table_s": found.limit_s,
        "n_jobs": row.n_jobs if row else None, "chance_beyond": row.chance_beyond if row and found.limit_s else None,
        "age_s": max(at_s - newest_s, 0.0) if math.isfinite(newest_s) else None, "max_age_days": most_days,
    }  # fmt: skip


def _decided(manifest: Manifest, submit: Mapping[str, Value]) -> Decided:
    """What the look-up says of a submit; only the rows of its submitter are read, and the templates of all rows."""
    who, path = submit["who"], manifest.path(LIMITS.name)
    rows = rows_where(path, LIMITS, "who", who if isinstance(who, str) else "", READ)
    kinds = kinds_of(read_columns(path, LIMITS, ("template", "chain_rank")))
    return decided(limit_among(kinds, limit_lines(rows, kinds).get, submit), submit, Counter())


def _has_opted_out(listed: Mapping[str, Any], opted: Mapping[str, Value]) -> bool:
    named = {"user": "users", "account": "accounts", "queue": "partitions"}
    return any(opted.get(column) in listed.get(names, ()) for column, names in named.items())
