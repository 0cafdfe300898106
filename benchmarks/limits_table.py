"""Limits read from exported files beside other rules, as the table of benchmarks/limits.md: one log after another.

python -m benchmarks.limits_table [--jobs N] LOG ...

The figures are those of `walltime limits LOG --score --age DAYS` at ages of 0, 1 and 6 days, of a log's first N jobs.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.backtest_table import line, short
from flows.services.limits import limit_log, score

PROMISE = 0.97
AGES_DAYS = (0.0, 1.0, 6.0)
RULE, STRETCHED = "MetaCentrum's rule", "the rule, stretched"
HEADER = ("log", "age", "jobs", "limited", "beyond", "worst user", "freed", "freed / rule's", "freed / rule's at 97%")


def row_of(found: Mapping[str, Any]) -> str:
    """One line per log and age: shares in per cent."""
    one = found["rules"]["limits"]
    worst = "" if one["worst_share"] is None else f"{100 * one['worst_share']:.1f} of {one['n_submitters']}"
    return line([
        short(found["log"]), f"{found['age_days']:g}", f"{one['n_jobs']:,}",
        f"{100 * one['n_limited'] / one['n_jobs']:.0f}", f"{100 * one['share_beyond']:.2f}", worst,
        f"{100 * one['removed_share']:.1f}", f"{ratio(found, RULE):.2f}", f"{ratio(found, STRETCHED):.2f}",
    ])  # fmt: skip


def ratio(found: Mapping[str, Any], rule: str) -> float:
    """Over-requested processor-hours freed by the limits over those freed by a rule."""
    rules = found["rules"]
    return float(rules["limits"]["removed_share"] / rules[rule]["removed_share"])


def main() -> None:
    """Print the table of the logs named on the command line, and the median ratios by age."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40_000, help="first jobs of each log")
    parser.add_argument("logs", type=Path, nargs="+")
    given = parser.parse_args()
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    ratios: dict[float, list[float]] = {age: [] for age in AGES_DAYS}
    for path in given.logs:
        whole = limit_log(path)
        log = replace(whole, past=whole.past.take(np.arange(min(len(whole.past), given.jobs))))
        for age, own in ratios.items():
            found = score(log, PROMISE, age)
            own.append(ratio(found, STRETCHED))
            print(row_of(found), flush=True)
    for age, own in ratios.items():
        print(f"\nFreed over the rule's at 97%, age {age:g}: median {median(own):.2f}, least {min(own):.2f}.")


if __name__ == "__main__":
    main()
