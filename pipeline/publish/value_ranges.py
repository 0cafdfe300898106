"""The ranges of the published values, as conditions that every row keeps, and the rows that contradict them."""

from itertools import pairwise
from pathlib import Path

from pipeline.publish.parquet_aggregates import aggregates


def _ascending(*names: str) -> tuple[str, ...]:
    return tuple(f"{low} <= {high}" for low, high in pairwise(names))


_LEVELS = (10, 50, 80, 90, 95, 99)

RANGES: dict[str, tuple[str, ...]] = {
    # A job that contradicts itself keeps its numbers and has a flag.
    "jobs": ("runtime_s >= 0 OR flag IS NOT NULL", "procs >= 1 OR flag IS NOT NULL"),
    "observations": (
        "procs >= 1",
        "n_jobs >= 1",
        "runtime_s_median > 0",
        *_ascending("runtime_s_q10", "runtime_s_median", "runtime_s_q90"),
        *_ascending("first_start_s", "last_end_s"),
    ),
    "fits": ("t1_s > 0", *_ascending("procs_min", "procs_max")),
    "predictions": (
        "procs >= 1",
        "runtime_s > 0",
        *_ascending("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95"),
        "speedup > 0",
        "efficiency > 0",
    ),
    "estimates": (
        "n_jobs >= 0",
        "runtime_s_q10 >= 0",
        *_ascending(*(f"runtime_s_q{level}" for level in _LEVELS)),
        "ratio_q10 >= 0",
        *_ascending(*(f"ratio_q{level}" for level in _LEVELS)),
    ),
}
"""Conditions in SQL by table. A null contradicts none."""


def out_of_range(table: str, path: Path) -> dict[str, int]:
    """Per condition of the table the number of rows that contradict it; empty for a table without conditions."""
    conditions = RANGES.get(table, ())
    if not conditions:
        return {}
    counts = ", ".join(f"count(*) FILTER (WHERE NOT ({condition}))" for condition in conditions)
    return dict(zip(conditions, aggregates(path, counts), strict=True))


def newest_kept_end_s(jobs: Path) -> float | None:
    """The latest end of a job without a flag, s since 1970; None where no such job has an end."""
    newest_s: float | None = aggregates(jobs, "max(end_s) FILTER (WHERE flag IS NULL)")[0]
    return newest_s


def has_other_template(templates: Path) -> bool:
    """Whether the template that was chosen is another than that of the previous run; False where none is known."""
    expressions = "count(*) FILTER (WHERE is_previous), count(*) FILTER (WHERE is_previous AND is_chosen)"
    n_previous, n_kept = aggregates(templates, expressions)
    return bool(n_previous and not n_kept)
