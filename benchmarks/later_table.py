"""Scores of published predictions on later jobs, rolling through a log: a line per log, horizon and kind of row.

.venv/bin/python benchmarks/later_table.py LOG ...   logs, or flagged JOBS as .parquet; --from, --to: shares of the jobs
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

from flows.services.logs.cleaning import flagged_jobs, jobs_of_table
from flows.services.run.prepare import resolve
from pipeline.evaluate.later_scores import REFIT_DAYS, Scored, figures, later_scores, trade_off
from pipeline.settings import RunSettings

COLUMNS = ("log", "days", "rows", "jobs", "in 80%", "in 95%", "width 80%", "error", "kernel error", "ok")
CONFIG = Path(__file__).parents[1] / "configs" / "swf.toml"


def jobs_of(log: Path) -> tuple[RunSettings, pa.Table]:
    """A log's settings and flagged JOBS."""
    if log.suffix == ".parquet":
        return RunSettings(), jobs_of_table(log)
    settings, paths = resolve(CONFIG, [str(log)])
    return settings, flagged_jobs(paths, settings)[0]


def lines(name: str, days: float, scored: Scored) -> list[tuple[str, ...]]:
    """The table's lines of one log and horizon."""
    parts = {
        "all": scored, "ran before": scored.take(scored.is_seen),
        "not run before": scored.take(~scored.is_seen & np.isfinite(scored.kernel_s)), "ok": scored.take(scored.is_ok),
    }  # fmt: skip
    found = []
    for kind, part in parts.items():
        one = figures(part)
        if one["jobs"]:
            shares = [f"{one[key]:.1%}" for key in ("in_80", "in_95")]
            errors = [f"{one[key]:.1%}" for key in ("median_error", "kernel_error", "ok_share")]
            found.append((name, f"{days:g}", kind, f"{one['jobs']:,}", *shares, f"{one['width_80']:.1f}", *errors))
    return found


def main() -> None:
    """Score every log and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--from", dest="first", type=float, default=2 / 3)
    parser.add_argument("--to", dest="last", type=float, default=0.98)
    parser.add_argument("--days", type=float, nargs="+", default=[1.0, 7.0, 30.0])
    parser.add_argument("--refit", type=float, default=REFIT_DAYS, help="days for which a template and laws stand")
    given = parser.parse_args()
    for cells in (COLUMNS, ("---",) * len(COLUMNS)):
        print("| " + " | ".join(cells) + " |")
    for log in given.logs:
        settings, jobs = jobs_of(log)
        scores = later_scores(jobs, settings, (given.first, given.last), given.days, given.refit)
        for days, scored in scores.items():
            for cells in lines(log.name.split(".")[0], days, scored):
                print("| " + " | ".join(cells) + " |", flush=True)
            curve = ", ".join(f"{one['jobs']:.0%} at {one['median_error']:.0%}" for one in trade_off(scored))
            print(f"<!-- {log.name}, {days:g} days, jobs at median error by near_share: {curve} -->", flush=True)


if __name__ == "__main__":
    main()
