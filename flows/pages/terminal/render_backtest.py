"""What `walltime backtest` prints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from flows.pages.terminal.json_out import print_json
from flows.pages.terminal.render import console, grid, number, say
from flows.services.backtest.backtesting import Tried, ranked

_COLUMNS = (
    "method", "error s", "over mean", "median %", "too short", "in 80%", "under q95", "q95/request", "fell back",
    "jobs/CPU s",
)  # fmt: skip

_WIDE = 100
"""Columns of characters that the whole table needs; narrower terminals do without the last column."""

METHODS_BESIDE = 6
"""More columns than that fit no terminal; --out has them all."""


def print_tried_json(found: Sequence[Tried], written: Mapping[str, Path]) -> None:
    """Per log the account, CPU seconds per method and every row; the best method by mean absolute error."""
    logs = [
        {
            "log": tried.log,
            "best": tried.ranked[0]["estimator"],
            "report": tried.report.as_dict(),
            "cpu_s": tried.cpu_s,
            "rows": tried.table.to_pylist(),
        }
        for tried in found
    ]
    print_json({"logs": logs, "written": {name: str(path) for name, path in written.items()}})


def print_tried(
    found: Sequence[Tried], by: str | None, written: Mapping[str, Path], *, is_checked_for_leaks: bool = False
) -> None:
    """A table a log, the best method first and marked; by month or size where asked."""
    out = console()
    for tried in found:
        out.print(_methods(tried, is_narrow=out.is_terminal and out.width < _WIDE))
        for sentence in _worst(tried):
            out.print(say(sentence, 500))
        for way in tried.ways[1:]:
            out.print()
            out.print(_other_way(tried, way))
            if change := _change(tried, way):
                out.print()
                out.print(change)
        if by:
            out.print()
            out.print(_parts(tried, by))
        out.print()
    if is_checked_for_leaks:
        out.print("No method's estimates changed with what had not happened by then.")
    for name, path in written.items():
        out.print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)


def _methods(tried: Tried, *, is_narrow: bool) -> Table:
    best_first = tried.ranked
    n_learnt = tried.report.set_aside["learnt_from"].rows
    title = f"{say(tried.log)}: {tried.report.kept.rows:,} jobs scored, the {n_learnt:,} before them learnt from"
    if tried.ways[0]["stale_days"] is not None:
        title += f"; {knowledge(tried.ways[0])}"
    rows = [_row(row, tried, is_best=place == 0) for place, row in enumerate(best_first)]
    shown = len(_COLUMNS) - is_narrow
    return grid(title, _COLUMNS[:shown], [row[:shown] for row in rows])


def _other_way(tried: Tried, way: Mapping[str, Any]) -> Table:
    """The methods with another knowledge: error, coverage, and how often another answer stood in."""
    rows = [
        [say(row["estimator"]), number(row["mae_s"]), fixed(row["mae_over_mean"]), percent(row["coverage_80"]),
         percent(row["coverage_q95"]), percent(row["n_fallback"] / row["n_jobs"])]
        for row in ranked(tried.rows("all", way))
    ]  # fmt: skip
    names = ("method", "error s", "over mean", "in 80%", "under q95", "fell back")
    return grid(f"{say(tried.log)}, {knowledge(way)}", names, rows)


_COMPARED = ("mae_s", "mae_over_mean", "coverage_80", "coverage_q95")


def _change(tried: Tried, way: Mapping[str, Any]) -> Table | None:
    """What a way that leaves out flagged jobs changes, beside the one that does not; None where there is none."""
    before = {row["estimator"]: row for row in tried.rows("all", {**way, "learnt_from": "all"})}
    if way["learnt_from"] == "all" or not before:
        return None
    rows = []
    for row in ranked(tried.rows("all", way)):
        old = before[row["estimator"]]
        error_s, over_mean, in_80, under_q95 = (_less(row[name], old[name]) for name in _COMPARED)
        rows.append(
            [say(row["estimator"]), signed(error_s, 1), signed(over_mean, 3), signed(in_80, 1, 100.0),
             signed(under_q95, 1, 100.0)]
        )  # fmt: skip
    known = knowledge({**way, "learnt_from": "all"})
    title = f"{say(tried.log)}, {known}: what changes without learning from the jobs that cleaning sets aside"
    names = ("method", "error s", "over mean", "in 80%, points", "under q95, points")
    return grid(title, names, rows)


def _less(value: float | None, before: float | None) -> float | None:
    return None if value is None or before is None else value - before


def knowledge(way: Mapping[str, Any]) -> str:
    """What estimates knew, in words."""
    days = way["stale_days"]
    known = "known at the submit" if days is None else f"known at the last midnight at least {days:g} days before"
    return known + ("" if way["learnt_from"] == "all" else ", not learnt from the jobs that cleaning sets aside")


def _row(row: Mapping[str, Any], tried: Tried, *, is_best: bool) -> list[str]:
    cpu_s = tried.cpu_s.get(row["estimator"])
    n_estimated = tried.report.kept.rows + tried.report.set_aside["learnt_from"].rows
    cells = [
        f"{say(row['estimator'])}{' *' if is_best else ''}",
        number(row["mae_s"]),
        fixed(row["mae_over_mean"]),
        fixed(row["median_abs_pct"], 0),
        percent(row["share_under"]),
        percent(row["coverage_80"]),
        percent(row["coverage_q95"]),
        fixed(row["q95_over_request"]),
        percent(row["n_fallback"] / row["n_jobs"]),
        number(round(n_estimated / cpu_s)) if cpu_s else "",
    ]
    return [f"[bold]{cell}[/bold]" if is_best and cell else cell for cell in cells]


def _worst(tried: Tried) -> list[str]:
    best = tried.ranked[0]["estimator"]
    held = {"fortnight_80": ("coverage_80", "80% interval"), "fortnight_q95": ("coverage_q95", "95% quantile")}
    return [
        f"* Worst fortnight of {best}: from {row['part_value']} on its {held[part][1]} held "
        f"{percent(row[held[part][0]])} of {row['n_jobs']:,} jobs."
        for part in held
        for row in tried.rows(part)
        if row["estimator"] == best
    ]


def _parts(tried: Tried, by: str) -> Table:
    """A row a month or size, a column a good method: error over mean runtime; what the best one covers."""
    methods = [row["estimator"] for row in tried.ranked][:METHODS_BESIDE]
    cells: dict[str, dict[str, Any]] = {}
    for row in tried.rows(by):
        cells.setdefault(row["part_value"], {})[row["estimator"]] = row
    rows = [
        [say(value), number(one[methods[0]]["n_jobs"]), *(fixed(one[name]["mae_over_mean"]) for name in methods),
         percent(one[methods[0]]["coverage_80"]), percent(one[methods[0]]["coverage_q95"])]
        for value, one in cells.items()
    ]  # fmt: skip
    title = f"{say(tried.log)} by {by}: error over mean runtime; coverage of {say(methods[0])}"
    return grid(title, (by, "jobs", *(say(name) for name in methods), "in 80%", "under q95"), rows)


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with so many decimals; nothing for null."""
    return "" if value is None else f"{value:,.{digits}f}"


def signed(value: float | None, digits: int, scale: float = 1.0) -> str:
    """A difference with its sign and so many decimals; nothing for null."""
    # Adding 0 makes a negative zero a positive one.
    return "" if value is None else f"{round(scale * value, digits) + 0.0:+,.{digits}f}"


def percent(share: float | None) -> str:
    """A share for a person; nothing for null."""
    return "" if share is None else f"{share:.1%}"
