"""What soft limits and the order bring in replays: the tables of benchmarks/replay.md.

python -m benchmarks.replay_table [--shakes N] [--seed N] [--unscored SHARE] LOG ...

Every log is replayed as `walltime replay LOG` does it. Rows are policies and estimates, columns logs; `off` is EASY
with requests, and `mean` the mean of a change over the logs. Tables: change of the mean bounded slowdown; mean wait, h;
factors of the longest wait and of the mean wait of the widest tenth; and the user with 100 jobs or more who loses most.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.backtest_table import line, short
from flows.services.logs import flagged_jobs, settings_and_logs
from flows.services.studies import subject_of
from pipeline.schedule.engine import Policy
from pipeline.schedule.what_if import SOFT, TODAY, Estimates, cases, what_if
from pipeline.schedule.workload import Shakes

CASES = cases([Policy.EASY, Policy.EASY_SJBF], [*SOFT, Estimates.ORDER, Estimates.CONTROL, Estimates.PERFECT])
MANY_JOBS = 100

Row = Mapping[str, Any]
Cell = Callable[[list[Row], list[Row]], str]
"""The text of a case's rows beside those of TODAY."""


def whole(rows: list[Row]) -> Row:
    """The medians of all jobs."""
    return next(row for row in rows if row["part"] == "all")


def factor(name: str) -> Cell:
    """A figure as a multiple of what it is today."""
    return lambda rows, today: f"{whole(rows)[name] / whole(today)[name]:.2f}"


def worst_user(rows: list[Row], today: list[Row]) -> str:
    """The largest change, h, of a user's mean wait, and what it is today."""
    before = {row["part_value"]: row["wait_mean_s"] for row in today if row["part"] == "user"}
    many = [row for row in rows if row["part"] == "user" and row["n_jobs"] >= MANY_JOBS]
    worst = max(many, key=lambda row: row["wait_change_s"])
    return f"{worst['wait_change_s'] / 3600:+.1f} ({before[worst['part_value']] / 3600:.1f})"


TABLES: dict[str, Cell] = {
    "change of the slowdown, %": lambda rows, _: f"{100 * whole(rows)['slowdown_change']:+.0f}",
    "mean wait, h": lambda rows, _: f"{whole(rows)['wait_mean_s'] / 3600:.2f}",
    "longest wait, times off": factor("wait_longest_s"),
    "widest tenth's mean wait, times off": factor("wait_wide_mean_s"),
    "worst user's change of the mean wait, h (off)": worst_user,
    "jobs raised, %": lambda rows, _: f"{100 * whole(rows)['share_corrected']:.0f}",
}


def medians(path: Path, shakes: Shakes, unscored: float) -> dict[str, list[Row]]:
    """By case the rows of medians over the shakes."""
    name, settings, paths = settings_and_logs(path)
    flagged, report = flagged_jobs(paths, settings, name)
    subject, _ = subject_of(name, flagged, settings, CASES, header=report.facts.get("max_procs"))
    first = subject.work.submit_s[int(unscored * len(subject.work))] if unscored else -float("inf")
    rows = what_if(replace(subject, since_s=float(first)), CASES, shakes).to_pylist()
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["statistic"] in ("median", "single"):
            found.setdefault(f"{row['policy']}, {row['estimates']}", []).append(row)
    return found


def main() -> None:
    """Print the tables of the logs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--shakes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unscored", type=float, default=0.0, help="share of each log's first jobs without a score")
    given = parser.parse_args()
    found = {}
    for path in given.logs:
        found[short(path.name)] = medians(path, Shakes(given.shakes, given.seed), given.unscored)
        print_tables(found)


def print_tables(found: Mapping[str, Mapping[str, list[Row]]]) -> None:
    """The tables of the logs so far."""
    for title, cell in TABLES.items():
        has_mean = title == next(iter(TABLES))
        print(f"\n{line([title, *found, *['mean'] * has_mean])}\n{line(['---'] * (len(found) + 1 + has_mean))}")
        for case in CASES:
            cells = [cell(own[case.name], own[TODAY.name]) for own in found.values()]
            changes = [whole(own[case.name])["slowdown_change"] for own in found.values()]
            cells += [f"{100 * sum(changes) / len(changes):+.0f}"] * has_mean
            print(line(["off" if case == TODAY else case.name, *cells]), flush=True)


if __name__ == "__main__":
    main()
