"""The queue's next 24 hours as a picture: when each waiting job is expected to start, with its interval."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from flows.pages.html.drawing import COLOURS, named_ticks, panel, styled, to_svg
from pipeline.errors import printable

HOURS, MOST_JOBS = 24, 40


def newest_answers(starts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The newest answer of each waiting job of STARTS that may start within HOURS of it, the earliest first.

    Hours from the answer: `q10`, `q50`, `q80` and `q95`, those after HOURS too; and `job_id` and `queue`.
    """
    made_s = max((row["made_s"] for row in starts), default=0)
    rows = [row for row in starts if row["is_newest"] and row["made_s"] == made_s]
    found = [
        {"job_id": row["job_id"], "queue": row["queue"]}
        | {f"q{q}": max(row[f"start_s_q{q}"] - made_s, 0) / 3600 for q in (10, 50, 80, 95)}
        for row in rows
    ]
    return sorted((row for row in found if row["q10"] < HOURS), key=lambda row: (row["q50"], row["job_id"]))


def queue_picture(rows: Sequence[Mapping[str, Any]]) -> Markup | str:
    """SVG of the first MOST_JOBS of `newest_answers`, a line a job; empty where no job waits."""
    shown = rows[:MOST_JOBS]
    if not shown:
        return ""
    with styled():
        figure, axes = panel(0.7 + 0.18 * len(shown), left=0.2)
        for place, row in enumerate(shown):
            for low, high, height in (("q10", "q95", 0.25), ("q10", "q80", 0.6)):
                axes.barh(place, row[high] - row[low], left=row[low], height=height, color=COLOURS["best"], alpha=0.4)
            axes.plot(row["q50"], place, "o", markersize=4, color=COLOURS["ink"])
        names = [printable(f"{row['job_id']} {row['queue'] or ''}".strip(), 30) for row in shown]
        named_ticks(axes.yaxis, dict(enumerate(names)))
        axes.invert_yaxis()
        axes.set_xlim(0, HOURS)
        axes.set_xlabel("hours from now: a dot is the median, bars end at the 80 and 95% quantiles")
        return to_svg(figure, f"Expected starts of {len(shown)} waiting jobs in the next {HOURS} hours.")
