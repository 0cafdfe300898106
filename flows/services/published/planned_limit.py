"""The limit that a scheduler would plan a job with, by its estimate, and why none."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.arrays import Value
from pipeline.export.lookup_reader import UNTOLD_GPU
from pipeline.limits.soft import SoftRules, planned_limits
from pipeline.settings import ExportSettings


def submit_of(
    values: Mapping[str, Value], who: Value, what: str | None, gpu_type: str = UNTOLD_GPU
) -> dict[str, Value]:
    """What the look-up asks of a job with these values of JOBS columns; `gpu_type`: of GPUs whose type is not told."""
    return {
        "who": who, "what": what, "queue": values.get("queue"), "requested_s": values.get("requested_s"),
        "procs": values.get("procs"), "gpus": values.get("gpus") or 0,
        "gpu_type": (values.get("gpu_type") or gpu_type) if values.get("gpus") else "",
    }  # fmt: skip


def limit_answer(export: ExportSettings, found: Mapping[str, Any]) -> dict[str, Any]:
    """The first limit of a job that has been answered.

    In the answer `planned_s` is what its estimate gives, None where the request stands, and `limit_s` what the mode of
    the run sets. `why_none` is no_request, opted_out, no_gain or the mode; None where the limit is set.
    """
    job = found["job"]
    named = {"user": export.opt_out.users, "account": export.opt_out.accounts, "queue": export.opt_out.partitions}
    rules = SoftRules(quantile=export.quantile)
    quantile_s = np.array([found[f"runtime_s_q{round(100 * rules.quantile)}"]], np.float64)
    planned_s = float(planned_limits(quantile_s, np.array([job.get("requested_s") or np.nan]), rules)[0])
    reasons = {
        "no_request": not job.get("requested_s"),
        "opted_out": any(job.get(column) in names for column, names in named.items()),
        "no_gain": not planned_s > 0,
        export.mode: export.mode != "limit",
    }
    why = next((word for word, holds in reasons.items() if holds), None)
    return {
        "limit_s": None if why else planned_s, "why_none": why, "mode": export.mode,
        "planned_s": planned_s if planned_s > 0 else None, "quantile": rules.quantile,
    }  # fmt: skip
