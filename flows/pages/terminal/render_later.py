"""What `walltime backtest --predictions` prints."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.pages.terminal.render import console, grid, number, say
from pipeline.evaluate.later_figures import Scored, figures, trade_off

_HEADER = ("days", "rows", "jobs", "in 80%", "in 95%", "width 80%", "median %", "kernel %", "ok %")


def print_later(log: str, found: Sequence[tuple[float, Mapping[str, Scored]]]) -> None:
    """Print coverage, width and error by days ahead and subset of jobs; then the trade-off of `ok`."""
    out = console()
    rows = [_row(days, name, part) for days, subsets in found for name, part in subsets.items()]
    out.print(grid(f"{say(log)}: predictions on later jobs", _HEADER, [row for row in rows if row]))
    for days, subsets in found:
        curve = [(number(point["near_share"]), _percent(point["jobs"]), _percent(point["median_error"]))
                 for point in trade_off(subsets["all"])]  # fmt: skip
        out.print(grid(f"Rows by least track record, {days:g} days", ("near share", "jobs %", "median %"), curve))


def _row(days: float, name: str, part: Scored) -> Sequence[str]:
    one: Mapping[str, Any] = figures(part)
    if not one["jobs"]:
        return ()
    shares = [_percent(one[name]) for name in ("in_80", "in_95")]
    errors = [_percent(one[name]) for name in ("median_error", "kernel_error", "ok_share")]
    return (f"{days:g}", name, number(one["jobs"]), *shares, number(one["width_80"]), *errors)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
