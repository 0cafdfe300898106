"""What `walltime moldable` prints and writes: a row per share and chooser, and what was assumed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flows.pages.markdown import escape
from flows.pages.terminal.render import console, grid, say

HEADER = (
    "moldable, %", "chosen by", "mean turnaround", "quartiles", "median turnaround", "mean wait", "makespan",
    "processor-hours", "part of the true gain", "worst user", "worst user, h", "users harmed",
)  # fmt: skip
_NOTE = (
    "Medians over the seeds of the changes from the rigid replay of the same seed. Worst user: the largest growth of a "
    "user's mean turnaround, relative and in hours, over users with ten jobs or more; harmed: by more than 1%."
)


def print_moldable(name: str, rows: Sequence[Mapping[str, Any]], assumptions: Sequence[str]) -> None:
    """Print the changes from the rigid replay, then the assumptions."""
    console().print(grid(f"{say(name)}: {say(_baseline(rows))}", HEADER, [_cells(row) for row in rows], texts=2))
    for sentence in (_NOTE, *assumptions):
        console().print(say(sentence, 1000), soft_wrap=True)


def moldable_page(name: str, rows: Sequence[Mapping[str, Any]], assumptions: Sequence[str]) -> str:
    """The same as Markdown."""
    # Only the log's name is a stranger's text: the rest are our own words and numbers.
    lines = [f"## {escape(name)}", "", _baseline(rows), "", _line(HEADER), _line(["---"] * len(HEADER))]
    lines += [_line(_cells(row)) for row in rows]
    return "\n".join([*lines, "", _NOTE, "", *(f"- {sentence}" for sentence in assumptions)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _baseline(rows: Sequence[Mapping[str, Any]]) -> str:
    rigid = next(row for row in rows if row["chooser"] == "rigid")
    turnaround = (
        f"mean turnaround {_hours(rigid['turnaround_mean_s'])} h, median {_hours(rigid['turnaround_median_s'])} h"
    )
    wait = f"mean wait {_hours(rigid['wait_mean_s'])} h, median {_hours(rigid['wait_median_s'])} h"
    makespan = f"makespan {rigid['makespan_s'] / 86_400:,.1f} days, utilisation {rigid['utilisation']:.0%}"
    return f"rigid: {turnaround}; {wait}; {makespan}."


def _hours(value_s: float) -> str:
    return f"{value_s / 3600:,.2f}"


def _cells(row: Mapping[str, Any]) -> list[str]:
    gain = row["gain_of_true"]
    return [
        f"{100 * row['share']:g}",
        str(row["chooser"]),
        _change(row["turnaround_change"]),
        f"{_change(row['turnaround_change_q25'])} to {_change(row['turnaround_change_q75'])}",
        _change(row["turnaround_median_change"]),
        _change(row["wait_change"]),
        _change(row["makespan_change"]),
        _change(row["proc_hours_change"]),
        "" if gain is None or row["chooser"] in ("rigid", "true") else f"{gain:.0%}",
        _change(row["worst_user_change"]),
        f"{row['worst_user_added_s'] / 3600:+.1f}",
        f"{row['share_users_harmed']:.0%}",
    ]


def _change(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{100 * value:+.1f}%"
