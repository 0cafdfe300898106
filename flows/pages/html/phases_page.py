"""The phases of a run as one page of HTML without network access; every text from a trace is escaped."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from flows.pages.html.html_template import render_template
from flows.pages.html.phases_plots import MOST_RANKS, colour_of, drawn_occurrences, plots
from flows.pages.terminal.render import number
from pipeline.core.errors import InputError
from pipeline.phases.prediction.occurrences import Occurrences


def phases_page(phases: pa.Table, points: pa.Table, status: str) -> str:
    """The page of PHASES and PHASE_POINTS; the same tables give the same bytes.

    InputError where the reference run was not timed: the page has nothing else to draw.
    """
    rows = sorted(phases.to_pylist(), key=lambda row: (-row["share"], row["phase_id"]))
    found = Occurrences.of(points)
    if not found.is_timed:
        raise InputError("--report", "intervals without times", "measured times of them", "give --times CSV too")
    svgs = plots(phases, points, [row["phase_id"] for row in rows])
    filters: dict[str, Callable[..., Any]] = {"number": number, "percent": lambda value: f"{100 * value:.3g}%"}
    return render_template(
        "phases.html",
        filters,
        trace=rows[0]["trace_id"],
        status="not repetitive, run it whole" if status == "not_repetitive" else "repetitive",
        runtime_s=float(found.time_s.sum()),
        rows=[row | {"colour": colour_of(place)} for place, row in enumerate(rows)],
        n_ranks=found.rows.shape[1],
        n_drawn=drawn_occurrences(found),
        n_occurrences=len(found),
        most_ranks=MOST_RANKS,
        plots={name: Markup(svg) for name, svg in svgs.items()},  # noqa: S704 # nosec B704 # escaped by phases_plots
    )
