"""What `walltime replay` answers: what other estimates would have gained, as JSON and as blocks."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.pages.blocks import Block, Detail, Grid, Heading, columns, signed, text, wrote
from flows.pages.charts import Axis, Chart, Dots, Line, Mark, Panel, named_rows, percent_label, rule
from pipeline.schedule.verdict import ReplayResult, average_changes, best_case, case_of, medians, sentences, whole
from pipeline.schedule.what_if import WITH_METHOD

Row = Mapping[str, Any]

CASES = columns("cases", case=case_of, guard=lambda row: "yes" if row["is_guarded"] else "no")
AVERAGES = columns("averages", case=case_of)

INTRO = (
    "Each log is scheduled again under each policy with each kind of estimates. Estimates are made as of each submit. "
    "No job is killed for a passed prediction. Bounded slowdown is response over runtime, both at least 10 s. Changes "
    "are from EASY backfilling with requests in the same replay; the bars reach from the lower to the upper quartile "
    "of the replays.",
)


def replay_facts(found: Sequence[ReplayResult], written: Mapping[str, Path]) -> dict[str, Any]:
    """Per log its facts, the sentences and every row; and the changes averaged over the logs with waits.

    `avebsld` is the score of the simulators pyss and predictsim: the mean bounded slowdown by case, null under the
    natural convention.
    """
    logs = [
        {
            "log": result.subject.log, "capacity": result.subject.work.capacity, "capacity_unit": result.unit,
            "capacity_from": result.capacity_from, "n_jobs": len(result.subject.work),
            "left_out_or_changed": dict(result.subject.work.counts), "has_waits": result.subject.has_waits,
            "log_utilisation": result.subject.log_utilisation, "sentences": sentences(result),
            "avebsld": _avebsld(whole(result.table.to_pylist())), "rows": result.table,
        }
        for result in found
    ]  # fmt: skip
    return {"logs": logs, "averages": average_changes(found), "written": written}


def _avebsld(rows: Sequence[Row]) -> dict[str, float] | None:
    if rows[0]["convention"] != "pyss":
        return None
    return {case_of(row): row["slowdown_mean"] for row in rows}


def replay_blocks(found: Sequence[ReplayResult], written: Mapping[str, Path] | None = None) -> Iterator[Block]:
    """Per log the sentences and a table of the cases, with sizes and users on a page; then the means over the logs."""
    for result in found:
        yield Detail([Heading(result.subject.log)])
        yield from sentences(result)
        yield ""
        cases = _cases_with_quartiles(result)
        yield Detail([_changes(cases)])
        title = f"{result.subject.log}: mean bounded slowdown, its change from EASY with requests, and waits"
        yield Grid(title, CASES, cases)
        yield Detail(_by_size_and_user(result))
    if len(found) > 1:
        left = sum(not result.subject.has_waits for result in found)
        title = "Mean over the logs of the slowdown's change" + (f"; {left} without waits left out" if left else "")
        yield Grid(title, AVERAGES, average_changes(found))
    yield from wrote(written or {})


def _cases_with_quartiles(result: ReplayResult) -> list[dict[str, Any]]:
    """The medians of each case, with the quartiles `q25` and `q75` of its change of the slowdown."""
    rows = result.table.to_pylist()
    changes = {(case_of(row), row["statistic"]): row["slowdown_change"] for row in rows if row["part"] == "all"}
    return [{**row, **{q: changes.get((case_of(row), q)) for q in ("q25", "q75")}} for row in whole(rows)]


def _by_size_and_user(result: ReplayResult) -> Iterator[Block]:
    """Under the best case: sizes in rising order, and users, those who lose most first."""
    rows = result.table.to_pylist()
    case = best_case(rows)
    own = [row for row in medians(rows) if case_of(row) == case]
    for part, name in (("size", "processors"), ("user", "user")):
        parts = [row for row in own if row["part"] == part]
        if part == "user":
            parts.sort(key=lambda row: -row["wait_change_s"] * row["n_jobs"])
        if parts:
            named = text(name, "part_value", none="unknown")
            yield Grid(f"By {part}, {case}", (named, *columns("parts")), parts)


def _changes(cases: Sequence[Row]) -> Chart:
    """Per case a line between the quartiles of slowdown_change, and a dot at the median."""
    names = [case_of(row) for row in cases]
    marks: list[Mark] = [rule(x=0)]
    changes = [row["slowdown_change"] for row in cases]
    changed = ["unknown" if change is None else f"{signed(change, 1, 100)}%" for change in changes]
    words = [f"{name}: {change}" for name, change in zip(names, changed, strict=True)]
    for place, row in enumerate(cases):
        colour = "best" if row["estimates"] in WITH_METHOD else "muted"
        ends = [np.nan if row[name] is None else row[name] for name in ("q25", "slowdown_change", "q75")]
        marks.append(Line(ends[::2], [place, place], colour, 2))
        marks.append(Dots(ends[1:2], [place], colour, 3, titles=words[place : place + 1]))
    axis = Axis("change of the mean bounded slowdown", percent_label)
    return Chart(
        f"Change of the mean bounded slowdown. {'; '.join(words)}.",
        [Panel(marks, axis, named_rows(names))],
        "Change of the mean bounded slowdown, by policy and estimates.",
        height=50 + 18 * len(cases),
        left=150,
    )


def replay_page(found: Sequence[ReplayResult]) -> str:
    """The page of some logs' replays; the same results give the same bytes."""
    from flows.pages.page import page_of  # noqa: PLC0415  (a terminal needs no templates)

    return page_of("Replay", "What other estimates would have gained", replay_blocks(found), INTRO)
