"""What `walltime replay` prints, and its JSON."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.pages.formats import fixed, hours, percent, points
from flows.pages.terminal.blocks import Block, Column, Grid, text, wrote
from pipeline.schedule.verdict import ReplayResult, average_changes, case_of, sentences, whole

CASES = (
    text("policy, estimates", case_of),
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
    return {"logs": logs, "averages": average_changes(found), "written": written}


def _avebsld(rows: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    if rows[0]["convention"] != "pyss":
        return None
    return {case_of(row): row["slowdown_mean"] for row in rows}


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
        yield Grid(title, AVERAGES, average_changes(found))
    yield from wrote(written)


def cases_with_quartiles(result: ReplayResult) -> list[dict[str, Any]]:
    """The medians of each case, with the quartiles `q25` and `q75` of its change of the slowdown."""
    rows = result.table.to_pylist()
    changes = {(case_of(row), row["statistic"]): row["slowdown_change"] for row in rows if row["part"] == "all"}
    return [{**row, **{q: changes.get((case_of(row), q)) for q in ("q25", "q75")}} for row in whole(rows)]
