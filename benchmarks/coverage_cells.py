"""What 80% intervals and 95% quantiles hold, by cell: fortnight, users' size, new, long; and the mean error, s.

python benchmarks/coverage_cells.py LOG... [--config configs/swf.toml] [--jobs 40000] [--age 0 --age 7]

Of answers at the submit; with `--age`, of the rows of ESTIMATES that a job reads if the table is so many days old.

The last two thirds of the first so many jobs are scored, without those whose runtime is a lower bound. A user's size is
the number of jobs: the tenth of the users with most jobs, the next four tenths, the other half. A job is new if it is
among its user's first ten jobs in the log; it is long if it ran for over twelve hours, which no submit knows. A cell
has a job or more; fortnights have 200, and the last two columns are how many of these hold 75 to 85 and 92 to 97%.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from flows.services.files.os_errors import config_settings
from pipeline.arrays import DAY_S, Bools, Floats, Ints
from pipeline.estimate.history import History, history
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import walltime
from pipeline.evaluate.methods import table
from pipeline.ingest import ingest

ROOT = Path(__file__).parents[1]
FORTNIGHT_S, LEAST_JOBS, NEW_JOBS, LONG_S = 14 * 86_400, 200, 10, 12 * 3600.0
ENDS = [QUANTILES.index(share) for share in (0.10, 0.90, 0.95)]
NAMES = (
    "log", "age", "error, s", "all", "largest tenth", "next four", "other half", "first 10 jobs", "over 12 h",
    "worst fortnight", "in 75-85", "in 92-97",
)  # fmt: skip


def answers(log: History, age_days: float | None) -> Floats:
    """(jobs, 6) quantiles, s, at the submit, or of a table of an age."""
    return walltime(log) if age_days is None else table(replace(log, stale_s=age_days * DAY_S))


def held(log: History, quantiles_s: Floats) -> Floats:
    """(jobs, 2) 1 where the 80% interval, and where the 95% quantile, holds the runtime."""
    low_s, high_s, q95_s = quantiles_s[:, ENDS].T
    return np.column_stack([(low_s <= log.runtime_s) & (log.runtime_s <= high_s), log.runtime_s <= q95_s]).astype(float)


def cells(log: History) -> Iterator[Bools]:
    """The jobs of each cell, in the order of NAMES, fortnights left out."""
    who, n_users = log.codes["who"], int(log.codes["who"].max()) + 1
    rank = np.empty(n_users, np.int64)
    rank[np.argsort(-np.bincount(who[who >= 0], minlength=n_users), kind="stable")] = np.arange(n_users)
    place = np.where(who >= 0, rank[who] / n_users, np.nan)
    yield np.ones(len(log), np.bool_)
    yield place < 0.1
    yield (place >= 0.1) & (place < 0.5)
    yield place >= 0.5
    yield (who >= 0) & (_number(who) < NEW_JOBS)
    yield log.runtime_s > LONG_S


def _number(who: Ints) -> Ints:
    """How many earlier jobs each job's user has."""
    order = np.argsort(who, kind="stable")
    _, first, count = np.unique(who[order], return_index=True, return_counts=True)
    found = np.empty(len(who), np.int64)
    found[order] = np.arange(len(who)) - np.repeat(first, count)
    return found


def row(log: History, age_days: float | None) -> list[str]:
    """The cells of a log as text: per cent in 80% intervals / below 95% quantiles."""
    quantiles_s = answers(log, age_days)
    scored = np.isfinite(log.runtime_s) & ~log.is_lower_bound & (np.arange(len(log)) >= len(log) // 3)
    scored &= ~np.isnan(quantiles_s[:, 0])
    inside, off_s = held(log, quantiles_s), np.abs(quantiles_s[:, QUANTILES.index(0.5)] - log.runtime_s)
    said = ["submit" if age_days is None else f"{age_days:g}", f"{off_s[scored].mean():,.0f}" if scored.any() else ""]
    said += [_text(inside[own & scored]) for own in cells(log)]
    number = (log.submit_s // FORTNIGHT_S).astype(np.int64)
    counts = np.bincount(number[scored] - number.min())
    large = np.flatnonzero(counts >= LEAST_JOBS) + number.min()
    shares = 100 * np.array([inside[scored & (number == one)].mean(axis=0) for one in large]).reshape(-1, 2)
    if not len(shares):
        return [*said, "", "", ""]
    near = [
        ((low <= part) & (part <= high)).sum() for part, (low, high) in zip(shares.T, ((75, 85), (92, 97)), strict=True)
    ]
    return [*said, "/".join(f"{worst:.0f}" for worst in shares.min(axis=0)), *(f"{n} of {len(shares)}" for n in near)]


def _text(inside: Floats) -> str:
    return (
        "/".join(f"{share:.0f}" for share in 100 * inside.mean(axis=0)) + f" ({len(inside):,})" if len(inside) else ""
    )


def main() -> None:
    """Print a row for each log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "swf.toml")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--age", type=float, action="append", default=[], help="days")
    asked = parser.parse_args()
    settings = config_settings(asked.config)
    print("| " + " | ".join(NAMES) + " |\n" + "| --- " * len(NAMES) + "|")
    for path in asked.logs:
        whole = history(ingest([path], settings.site, settings.ingest)[0], settings.site.timezone)
        log = whole.take(np.arange(min(asked.jobs, len(whole))))
        for age_days in (None, *asked.age):
            print("| " + " | ".join([path.name.split(".")[0], *row(log, age_days)]) + " |", flush=True)


if __name__ == "__main__":
    main()
