"""Scores of published predictions on later jobs, rolling through a log: a line per log, horizon and kind of row.

.venv/bin/python benchmarks/later_table.py LOG ...   logs, or flagged JOBS as .parquet; --from, --to: shares of the jobs
"""

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from flows.services.logs.cleaning import flagged_jobs, jobs_of_table
from flows.services.run.prepare import resolve
from pipeline.evaluate.later_scores import N_NIGHTS, figures, later_scores
from pipeline.settings import RunSettings

COLUMNS = ("log", "days", "rows", "jobs", "in 80%", "in 95%", "width 80%", "error", "ok")
CONFIG = Path(__file__).parents[1] / "configs" / "swf.toml"


def jobs_of(log: Path) -> tuple[RunSettings, pa.Table]:
    """A log's settings and flagged JOBS."""
    if log.suffix == ".parquet":
        return RunSettings(), jobs_of_table(log)
    settings, paths = resolve(CONFIG, [str(log)])
    return settings, flagged_jobs(paths, settings)[0]


def lines(name: str, days: float, scored: pa.Table) -> list[tuple[str, ...]]:
    """The table's lines of one log and horizon."""
    parts = {
        "all": scored, "ran before": scored.filter(scored["is_seen"]),
        "not run before": scored.filter(pc.invert(scored["is_seen"])), "ok": scored.filter(scored["is_ok"]),
    }  # fmt: skip
    found = []
    for kind, part in parts.items():
        one = figures(part)
        if one["jobs"]:
            shares = [f"{one[key]:.1%}" for key in ("in_80", "in_95")]
            errors = [f"{one[key]:.1%}" for key in ("median_error", "ok_share")]
            found.append((name, f"{days:g}", kind, f"{one['jobs']:,}", *shares, f"{one['width_80']:.1f}", *errors))
    return found


def main() -> None:
    """Score every log and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--from", dest="first", type=float, default=2 / 3)
    parser.add_argument("--to", dest="last", type=float, default=0.98)
    parser.add_argument("--days", type=float, nargs="+", default=[1.0, 7.0])
    parser.add_argument("--nights", type=int, default=N_NIGHTS)
    given = parser.parse_args()
    for cells in (COLUMNS, ("---",) * len(COLUMNS)):
        print("| " + " | ".join(cells) + " |")
    for log in given.logs:
        settings, jobs = jobs_of(log)
        scores = later_scores(jobs, settings, (given.first, given.last), given.days, given.nights)
        for days, scored in scores.items():
            for cells in lines(log.name.split(".")[0], days, scored):
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
