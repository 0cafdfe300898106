"""What `walltime backtest` prints: errors of methods, of published predictions, and the templates found."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flows.pages.terminal.json_out import print_json
from flows.pages.terminal.render import console, fixed, grid, number, percent, say, signed
from flows.pages.terminal.verbosity import is_quiet
from flows.services.backtesting import BacktestResult, ranked
from pipeline.evaluate.later_scores import Scored, figures, trade_off

_COLUMNS = (
    "method", "error s", "over mean", "median %", "too short", "in 80%", "under q95", "q95/request", "fell back",
    "jobs/CPU s",
)  # fmt: skip

_WIDE = 100
"""Terminal width for the whole table; on narrower terminals the last column is left out."""

METHODS_SHOWN = 6
"""Methods shown by month or size, as more do not fit a terminal; --out has all."""


def print_backtest_json(found: Sequence[BacktestResult], written: Mapping[str, Path]) -> None:
    """Print per log the report, CPU seconds by method, every row, and the method of least mean absolute error."""
    logs = [
        {
            "log": result.log,
            "best": result.ranked[0]["estimator"],
            "report": result.report.as_dict(),
            "cpu_s": result.cpu_s,
            "rows": result.table.to_pylist(),
        }
        for result in found
    ]
    print_json({"logs": logs, "written": {name: str(path) for name, path in written.items()}})


def print_backtest(
    found: Sequence[BacktestResult], by: str | None, written: Mapping[str, Path], *, checks_leaks: bool = False
) -> None:
    """Print a table per log, the best method first and marked; also by month or size if `by` is given."""
    out = console()
    for result in found:
        out.print(_methods(result, is_narrow=out.is_terminal and out.width < _WIDE))
        for sentence in _worst(result):
            out.print(say(sentence, 500))
        for way in result.ways[1:]:
            out.print()
            out.print(_other_way(result, way))
            if change := _change(result, way):
                out.print()
                out.print(change)
        if by:
            out.print()
            out.print(_parts(result, by))
        out.print()
    if checks_leaks:
        out.print("No method used what was not yet known.")
    for name, path in written.items():
        out.print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)


def _methods(result: BacktestResult, *, is_narrow: bool) -> Table:
    best_first = result.ranked
    n_learnt = result.report.set_aside["learnt_from"].rows
    title = f"{say(result.log)}: {result.report.kept.rows:,} jobs scored, the {n_learnt:,} before them learnt from"
    if result.ways[0]["stale_days"] is not None:
        title += f"; {knowledge(result.ways[0])}"
    rows = [_row(row, result, is_best=place == 0) for place, row in enumerate(best_first)]
    shown = len(_COLUMNS) - is_narrow
    return grid(title, _COLUMNS[:shown], [row[:shown] for row in rows])


def _other_way(result: BacktestResult, way: Mapping[str, Any]) -> Table:
    """The methods in another way: error, coverage, and share of fallback estimates."""
    rows = [
        [say(row["estimator"]), number(row["mae_s"]), fixed(row["mae_over_mean"]), percent(row["coverage_80"]),
         percent(row["coverage_q95"]), percent(row["n_fallback"] / row["n_jobs"])]
        for row in ranked(result.rows("all", way))
    ]  # fmt: skip
    names = ("method", "error s", "over mean", "in 80%", "under q95", "fell back")
    return grid(f"{say(result.log)}, {knowledge(way)}", names, rows)


_COMPARED = ("mae_s", "mae_over_mean", "coverage_80", "coverage_q95")


def _change(result: BacktestResult, way: Mapping[str, Any]) -> Table | None:
    """The change from leaving out flagged jobs; None where the way includes them or has no counterpart."""
    before = {row["estimator"]: row for row in result.rows("all", {**way, "learnt_from": "all"})}
    if way["learnt_from"] == "all" or not before:
        return None
    rows = []
    for row in ranked(result.rows("all", way)):
        old = before[row["estimator"]]
        error_s, over_mean, in_80, under_q95 = (_difference(row[name], old[name]) for name in _COMPARED)
        rows.append(
            [say(row["estimator"]), signed(error_s, 1), signed(over_mean, 3), signed(in_80, 1, 100.0),
             signed(under_q95, 1, 100.0)]
        )  # fmt: skip
    known = knowledge({**way, "learnt_from": "all"})
    title = f"{say(result.log)}, {known}: changes without learning from the jobs that cleaning sets aside"
    names = ("method", "error s", "over mean", "in 80%, points", "under q95, points")
    return grid(title, names, rows)


def _difference(value: float | None, before: float | None) -> float | None:
    return None if value is None or before is None else value - before


def knowledge(way: Mapping[str, Any]) -> str:
    """What the estimates of a way knew, in words."""
    days = way["stale_days"]
    known = "known at the submit" if days is None else f"known at the last midnight at least {days:g} days before"
    return known + ("" if way["learnt_from"] == "all" else ", not learnt from the jobs that cleaning sets aside")


def _row(row: Mapping[str, Any], result: BacktestResult, *, is_best: bool) -> list[str]:
    cpu_s = result.cpu_s.get(row["estimator"])
    n_estimated = result.report.kept.rows + result.report.set_aside["learnt_from"].rows
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


def _worst(result: BacktestResult) -> list[str]:
    best = result.ranked[0]["estimator"]
    held = {"fortnight_80": ("coverage_80", "80% interval"), "fortnight_q95": ("coverage_q95", "95% quantile")}
    return [
        f"* Worst fortnight of {best}: from {row['part_value']} on its {held[part][1]} held "
        f"{percent(row[held[part][0]])} of {row['n_jobs']:,} jobs."
        for part in held
        for row in result.rows(part)
        if row["estimator"] == best
    ]


def _parts(result: BacktestResult, by: str) -> Table:
    """A row per month or size: error over mean runtime of the best methods, and coverage of the best one."""
    methods = [row["estimator"] for row in result.ranked][:METHODS_SHOWN]
    cells: dict[str, dict[str, Any]] = {}
    for row in result.rows(by):
        cells.setdefault(row["part_value"], {})[row["estimator"]] = row
    rows = [
        [say(value), number(one[methods[0]]["n_jobs"]), *(fixed(one[name]["mae_over_mean"]) for name in methods),
         percent(one[methods[0]]["coverage_80"]), percent(one[methods[0]]["coverage_q95"])]
        for value, one in cells.items()
    ]  # fmt: skip
    title = f"{say(result.log)} by {by}: error over mean runtime; coverage of {say(methods[0])}"
    return grid(title, (by, "jobs", *(say(name) for name in methods), "in 80%", "under q95"), rows)


_HEADER = ("days", "rows", "jobs", "in 80%", "in 95%", "width 80%", "median %", "kernel %", "ok %")


def print_later(log: str, found: Sequence[tuple[float, Mapping[str, Scored]]]) -> None:
    """Print coverage, width and error by days ahead and subset of jobs; then the trade-off of `ok`."""
    out = console()
    rows = [_later_row(days, name, part) for days, subsets in found for name, part in subsets.items()]
    out.print(grid(f"{say(log)}: predictions on later jobs", _HEADER, [row for row in rows if row]))
    for days, subsets in found:
        curve = [(number(point["near_share"]), _percent(point["jobs"]), _percent(point["median_error"]))
                 for point in trade_off(subsets["all"])]  # fmt: skip
        out.print(grid(f"Rows by least track record, {days:g} days", ("near share", "jobs %", "median %"), curve))


def _later_row(days: float, name: str, part: Scored) -> Sequence[str]:
    one: Mapping[str, Any] = figures(part)
    if not one["jobs"]:
        return ()
    shares = [_percent(one[name]) for name in ("in_80", "in_95")]
    errors = [_percent(one[name]) for name in ("median_error", "kernel_error", "ok_share")]
    return (f"{days:g}", name, number(one["jobs"]), *shares, number(one["width_80"]), *errors)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


@contextmanager
def showing_search(minutes: float | None) -> Iterator[Callable[[Any], bool]]:
    """A callback that shows progress, as a bar on a terminal or as lines in a log.

    It returns False, which stops the search, once `minutes` have passed.
    """
    stop_s = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    is_hidden = is_quiet() or not sys.stderr.isatty()
    with Progress(*columns, console=console(stderr=True), transient=True, disable=is_hidden) as bar:
        places: dict[str, Any] = {}

        def show(progress: Any) -> bool:
            if progress.stage not in places:
                places[progress.stage] = bar.add_task(progress.stage, total=progress.total)
            described = f"{progress.stage}: error {progress.error_s:,.0f} s"
            bar.update(places[progress.stage], completed=progress.done, description=described)
            is_over = time.monotonic() >= stop_s
            if is_hidden and not is_quiet() and (is_over or progress.done % 10 == 0 or progress.done == progress.total):
                sys.stderr.write(f"{described} ({progress.done}/{progress.total})\n")
            return not is_over

        yield show


def print_templates(templates: Sequence[object], error_s: float, n_jobs: int, file: Path) -> None:
    """Print the error of the templates, each template, and where they are written."""
    out = console()
    out.print(f"Mean absolute error {error_s:,.0f} s over {n_jobs:,} jobs, by narrowest interval of")
    for template in templates:
        out.print(f"  {template}", soft_wrap=True, highlight=False, markup=False)
    out.print(f"Wrote templates to {say(file, 1000)}", soft_wrap=True)
