"""What `walltime replay` prints, and the page of its moldable jobs."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from flows.pages.markdown import escape
from flows.pages.terminal.json_out import print_json
from flows.pages.terminal.render import console, fixed, grid, percent, say, signed
from pipeline.schedule.verdict import ReplayResult, average_changes, case_of, sentences, whole

_COLUMNS = (
    "policy, estimates", "slowdown", "change %", "25%", "75%", "wait h", "p99 h", "longest h", "widest h",
    "use of machine", "backfilled", "corrected",
)  # fmt: skip


def print_replay_json(found: Sequence[ReplayResult], written: Mapping[str, Path]) -> None:
    """Print per log its facts, the sentences and every row; and the changes averaged over the logs with waits.

    `avebsld` is the score of the simulators pyss and predictsim: the mean bounded slowdown by case, null under the
    natural convention.
    """
    logs = [
        {
            "log": result.log,
            "capacity": result.capacity,
            "capacity_unit": result.unit,
            "capacity_from": result.capacity_from,
            "n_jobs": result.n_jobs,
            "left_out_or_changed": result.counts,
            "has_waits": result.has_waits,
            "sentences": sentences(result),
            "avebsld": _avebsld(whole(result.table.to_pylist())),
            "rows": result.table.to_pylist(),
        }
        for result in found
    ]
    averages = [{"policy": case[0], "estimates": case[1], **one} for case, one in average_changes(found).items()]
    print_json({"logs": logs, "averages": averages, "written": {name: str(path) for name, path in written.items()}})


def _avebsld(rows: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    if rows[0]["convention"] != "pyss":
        return None
    return {f"{row['policy']}, {row['estimates']}": row["slowdown_mean"] for row in rows}


def print_replay(found: Sequence[ReplayResult], written: Mapping[str, Path]) -> None:
    """Print per log the sentences and a table of the cases; over several logs also the mean changes."""
    out = console()
    for result in found:
        for sentence in sentences(result):
            out.print(say(sentence, 1000), soft_wrap=True)
        out.print()
        out.print(_cases(result))
    if len(found) > 1:
        out.print(_averages(found))
    for name, path in written.items():
        out.print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)


def _cases(result: ReplayResult) -> Table:
    rows = result.table.to_pylist()
    quartiles = {(*case_of(row), row["statistic"]): row["slowdown_change"] for row in rows if row["part"] == "all"}
    cells = [
        [say(", ".join(case_of(row))), fixed(row["slowdown_mean"]), signed(row["slowdown_change"], 1, 100.0),
         *(signed(quartiles.get((*case_of(row), one)), 1, 100.0) for one in ("q25", "q75")),
         *(_hours(row[name]) for name in ("wait_mean_s", "wait_p99_s", "wait_longest_s", "wait_wide_mean_s")),
         *(percent(row[name]) for name in ("utilisation", "share_backfilled", "share_corrected"))]
        for row in whole(rows)
    ]  # fmt: skip
    title = f"{say(result.log)}: mean bounded slowdown, its change from EASY with requests, and waits"
    return grid(title, _COLUMNS, cells)


def _averages(found: Sequence[ReplayResult]) -> Table:
    rows = [
        [say(f"{policy}, {estimates}"), str(one["n_logs"]), signed(one["slowdown_change"], 1, 100.0)]
        for (policy, estimates), one in average_changes(found).items()
    ]
    left = sum(not result.has_waits for result in found)
    title = "Mean over the logs of the slowdown's change" + (f"; {left} without waits left out" if left else "")
    return grid(title, ("policy, estimates", "logs", "change %"), rows)


def _hours(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 3600:,.2f}"


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
