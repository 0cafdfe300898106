"""A site's ordinary submits, and what is planted among them, as JOBS: arrays in, because these logs are large."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Ints
from pipeline.tables import JOBS

WEEK_S = 7 * 86_400
BEGIN_S = 1_704_672_000  # Monday 2024-01-08 00:00 UTC


def background(rng: np.random.Generator, weeks: int = 26, users: int = 30, per_week: float = 20.0) -> dict[str, Any]:
    """Users who submit at random at rates of their own (gamma), sizes and runtimes of their own."""
    rates = rng.gamma(1.0, per_week, users)
    counts = rng.poisson(rates * weeks)
    user = np.repeat(np.arange(users), counts)
    n = len(user)
    return {
        "user": np.char.add("u", user.astype(str)),
        "submit_s": BEGIN_S + rng.integers(0, weeks * WEEK_S, n),
        "procs": 2 ** rng.integers(0, 8, n),
        "runtime_s": np.exp(rng.normal(7.5, 1.5, n)).round(),
        "application": np.char.add("app", rng.integers(0, 5, n).astype(str)),
        "planted": np.zeros(n, np.int64),
    }


def burst(rng: np.random.Generator, user: str, n: int, begin_s: int, span_s: int, mark: int = 1) -> dict[str, Any]:
    """`n` near-identical jobs of one user spread evenly at random over a span."""
    return {
        "user": np.full(n, user),
        "submit_s": begin_s + np.sort(rng.integers(0, max(span_s, 1), n)),
        "procs": np.full(n, 4),
        "runtime_s": rng.integers(40, 60, n).astype(float),
        "application": np.full(n, "sweep"),
        "planted": np.full(n, mark),
    }


def jobs_table(*parts: dict[str, Any]) -> tuple[pa.Table, Ints]:
    """JOBS of all parts together, and what was planted, both in order of the parts."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    n = len(whole["user"])
    planted = whole.pop("planted")
    texts = {name: whole.pop(name).tolist() for name in ("user", "application")}
    table = JOBS.build(
        **whole,
        **texts,
        site=["here"] * n,
        job_id=[str(k) for k in range(n)],
        restart=np.zeros(n, np.int64),
        start_s=whole["submit_s"] + 60,
        end_s=whole["submit_s"] + 60 + np.nan_to_num(whole["runtime_s"]).astype(np.int64),
        state=["COMPLETED"] * n,
        source_file=["log"] * n,
        source_line=np.arange(1, n + 1),
    )
    return table, planted
