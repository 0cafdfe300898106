"""The memory that a job will need, beside its runtime: what `walltime query` says where the log knows memory."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from flows.services.published.published_folder import read_columns
from pipeline.arrays import Value
from pipeline.estimate.history import History
from pipeline.estimate.job_memory import PROMISE, price_now, recommended_kib
from pipeline.estimate.questions import score_of
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state_table import loaded_state
from pipeline.estimate.walltime import estimate
from pipeline.kernels import interpreted
from pipeline.publish import Manifest
from pipeline.tables import MEMORY_STATE


def memory_answers(
    manifest: Manifest, jobs: Sequence[Mapping[str, Value]], questions: History, *, few: bool
) -> list[dict[str, Any]]:
    """Per job the quantiles of its memory and what to ask for, KiB per processor; {} where the log knows no memory.

    Beside these: nodes (None: unknown), the request per processor (None: not given), the promised share, and how often
    the 95% quantile has held. `questions` are the same jobs; `few`: interpreted code answers.
    """
    published = manifest.tables.get(MEMORY_STATE.name)
    if published is None or not published.rows:
        return [{}] * len(jobs)
    path = manifest.path(MEMORY_STATE.name)
    state, settings = loaded_state(read_columns(path, MEMORY_STATE), str(path), goes_on=not few)
    asked = replace(
        questions,
        requested_s=questions.requested_mem_kib,
        requested_mem_kib=np.full(len(questions), np.nan),
    )
    with interpreted() if few else nullcontext():
        quantiles_kib = estimate(state, asked, settings)
    figures = score_of(state.record)
    facts = {
        "memory_promise": PROMISE, "memory_held_q95": figures.get("coverage_q95"),
        "memory_n_scored": int(figures.get("n_scored", 0)),
    }  # fmt: skip
    per_node = manifest.settings.get("site", {}).get("procs_per_node")
    asked_kib, share = recommended_kib(quantiles_kib, questions.procs, price_now(state.record))
    numbers = (one.tolist() for one in (questions.procs, quantiles_kib, asked_kib, share))
    return [
        {f"used_mem_kib_q{100 * share:.0f}": kib for share, kib in zip(QUANTILES, own, strict=True)}
        | {"recommended_mem_kib": promised, "recommended_share": kept, "memory_nodes": _nodes(job, procs, per_node)}
        | facts
        for job, procs, own, promised, kept in zip(jobs, *numbers, strict=True)
    ]


def _nodes(job: Mapping[str, Value], procs: float, per_node: float | None) -> int | None:
    """The nodes that were asked for, else as many as the processors fill; None where neither is known."""
    if nodes := job.get("nodes"):
        return int(float(nodes))
    return math.ceil(procs / per_node) if per_node else None
