"""What `walltime replay` prints, its JSON, and the page of its moldable jobs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.pages.formats import fixed, hours, percent, points
from flows.pages.markdown import escape
from flows.pages.terminal.blocks import Block, Column, Grid, text, wrote
from pipeline.schedule.verdict import ReplayResult, average_changes, case_of, sentences, whole

CASES = (
    text("policy, estimates", lambda row: ", ".join(case_of(row))),
    Column("slowdown", "slowdown_mean", fixed),
    Column("change %", "slowdown_change", points),
    Column("25%", "q25", points),
    Column("75%", "q75", points),
    Column("wait h", "wait_mean_s", hours),
    Column("p99 h", "wait_p99_s", hours),
    Column("longest h", "wait_longest_s", hours),
    Column("widest h", "wait_wide_mean_s", hours),
    Column("use of machine", "utilisation", percent),
    Column("backfilled", "share_backfilled", percent),
    Column("corrected", "share_corrected", percent),
)
AVERAGES = (
    CASES[0],
    Column("logs", "n_logs"),
    Column("change %", "slowdown_change", points),
)


def replay_facts(found: Sequence[ReplayResult], written: Mapping[str, Path]) -> dict[str, Any]:
    """Per log its facts, the sentences and every row; and the changes averaged over the logs with waits.

    `avebsld` is the score of the simulators pyss and predictsim: the mean bounded slowdown by case, null under the
    natural convention.
    """
    logs = [
        {
            "log": result.log, "capacity": result.capacity, "capacity_unit": result.unit,
            "capacity_from": result.capacity_from, "n_jobs": result.n_jobs, "left_out_or_changed": result.counts,
            "has_waits": result.has_waits, "log_utilisation": result.log_utilisation, "sentences": sentences(result),
            "avebsld": _avebsld(whole(result.table.to_pylist())), "rows": result.table,
        }
        for result in found
    ]  # fmt: skip
    return {"logs": logs, "averages": averages(found), "written": written}


def averages(found: Sequence[ReplayResult]) -> list[dict[str, Any]]:
    """Per case the mean over the logs with waits of the median change of the slowdown."""
    return [{"policy": case[0], "estimates": case[1], **one} for case, one in average_changes(found).items()]


def _avebsld(rows: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    if rows[0]["convention"] != "pyss":
        return None
    return {", ".join(case_of(row)): row["slowdown_mean"] for row in rows}


def view_replay(found: Sequence[ReplayResult], written: Mapping[str, Path]) -> Iterator[Block]:
    """Per log the sentences and a table of the cases; over several logs also the mean changes."""
    for result in found:
        yield from sentences(result)
        yield ""
        title = f"{result.log}: mean bounded slowdown, its change from EASY with requests, and waits"
        yield Grid(title, CASES, cases_with_quartiles(result))
    if len(found) > 1:
        left = sum(not result.has_waits for result in found)
        title = "Mean over the logs of the slowdown's change" + (f"; {left} without waits left out" if left else "")
        yield Grid(title, AVERAGES, averages(found))
    yield from wrote(written)


def cases_with_quartiles(result: ReplayResult) -> list[dict[str, Any]]:
    """The medians of each case, with the quartiles `q25` and `q75` of its change of the slowdown."""
    rows = result.table.to_pylist()
    changes = {(*case_of(row), row["statistic"]): row["slowdown_change"] for row in rows if row["part"] == "all"}
    return [{**row, **{q: changes.get((*case_of(row), q)) for q in ("q25", "q75")}} for row in whole(rows)]


def _change(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{100 * value:+.1f}%"


def _gain(row: Mapping[str, Any]) -> str:
    gain = row["gain_of_true"]
    return "" if gain is None or row["chooser"] in ("rigid", "true") else f"{gain:.0%}"


MOLDABLE = (
    text("moldable, %", lambda row: f"{100 * row['share']:g}"),
    text("chosen by", "chooser"),
    Column("mean turnaround", "turnaround_change", _change),
    Column("quartiles", lambda row: " to ".join(_change(row[f"turnaround_change_{q}"]) for q in ("q25", "q75"))),
    Column("median turnaround", "turnaround_median_change", _change),
    Column("mean wait", "wait_change", _change),
    Column("makespan", "makespan_change", _change),
    Column("processor-hours", "proc_hours_change", _change),
    Column("part of the true gain", _gain),
    Column("worst user", "worst_user_change", _change),
    Column("worst user, h", lambda row: row["worst_user_added_s"] / 3600, "{:+.1f}".format),
    Column("users harmed", "share_users_harmed", "{:.0%}".format),
)
_NOTE = (
    "Medians over the seeds of the changes from the rigid replay of the same seed. Worst user: the largest growth of a "
    "user's mean turnaround, relative and in hours, over users with ten jobs or more; harmed: by more than 1%."
)


def view_moldable(
    name: str, rows: Sequence[Mapping[str, Any]], assumptions: Sequence[str], written: Mapping[str, Path]
) -> Iterator[Block]:
    """The changes from the rigid replay, then the assumptions."""
    yield Grid(f"{name}: {_baseline(rows)}", MOLDABLE, rows)
    yield from (_NOTE, *assumptions)
    yield from wrote(written)


def moldable_page(name: str, rows: Sequence[Mapping[str, Any]], assumptions: Sequence[str]) -> str:
    """The same as Markdown."""
    # Only the log's name is a stranger's text: the rest are our own words and numbers.
    cells = [[column.heading for column in MOLDABLE], ["---"] * len(MOLDABLE)]
    cells += [[column.cell(row) for column in MOLDABLE] for row in rows]
    table = [f"| {' | '.join(line)} |" for line in cells]
    said = [f"- {sentence}" for sentence in assumptions]
    return "\n".join([f"## {escape(name)}", "", _baseline(rows), "", *table, "", _NOTE, "", *said]) + "\n"


def _baseline(rows: Sequence[Mapping[str, Any]]) -> str:
    rigid = next(row for row in rows if row["chooser"] == "rigid")
    turnaround, wait = (
        f"mean {what} {hours(rigid[f'{what}_mean_s'])} h, median {hours(rigid[f'{what}_median_s'])} h"
        for what in ("turnaround", "wait")
    )
    makespan = f"makespan {rigid['makespan_s'] / 86_400:,.1f} days, utilisation {rigid['utilisation']:.0%}"
    return f"rigid: {turnaround}; {wait}; {makespan}."
