"""Limits read from exported files beside MetaCentrum's rule, as the table of benchmarks/limits.md, log after log.

python -m benchmarks.limits_table [--jobs N] LOG ...

The figures are those of `walltime limits LOG --score --age DAYS` at ages of 0, 1 and 6 days, of a log's first N jobs.
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.backtest_table import line, short
from flows.services.limits import limit_log
from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.baselines import largest_of_15
from pipeline.estimate.history import History
from pipeline.evaluate.limit_advice import (
    ESTIMATE,
    MANY_JOBS,
    limit_figures,
    limits_read,
    outcomes,
    second_half,
    stretched,
)
from pipeline.limits.limit_choice import LimitSettings

SHARE = 0.03
FEW_JOBS, NEW_JOBS, CHANCE = 20, 10, 0.01
AGES_DAYS = (0.0, 1.0, 6.0)
HEADER = (
    "log", "age (days)", "limited", "beyond", "worst", "20 to 200", "new", "freed at 97%", "freed as it is",
)  # fmt: skip


def row_of(name: str, age_days: float, past: History, limit_s: Floats, rules_s: tuple[Floats, Floats]) -> list[Any]:
    """The cells of one log and age; `rules_s`: the limits of the rule at 97% and as it is."""
    first = second_half(past)
    one, *rules = (limit_figures(past, limits_s, first) for limits_s in (limit_s, *rules_s))
    after = outcomes(past, limit_s, first)
    n_above, n_users = users_above(past.codes["who"][after.place], after.is_beyond)
    is_new = n_ended_own(past)[after.place] < NEW_JOBS
    n_new = int((is_new & (limit_s < past.requested_s)[after.place]).sum())
    return [
        short(name), f"{age_days:g}", f"{100 * one['n_limited'] / one['n_jobs']:.0f}",
        f"{100 * one['share_beyond']:.2f}", "" if one["worst_share"] is None else f"{100 * one['worst_share']:.1f}",
        f"{n_above} of {n_users}", f"{n_new} of {int(is_new.sum())}",
        *(f"{one['removed_share'] / rule['removed_share']:.2f}" for rule in rules),
    ]  # fmt: skip


def users_above(who: Ints, is_beyond: Bools) -> tuple[int, int]:
    """Of the users with FEW_JOBS to MANY_JOBS jobs, those with more beyond than SHARE gives by chance; and all."""
    from scipy.stats import binom  # noqa: PLC0415  (slow to import)

    known = who >= 0
    n_jobs = np.bincount(who[known])
    n_beyond = np.bincount(who[known], is_beyond[known], minlength=len(n_jobs))
    counted = (n_jobs >= FEW_JOBS) & (n_jobs < MANY_JOBS)
    return int((n_beyond > binom.ppf(1 - CHANCE, n_jobs, SHARE))[counted].sum()), int(counted.sum())


def n_ended_own(past: History) -> Ints:
    """Per job how many jobs of its submitter had ended at its submit."""
    found = np.zeros(len(past), np.int64)
    for one in np.unique(past.codes["who"]):
        own = np.flatnonzero(past.codes["who"] == one)
        ends_s = np.sort(past.end_s[own[past.has_run[own]]])
        found[own] = np.searchsorted(ends_s, past.submit_s[own], side="right")
    return found


def main() -> None:
    """Print the table of the logs named on the command line, and the median ratios by age."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=40_000, help="first jobs of each log")
    parser.add_argument("logs", type=Path, nargs="+")
    given = parser.parse_args()
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n", flush=True)
    rows = []
    for path in given.logs:
        log = limit_log(path)
        past = log.past.take(np.arange(min(len(log.past), given.jobs)))
        first, rule_s = second_half(past), largest_of_15(past)[:, ESTIMATE]
        rules_s = stretched(past, rule_s, first, SHARE), rule_s
        for age_days in AGES_DAYS:
            limit_s = limits_read(past, LimitSettings(), age_days, first)
            rows.append(row_of(log.name, age_days, past, limit_s, rules_s))
            print(line(rows[-1]), flush=True)
    for age_days in AGES_DAYS:
        own = [[float(one) for one in row[-2:]] for row in rows if row[1] == f"{age_days:g}"]
        print(f"\nAge {age_days:g}: median freed at 97% {median(a for a, _ in own):.2f}, as it is", end=" ")
        print(f"{median(b for _, b in own):.2f}.")


if __name__ == "__main__":
    main()
