"""What `walltime backtest --predictions` does: logs in, published predictions scored on the jobs that came later."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.backtesting import Task
from flows.progress import staging
from flows.render import console, grid, number, print_json, say
from pipeline.clean import clean
from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.evaluate.later_figures import Scored, figures, trade_off
from pipeline.evaluate.later_rolling import later_scores
from pipeline.ingest import ingest

LAST_SHARE = 0.98
"""Cuts lie between the training share and this share of the jobs, by submit."""

_HEADER = ("days", "rows", "jobs", "in 80%", "in 95%", "width 80%", "median %", "kernel %", "ok %")


def try_predictions(task: Task) -> dict[float, Scored]:
    """Read and clean a log; publish day by day, score one, seven and thirty days on. InputError without later jobs."""
    settings = task.settings
    name = printable(task.log, 40)
    with staging(f"{name}: read") as stage:
        jobs, _, stage.report = ingest(task.paths, settings.site, settings.ingest)
    flagged, *_ = clean(jobs, settings.clean, settings.site)
    with staging(f"{name}: predict"):
        found = later_scores(flagged, settings, (settings.backtest.train_share, LAST_SHARE))
    if not found:
        raise InputError(name, f"{jobs.num_rows} jobs, none to score", "jobs of groups that had run before")
    return found


def parts_of(scored: Scored) -> dict[str, Scored]:
    """All jobs; those on counts that had run, and that had not; those on rows called ok."""
    return {
        "all": scored,
        "ran before": scored.take(scored.is_seen),
        "never ran": scored.take(~scored.is_seen),
        "ok": scored.take(scored.is_ok),
    }


def print_later(log: str, found: Mapping[float, Scored]) -> None:
    """A table a log: coverage, width and error by days ahead and kind of row; then the trade-off of `ok`."""
    out = console()
    rows = [_row(days, kind, part) for days, one in found.items() for kind, part in parts_of(one).items()]
    out.print(grid(f"{say(log)}: predictions on later jobs", _HEADER, [row for row in rows if row]))
    for days, one in found.items():
        curve = [(number(point["near_share"]), _percent(point["jobs"]), _percent(point["median_error"]))
                 for point in trade_off(one)]  # fmt: skip
        out.print(grid(f"Rows by least track record, {days:g} days", ("near share", "jobs %", "median %"), curve))


def print_later_json(found: Mapping[str, Mapping[float, Scored]]) -> None:
    """The same figures, by log, days and kind of row."""
    print_json({"logs": [{"log": log, "rows": _plain(one)} for log, one in found.items()]})


def _plain(found: Mapping[float, Scored]) -> list[dict[str, Any]]:
    return [
        {"days": days, "trade_off": trade_off(one), **{kind: figures(part) for kind, part in parts_of(one).items()}}
        for days, one in found.items()
    ]


def _row(days: float, kind: str, part: Scored) -> Sequence[str]:
    one = figures(part)
    if not one["jobs"]:
        return ()
    shares = [_percent(one[name]) for name in ("in_80", "in_95")]
    errors = [_percent(one[name]) for name in ("median_error", "kernel_error", "ok_share")]
    return (f"{days:g}", kind, number(one["jobs"]), *shares, number(one["width_80"]), *errors)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def run_later(tasks: Sequence[Task], *, as_json: bool) -> None:
    """Score each log's predictions and print them."""
    found = {task.log: try_predictions(task) for task in tasks}
    if as_json:
        return print_later_json(found)
    for log, one in found.items():
        print_later(log, one)
    return None
