"""What `walltime evaluate-scaling` prints: a row per predictor, a column per split."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flows.pages.terminal.render import console, grid, say
from pipeline.core.report import Report


def print_scaling(rows: Sequence[Mapping[str, Any]], report: Report) -> None:
    """Print median absolute errors; in brackets those of near targets, where larger sizes are predicted."""
    splits = list(dict.fromkeys(row["split"] for row in rows))
    cells = {(row["predictor"], row["split"]): row for row in rows}
    names = sorted(dict.fromkeys(row["predictor"] for row in rows), key=lambda name: _rank(mean_pct(rows, name)))
    body = [
        (say(name), *(_cell(cells[name, split]) for split in splits), _number(mean_pct(rows, name))) for name in names
    ]
    counts = f"{report.kept.rows} of {report.seen.rows} series"
    title = f"Median |predicted/measured - 1|, %; (up to 4 times the largest size given); {counts}"
    console().print(grid(title, ("predictor", *splits, "mean"), body))


def mean_pct(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean of a predictor's medians, including those of near targets; None where one is unknown."""
    own = [row for row in rows if row["predictor"] == name]
    values = [row["median_abs_error_pct"] for row in own]
    values += [row["near_median_abs_error_pct"] for row in own if _has_near(row)]
    return None if any(value is None for value in values) else float(np.mean(values))


def _has_near(row: Mapping[str, Any]) -> bool:
    return bool(row["n_near"]) and row["split"].endswith("smallest")


def _rank(mean: float | None) -> float:
    return float("inf") if mean is None else mean


def _cell(row: Mapping[str, Any]) -> str:
    near = f" ({_number(row['near_median_abs_error_pct'])})" if _has_near(row) else ""
    return _number(row["median_abs_error_pct"]) + near


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
