"""The figures of `walltime backtest --out FIGURES.parquet` as Markdown: the tables of benchmarks/README.md.

python benchmarks/backtest_table.py FIGURES.parquet

First the mean absolute error of every method over the mean runtime, a column a log; then what `walltime` covers; and,
where the figures are of several ages, each method's error and coverage at each age.
"""

import sys
from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]


def short(log: str) -> str:
    """The log's name without its year, version and ending."""
    return "-".join(part for part in log.split(".", maxsplit=1)[0].split("-") if not part.isdigit())


def line(cells: Iterable[object]) -> str:
    """One row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def errors(rows: list[Row]) -> list[str]:
    """Every method's error over the mean runtime; the last row: `walltime` over the better of two simple ones."""
    logs = list(dict.fromkeys(row["log"] for row in rows))
    whole = {(row["estimator"], row["log"]): row for row in live(rows) if row["part"] == "all"}
    methods = list(dict.fromkeys(name for name, _ in whole))
    mean = {name: sum(whole[name, log]["mae_over_mean"] for log in logs) / len(logs) for name in methods}
    said = [line(["method", *map(short, logs), "mean"]), line(["---"] * (len(logs) + 2))]
    for name in sorted(methods, key=lambda one: mean[one]):
        cells = [f"{whole[name, log]['mae_s']:,.0f} ({whole[name, log]['mae_over_mean']:.3f})" for log in logs]
        said.append(line([name, *cells, f"{mean[name]:.3f}"]))
    ratios = [
        whole["walltime", log]["mae_s"] / min(whole[name, log]["mae_s"] for name in ("last_two", "request"))
        for log in logs
    ]
    beside = [f"{ratio:.3f}" for ratio in ratios]
    return [*said, line(["walltime / better of last_two, request", *beside, f"{sum(ratios) / len(ratios):.3f}"])]


def coverage(rows: list[Row]) -> list[str]:
    """What the quantiles of `walltime` cover, over all and in the worst fortnights."""
    own = {(row["log"], row["part"]): row for row in live(rows) if row["estimator"] == "walltime"}
    names = ("log", "jobs scored", "in 80%", "under q95", "worst fortnight 80%", "worst fortnight q95", "q95/request")
    said = [line(names), line(["---"] * len(names))]
    for log in dict.fromkeys(row["log"] for row in rows):
        whole = own[log, "all"]
        worst = [own.get((log, part), {}) for part in ("fortnight_80", "fortnight_q95")]
        shares = (
            whole["coverage_80"],
            whole["coverage_q95"],
            worst[0].get("coverage_80"),
            worst[1].get("coverage_q95"),
        )
        cells = ["" if share is None else f"{share:.1%}" for share in shares]
        said.append(line([short(log), f"{whole['n_jobs']:,}", *cells, f"{whole['q95_over_request']:.2f}"]))
    return said


def live(rows: list[Row]) -> list[Row]:
    """The rows of estimates that knew all until the submit, from all jobs."""
    return [row for row in rows if row["stale_days"] is None and row["learnt_from"] == "all"]


def by_age(rows: list[Row]) -> list[str]:
    """Per log, method and age the error over the mean runtime and, in per cent, what 80% and q95 hold."""
    whole = [row for row in rows if row["part"] == "all" and row["learnt_from"] == "all"]
    logs = list(dict.fromkeys(row["log"] for row in whole))
    ages = sorted({row["stale_days"] for row in whole}, key=lambda days: -1 if days is None else days)
    if len(ages) < 2:
        return []
    said = [line(["method, known until", *map(short, logs)]), line(["---"] * (len(logs) + 1))]
    for name in dict.fromkeys(row["estimator"] for row in whole):
        for age in ages:
            own = {row["log"]: row for row in whole if row["estimator"] == name and row["stale_days"] == age}
            if own:
                said.append(line([f"{name}, {_age(age)}", *(_cell(own.get(log)) for log in logs)]))
    return said


def _age(days: float | None) -> str:
    return "the submit" if days is None else "midnight" if days == 0 else f"{days:g} days before"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    held = "" if row["coverage_80"] is None else f" {100 * row['coverage_80']:.0f}/{100 * row['coverage_q95']:.0f}"
    return f"{row['mae_over_mean']:.3f}{held}"


def main() -> None:
    """Print the tables of all files together; errors and coverage only where live estimates of `walltime` are given."""
    if len(sys.argv) < 2:
        sys.exit("Give the figures that `walltime backtest --out FIGURES.parquet` wrote, one file or more.")
    rows = [row for path in sys.argv[1:] for row in pq.read_table(path).to_pylist()]
    has_live = any(row["estimator"] == "walltime" for row in live(rows))
    print("\n".join([*([*errors(rows), "", *coverage(rows), ""] if has_live else []), *by_age(rows)]))


if __name__ == "__main__":
    main()
