"""The limit that a scheduler would plan a job with, by its estimate, and why none."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.arrays import Value
from pipeline.export.lookup_reader import UNTOLD_GPU
from pipeline.limits.soft import SOFT_RULES, planned_limits, rules_of


def submit_of(
    values: Mapping[str, Value], who: Value, what: str | None, gpu_type: str = UNTOLD_GPU
) -> dict[str, Value]:
    """What the look-up asks of a job with these values of JOBS columns; `gpu_type`: of GPUs whose type is not told."""
    return {
        "who": who, "what": what, "queue": values.get("queue"), "requested_s": values.get("requested_s"),
        "procs": values.get("procs"), "gpus": values.get("gpus") or 0,
        "gpu_type": (values.get("gpu_type") or gpu_type) if values.get("gpus") else "",
    }  # fmt: skip


def limit_answer(export: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The first limit of a job that has been answered; `export` as a version keeps these settings.

    In the answer `planned_s` is what its estimate gives, None where the request stands, and `limit_s` what the mode of
    the run sets. `why_none` is no_request, opted_out, no_gain or the mode; None where the limit is set.
    """
    job, out, mode = found["job"], export.get("opt_out", {}), export.get("mode", "dry_run")
    named = {"user": "users", "account": "accounts", "queue": "partitions"}
    rules = rules_of(export.get("quantile", SOFT_RULES.quantile), export.get("over_time_limit_min", 0.0))
    quantile_s = np.array([found[f"runtime_s_q{round(100 * rules.quantile)}"]], np.float64)
    planned_s = float(planned_limits(quantile_s, np.array([job.get("requested_s") or np.nan]), rules)[0])
    reasons = {
        "no_request": not job.get("requested_s"),
        "opted_out": any(job.get(column) in out.get(names, ()) for column, names in named.items()),
        "no_gain": not planned_s > 0,
        mode: mode != "limit",
    }
    why = next((word for word, holds in reasons.items() if holds), None)
    return {
        "limit_s": None if why else planned_s, "why_none": why, "mode": mode,
        "planned_s": planned_s if planned_s > 0 else None, "quantile": rules.quantile,
    }  # fmt: skip
